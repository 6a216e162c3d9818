"""Settings that decide how the stores keep their rows: another value makes the next load work, and
verify says so."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from pipeline.errors import StoreError, UsageError
from pipeline.load.loader import LoadOptions, load
from pipeline.load.overwrite_guard import other_vectors
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Live, VectorProbe
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.lexical import index_name as lexical_index
from pipeline.stores.postgres.maintenance import document_index, mention_index
from pipeline.stores.postgres.schema import CHUNKS, name_partition
from pipeline.stores.postgres.store import PostgresStore
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.stored import nearest
from tests.stores.test_vector_store import plans

ROWS = 30
MAX_TYPES = 100
QUESTION = np.ones(4, np.float32)

OpenPostgres = Callable[..., PostgresStore]


def tables(dimensions: int = 4, rows: int = ROWS) -> dict:
    numbers = range(rows)
    return corpus(
        {f"{n}.txt": f"text {n}" for n in numbers},
        {f"P {n}": "person" for n in numbers},
        [],
        dimensions,
    )


@pytest.fixture
def manifest(snapshots: SnapshotStore) -> Manifest:
    return save(tables(), snapshots)


@pytest.fixture
def store(postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore) -> PostgresStore:
    """With an index."""
    found = postgres(exact_below=ROWS)
    load(manifest, snapshots, [found], MAX_TYPES)
    return found


@pytest.fixture
def other(store: PostgresStore) -> Iterator[PostgresStore]:
    """The same workspace by other settings."""
    found = replace(store, hnsw=Hnsw(m=24, exact_below=ROWS))
    yield found
    found.close()


def indexes(store: PostgresStore) -> dict[str, bool]:
    """Of the text units: name -> valid."""
    query = text(
        "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid "
        "WHERE indrelid = to_regclass(:name) AND relname LIKE '%hnsw%'"
    )
    with store.connection() as connection:
        return dict(
            connection.execute(query, {"name": name_partition(CHUNKS, store.workspace)}).all()
        )


def plan_of_search(store: PostgresStore) -> str:
    with plans(store) as seen:
        assert len(nearest(store, "chunks", QUESTION, 5)) == 5
    return seen[0]


def test_other_parameters_of_the_index_build_a_new_one(
    store: PostgresStore, other: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    before = indexes(store)
    assert "_hnsw_" in plan_of_search(other)
    found = verify(manifest, snapshots, [other], MAX_TYPES)
    assert found.repair == "graphmill load index"
    assert (
        "chunks: its vectors have no index such as stores.postgres.hnsw asks for"
        in found.problems[0]
    )
    counts = load(manifest, snapshots, [other], MAX_TYPES)["postgres"]
    assert all(count["unchanged"] == sum(count.values()) for count in counts.values())
    assert len(indexes(other)) == 1
    assert not indexes(other).keys() & before.keys()
    assert "_hnsw_" in plan_of_search(other)
    assert verify(manifest, snapshots, [other], MAX_TYPES).agrees


def test_an_index_that_was_dropped_is_built_again(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    [name] = indexes(store)
    with store.connection() as connection:
        connection.execute(text(f"DROP INDEX {name}"))
    assert not verify(manifest, snapshots, [store], MAX_TYPES, quick=True).agrees
    load(manifest, snapshots, [store], MAX_TYPES)
    assert indexes(store) == {name: True}
    assert verify(manifest, snapshots, [store], MAX_TYPES, quick=True).agrees


def test_a_dropped_index_of_words_or_mentions_is_built_again(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    for name in (lexical_index, document_index, mention_index):
        with store.connection() as connection:
            connection.execute(text(f"DROP INDEX {name(store.workspace)}"))
        [problem] = verify(manifest, snapshots, [store], MAX_TYPES, quick=True).problems
        assert problem.endswith(" is gone; run 'graphmill load index'")
        load(manifest, snapshots, [store], MAX_TYPES)
        assert verify(manifest, snapshots, [store], MAX_TYPES, quick=True).agrees, name


def test_an_old_index_that_could_not_be_dropped_is_dropped_by_a_later_load(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    """A reader prevents the drop of the index; the load itself has ended by then."""
    newer = save(tables(), snapshots, model="n")
    hasty = replace(store, url=f"{store.url}&options=-c%20lock_timeout%3D300")
    with store.reading() as reader:
        nearest(reader, "chunks", QUESTION, 3)
        load(newer, snapshots, [hasty], MAX_TYPES, LoadOptions(re_embed=True))
    assert sorted(indexes(store).values()) == [False, True]
    assert any("is still there" in note for note in store.notes())
    assert "_hnsw_" in plan_of_search(store)
    assert not verify(newer, snapshots, [store], MAX_TYPES).agrees
    load(newer, snapshots, [store], MAX_TYPES)
    assert list(indexes(store).values()) == [True]
    assert verify(newer, snapshots, [store], MAX_TYPES).agrees
    assert store.notes() == []
    hasty.close()


def test_a_broken_index_is_replaced_when_its_parameters_are_wanted_again(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    [name] = indexes(store)
    with store.connection() as connection:
        connection.execute(
            text("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(:name)"),
            {"name": name},
        )
    assert "_hnsw_" not in plan_of_search(store)
    load(manifest, snapshots, [store], MAX_TYPES)
    assert indexes(store) == {name: True}


def test_vectors_of_too_many_dimensions_for_an_index_are_reported(
    postgres: OpenPostgres, snapshots: SnapshotStore
):
    few, many = postgres(), replace(postgres(), hnsw=Hnsw(exact_below=3))
    manifest = save(tables(4100, rows=3), snapshots)
    load(manifest, snapshots, [many], MAX_TYPES)
    [note] = many.notes()
    assert note.startswith("no index takes vectors of 4,100 dimensions")
    assert few.notes() == []
    assert verify(manifest, snapshots, [many], MAX_TYPES).agrees
    many.close()


def test_vectors_that_are_said_to_be_of_another_model(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    for key in ("x", None):
        with store.connection() as connection:
            connection.execute(
                text("UPDATE lightrag_chunks SET embedding_key = :key WHERE workspace = :w"),
                {"key": key, "w": store.workspace},
            )
        found = verify(manifest, snapshots, [store], MAX_TYPES, quick=True)
        assert [d.kind for check in found.tables for d in check.differences] == ["differing"]
        counts = load(manifest, snapshots, [store], MAX_TYPES)["postgres"]
        assert counts["chunks"]["updated"] == ROWS, key
        assert verify(manifest, snapshots, [store], MAX_TYPES).agrees, key
    assert len(nearest(store, "chunks", QUESTION, 5)) == 5


def test_dimensions_that_are_not_those_of_the_vectors(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    with store.connection() as connection:
        connection.execute(
            text("UPDATE graphmill_live SET dimensions = 7 WHERE workspace = :w"),
            {"w": store.workspace},
        )
    found = verify(manifest, snapshots, [store], MAX_TYPES)
    assert not found.agrees
    assert found.repair == "graphmill load index --re-embed"
    with pytest.raises(UsageError, match="--re-embed"):
        load(manifest, snapshots, [store], MAX_TYPES)
    load(manifest, snapshots, [store], MAX_TYPES, LoadOptions(re_embed=True))
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_verify_names_the_command_that_load_takes(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    fast = replace(save(tables(), snapshots, model="n"), workflow="fast")
    assert (
        verify(fast, snapshots, [store], MAX_TYPES).repair
        == "graphmill load fast --replace --re-embed"
    )
    load(fast, snapshots, [store], MAX_TYPES, LoadOptions(replace=True, re_embed=True))
    assert verify(fast, snapshots, [store], MAX_TYPES).agrees


def test_another_limit_of_sources_writes_the_lists_again(
    neo4j: Callable[..., Neo4jStore], snapshots: SnapshotStore
):
    made = tables()
    units = sorted(made["text_units"]["id"])[:8]
    made["entities"] = made["entities"].assign(text_unit_ids=[units, *[units[:2]] * (ROWS - 1)])
    manifest = save(made, snapshots)
    for cap, updated in ((5, 0), (3, 1), (6, 1), (20, 1)):
        store = neo4j(max_source_ids=cap)
        if updated:
            found = verify(manifest, snapshots, [store], MAX_TYPES, quick=True)
            assert found.problems[0].startswith("neo4j: source_id has up to ")
        assert load(manifest, snapshots, [store], MAX_TYPES)["neo4j"]["nodes"]["updated"] == updated
        kept = store.driver.execute_query(
            "MATCH (n:Entity {workspace: $w}) RETURN max(size(n.source_id))",
            {"w": store.workspace},
            database_=store.database,
        ).records[0][0]
        assert kept == min(cap, 8)
        assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_a_long_reader_holds_up_a_load_and_no_other_reader(
    store: PostgresStore, other: PostgresStore, snapshots: SnapshotStore
):
    """Vectors of so many dimensions are stored out of line, which needs a change of the table."""
    larger = save(tables(2000), snapshots, model="n")
    loading = threading.Thread(
        target=load, args=(larger, snapshots, [other], MAX_TYPES, LoadOptions(re_embed=True))
    )
    with store.reading() as reader:
        nearest(reader, "chunks", QUESTION, 3)
        loading.start()
        for _ in range(8):
            loading.join(0.3)
            started = time.monotonic()
            assert len(nearest(store, "chunks", QUESTION, 3)) == 3
            assert time.monotonic() - started < 5
        assert loading.is_alive()
    loading.join(60)
    assert verify(larger, snapshots, [other], MAX_TYPES).agrees


# A model that changed under its name.


def refused(vector: list[float], now: list[float]) -> bool:
    probe = VectorProbe("chunk-1", vector, bool(abs(np.linalg.norm(vector) - 1) < 1e-3))
    live = Live("index", "1", {"model": "m"}, len(vector), probe=probe)
    embeddings = pd.DataFrame(
        {
            "id": ["chunk-0", "chunk-1"],
            "vector": [np.ones(len(vector)), np.asarray(now)],
            "header": ["", ""],
        }
    )
    return bool(other_vectors(live, replace(live, dimensions=len(now)), embeddings))


def test_the_same_text_must_have_the_same_vector():
    assert not refused([1.0, 0.0], [1.0, 0.0])
    assert not refused([1.0, 0.0], [0.9999, 0.0001])
    assert refused([1.0, 0.0], [0.0, 1.0])
    assert refused([1.0, 0.0], [0.8, 0.6])
    assert refused([1.0, 0.0], [3.0, 0.0])
    assert not refused([3.0, 0.0], [3.1, 0.0])
    assert refused([1.0, 0.0], [1.0, 0.0, 0.0])


def test_a_model_that_changed_under_its_name_is_refused(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    made = tables()
    turned = [vector[::-1].copy() for vector in made["text_unit_embeddings"]["vector"]]
    made["text_unit_embeddings"] = made["text_unit_embeddings"].assign(vector=turned)
    changed = save(made, snapshots)
    with pytest.raises(UsageError, match=r"the same text has another vector .* --re-embed"):
        load(changed, snapshots, [store], MAX_TYPES)
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees
    assert (
        verify(changed, snapshots, [store], MAX_TYPES).repair == "graphmill load index --re-embed"
    )
    load(changed, snapshots, [store], MAX_TYPES, LoadOptions(re_embed=True))
    assert verify(changed, snapshots, [store], MAX_TYPES).agrees


def test_a_load_that_exceeds_a_limit_of_the_server_names_the_limit(
    store: PostgresStore, snapshots: SnapshotStore
):
    hasty = replace(store, url=f"{store.url}&options=-c%20statement_timeout%3D1")
    with pytest.raises(StoreError, match="statement_timeout"):
        load(save(tables(64), snapshots), snapshots, [hasty], MAX_TYPES, LoadOptions(re_embed=True))
    hasty.close()
