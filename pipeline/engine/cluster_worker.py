"""A worker of a Dask cluster: what it declares when it joins, and how it does a task.

A worker publishes what it is and declares that as a resource. Dask gives a run's tasks only to
workers that are what the run is.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from distributed import Worker

from pipeline.contract.fingerprint import fingerprint
from pipeline.engine.tasks import Files, Task, Workplace
from pipeline.errors import DataError, GraphmillError, in_words
from pipeline.files import sha256_of, temporary_file
from pipeline.snapshots.folder import UNFINISHED
from pipeline.snapshots.store import SnapshotStore

GRAPHMILL = "graphmill"
"""The key under which a worker publishes what it is."""
Facts = Mapping[str, str]
"""Properties of a process that can change its results: names, and versions or hashes."""


def resource_of(facts: Facts) -> str:
    """Return the resource that a worker with these facts declares, one unit for one task at
    a time."""
    return f"{GRAPHMILL}-{fingerprint(dict(facts))[:16]}"


@dataclass(frozen=True)
class Shipped:
    """The files of a project that are shared with workers, by the hash of their bytes; ``run``: the
    run they are for."""

    run: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.sha256}.zip"


@dataclass(frozen=True)
class Failed:
    """A task that raised an exception of this ``kind``.

    The message is shared as a file of this ``name``, as it may quote a document. Without a name,
    the worker did not find the files of the project.
    """

    worker: str
    name: str = ""
    kind: str = ""


@dataclass
class WorkerSlot:
    """The single slot of a worker's process.

    ``opens``: returns what is needed to do tasks from a project's files. ``at``: the files it was
    last called for, and its result. Tables that were read whole are freed with the run.
    """

    address: str
    snapshots: SnapshotStore
    opens: Callable[[Path], Workplace]
    at: tuple[Shipped, Workplace] | None = None

    def workplace(self, shipped: Shipped) -> Workplace | None:
        """Return what is needed to do tasks of this run, or None if the project's files are not
        found."""
        if self.at is None or self.at[0] != shipped:
            self.at = None
            self.snapshots.folder.refresh()
            with suppress(OSError, DataError):
                path = self.snapshots.tasks.find_shared(shipped.name)
                if sha256_of(path) == shipped.sha256:
                    self.at = (shipped, self.opens(path))
        return self.at[1] if self.at else None

    def failed(self, task: Task, error: Exception) -> Failed:
        """Share the message of an error as a file, and return the task's failure."""
        name = f"{task.name}.error"
        message = str(error) if isinstance(error, GraphmillError) else in_words(error)
        with (
            suppress(OSError, GraphmillError),
            temporary_file(self.snapshots.root / UNFINISHED) as file,
        ):
            content = json.dumps({"kind": type(error).__name__, "message": message})
            file.write_text(content, encoding="utf-8")
            self.snapshots.tasks.share({name: file})
        return Failed(self.address, name, type(error).__name__)


slots: list[WorkerSlot] = []
"""The one slot of a worker's process."""


def set_up_worker(
    worker: Worker, facts: Facts, snapshots: SnapshotStore, opens: Callable[[Path], Workplace]
) -> None:
    """Set up a worker, before it joins, to do tasks."""
    resource = resource_of(facts)
    worker.state.total_resources[resource] = worker.state.available_resources[resource] = 1
    worker.startup_information[GRAPHMILL] = lambda _: dict(facts)
    slots[:] = [WorkerSlot(worker.address, snapshots, opens)]


def do_task(task: Task, shipped: Shipped) -> Files | Failed:
    """Do a task in a worker's process.

    If another worker finished the task just before it was stopped, its note is returned instead.
    """
    slot = slots[0]
    try:
        place = slot.workplace(shipped)
        if place is None:
            return Failed(slot.address)
        noted = slot.snapshots.tasks.read_notes([task.name])
        return noted.get(task.name) or place.do(task)
    except Exception as error:  # noqa: BLE001 - the client raises it
        return slot.failed(task, error)


def answer_about(asked: str, name: str) -> str:
    """Copy a shared file to a name of this worker's own, so that both sides see what the other
    writes.

    Returns what is wrong, "" if nothing is; of an exception only its class, since a message may
    hold a secret.
    """
    snapshots = slots[0].snapshots
    try:
        content = snapshots.tasks.find_shared(asked).read_bytes()
    except FileNotFoundError:
        return "it sees other snapshots than the run"
    except (OSError, GraphmillError) as error:
        return f"it cannot read the snapshots ({type(error).__name__})"
    try:
        with temporary_file(snapshots.root / UNFINISHED) as file:
            file.write_bytes(content)
            snapshots.tasks.share({name: file})
    except (OSError, GraphmillError) as error:
        return f"it cannot write to the snapshots ({type(error).__name__})"
    return ""
