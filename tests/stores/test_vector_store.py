"""What a vector store does, on a real PostgreSQL with pgvector."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import event

from pipeline.errors import StoreError
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Live
from pipeline.stores.postgres import writer as postgres_writer
from pipeline.stores.postgres.schema import ENTITIES, name_partition
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import Listing, VectorSearch
from pipeline.stores.records import Document, Passage, TextUnit
from tests.query.memory_stores import of_documents
from tests.records import column
from tests.stored import nearest, stored_hashes

OpenStore = Callable[..., PostgresStore]

DOCUMENTS = pd.DataFrame(
    [
        ("doc-1", "One", "a/one.txt", {"year": 1877, "tags": ["a", "ü"]}, "1877-05"),
        ("doc-2", "Two", "two.txt", {}, ""),
    ],
    columns=["id", "title", "source", "metadata", "date"],
)


def vectors(seed: int, rows: int, dimensions: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, dimensions)).astype(np.float32)


def entities(embeddings: np.ndarray) -> pd.DataFrame:
    ids = [f"ent-{number:05}" for number in range(len(embeddings))]
    return pd.DataFrame(
        {
            "id": ids,
            "entity_name": ids,
            "content": ids,
            "embedding": [row.copy() for row in embeddings],
        }
    )


def chunks(embeddings: np.ndarray) -> pd.DataFrame:
    numbers = range(len(embeddings))
    return pd.DataFrame(
        {
            "id": [f"chunk-{number:05}" for number in numbers],
            "full_doc_id": [f"doc-{1 + number % 2}" for number in numbers],
            "chunk_order_index": list(numbers),
            "tokens": 3,
            "content": [f"text {number}\nof it" for number in numbers],
            "char_start": [10 * number for number in numbers],
            "char_end": [10 * number + 9 for number in numbers],
            "heading": [f"Part {number} > End" for number in numbers],
            "header": [f"One > Part {number}" for number in numbers],
            "embedding": [row.copy() for row in embeddings],
        }
    )


def load(
    store: PostgresStore, tables: Mapping[str, pd.DataFrame], dimensions: int, version: str = "1"
) -> None:
    with store.writing(Live("index", version, {"model": "m"}, dimensions)) as writer:
        for table, rows in tables.items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()


def nearest_by_hand(
    embeddings: np.ndarray, vector: np.ndarray, limit: int
) -> list[tuple[str, float]]:
    rows = embeddings.astype(np.float64)
    scores = rows @ vector / (np.linalg.norm(rows, axis=1) * np.linalg.norm(vector))
    best = np.lexsort((np.arange(len(scores)), -scores))[:limit]
    return [(f"ent-{row:05}", float(scores[row])) for row in best]


@contextmanager
def plans(store: PostgresStore) -> Iterator[list[str]]:
    """The plan of every search that the store runs meanwhile."""
    found: list[str] = []

    def explain(connection, cursor, statement, parameters, context, executemany) -> None:
        if "<=>" in statement and not statement.startswith("EXPLAIN"):
            lines = (
                connection.connection.cursor()
                .execute(f"EXPLAIN {statement}", parameters)
                .fetchall()
            )
            found.append("\n".join(line for (line,) in lines))

    event.listen(store.engine, "before_cursor_execute", explain)
    yield found
    event.remove(store.engine, "before_cursor_execute", explain)


@pytest.mark.parametrize("dimensions", [3, 256, 1536, 2500, 4096])
def test_nearest_finds_the_same_rows_as_brute_force(postgres: OpenStore, dimensions: int):
    store = postgres()
    stored = vectors(1, 60, dimensions)
    load(store, {"entities": entities(stored)}, dimensions)
    for query in vectors(2, 3, dimensions):
        found = nearest(store, "entities", query, 10)
        expected = nearest_by_hand(stored, query, 10)
        assert [id for id, _ in found] == [id for id, _ in expected]
        tolerance = 1e-3 if 2000 < dimensions <= 4000 else 1e-5
        np.testing.assert_allclose(
            [score for _, score in found], [score for _, score in expected], atol=tolerance
        )


def test_ties_are_sorted_by_id(postgres: OpenStore):
    store = postgres()
    stored = np.repeat(vectors(1, 2, 8), 5, axis=0)
    load(store, {"entities": entities(stored)}, 8)
    found = nearest(store, "entities", stored[0], 7)
    assert [id for id, _ in found] == [f"ent-{number:05}" for number in range(7)]


def test_a_vector_of_zeros_has_no_neighbours(postgres: OpenStore):
    store = postgres()
    stored = np.vstack([np.zeros((1, 4), dtype=np.float32), vectors(1, 3, 4)])
    load(store, {"entities": entities(stored)}, 4)
    assert len(nearest(store, "entities", stored[1], 10)) == 3
    assert nearest(store, "entities", stored[0], 10) == []


def within_store(postgres: OpenStore, rows: int = 40, exact_below: int = 5000) -> PostgresStore:
    """Text units of doc-1 and doc-2 in turn; entity n has text unit n and, for every fourth, n + 1
    as sources."""
    store = postgres(exact_below=exact_below)
    units = chunks(vectors(1, rows, 8))
    ids = units["id"].tolist()
    sources = [[id, ids[place + 1]] if place % 4 == 0 else [id] for place, id in enumerate(ids)]
    found = entities(vectors(2, rows, 8))
    lists = pd.DataFrame({"id": found["id"], "chunk_ids": sources})
    load(store, {"documents": DOCUMENTS, "chunks": units, "entities": found, "sources": lists}, 8)
    return store


@pytest.mark.parametrize(("exact_below", "few"), [(10, 0), (5000, 0), (10, 2000)])
def test_nearest_within_documents_finds_the_same_rows_as_brute_force(
    postgres: OpenStore, exact_below: int, few: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.conditions.FEW", few)
    store = within_store(postgres, exact_below=exact_below)
    stored = vectors(2, 40, 8)
    inside = [f"ent-{row:05}" for row in range(40) if row % 2 == 1 or row % 4 == 0]
    for query in vectors(3, 3, 8):
        expected = [id for id, _ in nearest_by_hand(stored, query, 40) if id in inside]
        assert [
            id for id, _ in nearest(store, "entities", query, 40, of_documents("doc-2"))
        ] == expected
        ranked = [id for id, _ in nearest(store, "chunks", query, 40, of_documents("doc-2"))]
        assert sorted(ranked) == [f"chunk-{row:05}" for row in range(1, 40, 2)]
        assert nearest(store, "chunks", query, 40, of_documents("none")) == []


def test_a_search_that_the_index_ends_too_early_still_finds_all_rows(
    postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.conditions.FEW", 0)
    store = postgres(exact_below=100)
    units = chunks(vectors(1, 3000, 8))
    units["full_doc_id"] = ["doc-1" if place % 500 == 0 else "doc-2" for place in range(3000)]
    load(store, {"documents": DOCUMENTS, "chunks": units}, 8)
    found = nearest(store, "chunks", vectors(3, 1, 8)[0], 6, of_documents("doc-1"))
    assert sorted(id for id, _ in found) == [f"chunk-{place:05}" for place in range(0, 3000, 500)]


def test_rights_are_searched_exactly(postgres: OpenStore, monkeypatch: pytest.MonkeyPatch):
    """An approximate index of few links loses some of the visible rows among many hidden ones."""
    monkeypatch.setattr("pipeline.stores.postgres.conditions.FEW", 0)
    store = postgres(exact_below=10, m=2, ef_construction=4, ef_search=1)
    stored = vectors(1, 3000, 8)
    units = chunks(stored)
    units["full_doc_id"] = ["doc-1" if place % 2 else "doc-2" for place in range(3000)]
    load(store, {"documents": DOCUMENTS, "chunks": units}, 8)
    rights = of_documents("doc-1")
    with plans(store) as found:
        nearest(store, "chunks", stored[0], 20, rights)
    assert "_hnsw_" in "".join(found)  # a filter that is no right goes by the index
    with plans(store) as found:
        for query in vectors(3, 5, 8):
            by_hand = [id.replace("ent", "chunk") for id, _ in nearest_by_hand(stored, query, 3000)]
            expected = [id for id in by_hand if int(id[-5:]) % 2][:20]
            [hits] = store.nearest([VectorSearch("chunks", query, 20)], rights=rights)
            assert [id for id, _ in hits] == expected
            assert store.nearest(
                [VectorSearch("chunks", query, 20)], of_documents("doc-2"), rights
            ) == [[]]
    assert "_hnsw_" not in "".join(found)


def test_nearest_of_ranks_only_the_given_chunks(postgres: OpenStore):
    store = within_store(postgres)
    query = vectors(3, 1, 8)[0]
    everywhere = dict(nearest(store, "chunks", query, 40))
    some = ["chunk-00007", "chunk-00002", "gone", "chunk-00031"]
    found = store.nearest_of("chunks", some, query, 2)
    expected = sorted(
        (id for id in some if id in everywhere), key=everywhere.__getitem__, reverse=True
    )[:2]
    assert [id for id, _ in found] == expected
    assert store.nearest_of("chunks", [], query, 2) == []


def test_documents_and_the_origins_of_rows_are_read(postgres: OpenStore):
    store = within_store(postgres)
    documents = sorted(store.documents(), key=lambda document: document.id)
    assert documents == [
        Document(**row) for row in DOCUMENTS.drop(columns="date").to_dict("records")
    ]
    told = store.origins(
        "entities", ["ent-00000", "ent-00001", "ent-00002", "gone"], of_documents("doc-2")
    )
    assert told == {
        "ent-00000": (True, False),
        "ent-00001": (True, True),
        "ent-00002": (False, False),
    }
    told = store.origins("chunks", ["chunk-00001", "chunk-00002"], of_documents("doc-2"))
    assert told == {"chunk-00001": (True, True), "chunk-00002": (False, False)}


def test_fields_are_the_metadata_keys_of_a_workspace(postgres: OpenStore):
    one, other = postgres("-one"), postgres("-other")
    more = pd.DataFrame(
        [("doc-3", "Three", "three.txt", {"year": 1, "place": None}, "")], columns=DOCUMENTS.columns
    )
    load(one, {"documents": DOCUMENTS}, 8)
    load(other, {"documents": more}, 8)
    assert one.fields(one.workspace) == other.fields(one.workspace) == {"year", "tags"}
    assert one.fields(other.workspace) == {"year", "place"}
    assert one.fields("nowhere") == set()


def test_a_row_with_a_missing_source_does_not_come_from_the_documents_only(postgres: OpenStore):
    store = postgres()
    rows = {
        "documents": DOCUMENTS,
        "chunks": chunks(vectors(1, 1, 8)),
        "entities": entities(vectors(2, 1, 8)),
    }
    lists = pd.DataFrame({"id": ["ent-00000"], "chunk_ids": [["chunk-00000", "gone"]]})
    load(store, {**rows, "sources": lists}, 8)
    assert store.origins("entities", ["ent-00000"], of_documents("doc-1")) == {
        "ent-00000": (True, False)
    }


def test_a_search_does_not_find_vectors_of_another_workspace(postgres: OpenStore):
    """One table may hold vectors of models with different dimensions."""
    one, other = postgres("-one"), postgres("-other")
    load(one, {"entities": entities(vectors(1, 20, 4))}, 4)
    load(other, {"entities": entities(vectors(2, 5, 6))}, 6)
    query = vectors(3, 1, 6)[0]
    assert [id for id, _ in nearest(other, "entities", query, 99)] == [
        id for id, _ in nearest_by_hand(vectors(2, 5, 6), query, 99)
    ]
    assert len(nearest(one, "entities", vectors(3, 1, 4)[0], 99)) == 20


@pytest.mark.parametrize(
    ("dimensions", "type_name"), [(64, "vector"), (1536, "vector"), (2100, "halfvec")]
)
def test_many_rows_are_searched_by_index(postgres: OpenStore, dimensions: int, type_name: str):
    store = postgres(exact_below=400)
    stored = vectors(1, 1500 if dimensions < 100 else 450, dimensions)
    load(store, {"entities": entities(stored)}, dimensions)
    recalled = []
    with plans(store) as seen:
        for query in vectors(2, 12, dimensions):
            found = {id for id, _ in nearest(store, "entities", query, 10)}
            recalled.append(len(found & {id for id, _ in nearest_by_hand(stored, query, 10)}))
    assert all("_hnsw_" in plan for plan in seen)
    assert len(seen) == 12
    assert np.mean(recalled) > 9
    with store.connection() as connection:
        [[definition]] = connection.exec_driver_sql(
            "SELECT indexdef FROM pg_indexes "
            "WHERE indexname LIKE %s AND tablename LIKE 'lightrag_entities%%' "
            "AND indexdef LIKE %s",
            (f"{name_partition(ENTITIES, store.workspace)}_hnsw%", f"%{type_name}_cosine_ops%"),
        ).all()
        storage = connection.exec_driver_sql(
            "SELECT attstorage FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname ="
            " 'embedding'",
            (name_partition(ENTITIES, store.workspace),),
        ).scalar_one()
    assert "USING hnsw" in definition
    assert storage == ("p" if dimensions < 2000 else "e")


def test_few_rows_are_searched_exactly(postgres: OpenStore):
    store = postgres(exact_below=100)
    load(store, {"entities": entities(vectors(1, 99, 8))}, 8)
    with plans(store) as seen:
        nearest(store, "entities", vectors(2, 1, 8)[0], 5)
    assert "hnsw" not in seen[0]


def test_an_index_serves_as_many_rows_as_are_asked(postgres: OpenStore):
    store = postgres(exact_below=100)
    load(store, {"entities": entities(vectors(1, 3000, 16))}, 16)
    assert len(nearest(store, "entities", vectors(2, 1, 16)[0], 700)) == 700


def test_another_model_may_have_other_dimensions(postgres: OpenStore):
    store = postgres(exact_below=200)
    load(store, {"entities": entities(vectors(1, 300, 16))}, 16)
    load(store, {"entities": entities(vectors(1, 300, 24))}, 24)
    query = vectors(2, 1, 24)[0]
    with plans(store) as seen:
        found = nearest(store, "entities", query, 5)
    assert [id for id, _ in found] == [
        id for id, _ in nearest_by_hand(vectors(1, 300, 24), query, 5)
    ]
    assert "_hnsw_" in seen[0]
    assert nearest(store, "entities", vectors(2, 1, 16)[0], 5) == []
    load(store, {"entities": entities(vectors(1, 300, 16))}, 16)
    assert len(nearest(store, "entities", vectors(2, 1, 16)[0], 5)) == 5


def test_chunks_come_with_their_documents_in_the_order_asked(postgres: OpenStore):
    store = postgres()
    stored, question = vectors(1, 4, 3), vectors(2, 1, 3)[0]
    load(store, {"documents": DOCUMENTS, "chunks": chunks(stored)}, 3)
    found = store.chunks(["chunk-00002", "chunk-00001", "chunk-unknown", "chunk-00003"], question)
    similarity = dict(nearest_by_hand(stored, question, 4))
    np.testing.assert_allclose(
        column(found, "score"), [similarity[f"ent-0000{row}"] for row in (2, 1, 3)], atol=1e-6
    )
    assert found[0] == Passage(
        "chunk-00002", "doc-1", "a/one.txt", "One", 20, 29, 3, "text 2\nof it",
        {"year": 1877, "tags": ["a", "ü"]},
        found[0].score, heading="Part 2 > End", date="1877-05", header="One > Part 2",
    )  # fmt: skip
    assert column(found, "id") == ["chunk-00002", "chunk-00001", "chunk-00003"]
    assert not store.chunks([], question)


def test_a_load_is_one_transaction(postgres: OpenStore):
    store = postgres()
    before = vectors(1, 10, 3)
    load(store, {"documents": DOCUMENTS, "entities": entities(before)}, 3)
    with pytest.raises(RuntimeError, match="pulled"):
        _load_and_fail(store)
    assert store.live() == Live("index", "1", {"model": "m"}, 3)
    found = nearest(store, "entities", before[0], 99)
    assert [id for id, _ in found] == [id for id, _ in nearest_by_hand(before, before[0], 99)]
    assert set(stored_hashes(store)["documents"]) == {"doc-1", "doc-2"}


def _load_and_fail(store: PostgresStore) -> None:
    with store.writing(Live("index", "2", {}, 3)) as writer:
        writer.apply("documents", diff(with_hashes(DOCUMENTS.head(1)), writer.hashes("documents")))
        writer.apply(
            "entities", diff(with_hashes(entities(vectors(2, 30, 3))), writer.hashes("entities"))
        )
        writer.publish()
        raise RuntimeError("plug pulled")


def test_a_load_over_another_equals_a_fresh_one(postgres: OpenStore):
    over, fresh = postgres("-over"), postgres("-fresh")
    before, after = entities(vectors(1, 30, 3)), entities(vectors(1, 40, 3)).iloc[5:]
    after = after.assign(
        content=[text if n % 3 else "new" for n, text in enumerate(after["content"])]
    )
    load(over, {"entities": before}, 3)
    load(over, {"entities": after}, 3)
    load(fresh, {"entities": after}, 3)
    assert stored_hashes(over) == stored_hashes(fresh)
    query = vectors(2, 1, 3)[0]
    assert nearest(over, "entities", query, 99) == nearest(fresh, "entities", query, 99)


def test_a_load_without_rows_is_published(postgres: OpenStore):
    store = postgres(exact_below=0)
    load(
        store,
        {"documents": DOCUMENTS.head(0), "entities": entities(np.zeros((0, 3), np.float32))},
        0,
    )
    assert store.live() == Live("index", "1", {"model": "m"}, 0)
    assert nearest(store, "entities", vectors(1, 1, 3)[0], 5) == []


def test_an_empty_workspace_has_nothing_live(postgres: OpenStore):
    assert postgres().live() is None


def test_a_text_that_the_database_refuses_is_a_store_error(postgres: OpenStore):
    store = postgres()
    with pytest.raises(StoreError, match=r"stores\.postgres\.url"):
        load(store, {"documents": DOCUMENTS.assign(title="nul \x00")}, 3)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:secret@127.0.0.1:1/none",
        "postgresql://user:secret@localhost:port/x",
        "nonsense",
    ],
)
def test_no_server_is_a_store_error_without_the_password(url: str):
    store = PostgresStore(url)
    with pytest.raises(StoreError, match=r"stores\.postgres\.url") as raised:
        store.live()
    assert "secret" not in str(raised.value) + repr(store)
    store.close()


def test_more_rows_than_fit_into_one_statement_are_deleted(
    postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    """PostgreSQL limits the size of a value. Here the ids of few rows reach the limit."""
    monkeypatch.setattr(postgres_writer, "IDS_AT_ONCE", 3)
    store, whole = postgres(), entities(vectors(1, 20, 3))
    load(store, {"entities": whole}, 3)
    kept = whole.iloc[::4].assign(content="another")
    load(store, {"entities": kept}, 3)
    assert set(stored_hashes(store)["entities"]) == set(kept["id"])


def listing_store(postgres: OpenStore) -> PostgresStore:
    """Titles that sort otherwise by case; of the text units of doc-1 the last comes first."""
    store, units = postgres(), chunks(vectors(1, 7, 8))
    units["full_doc_id"] = ["doc-1", "doc-1", "doc-1", "doc-2", "doc-3", "doc-3", "doc-4"]
    units["chunk_order_index"] = [2, 1, 0, 0, 0, 1, 0]
    rows = [
        ("doc-1", "beta", "b/one.txt", {"year": 1877}, ""),
        ("doc-2", "Alpha", "two.txt", {}, ""),
        ("doc-3", "alpha", "100%_three.txt", {"year": 1900}, ""),
        ("doc-4", "<b>", "four.txt", {}, ""),
        ("doc-5", "zeta", "no units.txt", None, ""),
    ]  # fmt: skip
    load(store, {"documents": pd.DataFrame(rows, columns=DOCUMENTS.columns), "chunks": units}, 8)
    return store


def test_documents_are_listed_by_title_a_page_at_a_time(postgres: OpenStore):
    store = listing_store(postgres)
    page, all = store.listed(Listing(limit=3))
    assert [(found.id, found.text_units, found.tokens) for found in page] == [
        ("doc-4", 1, 3), ("doc-2", 1, 3), ("doc-3", 2, 6),
    ]  # fmt: skip
    assert (all, page[2].title, page[2].source, page[2].metadata) == (
        5,
        "alpha",
        "100%_three.txt",
        {"year": 1900},
    )
    rest, all = store.listed(Listing(first=3, limit=3))
    assert ([(found.id, found.text_units) for found in rest], all) == (
        [("doc-1", 3), ("doc-5", 0)],
        5,
    )
    assert store.listed(Listing(first=9)) == ([], 5)


@pytest.mark.parametrize(
    ("part", "expected"),
    [("ALPHA", ["doc-2", "doc-3"]), ("b/ONE", ["doc-1"]), ("doc-4", ["doc-4"]), ("0%_t", ["doc-3"]),
        ("%", ["doc-3"]),
     ("none", [])],
)  # fmt: skip
def test_documents_are_found_by_a_part_of_their_title_source_or_id(
    postgres: OpenStore, part: str, expected: list[str]
):
    page, all = listing_store(postgres).listed(Listing(part))
    assert ([found.id for found in page], all) == (expected, len(expected))


def test_only_documents_that_may_be_seen_are_listed(postgres: OpenStore):
    store, within = listing_store(postgres), of_documents("doc-1", "doc-4")
    page, all = store.listed(Listing(), within)
    assert ([found.id for found in page], all) == (["doc-4", "doc-1"], 2)
    page, all = store.listed(Listing(ids=["doc-3", "doc-1", "gone"]), within)
    assert ([found.id for found in page], all) == (["doc-1"], 1)
    assert store.listed(Listing(ids=[])) == ([], 0)


def test_the_text_units_of_a_document_and_their_places(postgres: OpenStore):
    store = listing_store(postgres)
    units = store.units_of("doc-1", 0, 2)
    assert [(unit.id, unit.order) for unit in units] == [("chunk-00002", 0), ("chunk-00001", 1)]
    assert units[0] == TextUnit("chunk-00002", "doc-1", 0, 20, 29, 3, "text 2\nof it")
    assert [unit.id for unit in store.units_of("doc-1", 2, 5)] == ["chunk-00000"]
    assert (
        store.units_of("gone", 0, 5) == store.units_of("doc-1", 0, 5, of_documents("doc-2")) == []
    )
    asked = ["chunk-00000", "chunk-00003", "gone"]
    assert store.places(asked) == {"chunk-00000": ("doc-1", 2), "chunk-00003": ("doc-2", 0)}
    assert store.places(asked, of_documents("doc-2")) == {"chunk-00003": ("doc-2", 0)}
