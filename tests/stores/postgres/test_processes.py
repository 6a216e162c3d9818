"""Processes that load workspaces of one PostgreSQL: many at once, and killed."""

import os
import random
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from pipeline.load.loader import LoadOptions, load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.schema import TABLES
from pipeline.stores.postgres.store import PostgresStore
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.sizes import size
from tests.stored import stored_hashes

OpenPostgres = Callable[..., PostgresStore]
SPAWN = get_context("spawn")
PROCESSES, LOADS = size((2, 2), (8, 6))
SEED = 5
KILL_POINTS = random.Random(SEED).sample(range(20), size(2, 10))
MAX_TYPES = 100
HNSW = Hnsw(exact_below=20)
"""So that an index is built as well."""


def version(number: int, snapshots: SnapshotStore) -> Manifest:
    """Two versions share most of their rows."""
    names = {
        f"Person {place}": f"kind {place % 3 + number}" for place in range(number, number + 40)
    }
    links = [
        (one, other, [f"word {number}"]) for one, other in zip(names, list(names)[1:], strict=False)
    ]
    return save(
        corpus(
            {f"{place}.txt": f"Text {place}." for place in range(number, number + 30)}, names, links
        ),
        snapshots,
    )


def assert_stored(store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore) -> None:
    """Nothing is missing, extra, altered or there twice."""
    found = verify(manifest, snapshots, [store], MAX_TYPES)
    assert found.agrees, found
    with store.connection() as connection:
        for table in TABLES.values():
            rows = [
                id
                for (id,) in connection.execute(
                    table.select()
                    .with_only_columns(table.c.id)
                    .where(table.c.workspace == store.workspace)
                )
            ]
            assert len(rows) == len(set(rows)) > 0


def test_loads_of_the_same_workspaces_by_several_processes_leave_one_version_in_each(
    postgres: OpenPostgres, postgres_url: str, tmp_path: Path
):
    stores = [postgres(f"-{number}") for number in range(3)]
    snapshots = SnapshotStore(tmp_path)
    versions = [version(number, snapshots) for number in range(3)]
    processes = [
        SPAWN.Process(
            target=_load_in_turn,
            args=(postgres_url, [store.workspace for store in stores], tmp_path, number),
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    for store in stores:
        shown = next(one for one in versions if _shows(store, one, snapshots))
        assert_stored(store, shown, snapshots)


def _shows(store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore) -> bool:
    return not verify(manifest, snapshots, [store], MAX_TYPES, quick=True).problems


def _load_in_turn(url: str, workspaces: list[str], folder: Path, number: int) -> None:
    """Each process goes through the workspaces from another one on."""
    snapshots = SnapshotStore(folder)
    for turn in range(number, number + LOADS):
        store = PostgresStore(url, workspaces[turn % len(workspaces)], hnsw=HNSW)
        load(version((turn + number) % 3, snapshots), snapshots, [store], MAX_TYPES)
        store.close()


@pytest.mark.parametrize("point", KILL_POINTS)
def test_a_killed_load_leaves_the_old_version_complete(
    postgres: OpenPostgres, postgres_url: str, tmp_path: Path, point: int
):
    store, snapshots = postgres(), SnapshotStore(tmp_path)
    old, new = version(0, snapshots), version(2, snapshots)
    load(old, snapshots, [store], MAX_TYPES)
    before = stored_hashes(store)
    process = SPAWN.Process(
        target=_load_until_killed, args=(postgres_url, store.workspace, tmp_path, point)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    killed_after_the_end = not verify(new, snapshots, [store], MAX_TYPES, quick=True).problems
    assert killed_after_the_end or stored_hashes(store) == before
    assert_stored(store, new if killed_after_the_end else old, snapshots)
    load(new, snapshots, [store], MAX_TYPES)
    assert_stored(store, new, snapshots)


def _load_until_killed(url: str, workspace: str, folder: Path, point: int) -> None:
    told = []

    def count(*what: object) -> None:
        told.append(what)
        if len(told) > point:
            os.kill(os.getpid(), signal.SIGKILL)

    snapshots = SnapshotStore(folder)
    store = PostgresStore(url, workspace, hnsw=HNSW)
    load(version(2, snapshots), snapshots, [store], MAX_TYPES, LoadOptions(), count)
    os.kill(os.getpid(), signal.SIGKILL)  # it was told of less: after the end
