"""Graph search over the small village, in memory and on real stores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import event

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.search.evidence import Evidence
from pipeline.query.search.walk.graph_search import graph_search
from pipeline.stores.base import Live
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphStore, VectorStore
from pipeline.text.ids import entity_id, relationship_id
from tests.query.memory_stores import (
    LETTERS,
    LetterEmbedding,
    MemoryStores,
    chunk,
    empty_village,
    entity,
    letters,
    village,
)
from tests.records import column
from tests.stores.sources import tables_of

QUESTION = "Who taught the mother of Ada Moor?"
PASSAGES = {
    "c1": "Ada Moor was a lens grinder. Her mother was Bea Quill, of the island.",
    "c2": "Bea Quill kept bees. She was taught by Cid Vane in the winter of 1871.",
    "c3": "Cid Vane sued Dov Pell over a mill.",
    "c4": "The mother of all storms broke the mole.",
    "c5": "Whoever taught there was paid in fish.",
    "c6": "Dov Pell owned a mill.",
}
MENTIONS = {
    "Ada Moor": ["c1"],
    "Bea Quill": ["c1", "c2"],
    "Cid Vane": ["c2", "c3"],
    "Dov Pell": ["c3", "c6"],
}
LINKS = [
    ("Ada Moor", "Bea Quill", "Bea Quill was the mother of Ada Moor", ["c1"]),
    ("Cid Vane", "Bea Quill", "Cid Vane taught Bea Quill", ["c2"]),
    ("Cid Vane", "Dov Pell", "Cid Vane sued Dov Pell", ["c3"]),
]


NOTE_ON_VARROW = (
    "The mayor is elected in spring. People come for the garden, for the fair in the summer, and"
    " for the old mill on the hill, which is open. Few come in winter. Varrow has no school."
)
TEXTS_ON_VARROW = ["In May Dov saw Varrow.", "Ada came to Varrow.", "Bea left Varrow for good."]


def notes_on_varrow() -> MemoryStores:
    """Return stores with a long note titled Varrow, and short ones that have the word."""
    note = {**chunk("c0", NOTE_ON_VARROW, "doc-0"), "title": "Varrow"}
    others = [chunk(f"c{n}", text, f"doc-{n}") for n, text in enumerate(TEXTS_ON_VARROW, start=1)]
    mentioned = entity("Varrow", ["c0", *(other["id"] for other in others)])
    return replace(
        village(),
        chunk_rows=pd.DataFrame([note, *others]),
        entity_rows=pd.DataFrame([{**mentioned, "id": entity_id("Varrow")}]),
        relationship_rows=village().relationship_rows[:0],
    )


@pytest.mark.parametrize("question", ["Varrow", "varrow?", "What is Varrow?"])
def test_the_note_on_the_only_name_of_a_question_comes_first(question: str):
    stores = notes_on_varrow()
    found = search(Stores(stores, stores), question)
    assert next(iter(found.unit_lanes["graph"])) == "c0"


def test_a_note_on_a_name_does_not_come_first_where_more_is_asked():
    stores = notes_on_varrow()
    found = search(Stores(stores, stores), "Who came to Varrow?")
    assert next(iter(found.unit_lanes["graph"])) == "c2"


@dataclass(frozen=True)
class Stores:
    vectors: VectorStore
    graph: GraphStore


def search(
    stores: Stores, question: str = QUESTION, top_k: int = 60, chunk_top_k: int = 20
) -> Evidence:
    embedding = LetterEmbedding()
    vector = embedding.embed([question])[0]
    return graph_search(question, vector, top_k, chunk_top_k, stores.vectors, stores.graph)


def small_graph(more_nodes: int = 0) -> dict[str, pd.DataFrame]:
    """Return rows of the stores' tables; Bea Quill has ``more_nodes`` more neighbours and
    passages."""
    passages = PASSAGES | {f"x{number:05}": f"Note {number}." for number in range(more_nodes)}
    others = [f"Other {number}" for number in range(more_nodes)]
    mentions = MENTIONS | {name: [f"x{number:05}"] for number, name in enumerate(others)}
    mentions["Bea Quill"] = [
        *MENTIONS["Bea Quill"],
        *(unit for name in others for unit in mentions[name]),
    ]
    links = [
        *LINKS,
        *(("Bea Quill", name, f"Bea Quill saw {name}", mentions[name]) for name in others),
    ]
    degrees = pd.Series(
        [end for source, target, *_ in links for end in (source, target)]
    ).value_counts()
    ids = {name: entity_id(name) for name in mentions}
    rows = [
        (relationship_id(ids[source], ids[target]), source, target, *rest)
        for source, target, *rest in links
    ]
    return {
        "documents": pd.DataFrame(
            {
                "id": ["doc-1"], "title": ["Notes"], "source": ["notes.txt"], "metadata": [{}],
                "date": "",
            }
        ),
        "chunks": pd.DataFrame(
            {
                "id": list(passages), "full_doc_id": "doc-1",
                "chunk_order_index": range(len(passages)), "tokens": 9,
                "content": list(passages.values()), "char_start": 0, "char_end": 9,
                "heading": "", "header": "",
                "embedding": list(map(letters, passages.values())),
            }
        ),
        "entities": pd.DataFrame(
            {
                "id": list(ids.values()), "entity_name": list(ids), "content": list(ids),
                "chunk_ids": list(mentions.values()), "embedding": list(map(letters, ids)),
            }
        ),
        "relationships": pd.DataFrame(
            [(id, source, target, text, units, letters(text)) for id, source, target, text,
                units in rows],
            columns=["id", "src_id", "tgt_id", "content", "chunk_ids", "embedding"],
        ),
        "nodes": pd.DataFrame(
            [
                (id, name, "PERSON", f"about {name}", mentions[name], int(degrees.get(name, 0)))
                for name, id in ids.items()
            ],
            columns=["id", "display_name", "entity_type", "description", "source_id", "degree"],
        ),
        "edges": pd.DataFrame(
            [
                (id, ids[source], ids[target], source, target, text, 1.0, "RELATED", [], units)
                for id, source, target, text, units in rows
            ],
            columns=["id", "source_entity_id", "target_entity_id", "source", "target",
                "description", "weight",
                     "type", "keywords", "source_id"],
        ),
    }  # fmt: skip


def in_memory() -> Stores:
    """Return the same rows in stores over plain frames."""
    tables = small_graph()
    chunks = tables["chunks"].rename(columns={"full_doc_id": "document_id"})
    chunks = chunks.assign(
        title="Notes", source="notes.txt", start=0, end=9, metadata=None, score=0.0
    )
    names = {"display_name": "name", "entity_type": "type", "source_id": "text_unit_ids"}
    entities = tables["nodes"].rename(columns=names)
    degrees = entities.set_index("id")["degree"]
    links = tables["edges"].rename(columns={"source_id": "text_unit_ids"})
    links["rank"] = links["source_entity_id"].map(degrees) + links["target_entity_id"].map(degrees)
    stores = MemoryStores(chunks, entities, links)
    return Stores(stores, stores)


@pytest.fixture(params=["memory", "postgres", "neo4j"])
def open_stores(request: pytest.FixtureRequest) -> Callable[..., Stores]:
    def open_stores(more_nodes: int = 0) -> Stores:
        if request.param == "memory":
            return in_memory()
        tables = small_graph(more_nodes)
        vectors: PostgresStore = request.getfixturevalue("postgres")()
        write(vectors, tables)
        if request.param == "postgres":
            return Stores(vectors, PostgresGraph(vectors))
        graph: Neo4jStore = request.getfixturevalue("neo4j")()
        write(graph, tables)
        return Stores(vectors, graph)

    return open_stores


def write(store: PostgresStore | Neo4jStore, tables: dict[str, pd.DataFrame]) -> None:
    with store.writing(Live("index", "1", {"model": "letters"}, len(LETTERS))) as writer:
        for table, rows in tables_of(store, tables).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()


def names(evidence: Evidence) -> list[str]:
    return column(evidence.entities, "name")


def test_a_graph_search_finds_the_records_of_the_answer(open_stores: Callable[..., Stores]):
    """The passage about the name in the question comes first. The second one answers the
    question: a step over "mother" leads to it, though it has no more of the question's words
    than c4 and c5. c3 and c6 are found over Cid and Dov, c6 without any word of the question."""
    evidence = search(open_stores())
    assert list(evidence.unit_lanes["graph"]) == ["c1", "c2", "c4", "c3", "c5", "c6"]
    assert names(evidence) == ["Bea Quill", "Ada Moor", "Cid Vane", "Dov Pell"]
    assert column(evidence.relationships, "description") == [text for _, _, text, _ in LINKS]


def test_no_more_records_than_the_limits_are_found(open_stores: Callable[..., Stores]):
    evidence = search(open_stores(), top_k=2, chunk_top_k=3)
    assert list(evidence.unit_lanes["graph"]) == ["c1", "c2", "c4"]
    assert names(evidence) == ["Bea Quill", "Ada Moor"]
    assert len(evidence.relationships) == 2


def test_empty_stores_give_no_evidence():
    stores = empty_village()
    evidence = search(Stores(stores, stores))
    assert evidence.unit_lanes == {"graph": {}}
    assert not evidence.entities
    assert not evidence.relationships


@pytest.mark.parametrize("question", ["?", "zzz", "' OR 1=1 --", "灯塔", "x" * 5000, "a " * 3000])
def test_any_question_may_be_asked(question: str):
    search(in_memory(), question)


def test_the_number_of_reads_is_constant():
    few, many = in_memory(), in_memory()
    search(few, top_k=1, chunk_top_k=1)
    search(many, "Ada Moor and Bea Quill and Cid Vane", top_k=60)
    assert few.vectors.reads == many.vectors.reads  # pyright: ignore[reportAttributeAccessIssue]
    assert len(few.vectors.reads) <= 16  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def counted(store: PostgresStore) -> Iterator[list[int]]:
    """Collect the number of rows that each statement of SQLAlchemy returns."""
    given: list[int] = []

    def count(connection, cursor, statement, parameters, context, executemany) -> None:
        given.append(max(cursor.rowcount, 0))

    event.listen(store.engine, "after_cursor_execute", count)
    yield given
    event.remove(store.engine, "after_cursor_execute", count)


def test_no_more_rows_are_read_for_a_hub_than_for_other_entities(
    postgres: Callable[..., PostgresStore],
):
    """With 5,000 neighbours instead of 50, as many statements read less than twice the rows."""
    read = {}
    for neighbours in (50, 5000):
        store = postgres(f"-{neighbours}")
        write(store, small_graph(neighbours))
        stores = Stores(store, PostgresGraph(store))
        with counted(store) as given:
            evidence = search(stores)
        assert next(iter(evidence.unit_lanes["graph"])) == "c1"
        read[neighbours] = given
    assert len(read[50]) == len(read[5000])
    assert sum(read[5000]) <= 2 * sum(read[50])


def test_vectors_of_any_length_give_the_same(open_stores: Callable[..., Stores]):
    stores, embedding = open_stores(), LetterEmbedding()
    vector = embedding.embed([QUESTION])[0]
    found = [
        graph_search(
            QUESTION, np.float32(scale) * vector, 9, 9, stores.vectors, stores.graph
        ).unit_lanes
        for scale in (1, 4)
    ]
    assert found[0] == found[1]
