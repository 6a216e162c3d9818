"""What loads replace, night after night, does not pile up where no autovacuum comes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Live
from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.schema import ENTITIES, name_partition
from pipeline.stores.postgres.store import PostgresStore

LIVE = Live("index", "1", {"model": "m"}, 3)
ROWS, NIGHTS = 1000, 8


@pytest.fixture
def store(postgres_url: str, workspace: str):
    store = PostgresStore(postgres_url, workspace, hnsw=Hnsw(exact_below=100), vacuums=True)
    with store.connection() as connection:
        connection.execute(text("SELECT 1"))
    yield store
    store.close()


def load(store: PostgresStore, night: int) -> None:
    """A tenth of the rows has another text each night."""
    vectors = np.random.default_rng(3).normal(size=(ROWS, 3)).astype(np.float32)
    texts = [f"text {night if place % 10 == night % 10 else 0} " * 20 for place in range(ROWS)]
    ids = [f"ent-{place}" for place in range(ROWS)]
    frame = pd.DataFrame({"id": ids, "entity_name": ids, "content": texts})
    rows = with_hashes(frame.assign(embedding=list(vectors)))
    with store.writing(replace(LIVE, version=str(night))) as writer:
        writer.apply("entities", diff(rows, writer.hashes("entities")))
        writer.publish()


def size(store: PostgresStore) -> int:
    with store.connection() as connection:
        name = name_partition(ENTITIES, store.workspace)
        return connection.execute(
            text("SELECT pg_relation_size(to_regclass(:name))"), {"name": name}
        ).scalar_one()


def test_dead_rows_do_not_pile_up(store: PostgresStore):
    name = name_partition(ENTITIES, store.workspace)
    load(store, 0)
    with store.connection() as connection:  # as a server that ends before autovacuum wakes
        connection.exec_driver_sql(f'ALTER TABLE "{name}" SET (autovacuum_enabled = off)')
    first = size(store)
    for night in range(1, NIGHTS + 1):
        load(store, night)
    assert size(store) <= 1.6 * first
