"""SQL as it is written for LightRAG's tables: nearest rows by the plain column, of one
workspace."""

from collections.abc import Callable

import numpy as np
import pytest
from sqlalchemy import text

from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.schema import CHUNKS, TABLES, name_partition
from pipeline.stores.postgres.store import PostgresStore
from tests.servers.postgres_server import make_database
from tests.stored import nearest
from tests.stores.conftest import postgres, workspace
from tests.stores.test_vector_store import chunks, entities, load, vectors

__all__ = ["postgres", "workspace"]

OpenStore = Callable[..., PostgresStore]
NEAREST = "SELECT id FROM {} WHERE workspace = $1 ORDER BY embedding <=> $2::vector LIMIT 5"
ROWS = 60


def relationships(embeddings: np.ndarray):
    return entities(embeddings).rename(columns={"entity_name": "src_id"}).assign(tgt_id="to")


MAKERS = {"chunks": chunks, "entities": entities, "relationships": relationships}


def filled(store: PostgresStore, dimensions: int) -> PostgresStore:
    stored = vectors(1, ROWS, dimensions)
    load(store, {name: make(stored) for name, make in MAKERS.items()}, dimensions)
    return store


def asked(
    store: PostgresStore, table: str, dimensions: int, plan: str, explain: bool = False
) -> list[str]:
    """What the query gives, or its plan, for the first vector. ``plan``: for these parameters or
    for any."""
    vector = "[" + ",".join(map(str, vectors(1, 1, dimensions)[0])) + "]"
    with store.connection() as connection:
        for setting in (
            "search_path = lightrag, public",
            f"plan_cache_mode = {plan}",
            "enable_seqscan = off",
        ):
            connection.execute(text(f"SET LOCAL {setting}"))
        connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        connection.exec_driver_sql(f"PREPARE nearest (text, text) AS {NEAREST.format(table)}")
        execute = f"EXECUTE nearest ('{store.workspace}', '{vector}')"
        rows = connection.exec_driver_sql(f"EXPLAIN {execute}" if explain else execute).all()
        connection.exec_driver_sql("DEALLOCATE nearest")
    return [row[0] for row in rows]


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    "table", ["lightrag_chunks", "lightrag_entities", "lightrag_relationships"]
)
def test_the_plain_column_is_searched_by_the_index(postgres: OpenStore, table: str, plan: str):
    store, other = filled(postgres(exact_below=2), 8), filled(postgres("-other", exact_below=2), 16)
    for one, dimensions in ((store, 8), (other, 16)):
        told = "\n".join(asked(one, table, dimensions, plan, explain=True))
        partition = name_partition(TABLES[table.removeprefix("lightrag_")], one.workspace)
        assert f"Index Scan using {partition}_hnsw_" in told
        assert f"Seq Scan on {partition}" not in told
        found = asked(one, table, dimensions, plan)
        name = table.removeprefix("lightrag_")
        assert found == [id for id, _ in nearest(one, name, vectors(1, 1, dimensions)[0], 5)]


def test_half_vectors_are_searched_by_their_index(postgres_url: str):
    """The database has no other vectors: a view of both types cannot use an index for each."""
    url = make_database(postgres_url, "half_vectors")
    store = filled(PostgresStore(url, "half", hnsw=Hnsw(exact_below=2)), 2001)
    told = "\n".join(asked(store, "lightrag_chunks", 2001, "force_custom_plan", explain=True))
    assert "_hnsw_" in told
    other = filled(PostgresStore(url, "other", hnsw=Hnsw(exact_below=2)), 8)
    assert asked(store, "lightrag_chunks", 2001, "force_custom_plan")[0] == "chunk-00000"
    for one in (store, other):
        one.close()


def test_a_view_follows_another_model_at_once(postgres: OpenStore):
    store = filled(postgres(exact_below=2), 8)
    reader = postgres()
    with reader.connection() as connection:
        before = connection.execute(
            text("SELECT count(*) FROM lightrag.lightrag_chunks WHERE workspace = :w"),
            {"w": store.workspace},
        )
        assert before.scalar() == ROWS
    filled(store, 12)
    assert asked(store, "lightrag_chunks", 12, "force_custom_plan")[0] == "chunk-00000"
    told = "\n".join(asked(store, "lightrag_chunks", 12, "force_custom_plan", explain=True))
    assert "_hnsw_" in told


def test_a_workspace_that_is_dropped_leaves_the_view(postgres: OpenStore):
    store, other = filled(postgres(), 8), filled(postgres("-other"), 8)
    store.drop()
    with other.connection() as connection:
        left = (
            connection.execute(text("SELECT DISTINCT workspace FROM lightrag.lightrag_chunks"))
            .scalars()
            .all()
        )
        assert store.workspace not in left
        assert other.workspace in left
        assert (
            connection.execute(
                text(f"SELECT to_regclass('{name_partition(CHUNKS, store.workspace)}')")
            ).scalar()
            is None
        )
