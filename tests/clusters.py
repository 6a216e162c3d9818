"""A cluster whose snapshots are in a bucket, to test with, and what goes to the bucket
meanwhile."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from unittest.mock import patch

from pipeline.runs.worker import SNAPSHOTS
from pipeline.snapshots.lease import LEASE
from pipeline.snapshots.mirror import CHECKED
from tests.buckets import Bucket
from tests.projects import ProjectFolder
from tests.servers.dask_cluster import DaskCluster, dask_cluster
from tests.servers.openai_server import OpenAIServer, Request
from tests.servers.s3_server import S3Server, between

WRITTEN, ASKED = "written", "asked"


@dataclass
class Events:
    """Of a run, the kinds of those that have been: before an object is written and after, and as a
    model is asked. ``do``: what is done at those of these numbers; ``noted``: how often the bucket
    was told of each task, and each step, that it is done."""

    do: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    been: list[str] = field(default_factory=list)
    noted: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, do: Mapping[int, Callable[[], None]]) -> None:
        self.do, self.been = do, []

    def comes(self, kind: str) -> None:
        with self.lock:
            self.been.append(kind)
            self.do.get(len(self.been), lambda: None)()

    def before(self, method: str, path: str) -> None:
        if _is_written(method, path):
            self.comes(WRITTEN)

    def after(self, method: str, path: str) -> None:
        if not _is_written(method, path):
            return
        name = PurePosixPath(path)
        if name.suffix == ".json" and "/steps/" in path:
            self.noted[name.stem] += 1
        with suppress(ConnectionAbortedError):  # who asked has the answer
            self.comes(WRITTEN)

    @contextmanager
    def with_those_of(self, endpoint: OpenAIServer) -> Iterator[None]:
        write_down = endpoint.write_down

        def asked(request: Request) -> None:
            write_down(request)
            self.comes(ASKED)

        with patch.object(endpoint, "write_down", asked):
            yield


def _is_written(method: str, path: str) -> bool:
    """By a run: what keeps the bucket to itself is as often there as time passes."""
    return method == "PUT" and LEASE not in path and CHECKED not in path


@dataclass(frozen=True)
class RemoteCluster:
    """``bucket``: by a way on which its events are seen."""

    workers: DaskCluster
    bucket: Bucket
    events: Events

    def hold(self, folder: ProjectFolder) -> None:
        """From now on the project's snapshots are there, where nothing is yet."""
        self.workers.await_workers(2)
        self.workers.await_idle()
        self.events.noted.clear()
        self.bucket.objects.delete(sorted(self.bucket.names))
        self.bucket.hold(folder)


@contextmanager
def remote_cluster(s3: S3Server, folder: Path) -> Iterator[RemoteCluster]:
    events = Events()
    with between(s3, before=events.before, after=events.after) as (endpoint, _):
        bucket = Bucket(s3, "of-a-cluster", dict(s3.environment)).by(endpoint)
        environment = {SNAPSHOTS: bucket.address, **bucket.environment}
        with dask_cluster(folder, environment=environment) as workers:
            yield RemoteCluster(workers, bucket, events)
