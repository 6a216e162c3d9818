"""A build on a cluster, with snapshots in a bucket and models behind an endpoint, in which
everything is killed once: no finished task or step is done again, no reply is asked again, and it
ends as if nothing had been."""

import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from distributed import Client

from pipeline.doctor.cluster import examine_cluster
from pipeline.engine.cluster import Cluster
from pipeline.errors import GraphmillError, WorkerError
from pipeline.runs.worker import SNAPSHOTS
from pipeline.snapshots import objects
from pipeline.snapshots.folder import UNFINISHED
from tests.clusters import ASKED, WRITTEN, RemoteCluster
from tests.projects import ProjectFolder
from tests.servers.dask_cluster import PATIENCE, DaskCluster, Keys, make_keys, processes_below
from tests.servers.dask_cluster import dask_cluster as started_cluster
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import size
from tests.states import in_cache, models, set_args
from tests.whole.test_workers import names, project_with

ROWS = 12
"""From which on a step is worked on in buckets."""
LETTERS = {
    f"letter{number}.md": (
        f"Ada Holm wrote to Otto Holm. In {1871 + number} Ada Holm founded the Brack Institute."
    )
    for number in range(ROWS)
}
WORKFLOW, STEPS = "index", 8
NOTHING, UNDER_WAY = Counter[str](), Counter(chats=4, texts=4 * 16)
"""Calls at most, and texts of calls, with the models of states.py."""
WORKER, CLIENT, SCHEDULER, SERVER = "worker", "client", "scheduler", "server"
ORDERS = [
    order
    for order in permutations([WORKER, CLIENT, SCHEDULER, SERVER])
    if (WORKER, SCHEDULER) not in pairwise(order)  # that one has no other workers
]
"""In which they are killed. A worker is killed in the run in which the next one is: that goes on
without it."""
Kills = Mapping[int, Callable[[], None]]
"""By the number of the event at which they are done."""
ENDING = 12
"""Events of a build after the last at which it still needs all of them."""


@dataclass(frozen=True)
class Undisturbed:
    """What one process makes, whose steps are done whole and whose snapshots are in a folder, and
    what it asks."""

    made: Mapping[str, Any]
    asked: Counter[str]


@dataclass
class Night:
    """A build in several runs. ``kept``: tasks and steps that were done when something was killed;
    ``asked``: in all; ``lost``: what was asked of which no reply was stored."""

    folder: ProjectFolder
    remote: RemoteCluster
    endpoint: OpenAIServer
    kept: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, root: Path, remote: RemoteCluster, endpoint: OpenAIServer) -> "Night":
        night = cls(project(root, endpoint), remote, endpoint)
        remote.hold(night.folder)
        night.work_with(remote.workers)
        return night

    def work_with(self, cluster: DaskCluster, **engine: Any) -> None:
        cluster.work_with(self.folder, task_rows=ROWS, **engine)

    @contextmanager
    def run(self, kills: Kills, may_lose: Counter[str] = NOTHING) -> Iterator[None]:
        stored = stored_of(self.folder)
        self.endpoint.forget()
        self.remote.events.begin(
            {number: lambda kill=kill: self._do(kill) for number, kill in kills.items()}
        )
        with self.remote.events.with_those_of(self.endpoint):
            yield
        assert len(self.remote.events.been) >= max(kills, default=0)
        asked = asked_of(self.endpoint)
        lost = asked - (stored_of(self.folder) - stored)
        assert lost <= may_lose
        self.asked, self.lost = self.asked + asked, self.lost + lost

    def _do(self, kill: Callable[[], None]) -> None:
        self.kept |= set(self.remote.events.noted)
        kill()


def project(root: Path, endpoint: OpenAIServer) -> ProjectFolder:
    folder = project_with(root, "pass", STEPS, WORKFLOW, LETTERS, models=models(endpoint))
    set_args(folder, WORKFLOW, summarize_descriptions={"max_tokens": 30})
    return folder


def index(folder: ProjectFolder) -> Mapping[str, Any]:
    with folder.open() as opened:
        opened.index(WORKFLOW)
        return names(opened.snapshots.manifest(WORKFLOW))


def asked_of(endpoint: OpenAIServer) -> Counter[str]:
    return Counter(
        chats=endpoint.count("chat"),
        texts=sum(len(request.inputs) for request in endpoint.requests),
    )


