"""Each mode on a small graph that was worked out by hand, in real stores.

One test shows the results with LightRAG's defaults. Ada taught Bea (c1, doc-1); Bea met Cid, says
Ada (c2, doc-2); Cid sued Dov (c3, doc-2); c4 of doc-3 is noise. Texts are compared by their
letters: "Ada" is nearest to Ada, "lawsuit" to Cid's lawsuit with Dov.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import pandas as pd
import pytest
from sqlalchemy import event

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.answer import answer
from pipeline.query.request import QueryRequest, build_request
from pipeline.query.search.evidence import Evidence
from pipeline.query.search.keywords import Keywords
from pipeline.query.search.modes import embed_question, retrieve
from pipeline.settings.query_options import QuerySettings
from pipeline.stores.base import Live, Store
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphReads, GraphStore, VectorReads
from pipeline.text.ids import entity_id, relationship_id
from tests.query.memory_stores import LETTERS, LetterEmbedding, letters, resources, village
from tests.records import column
from tests.stores.sources import tables_of

KEYWORDS = Keywords(("lawsuit",), ("Ada",))
LIVE = Live("index", "1", {"model": "letters"}, len(LETTERS))
Opened = tuple[PostgresStore, GraphStore]

LOCAL = (["Ada"], ["Ada > Bea"], {"entity": ["c1", "c2"]})
GLOBAL = (["Cid", "Dov"], ["Cid > Dov"], {"relationship": ["c3", "c1"]})
FOUND = {
    "naive": ([], [], {"vector": ["c1", "c2"]}),
    "local": LOCAL,
    "global": GLOBAL,
    "hybrid": (
        ["Ada", "Cid", "Dov"],
        ["Ada > Bea", "Cid > Dov"],
        {"entity": ["c1", "c2"], "relationship": ["c3", "c1"]},
    ),
    "mix": (
        ["Ada", "Cid", "Dov"],
        ["Ada > Bea", "Cid > Dov"],
        {"vector": ["c1", "c2"], "entity": ["c1", "c2"], "relationship": ["c3", "c1"]},
    ),
}
SHOWN = """-----Entities-----
```csv
id,entity,type,description,rank
1,Ada,PERSON,"Ada, a person",1
2,Cid,PERSON,"Cid, a person",2
3,Bea,PERSON,"Bea, a person",2
4,Dov,PERSON,"Dov, a person",1
```

-----Relationships-----
```csv
id,source,target,description,keywords,weight,rank
1,Bea,Cid,meeting,"knows, since long",1.0,4
2,Cid,Dov,lawsuit,"knows, since long",2.0,3
3,Ada,Bea,teaching,"knows, since long",1.0,3
```

-----Sources-----
```csv
id,content
[ref:1],Ada taught Bea.
[ref:2],Cid sued Dov.
[ref:3],"Bea met Cid, says Ada."
```

