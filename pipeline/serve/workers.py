"""Several processes that answer at one address, each with its share of what may be done at once.

What is spent in a day they count together, from the files of usage, and a model's requests and
tokens a minute through the cache's database. Nothing of a question is kept for the next, so that
any of them may answer any request.
"""

import gc
import multiprocessing
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any, Self, TypeVar

from pipeline.errors import Terminated, UsageError, WorkerError
from pipeline.project import Project
from pipeline.serve.server import LAST_SECONDS, Made, Server, log, ready_server, say
from pipeline.settings.schema import AllowSettings, KeySettings, RightsSettings, Settings

KeyLimits = TypeVar("KeyLimits", AllowSettings, KeySettings, RightsSettings)
SPAWN = multiprocessing.get_context("spawn")
LAST_MOMENT = 3.0
"""Seconds that a worker gets to go after all of its queries have."""


def share_of(settings: Settings, workers: int) -> Settings:
    """The settings of one of so many workers. Raises UsageError for what would not hold for all of
    them together."""
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
    models = settings.models.model_copy(
        update={kind: _shared(f"models.{kind}", models, workers) for kind, models in kinds.items()}
    )
    groups = {
        name: _share_of_key(group, workers) for name, group in settings.serve.users.groups.items()
    }
    users = settings.serve.users.model_copy(update={"groups": groups})
    serve = settings.serve.model_copy(
        update={
            "concurrency": _part("serve.concurrency", settings.serve.concurrency, workers),
            "waiting": settings.serve.waiting // workers,
            "allow": _share_of_key(settings.serve.allow, workers),
            "keys": {
                name: _share_of_key(key, workers) for name, key in settings.serve.keys.items()
            },
            "users": users,
        }
    )
    return settings.model_copy(update={"models": models, "serve": serve})


def _shared(where: str, models: Mapping[str, Any], workers: int) -> dict[str, Any]:
    return {
        name: model.model_copy(
            update={"concurrency": _part(f"{where}.{name}.concurrency", model.concurrency, workers)}
        )
        for name, model in models.items()
    }


def _share_of_key(limits: KeyLimits, workers: int) -> KeyLimits:
    """Return the limits of a key with its part of ``concurrency``: in each worker at least one
    query may run."""
    if limits.concurrency is None:
        return limits
    return limits.model_copy(update={"concurrency": max(1, limits.concurrency // workers)})


def _part(where: str, most: int, workers: int) -> int:
    if most < workers:
        raise UsageError(
            f"serve: --workers {workers}: they share {where}, which is {most}; raise it, or have"
            " fewer"
        )
    return most // workers


@dataclass(frozen=True)
class Worker:
    process: SpawnProcess
    ready: Connection

    def wait_until_ready(self) -> None:
        """Raises WorkerError where it ends before."""
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
    """``project``: with a worker's share. They serve inside ``with``."""

    made: Made
    project: Project
    listening: socket.socket
    any_host: bool
    count: int
    there: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        try:
            self.there += [self._start() for _ in range(self.count)]
            for worker in self.there:
                worker.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run(self) -> None:
        """Until a signal: put another in the place of each that ends. Raises WorkerError where that
        cannot serve."""
        try:
            while True:
                wait([worker.process.sentinel for worker in self.there])
                for place, worker in enumerate(self.there):
                    if not worker.process.is_alive():
                        say(
                            f"a worker has ended (exit code {worker.process.exitcode}); another"
                            " takes its place"
                        )
                        self.there[place] = self._start()
                        self.there[place].wait_until_ready()
        finally:
            self.stop()

    def stop(self) -> None:
        """Each gets to answer what it has begun."""
        there, self.there = self.there, []
        try:
            for worker in there:
                worker.process.terminate()
            for worker in there:
                worker.process.join(self.project.settings.serve.grace + LAST_SECONDS + LAST_MOMENT)
        finally:
            for worker in there:
                worker.process.kill()

    def _start(self) -> Worker:
        ready, says = SPAWN.Pipe(duplex=False)
        given = (
            self.made,
            self.project,
            self.listening,
            self.any_host,
            gc.get_threshold()[0],
            says,
        )
        process = SPAWN.Process(target=_serve, args=given, daemon=True)
        process.start()
        says.close()
        return Worker(process, ready)


def _serve(
    made: Made,
    project: Project,
    listening: socket.socket,
    any_host: bool,
    new_objects: int,
    says: Connection,
) -> None:
    """A worker's whole life. It ends with the process that has started it, however that ends."""
    gc.set_threshold(new_objects)
    signal.signal(signal.SIGTERM, _terminate)
    log()
    with suppress(KeyboardInterrupt), project, listening:
        server = ready_server(made, project, any_host)
        threading.Thread(target=_end_with_parent, args=[server], daemon=True).start()
        says.send(True)
        server.run(sockets=[listening])


def _end_with_parent(server: Server) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    server.should_exit = True


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
