"""Serve by several processes at one address, each with its share of the limits on concurrency.

The cost of a day is counted together, from the files of usage. Requests and tokens a minute of a
model are counted together through the cache's database. No worker keeps anything of a question for
the next, so that any of them may answer any request.
"""

import gc
import multiprocessing
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pipeline.errors import Terminated, UsageError, WorkerError
from pipeline.project import Project
from pipeline.serve.server import LAST_SECONDS, Made, Server, log, ready_server, say
from pipeline.settings.schema import AllowSettings, KeySettings, RightsSettings, Settings

if TYPE_CHECKING:
    from pipeline.serve.metrics import Counts

KeyLimits = TypeVar("KeyLimits", AllowSettings, KeySettings, RightsSettings)
SPAWN = multiprocessing.get_context("spawn")
LAST_MOMENT = 3.0
"""The seconds in which a worker has to end after its last query has ended."""


def share_of(settings: Settings, workers: int) -> Settings:
    """Return the settings of one of so many workers.

    Raises UsageError for limits that would not hold for all workers together.
    """
    kinds = {
        "chat": settings.models.chat,
        "embedding": settings.models.embedding,
        "rerank": settings.models.rerank,
    }
    for kind, models in kinds.items():
        for name, model in models.items():
            rates = (
                getattr(model, "requests_per_minute", None),
                getattr(model, "tokens_per_minute", None),
            )
            if any(rates) and not settings.cache:
                raise UsageError(
                    f"serve: --workers {workers}: without a cache, models.{kind}.{name}'s requests"
                    " and tokens a minute are counted by each worker alone; set cache, or serve"
                    " with one"
                )
    shared = {}
    for kind, of_kind in kinds.items():
        shared[kind] = _share_models(f"models.{kind}", of_kind, workers)
    models = settings.models.model_copy(update=shared)
    serve = settings.serve
    groups = {name: _share_of_key(one, workers) for name, one in serve.users.groups.items()}
    limits = {
        "concurrency": _part("serve.concurrency", serve.concurrency, workers),
        "waiting": serve.waiting // workers,
        "allow": _share_of_key(serve.allow, workers),
        "keys": {name: _share_of_key(key, workers) for name, key in serve.keys.items()},
        "users": serve.users.model_copy(update={"groups": groups}),
    }
    serve = serve.model_copy(update=limits)
    return settings.model_copy(update={"models": models, "serve": serve})


def _share_models(where: str, models: Mapping[str, Any], workers: int) -> dict[str, Any]:
    """Return the settings of models, each with a worker's part of its concurrency."""
    shared = {}
    for name, model in models.items():
        part = _part(f"{where}.{name}.concurrency", model.concurrency, workers)
        shared[name] = model.model_copy(update={"concurrency": part})
    return shared


def _share_of_key(limits: KeyLimits, workers: int) -> KeyLimits:
    """Return the limits of a key with a worker's part of its ``concurrency``, at least 1."""
    if limits.concurrency is None:
        return limits
    return limits.model_copy(update={"concurrency": max(1, limits.concurrency // workers)})


def _part(where: str, most: int, workers: int) -> int:
    """Return a worker's part of a limit. Raises UsageError if it would be less than 1."""
    if most < workers:
        raise UsageError(
            f"serve: --workers {workers}: they share {where}, which is {most}; raise it, or have"
            " fewer"
        )
    return most // workers


@dataclass(frozen=True)
class Worker:
    """A process that serves; ``ready`` gets a message when it can."""

    process: SpawnProcess
    ready: Connection

    def wait_until_ready(self) -> None:
        """Wait until the process serves. Raises WorkerError if it ends before."""
        try:
            self.ready.recv()
        except EOFError:
            self.process.join()
            raise WorkerError(
                f"serve: a worker ended before it could serve (exit code {self.process.exitcode});"
                " see above for why, or serve without --workers"
            ) from None


@dataclass
class Workers:
    """The workers of a server, which serve inside ``with``.

    ``project`` has the settings of one. ``counts`` are those of /metrics, if it is on.
    """

    made: Made
    project: Project
    listening: socket.socket
    any_host: bool
    count: int
    counts: "Counts | None" = None
    there: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        try:
            self.there += [self._start(place) for place in range(self.count)]
            for worker in self.there:
                worker.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run(self) -> None:
        """Replace each worker that ends, until a signal.

        Raises WorkerError if a replacement cannot serve.
        """
        try:
            while True:
                wait([worker.process.sentinel for worker in self.there])
                for place, worker in enumerate(self.there):
                    if worker.process.is_alive():
                        continue
                    code = worker.process.exitcode
                    say(f"a worker has ended (exit code {code}); another takes its place")
                    self.there[place] = self._start(place)
                    self.there[place].wait_until_ready()
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop all workers, and kill those that do not end. Each may first finish its queries."""
        there, self.there = self.there, []
        try:
            for worker in there:
                worker.process.terminate()
            for worker in there:
                worker.process.join(self.project.settings.serve.grace + LAST_SECONDS + LAST_MOMENT)
        finally:
            for worker in there:
                worker.process.kill()

    def _start(self, place: int) -> Worker:
        ready, sender = SPAWN.Pipe(duplex=False)
        made = self.made
        if self.counts is not None:
            made = partial(made, counts=self.counts.of_worker(place))
        given = (
            made,
            self.project,
            self.listening,
            self.any_host,
            gc.get_threshold()[0],
            sender,
        )
        process = SPAWN.Process(target=_serve, args=given, daemon=True)
        process.start()
        # Only the worker holds its end now, so that the pipe ends with the process.
        sender.close()
        return Worker(process, ready)


def _serve(
    made: Made,
    project: Project,
    listening: socket.socket,
    any_host: bool,
    new_objects: int,
    sender: Connection,
) -> None:
    """Serve in a worker's process, until a signal or the end of the process that started it.

    ``sender`` reports that it serves. ``new_objects`` is the garbage collector's first threshold.
    """
    gc.set_threshold(new_objects)
    signal.signal(signal.SIGTERM, _terminate)
    log()
    with suppress(KeyboardInterrupt), project, listening:
        server = ready_server(made, project, any_host)
        threading.Thread(target=_end_with_parent, args=[server], daemon=True).start()
        sender.send(True)
        server.run(sockets=[listening])


def _end_with_parent(server: Server) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    server.should_exit = True


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
