"""What is built from reports and claims is the same, whichever stores hold them."""

from collections.abc import Callable

import pandas as pd
import pytest

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.answer import answer
from pipeline.query.resources import QueryResources
from pipeline.stores.base import Live
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from tests.query.memory_stores import LETTERS, MemoryStores, letters, question, resources
from tests.query.reported import COMMUNITIES, reader, reported_village
from tests.stores.sources import tables_of

WISHES = [
    {"mode": "community"},
    {"mode": "community", "where": {"id": "doc-2"}},
    {"mode": "local", "context": "graphrag"},
    {"mode": "drift", "primer_folds": 2},
]


def rows_of(village: MemoryStores) -> dict[str, pd.DataFrame]:
    """Return the rows as a load writes them."""
    chunks, entities, links = village.chunk_rows, village.entity_rows, village.relationship_rows
    reports = village.report_rows
    titles = reports.set_index("id")
    members = {"entity_ids": [[f"ent-{name}" for name in row[3]] for row in COMMUNITIES.values()]}
    documents = chunks.drop_duplicates("document_id")
    return {
        "documents": pd.DataFrame(
            {
                "id": documents["document_id"], "title": documents["title"],
                "source": documents["source"],
                "metadata": [{}] * len(documents), "date": "",
            }
        ),
        "chunks": pd.DataFrame(
            {
                "id": chunks["id"], "full_doc_id": chunks["document_id"], "chunk_order_index": 0,
                "tokens": chunks["tokens"], "content": chunks["content"], "char_start": 0,
                "char_end": chunks["end"], "heading": "", "header": "",
                "embedding": list(map(letters, chunks["content"])),
            }
        ),
        "entities": pd.DataFrame(
            {
                "id": entities["id"], "entity_name": entities["name"], "content": entities["name"],
                "chunk_ids": entities["text_unit_ids"], "embedding": list(map(letters,
                    entities["name"])),
            }
        ),
        "relationships": pd.DataFrame(
            {
                "id": links["id"], "src_id": links["source"], "tgt_id": links["target"],
                "content": links["description"], "chunk_ids": links["text_unit_ids"],
                "embedding": list(map(letters, links["description"])),
            }
        ),
        "reports": reports.rename(columns={"text_unit_ids": "chunk_ids"}).assign(
            embedding=list(map(letters, reports["content"]))
        ),
        "claims": village.claim_rows.drop(columns="document_id"),
        "nodes": entities.rename(
            columns={"name": "display_name", "type": "entity_type", "text_unit_ids": "source_id"}
        ),
        "edges": links.drop(columns="rank").rename(columns={"text_unit_ids": "source_id"}).assign(type="RELATED"),  # noqa: E501
        "communities": titles[["level", "parent", "title", "summary", "rating", "weight",
            "size"]].reset_index().assign(
            **members
        ),
    }  # fmt: skip


@pytest.fixture(params=["postgres", "neo4j"])
def loaded(request: pytest.FixtureRequest) -> QueryResources:
    rows = rows_of(reported_village())
    vectors: PostgresStore = request.getfixturevalue("postgres")()
    write(vectors, rows)
    graph: PostgresGraph | Neo4jStore = PostgresGraph(vectors)
    if request.param == "neo4j":
        open_graph: Callable[..., Neo4jStore] = request.getfixturevalue("neo4j")
        graph = open_graph()
        write(graph, rows)
    return QueryResources(
        lambda work: (work(vectors, graph), ()),
        resources(reported_village()).embedding,
        lambda name: reader(),
        lambda name: reader(),
        resources(reported_village()).tokenizer,
        resources(reported_village()).prompt,
    )


def write(store: PostgresStore | Neo4jStore, rows: dict[str, pd.DataFrame]) -> None:
    with store.writing(Live("index", "1", {"model": "letters"}, len(LETTERS))) as writer:
        for table, found in tables_of(store, rows).items():
            writer.apply(table, diff(with_hashes(found), writer.hashes(table)))
        writer.publish()


def test_contexts_and_answers_are_those_of_plain_frames(loaded: QueryResources):
    for wish in WISHES:
        found = answer(question(**wish), loaded)
        expected = answer(question(**wish), resources(reported_village(), reader()))
        assert found.context.text == expected.context.text
        assert (found.text, found.notes) == (expected.text, expected.notes)
        assert found.to_json()["claims"] == expected.to_json()["claims"]
