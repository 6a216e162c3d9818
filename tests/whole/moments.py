"""Runs in a process of its own that is killed at a moment of a number: before it gives a file its
name, waits for one to be on the disk, commits to the cache, or sends a statement to a store. A
number means the same moment each time."""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import neo4j
import psycopg
from sqlalchemy import Engine, event

import pipeline.load.loader
import pipeline.runs.stages
import pipeline.stores.neo4j.store
import pipeline.stores.postgres.store
import pipeline.verbs  # noqa: F401  (all this here, once for all runs)
from pipeline.engine import tasks
from pipeline.engine.run_report import Progress
from pipeline.project import Project
from pipeline.snapshots import tables
from tests.projects import ProjectFolder

INDEX, LOAD = "index", "load"
RENAME, SYNC, COMMIT, STATEMENT = "rename", "sync", "commit", "statement"
PROCESSES = multiprocessing.get_context("forkserver")
"""A fork of a process that has imported all this: a start takes two seconds of work."""
PROCESSES.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Moment:
    """``stage``: of the run; ``act``: what would be next; ``what``: to which file."""

    stage: str
    act: str
    what: str = ""

    @property
    def is_of_a_table(self) -> bool:
        return self.act in (RENAME, SYNC) and self.what.endswith(".parquet")


@dataclass
class Moments(Progress):
    """Those that have been; at the one of this number the process ends."""

    end: int | None
    been: list[Moment] = field(default_factory=list)
    stage: str = INDEX
    lock: threading.Lock = field(default_factory=threading.Lock)

    def load_started(self) -> None:
        self.stage = LOAD

    def comes(self, act: str, what: str = "") -> None:
        with self.lock:
            if len(self.been) == self.end:
                os.kill(os.getpid(), signal.SIGKILL)
            self.been.append(Moment(self.stage, act, what))

    @contextmanager
    def counted(self) -> Iterator[None]:
        def before(
            place: Any, name: str, act: str, what: Callable[..., str] = lambda *given: ""
        ) -> Any:
            done = getattr(place, name)

            @wraps(done)
            def noted(*given: Any, **named: Any) -> Any:
                self.comes(act, what(*given))
                return done(*given, **named)

            return patch.object(place, name, noted)

        def commits(_: object) -> None:
            self.comes(COMMIT)

        event.listen(Engine, "commit", commits)
        with (
            before(os, "replace", RENAME, lambda _, target: str(target)),
            before(os, "fsync", SYNC, lambda number: os.readlink(f"/proc/self/fd/{number}")),
            before(psycopg.Cursor, "execute", STATEMENT),
            before(psycopg.Cursor, "copy", STATEMENT),
            before(neo4j.Transaction, "run", STATEMENT),
            before(neo4j.Session, "run", STATEMENT),
        ):
            yield
        event.remove(Engine, "commit", commits)


MERGING = {"WHOLE_BELOW": 1, "BUCKET_ROWS": 8, "MOST_ADDITIONS": 0, "OUTGROWN": 0.3}
"""Of tables: the additions of each become one every night, and many a bucket is written anew."""


def run_apart(folder: ProjectFolder, workflow: str, end: int | None = None) -> list[Moment]:
    """Those of a run; none where it was killed at the one of the number ``end``, as it then must
    be."""
    noted = folder.root / "moments.json"
    process = PROCESSES.Process(target=_run, args=(folder.root, workflow, end, noted))
    process.start()
    process.join()
    assert process.exitcode == (0 if end is None else -signal.SIGKILL)
    return [Moment(**moment) for moment in json.loads(noted.read_text())] if end is None else []


def _run(root: Path, workflow: str, end: int | None, noted: Path) -> None:
    moments = Moments(end)
    with merging(), Project.open(root) as project, moments.counted():
        project.run(workflow, moments)
    noted.write_text(json.dumps([vars(moment) for moment in moments.been]))


@contextmanager
def merging() -> Iterator[None]:
    with patch.object(tasks, "TASK_ROWS", 16), patch.multiple(tables, **MERGING):
        yield
