"""The doctor examines a real Dask cluster."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import pytest
from distributed import Client, Event

from pipeline.doctor.cluster import examine_cluster
from pipeline.doctor.finding import Finding, guarded
from pipeline.engine import cluster as engine_cluster
from pipeline.runs import worker
from pipeline.snapshots.folder import UNFINISHED
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.dask_cluster import DaskCluster


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE)


def examined(folder: ProjectFolder) -> list[Finding]:
    with folder.open() as project:
        return guarded("cluster", "scheduler", lambda: examine_cluster(project))


def test_one_process_needs_no_cluster(folder: ProjectFolder):
    assert examined(folder) == []


def test_workers_that_fit_and_reach_the_snapshots_are_ok(
    folder: ProjectFolder, dask_cluster: DaskCluster
):
    dask_cluster.see(folder)
    scheduler, snapshots = examined(folder)
    assert scheduler.verdict == snapshots.verdict == "ok"
    assert scheduler.fact == f"{dask_cluster.address} answers, 2 workers may do tasks"
    assert "data/snapshots: 2 workers can read and write there" in snapshots.fact
    assert not list((folder.root / "data/snapshots" / UNFINISHED).iterdir())


def test_too_few_workers_are_a_warning(folder: ProjectFolder, dask_cluster: DaskCluster):
    dask_cluster.see(folder, workers=3)
    scheduler, _ = examined(folder)
    assert scheduler.verdict == "warning"
    assert scheduler.fact.endswith("2 workers may do tasks, engine.workers: 3")
    assert f"graphmill worker {dask_cluster.address}" in scheduler.action


def test_workers_with_other_snapshots_fail(
    folder: ProjectFolder, tmp_path: Path, dask_cluster: DaskCluster
):
    dask_cluster.see(folder)
    dask_cluster.see(new_project(tmp_path / "other", NO_STORE))
    scheduler, *workers = examined(folder)
    assert scheduler.verdict == "ok"
    assert [one.verdict for one in workers] == ["failed", "failed"]
    assert all(one.fact == "it sees other snapshots than the run" for one in workers)
    assert all("GRAPHMILL_SNAPSHOTS" in one.action for one in workers)


def test_workers_without_the_right_to_write_fail(folder: ProjectFolder, dask_cluster: DaskCluster):
    """The doctor looks for the file that a worker says it has written."""
    dask_cluster.see(folder)
    with patch.object(engine_cluster, "answer_about", lambda asked, name: ""):
        _, *workers = examined(folder)
    assert [one.verdict for one in workers] == ["failed", "failed"]
    assert all("is not in the run's" in one.fact for one in workers)


@pytest.mark.parametrize(("number", "verdict"), [(2, "failed"), ("adaptive", "ok")])
def test_workers_of_another_installation_are_refused(
    folder: ProjectFolder, dask_cluster: DaskCluster, number: int | str, verdict: str
):
    """A cluster that grows with its tasks may have no worker yet."""
    dask_cluster.see(folder, workers=number)
    mine = {**worker.facts(), "pandas": "0.1"}
    with patch.object(worker, "facts", lambda: mine):
        scheduler, *refused = examined(folder)
    assert scheduler.verdict == verdict
    assert "0 workers may do tasks" in scheduler.fact
    assert [one.verdict for one in refused] == ["warning", "warning"]
    assert all(one.fact.startswith("is refused: it has pandas ") for one in refused)
    assert all(one.action == "install there what is installed here" for one in refused)


@pytest.fixture
def busy(dask_cluster: DaskCluster) -> Iterator[None]:
    """Keep both workers busy with one task each."""
    with Client(dask_cluster.address, set_as_default=False) as client:
        begun, over = (Event(name, client=client) for name in ("begun", "over"))
        for one in client.scheduler_info(n_workers=-1)["workers"]:
            client.submit(
                lambda: (Event("begun").set(), Event("over").wait()), workers=[one], pure=False
            )
            assert begun.wait(timeout=60)
            begun.clear()
        yield
        over.set()


@pytest.mark.usefixtures("busy")
def test_workers_that_are_busy_are_not_waited_for(folder: ProjectFolder, dask_cluster: DaskCluster):
    dask_cluster.see(folder)
    with patch.object(engine_cluster, "ANSWER_SECONDS", 0.1):
        found = examined(folder)
    assert [finding.verdict for finding in found] == ["ok", "warning", "warning"]
    assert all("does a task" in finding.fact for finding in found[1:])


def test_a_missing_scheduler_is_a_failure(folder: ProjectFolder):
    folder.edit_settings(engine={"kind": "dask", "address": "tcp://127.0.0.1:9"})
    with patch.object(engine_cluster, "CONNECT_SECONDS", 0.2):
        [found] = examined(folder)
    assert (found.what, found.verdict) == ("scheduler", "failed")
    assert found.fact.startswith("engine.address: no scheduler answers at tcp://127.0.0.1:9")
    assert "dask scheduler" in found.action


@pytest.mark.parametrize(
    ("says", "told", "todo"),
    [
        (b"", "no scheduler answers at", "dask scheduler"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no scheduler", "not that of its dashboard"),
    ],
)
def test_another_or_a_suspended_server_is_no_scheduler(
    folder: ProjectFolder, says: bytes, told: str, todo: str
):
    """A suspended scheduler accepts the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = Thread(target=answer_calls, args=(server, says))
        calls.start()
        try:
            folder.edit_settings(
                engine={"kind": "dask", "address": f"tcp://127.0.0.1:{server.getsockname()[1]}"}
            )
            with patch.object(engine_cluster, "CONNECT_SECONDS", 0.5):
                [found] = examined(folder)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            calls.join()
    assert (found.what, found.verdict) == ("scheduler", "failed")
    assert told in found.fact
    assert todo in found.action


def answer_calls(server: socket.socket, says: bytes) -> None:
    taken: list[socket.socket] = []
    with suppress(OSError):
        while True:
            taken.append(server.accept()[0])
            taken[-1].sendall(says)
    for call in taken:
        call.close()
