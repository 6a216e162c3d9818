"""Processes of a Dask cluster that do tasks: who of them may, what they are sent, and what becomes
of those that end.

A task is sent as it is: names and fingerprints. What it means a worker reads for itself: tables,
and the files of the project, from snapshots that it finds by its own environment, code from its own
installation. It says what it is when it joins, and declares that as a resource; Dask gives a run's
tasks to those alone that are what the run is.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import Any, Literal

from distributed import Client, Future, Worker
from distributed.comm.core import connect
from distributed.scheduler import KilledWorker
from distributed.security import Security
from distributed.utils import LoopRunner

import pipeline.errors
from pipeline.contract.fingerprint import fingerprint
from pipeline.engine.tasks import Files, Task, Workplace
from pipeline.errors import DataError, GraphmillError, SettingsError, WorkerError, counted, in_words
from pipeline.files import sha256_of, temporary_file
from pipeline.snapshots.folder import UNFINISHED
from pipeline.snapshots.store import SnapshotStore

POLL_SECONDS = 1.0
"""Without news, after which a run looks whether there are workers still."""
CONNECT_SECONDS, CLOSE_SECONDS = 10, 2
ANSWER_SECONDS = 10.0
"""That workers have to say what they see."""
BUSY = "it does a task: what it sees was not asked"
GRAPHMILL = "graphmill"
"""Under which a worker says what it is."""
Facts = Mapping[str, str]
"""What a process is, as far as that can change what it makes: names, and versions or hashes."""


def resource_of(facts: Facts) -> str:
    """What a worker of these facts declares to have, for one task at a time."""
    return f"{GRAPHMILL}-{fingerprint(dict(facts))[:16]}"


def security(files: Mapping[str, str], role: Literal["client", "worker"]) -> Security | None:
    """``files``: ca_file, cert_file and key_file; without any, Dask's own configuration may name
    some."""
    if not any(files.values()):
        return None
    named = {
        "tls_ca_file": files["ca_file"],
        f"tls_{role}_cert": files["cert_file"],
        f"tls_{role}_key": files["key_file"],
    }
    return Security(require_encryption=True, **{name: path for name, path in named.items() if path})


@dataclass(frozen=True)
class Shipped:
    """The files of a project that are shared with workers, by the hash of their bytes; ``run``: of
    which run."""

    run: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.sha256}.zip"


@dataclass(frozen=True)
class There:
    """The workers of a cluster. ``fit``: addresses of those that may do tasks; ``refused``: those
    of the others, and why."""

    fit: Sequence[str]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Failed:
    """A task that raised an exception of this ``kind``. What it said is shared by this name, as it
    may tell of a document. Without a name: its worker has not found the files of the project."""

    worker: str
    name: str = ""
    kind: str = ""


@dataclass
class Cluster:
    """A context. ``number``: of workers that are waited for before the first task; None where the
    cluster grows by what waits there. ``wait_seconds``: the most that is waited for a worker.
    ``ship``: makes the files of the project, as one; ``tell``: hears what is to be known while the
    run goes on."""

    address: str
    number: int | None
    wait_seconds: float
    tls: Mapping[str, str]
    facts: Facts
    ship: Callable[[], bytes]
    snapshots: SnapshotStore
    tell: Callable[[str], None]
    client: Client | None = field(default=None, init=False)
    run: str = field(default_factory=lambda: token_hex(8), init=False)
    told: set[str] = field(default_factory=set, init=False)
    """Of which workers it has been told that they are refused."""
    since: float = field(default=0.0, init=False)
    """When a worker that may do tasks was last there, or was first looked for."""

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        """Tasks that are under way end there; nobody waits for them."""
        if self.client:
            self.client.close(timeout=CLOSE_SECONDS)
            self.client = None

    def do(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        if not tasks:
            return
        client, shipped = self._connected(), self._shipped()
        self._await_workers(client)
        suspects: list[Task] = []
        yield from self._done(client, shipped, tasks, suspects.append)
        for task in suspects:  # Dask suspects all that waited at a worker as it ended
            yield from self._done(client, shipped, [task], _convict)

    def there(self) -> There:
        """As they are now. Raises WorkerError where no scheduler answers."""
        return self._there(self._connected())

    def blind(self, workers: Sequence[str]) -> dict[str, str]:
        """Those of these workers that do not see the snapshots, or cannot write there, and what is
        wrong; also those that do not say so within ANSWER_SECONDS. It may be asked while a run is
        under way."""
        client, asked = self._connected(), f"look-{token_hex(8)}"
        names = {worker: f"{asked}-{number}" for number, worker in enumerate(workers)}
        with temporary_file(self.snapshots.root / UNFINISHED) as file:
            file.write_text(asked, encoding="utf-8")
            self.snapshots.tasks.share({asked: file})
        try:
            answers = {
                worker: client.submit(_answer, asked, name, key=name, workers=[worker], pure=False)
                for worker, name in names.items()
            }
            deadline = time.monotonic() + ANSWER_SECONDS
            faults = {
                worker: _fault(answer, deadline - time.monotonic())
                for worker, answer in answers.items()
            }
            for worker in (worker for worker, fault in faults.items() if not fault):
                try:
                    self.snapshots.tasks.find_shared(names[worker]).read_bytes()
                except (OSError, DataError):
                    faults[worker] = "what it has written to its snapshots is not in the run's"
            return {worker: fault for worker, fault in faults.items() if fault}
        finally:
            self.snapshots.tasks.withdraw_own([asked, *names.values()])

    def _done(
        self,
        client: Client,
        shipped: Shipped,
        tasks: Sequence[Task],
        suspect: Callable[[Task], None],
    ) -> Iterator[tuple[Task, Files]]:
        keys = {f"{task.step}-{token_hex(16)}": task for task in tasks}
        needs = {resource_of(self.facts): 1}
        futures: list[Future] = client.map(
            _do, tasks, shipped=shipped, key=list(keys), resources=needs, pure=False
        )
        going, done = {str(future.key): future for future in futures}, SimpleQueue[Future]()
        try:
            for future in futures:
                future.add_done_callback(done.put)
            del futures  # what is done is let go of there, too
            while going:
                try:
                    future = done.get(timeout=POLL_SECONDS)
                except Empty:
                    self._look(client)
                    continue
                try:
                    found = self._found(future)
                except (
                    TimeoutError
                ):  # its worker ended before it was asked what came of it: another does it
                    future.add_done_callback(done.put)
                    continue
                except KilledWorker:
                    found = None
                del going[str(future.key)]
                task = keys[str(future.key)]
                if isinstance(found, Failed):
                    raise self._raised(task, found)
                if found is None:
                    suspect(task)
                else:
                    yield task, found
        finally:
            if going and client.status == "running":
                client.cancel(list(going.values()), force=True)

    def _found(self, future: Future) -> Files | Failed:
        """Raises TimeoutError where it is not to be had yet, KilledWorker."""
        try:
            return future.result(timeout=POLL_SECONDS)
        except (TimeoutError, KilledWorker):
            raise
        except (CancelledError, OSError):
            raise self._gone() from None
        except Exception as error:  # whatever Dask stumbles over, or another version of it
            raise WorkerError(f"dask: {in_words(error)}; see the worker's log") from error

    def _raised(self, task: Task, failed: Failed) -> GraphmillError:
        where = f"step '{task.step}', bucket {task.bucket}: worker {failed.worker}"
        if not failed.name:
            return WorkerError(
                f"{where} sees other snapshots than the run: what it has just put there is not"
                " there; start it with the run's (GRAPHMILL_SNAPSHOTS), and run again"
            )
        try:
            said: dict[str, str] = json.loads(
                self.snapshots.tasks.find_shared(failed.name).read_text(encoding="utf-8")
            )
        except (OSError, ValueError, DataError):
            return WorkerError(
                f"{where} met {failed.kind}, and could not write more to the snapshots; see that it"
                " can, and run again: what is finished is kept"
            )
        self.snapshots.tasks.withdraw([failed.name])
        if said["kind"] == SettingsError.__name__:  # of its environment
            return SettingsError(f"{where}: {said['message']}")
        known = getattr(pipeline.errors, said["kind"], None)
        if (
            isinstance(known, type)
            and issubclass(known, GraphmillError)
            and "__init__" not in vars(known)
        ):
            return known(said["message"])
        return GraphmillError(said["message"])

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"engine.address: the scheduler at {self.address} is gone; start it again, and run"
            " again: what is finished is kept"
        )

    def _connected(self) -> Client:
        if self.client is None:
            try:
                keys = security(self.tls, "client")
                _greet(self.address, keys)
                self.client = Client(
                    self.address, timeout=CONNECT_SECONDS, security=keys, set_as_default=False
                )
            except (OSError, TypeError, ValueError, RuntimeError) as error:
                raise WorkerError(
                    f"engine.address: no scheduler answers at {self.address} ({in_words(error)});"
                    " start one with 'dask scheduler', or correct engine.address and engine.tls"
                ) from error
            except MemoryError:  # what another protocol says is read as the length of a message
                raise WorkerError(
                    f"engine.address: what answers at {self.address} is no scheduler; name the port"
                    " that the scheduler tells as 'Scheduler at', not that of its dashboard"
                ) from None
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the run tells it
            self.tell(f"dask: {self.client.dashboard_link}")
        return self.client

    def _shipped(self) -> Shipped:
        """At each step: at its end the snapshots forget what was shared for it."""
        with temporary_file(self.snapshots.root / UNFINISHED) as file:
            file.write_bytes(self.ship())
            shipped = Shipped(self.run, sha256_of(file))
            self.snapshots.tasks.share({shipped.name: file})
        return shipped

    def _await_workers(self, client: Client) -> None:
        began = self.since = time.monotonic()
        while (there := self._look(client)) < (self.number or 0):
            if time.monotonic() - began > self.wait_seconds:
                self.tell(
                    f"dask: {counted(there, 'worker')} of engine.workers: {self.number} came; goes"
                    " on with them"
                )
                break
            time.sleep(POLL_SECONDS / 10)
        self.number = min(there, self.number) if self.number else None

    def _look(self, client: Client) -> int:
        """How many workers there are that may do tasks; those that may not are told, each once.
        Raises WorkerError when there has been none for long."""
        there = self._there(client)
        for address in sorted(there.refused.keys() - self.told):
            self.tell(f"dask: worker {address} is refused: {there.refused[address]}")
        self.told |= there.refused.keys()
        if there.fit:
            self.since = time.monotonic()
        elif time.monotonic() - self.since > self.wait_seconds:
            known = [f"{address}: {why}" for address, why in there.refused.items()]
            raise WorkerError(
                f"engine.address: no worker that may do tasks in {self.wait_seconds:g} s"
                f" ({'; '.join(known) or 'none has joined'}); start some with 'graphmill worker"
                f" {self.address}', and run again: what is finished is kept"
            )
        return len(there.fit)

    def _there(self, client: Client) -> There:
        try:
            workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, RuntimeError, TimeoutError, CancelledError, KeyError):
            raise self._gone() from None
        fit = [
            address
            for address, worker in workers.items()
            if resource_of(self.facts) in worker["resources"]
        ]
        others = sorted(workers.keys() - set(fit))
        return There(
            sorted(fit),
            {address: self._why_not(workers[address].get(GRAPHMILL)) for address in others},
        )

    def _why_not(self, theirs: Facts | None) -> str:
        if theirs is None:
            return (
                "it has no graphmill, or was started without it; start it with 'graphmill worker'"
            )
        names = sorted(
            {name for name in {*self.facts, *theirs} if self.facts.get(name) != theirs.get(name)}
        )
        differ = [
            f"{name} {theirs.get(name, 'none')}, here {self.facts.get(name, 'none')}"
            for name in names
        ]
        return f"it has {', '.join(differ)}; install there what is installed here"


def _greet(address: str, keys: Security | None) -> None:
    """Raises TimeoutError where somebody takes the call and says nothing, as a scheduler that is
    suspended: Client would wait for that without end."""
    sent = (keys or Security()).get_connection_args("client")

    async def greet() -> None:
        await (await connect(address, timeout=CONNECT_SECONDS, **sent)).close()

    LoopRunner().run_sync(greet, callback_timeout=CONNECT_SECONDS)


def _convict(task: Task) -> None:
    raise WorkerError(
        f"step '{task.step}', bucket {task.bucket}, {counted(task.number, 'row')}: each worker that"
        " did it was ended, though it did nothing else, perhaps for want of memory; give it more,"
        " and run again: what is finished is kept"
    )


@dataclass
class Seat:
    """What a worker's process has. ``opens``: makes what it works with of a project's files;
    ``at``: for whom it has last done that. Tables that it has read whole are let go with the
    run."""

    address: str
    snapshots: SnapshotStore
    opens: Callable[[Path], Workplace]
    at: tuple[Shipped, Workplace] | None = None

    def workplace(self, shipped: Shipped) -> Workplace | None:
        """None where the files are not to be found."""
        if self.at is None or self.at[0] != shipped:
            self.at = None
            self.snapshots.folder.refresh()
            with suppress(OSError, DataError):
                path = self.snapshots.tasks.find_shared(shipped.name)
                self.at = (shipped, self.opens(path)) if sha256_of(path) == shipped.sha256 else None
        return self.at and self.at[1]

    def failed(self, task: Task, error: Exception) -> Failed:
        name = f"{task.name}.error"
        message = str(error) if isinstance(error, GraphmillError) else in_words(error)
        with (
            suppress(OSError, GraphmillError),
            temporary_file(self.snapshots.root / UNFINISHED) as file,
        ):
            file.write_text(
                json.dumps({"kind": type(error).__name__, "message": message}), encoding="utf-8"
            )
            self.snapshots.tasks.share({name: file})
        return Failed(self.address, name, type(error).__name__)


_seats: list[Seat] = []
"""Of a worker's process: one."""