-----References-----
```
[ref:2] [ref:3]: doc-2.txt
[ref:1]: doc-1.txt
```
"""


@pytest.fixture(params=["postgres", "neo4j"])
def stores(request: pytest.FixtureRequest, postgres: Callable[..., PostgresStore]) -> Opened:
    vectors = postgres()
    load(vectors)
    if request.param == "postgres":
        return vectors, PostgresGraph(vectors)
    open_neo4j: Callable[..., Neo4jStore] = request.getfixturevalue("neo4j")
    graph = open_neo4j()
    load(graph)
    return vectors, graph


@pytest.mark.parametrize("mode", FOUND)
def test_each_mode_finds_what_was_worked_out(stores: Opened, mode: str):
    evidence = found(stores, mode=mode, top_k=1, chunk_top_k=2)
    assert (
        column(evidence.entities, "name"),
        [f"{link.source} > {link.target}" for link in evidence.relationships],
        {lane: list(picks) for lane, picks in evidence.unit_lanes.items()},
    ) == FOUND[mode]


def test_found_records_have_all_their_fields(stores: Opened):
    evidence = found(stores, mode="hybrid", top_k=1)
    ada, lawsuit = asdict(evidence.entities[0]), asdict(evidence.relationships[1])
    assert ada == {
        "id": ada["id"], "number": 0,
        "name": "Ada", "type": "PERSON", "description": "Ada, a person", "degree": 1,
        "text_unit_ids": ["c1", "c2"],
    }  # fmt: skip
    ends = {name: lawsuit[name] for name in ("id", "source_entity_id", "target_entity_id")}
    assert lawsuit == {
        **ends, "number": 0,
        "source": "Cid", "target": "Dov", "description": "lawsuit",
        "keywords": ["knows", "since long"], "weight": 2.0,
        "rank": 3, "text_unit_ids": ["c3"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "lanes"),
    [
        ("RELATION", {"entity": {"c1": 2, "c2": 2}, "relationship": {"c3": 1, "c1": 1}}),
        ("WEIGHT", {"entity": {"c1": 2, "c2": 2}, "relationship": {"c3": 1, "c1": 1}}),
        ("VECTOR", {"entity": {"c1": 2}, "relationship": {"c1": 1}}),
    ],
)
def test_text_units_are_picked_as_the_request_says(
    stores: Opened, method: str, lanes: dict[str, dict[str, int]]
):
    """Nearest to "Ada" are Ada, then Dov or Bea by letters; nearest to "lawsuit" are lawsuit,
    teaching."""
    evidence = found(
        stores,
        mode="hybrid",
        top_k=2,
        chunk_top_k=1,
        kg_chunk_pick_method=method,
        related_chunk_number=1,
    )
    assert {lane: dict(picks) for lane, picks in evidence.unit_lanes.items()} == lanes


def test_with_the_preset_of_lightrag_the_context_is_its_tables(stores: Opened):
    """No mode is given. The relationship of the greatest rank is first, though another is
    nearer."""
    asked = asked_as_lightrag(
        "Who taught Bea?", hl_keywords=("lawsuit",), ll_keywords=("Ada",), only_need_context=True
    )

    def read(work: Callable[[VectorReads, GraphReads], object]) -> tuple[object, tuple[str, ...]]:
        with stores[0].reading() as vectors:
            return work(vectors, stores[1].beside(vectors)), ()

    assert answer(asked, replace(resources(village()), read=read)).context.text == SHOWN


def asked_as_lightrag(query: str, **wishes: object) -> QueryRequest:
    return build_request(query, QuerySettings(preset="lightrag"), wishes)


@pytest.mark.parametrize("mode", FOUND)
def test_the_number_of_statements_does_not_depend_on_how_much_is_asked_for(
    stores: Opened, mode: str
):
    with statements(stores[0]) as few:
        found(stores, mode=mode, top_k=1, chunk_top_k=1)
    with statements(stores[0]) as many:
        found(stores, mode=mode, top_k=60, chunk_top_k=60)
    assert len(few) == len(many) <= 20


def found(stores: Opened, **wishes: object) -> Evidence:
    request = asked_as_lightrag("Ada taught Bea", **wishes)
    with stores[0].reading() as vectors:
        asked = embed_question(request, KEYWORDS, LetterEmbedding())
        return retrieve(request, asked, vectors, stores[1].beside(vectors), request.chunk_top_k)


@contextmanager
def statements(store: PostgresStore) -> Iterator[list[str]]:
    """Collect every statement sent to PostgreSQL meanwhile."""
    sent: list[str] = []

    def note(connection, cursor, statement, parameters, context, executemany) -> None:
        sent.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    yield sent
    event.remove(store.engine, "before_cursor_execute", note)


def load(store: Store) -> None:
    with store.writing(LIVE) as writer:
        for table, rows in tables_of(store, village_rows()).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()


def village_rows() -> dict[str, pd.DataFrame]:
    """Return the village as rows of the stores' tables."""
    stores = village()
    units, people, links = stores.chunk_rows, stores.entity_rows, stores.relationship_rows
    ids = {name: entity_id(name) for name in people["name"]}
    ends = [
        (ids[source], ids[target])
        for source, target in zip(links["source"], links["target"], strict=True)
    ]
    link_ids = [relationship_id(*pair) for pair in ends]
    columns = ["document_id", "title", "source", "metadata"]
    documents = units.drop_duplicates("document_id")[columns].assign(date="")
    return {
        "documents": documents.rename(columns={"document_id": "id"}),
        "chunks": pd.DataFrame(
            {
                "id": units["id"], "full_doc_id": units["document_id"],
                "chunk_order_index": range(len(units)),
                "tokens": units["tokens"], "content": units["content"],
                "char_start": units["start"],
                "char_end": units["end"], "heading": "", "header": "",
                "embedding": [letters(text) for text in units["content"]],
            }
        ),
        "entities": pd.DataFrame(
            {
                "id": list(ids.values()), "entity_name": people["name"], "content": people["name"],
                "chunk_ids": people["text_unit_ids"],
                "embedding": [letters(name) for name in people["name"]],
            }
        ),
        "relationships": pd.DataFrame(
            {
                "id": link_ids, "src_id": links["source"], "tgt_id": links["target"],
                "content": links["description"],
                "chunk_ids": links["text_unit_ids"],
                "embedding": [letters(text) for text in links["description"]],
            }
        ),
        "nodes": pd.DataFrame(
            {
                "id": list(ids.values()), "display_name": people["name"],
                "entity_type": people["type"],
                "description": people["description"], "source_id": people["text_unit_ids"],
                "degree": people["degree"],
            }
        ),
        "edges": pd.DataFrame(
            {
                "id": link_ids, "source_entity_id": [source for source, _ in ends],
                "target_entity_id": [target for _, target in ends], "source": links["source"],
                "target": links["target"], "description": links["description"],
                "weight": links["weight"],
                "type": "KNOWS", "keywords": links["keywords"], "source_id": links["text_unit_ids"],
            }
        ),
    }  # fmt: skip
