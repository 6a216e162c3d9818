"""Processes that load one workspace of Neo4j: killed, and many at once."""

import os
import random
import signal
from collections.abc import Callable
from multiprocessing import get_context

import pytest

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.reads import GraphState
from tests.servers.neo4j_server import Neo4jAddress
from tests.sizes import size
from tests.stores.graphs import LIVE, Graph, LoadableGraph, random_graph

OpenStore = Callable[..., Neo4jStore]
SPAWN = get_context("spawn")
SEED = 5
KILL_POINTS = random.Random(SEED).sample(range(24), size(2, 10))
PROCESSES = size(3, 8)


@pytest.mark.parametrize("batch", KILL_POINTS)
def test_a_killed_load_is_finished_by_the_next(
    neo4j: OpenStore, neo4j_address: Neo4jAddress, batch: int
):
    store = neo4j(atomic_rows=0)
    opened = LoadableGraph(store, store)
    opened.load(random_graph(0))
    process = SPAWN.Process(target=_load_until_killed, args=(neo4j_address, store.workspace, batch))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    opened.load(random_graph(0, content=1))
    _assert_stored(store, random_graph(0, content=1))
    assert store.shown() == GraphState(LIVE.version, loading=False)


def test_loads_of_one_workspace_queue(neo4j: OpenStore, neo4j_address: Neo4jAddress):
    store = neo4j()
    processes = [
        SPAWN.Process(target=_load_twice, args=(neo4j_address, store.workspace, number))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    LoadableGraph(store, store).load(random_graph(0))
    _assert_stored(store, random_graph(0))


def _load_until_killed(address: Neo4jAddress, workspace: str, batch: int) -> None:
    seen = []

    def count(*batch_written: object) -> None:
        seen.append(batch_written)
        if len(seen) > batch:
            os.kill(os.getpid(), signal.SIGKILL)

    store = _store(address, workspace)
    with store.writing(LIVE, count) as writer:
        for table, rows in random_graph(0, content=1).tables(store).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()
    os.kill(os.getpid(), signal.SIGKILL)  # fewer batches than that: after the end


def _load_twice(address: Neo4jAddress, workspace: str, number: int) -> None:
    store = _store(address, workspace)
    try:
        for content in (number, number + 1):
            LoadableGraph(store, store).load(random_graph(0, content=content % 3))
    finally:
        store.close()


def _store(address: Neo4jAddress, workspace: str) -> Neo4jStore:
    return Neo4jStore(
        address.uri,
        address.user,
        address.password,
        address.database,
        workspace,
        batch_rows=3,
        atomic_rows=0,
    )


def _assert_stored(store: Neo4jStore, stored: Graph) -> None:
    for table, rows in stored.tables(store).items():
        found = {
            id: row_hash
            for part in store.rows(table)
            for id, row_hash in part[["id", "row_hash"]].to_numpy()
        }
        assert found == with_hashes(rows).set_index("id")["row_hash"].to_dict()
        assert store.table_states()[table].rows == len(rows)