def sit(
    worker: Worker, facts: Facts, snapshots: SnapshotStore, opens: Callable[[Path], Workplace]
) -> None:
    """Make a worker that has not joined yet one that does tasks."""
    resource = resource_of(facts)
    worker.state.total_resources[resource] = worker.state.available_resources[resource] = 1
    worker.startup_information[GRAPHMILL] = lambda _: dict(facts)
    _seats[:] = [Seat(worker.address, snapshots, opens)]


def _do(task: Task, shipped: Shipped) -> Files | Failed:
    """Of a task that a worker finished as it was ended, what it noted."""
    seat = _seats[0]
    try:
        place = seat.workplace(shipped)
        if place is None:
            return Failed(seat.address)
        noted = seat.snapshots.tasks.read_notes([task.name])
        return noted.get(task.name) or place.do(task)
    except Exception as error:  # noqa: BLE001 - the client raises it
        return seat.failed(task, error)


def _answer(asked: str, name: str) -> str:
    """What is shared by the name ``asked`` a worker shares by a name of its own, so that both see
    what the other writes. Returns what is wrong, of an exception no more than its name."""
    snapshots = _seats[0].snapshots
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


def _fault(answer: Future, seconds: float) -> str:
    """As a worker tells it."""
    try:
        return str(answer.result(timeout=max(seconds, 0.1)))
    except TimeoutError:
        answer.cancel(force=True)
        return BUSY
    except (KilledWorker, CancelledError, OSError):
        return "it has ended"
