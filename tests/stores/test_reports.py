"""Reports and claims, on a real PostgreSQL with pgvector."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.search.filtered import FilteredVectors
from pipeline.query.search.visible import VisiblePassages
from pipeline.stores.base import Live
from pipeline.stores.postgres.database import field_names
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.records import Report
from tests.query.memory_stores import of_documents
from tests.records import column
from tests.stored import nearest

OpenStore = Callable[..., PostgresStore]

CHUNKS = pd.DataFrame(
    {
        "id": ["chunk-1", "chunk-2", "chunk-3"],
        "full_doc_id": ["doc-1", "doc-1", "doc-2"],
        "chunk_order_index": 0,
        "tokens": 1,
        "content": "text",
        "char_start": 0,
        "char_end": 4,
        "heading": "",
        "header": "",
        "embedding": list(np.eye(3, dtype=np.float32)),
    }
)


def report(
    id: str, level: int, parent: str = "", children: Sequence[str] = (), weight: int = 1,
    rating: float = 5.0,
    units: Sequence[str] = ("chunk-1",), vector: Sequence[float] = (1, 0, 0),
) -> dict:  # fmt: skip
    return {
        "id": id, "level": level, "parent": parent, "children": list(children),
        "title": f"Title of {id}",
        "summary": f"Summary of {id}", "content": f"# Title of {id}\n\nAll of it.",
        "rating": rating, "weight": weight,
        "size": 2, "chunk_ids": list(units), "embedding": np.array(vector, np.float32),
    }  # fmt: skip


def claim(id: str, subject: str, object: str = "", unit: str = "chunk-1") -> dict:
    return {
        "id": f"claim-{id}", "text_unit_id": unit, "subject_id": f"ent-{subject}",
        "object_id": f"ent-{object}" if object else "", "subject": subject, "object": object,
        "type": "FRAUD",
        "status": "SUSPECTED", "start_date": "2020-01-01", "end_date": "",
        "description": f"about {subject}",
        "source_text": "as it says",
    }  # fmt: skip


def statement(name: str, relationship: str, unit: str) -> dict:
    return {
        "id": f"fact-{name}", "relationship_id": relationship, "text_unit_id": unit,
        "type": "built", "description": f"fact {name}", "valid_from": "", "valid_to": "",
        "attributes": {"number": int(name)},
    }  # fmt: skip


REPORTS = [
    report(
        "com-a", 0, children=["com-c", "com-d"], weight=9, units=["chunk-1", "chunk-2", "chunk-3"]
    ),
    report("com-b", 0, weight=2, units=["chunk-3"], vector=[0, 1, 0]),
    report("com-c", 1, "com-a", ["com-e"], weight=2, rating=7.0, vector=[0.9, 0.1, 0]),
    report("com-d", 1, "com-a", weight=2, units=["chunk-2", "chunk-3"]),
    report("com-e", 2, "com-c", weight=2, units=["chunk-1", "chunk-2"], vector=[0, 0, 1]),
]
CLAIMS = [
    claim("2", "Ada", "Bea"),
    claim("1", "Ada", unit="chunk-3"),
    claim("3", "Cid", "Ada"),
    claim("4", "Dov"),
]
STATEMENTS = [
    statement("3", "rel-a", "chunk-1"),
    statement("1", "rel-a", "chunk-3"),
    statement("2", "rel-a", "chunk-2"),
    statement("4", "rel-b", "chunk-3"),
]


@pytest.fixture
def store(postgres: OpenStore) -> PostgresStore:
    store = postgres()
    titles = ["One", "Two"]
    documents = pd.DataFrame(
        {
            "id": ["doc-1", "doc-2"],
            "title": titles,
            "source": titles,
            "metadata": [{}, {}],
            "date": "",
        }
    )
    tables = {
        "documents": documents,
        "chunks": CHUNKS,
        "reports": pd.DataFrame(REPORTS),
        "claims": pd.DataFrame(CLAIMS),
        "statements": pd.DataFrame(STATEMENTS),
    }
    with store.writing(Live("index", "1", {"model": "m"}, 3)) as writer:
        for table, rows in tables.items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()
    return store


def test_reports_come_whole_in_the_order_asked(store: PostgresStore):
    found = store.reports(["com-c", "com-unknown", "com-a"])
    assert column(found, "id") == ["com-c", "com-a"]
    expected = {
        name: REPORTS[2][{"text_unit_ids": "chunk_ids"}.get(name, name)]
        for name in field_names(Report)
    }
    assert found[0] == Report(**expected)


@pytest.mark.parametrize(
    ("level", "cover"),
    [
        (0, ["com-a", "com-b"]),
        (1, ["com-c", "com-b", "com-d"]),
        (2, ["com-b", "com-d", "com-e"]),
        (7, ["com-b", "com-d", "com-e"]),
        (-1, []),
    ],
)
def test_reports_at_a_level_cover_the_graph_once(
    store: PostgresStore, level: int, cover: list[str]
):
    assert column(store.reports_at(level, 9), "id") == cover
    assert column(store.reports_at(level, 2), "id") == cover[:2]


def test_claims_are_those_of_subject_and_object(store: PostgresStore):
    found = store.claims_of(["ent-Ada", "ent-nobody"], 9)
    assert column(found, "id") == ["claim-1", "claim-2", "claim-3"]
    assert column(found, "document_id") == ["doc-2", "doc-1", "doc-1"]
    assert column(store.claims_of(["ent-Ada", "ent-Dov"], 2), "id") == ["claim-1", "claim-2"]
    assert not store.claims_of([], 9)


def test_reports_are_searched_by_their_vectors(store: PostgresStore):
    vector = np.array([1, 0, 0], np.float32)
    assert [id for id, _ in nearest(store, "reports", vector, 3)] == ["com-a", "com-d", "com-c"]
    assert set(store.embeddings("reports", ["com-a", "com-unknown"])) == {"com-a"}
    origins = store.origins("reports", ["com-a", "com-b", "com-c"], of_documents("doc-1"))
    assert origins == {"com-a": (True, False), "com-b": (False, False), "com-c": (True, True)}


def test_a_caller_of_some_documents_sees_reports_of_these_only(store: PostgresStore):
    """A report reveals all of its text units, so all of them must be in these documents."""
    vectors = FilteredVectors(store, of_documents("doc-1"))
    query = np.array([1, 0, 0], np.float32)
    assert [id for id, _ in nearest(vectors, "reports", query, 9)] == ["com-c", "com-e"]
    assert column(vectors.reports(["com-e", "com-a", "com-c"]), "id") == ["com-e", "com-c"]
    assert column(vectors.reports_at(2, 9), "id") == ["com-e"]
    assert column(vectors.reports_at(2, 1), "id") == ["com-e"]
    assert column(vectors.claims_of(["ent-Ada"], 9), "id") == ["claim-2", "claim-3"]
    assert not FilteredVectors(store, of_documents("none")).reports_at(2, 9)
    assert not FilteredVectors(store, of_documents("none")).claims_of(["ent-Ada"], 9)


def test_each_relationship_has_its_first_statements_in_reading_order(store: PostgresStore):
    asked = ["rel-b", "rel-a", "rel-unknown"]
    found = store.statements_of(asked, 9)
    assert column(found, "id") == ["fact-2", "fact-3", "fact-1", "fact-4"]
    assert found[0].attributes == {"number": 2}
    assert (found[0].document_id, found[0].title, found[0].order) == ("doc-1", "One", 0)
    assert column(store.statements_of(asked, 1), "id") == ["fact-2", "fact-4"]
    assert not store.statements_of([], 9)


def test_a_caller_of_some_documents_sees_their_statements_only(store: PostgresStore):
    asked = ["rel-a", "rel-b"]
    for reads in (FilteredVectors, VisiblePassages):
        found = reads(store, of_documents("doc-1")).statements_of(asked, 9)
        assert column(found, "id") == ["fact-2", "fact-3"]