def stored_of(folder: ProjectFolder) -> Counter[str]:
    return Counter(chats=in_cache(folder, "completions"), texts=in_cache(folder, "embeddings"))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def undisturbed(endpoint: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = project(tmp_path_factory.mktemp("undisturbed") / "p", endpoint)
    endpoint.forget()
    return Undisturbed(index(folder), asked_of(endpoint))


@dataclass(frozen=True)
class Whole:
    """``events``: of a night in which nothing is killed."""

    night: Night
    made: Mapping[str, Any]
    events: list[str]


@pytest.fixture(scope="module")
def whole(
    endpoint: OpenAIServer, remote_cluster: RemoteCluster, tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    night = Night.of(tmp_path_factory.mktemp("whole") / "p", remote_cluster, endpoint)
    with night.run({}):
        made = index(night.folder)
    return Whole(night, made, remote_cluster.events.been)


def test_workers_over_a_bucket_make_what_one_process_makes_also_when_it_was_emptied(
    undisturbed: Undisturbed, whole: Whole
):
    """Workers stay from run to run, and know better than to believe what they have seen in the
    last."""
    assert (whole.made, whole.night.asked) == (undisturbed.made, undisturbed.asked)
    remote = whole.night.remote
    remote.hold(whole.night.folder)
    with whole.night.run({}):
        assert index(whole.night.folder) == undisturbed.made
    assert whole.night.asked == undisturbed.asked
    assert any("-" in name for name in remote.events.noted)  # of tasks, not of steps
    with whole.night.folder.open() as opened:
        assert [found.verdict for found in examine_cluster(opened)] == ["ok", "ok"]
    assert not [name for name in remote.bucket.names if UNFINISHED in name]


@pytest.mark.parametrize("seed", range(size(1, 5)))
def test_a_build_in_which_everything_is_killed_is_as_one_in_which_nothing_is(
    tmp_path: Path, endpoint: OpenAIServer, remote_cluster: RemoteCluster, undisturbed: Undisturbed,
    whole: Whole,
    keys: Keys, seed: int,
):  # fmt: skip
    """One after the other, at events drawn of those of a whole build."""
    draw = random.Random(seed)
    night = Night.of(tmp_path / "p", remote_cluster, endpoint)
    worker = draw.choice(processes_below(remote_cluster.workers.workers[0]))
    runs = {
        CLIENT: with_client_killed,
        SCHEDULER: partial(with_scheduler_killed, keys=keys, folder=tmp_path / "own"),
        SERVER: with_server_killed,
    }
    moments = sorted(
        draw.sample(numbers(whole.events, ASKED), 2)
        + draw.sample(numbers(whole.events, WRITTEN), 2)
    )
    began, kills = 0, dict[int, Callable[[], None]]()
    for victim, moment in zip(draw.choice(ORDERS), moments, strict=True):
        if victim == WORKER:
            kills[moment - began] = worker.kill
        else:
            runs[victim](night, moment - began, kills)
            began, kills = moment, {}
    with night.run(kills):
        assert index(night.folder) == undisturbed.made
    assert not worker.is_running()
    assert night.kept
    assert {name for name in night.kept if remote_cluster.events.noted[name] > 1} == set()
    assert night.asked == undisturbed.asked + night.lost


def numbers(events: Sequence[str], kind: str) -> list[int]:
    """Of the events of a kind that nothing is missing after."""
    return [number for number, event in enumerate(events[:-ENDING], start=1) if event == kind]


def with_client_killed(night: Night, moment: int, kills: Kills) -> None:
    """Before what it or a worker writes has come, or when it has and the client does not know it
    yet; or as it asks: no other end loses replies, and this those that are under way."""
    clients = list[subprocess.Popen[bytes]]()

    def kill() -> None:
        clients[0].kill()
        clients[0].wait()
        raise ConnectionAbortedError

    there = night.endpoint.connected
    with night.run({**kills, moment: kill}, may_lose=UNDER_WAY):
        command = night.folder.command_line("index", WORKFLOW)
        clients.append(subprocess.Popen(command, env=night.folder.environment))
        assert clients[0].wait(PATIENCE) == -signal.SIGKILL
        night.endpoint.await_silence(there)


def with_server_killed(night: Night, moment: int, kills: Kills) -> None:
    server = night.remote.bucket.server
    try:
        with (
            patch.object(objects, "RETRIES", {"max_retries": 1}),
            night.run({**kills, moment: server.kill}),
            pytest.raises(GraphmillError, match="again") as raised,
        ):
            index(night.folder)
    finally:
        server.start()
    assert "\n" not in str(raised.value)


def with_scheduler_killed(
    night: Night, moment: int, kills: Kills, keys: Keys, folder: Path
) -> None:
    """Over TLS, of a cluster that grows by what waits there, and finds the bucket by the project.
    The next run is on another."""
    with (
        started_cluster(folder, 0, tls=keys.options, environment={SNAPSHOTS: ""}) as own,
        growing(own, night.folder),
    ):
        assert own.scheduler
        assert own.address.startswith("tls://")
        night.work_with(own, workers="adaptive", tls=keys.settings)
        with (
            night.run({**kills, moment: own.scheduler.kill}),
            pytest.raises(WorkerError, match="scheduler"),
        ):
            index(night.folder)
    night.work_with(night.remote.workers)


@contextmanager
def growing(own: DaskCluster, folder: ProjectFolder) -> Iterator[None]:
    """As soon as the scheduler wants a worker, the cluster has one, with the keys of the
    project."""
    look = Cluster.check_workers

    def grow(cluster: Cluster, client: Client) -> int:
        there = look(cluster, client)
        with suppress(OSError):  # it is killed meanwhile
            if (
                not own.workers
                and client.scheduler
                and client.sync(client.scheduler.adaptive_target)
            ):
                own.start_workers(1, "-C", str(folder.root))
        return there

    with patch.object(Cluster, "check_workers", grow):
        yield
