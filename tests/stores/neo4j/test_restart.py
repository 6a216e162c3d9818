"""A Neo4j that is killed, and comes back, while it is loaded and read."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from pipeline.errors import LostConnectionError
from pipeline.load.loader import LoadOptions, load
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphState
from pipeline.verify.verify import verify
from tests.servers.neo4j_server import (
    QUICK_START,
    Neo4jAddress,
    maven_server,
    temporary_folder,
    why_no_maven,
)
from tests.sizes import full, only_whole
from tests.stores.graphs import LIVE, Graph, LoadableGraph, random_graph
from tests.stores.postgres.test_restart import MAX_TYPES, keywords, version


@dataclass
class OwnServer:
    """It keeps its data and its port over a kill."""

    home: Path
    running: ExitStack = field(default_factory=ExitStack)
    port: int = 0

    def start(self) -> Neo4jAddress:
        address = self.running.enter_context(
            maven_server(self.home, self.port, options=QUICK_START)
        )
        self.port = urlsplit(address.uri).port or 0
        return address

    def kill(self) -> None:
        for process in psutil.Process().children():
            with suppress(psutil.ZombieProcess):  # another that has ended
                if f"--home-dir={self.home}" in process.cmdline():
                    process.kill()
        self.running.close()


@pytest.fixture
def server() -> Iterator[OwnServer]:
    if reason := why_no_maven():
        pytest.skip(f"no Neo4j that could be killed: {reason}")
    with temporary_folder() as home:
        server = OwnServer(home)
        yield server
        server.running.close()


@only_whole("a second server that is killed and started")
def test_a_load_cut_off_by_a_restart_is_finished_by_the_next(server: OwnServer):
    address = server.start()
    store = Neo4jStore(address.uri, address.user, address.password, batch_rows=50, atomic_rows=0)
    before, after = random_graph(0, 200, 400), random_graph(0, 200, 400, content=1)
    opened = LoadableGraph(store, store)
    try:
        opened.load(before)
        with pytest.raises(LostConnectionError):
            _load_over_a_restart(store, after, server)
        assert store.shown() == GraphState(LIVE.version, loading=True)
        assert store.live() == LIVE
        opened.load(after)
        assert store.shown() == GraphState(LIVE.version, loading=False)
        for table, rows in after.tables(store).items():
            found = {
                id: row_hash
                for part in store.rows(table)
                for id, row_hash in part[["id", "row_hash"]].to_numpy()
            }
            assert found == with_hashes(rows).set_index("id")["row_hash"].to_dict()
            assert store.table_states()[table].rows == len(rows)
    finally:
        store.close()


def test_loads_and_queries_outlive_a_restart(
    server: OwnServer, postgres: Callable[..., PostgresStore], tmp_path: Path
):
    address = server.start()
    snapshots, vectors = SnapshotStore(tmp_path), replace(postgres(), with_graph=False)
    graph = Neo4jStore(address.uri, address.user, address.password, batch_rows=10, atomic_rows=0)
    old, new = version("old", snapshots), version("new", snapshots)
    told: list[tuple[str, int]] = []

    def restart(store: str, part: str, done: int, rows: int) -> None:
        if store == graph.name and part == "relationships" and not told:
            server.kill()
            server.start()
        if store == graph.name:
            told.append((part, done))

    try:
        load(old, snapshots, [vectors, graph], MAX_TYPES)
        if full():  # the other restart is read over, too
            server.kill()
            server.start()
        assert read_together(vectors, graph, keywords) == ({"old"}, ())
        load(new, snapshots, [vectors, graph], MAX_TYPES, LoadOptions(), restart)
        assert len(told) > 1
        assert read_together(vectors, graph, keywords) == ({"new"}, ())
        assert verify(new, snapshots, [vectors, graph], MAX_TYPES).agrees
    finally:
        vectors.close()
        graph.close()


def _load_over_a_restart(store: Neo4jStore, stored: Graph, server: OwnServer) -> None:
    def restart(table: str, done: int, rows: int) -> None:
        if table == "sourced_edges" and 0 < done < rows and not restarted:
            restarted.append(done)
            server.kill()
            server.start()

    restarted: list[int] = []
    with store.writing(LIVE, restart) as writer:
        for table, rows in stored.tables(store).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()
