"""Workers of a Dask cluster that do tasks: which ones may, what they are sent, and what happens
when one ends.

A task is sent as names and fingerprints. A worker reads for itself what they refer to: tables and
the files of the project from snapshots, which it finds by its own environment, and code from its
own installation (cluster_worker.py).
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from secrets import token_hex
from typing import Any, Literal

from distributed import Client, Future
from distributed.client import ClosedClientError
from distributed.comm.core import connect
from distributed.scheduler import KilledWorker
from distributed.security import Security
from distributed.utils import LoopRunner

import pipeline.errors
from pipeline.engine.cluster_worker import (
    GRAPHMILL,
    Facts,
    Failed,
    Shipped,
    answer_about,
    do_task,
    resource_of,
)
from pipeline.engine.tasks import Files, Task
from pipeline.errors import DataError, GraphmillError, SettingsError, WorkerError, counted, in_words
from pipeline.files import sha256_of, temporary_file
from pipeline.snapshots.folder import UNFINISHED
from pipeline.snapshots.store import SnapshotStore

POLL_SECONDS = 1.0
"""The seconds without a result after which a run checks whether there are still workers."""
CONNECT_SECONDS, CLOSE_SECONDS = 10, 2
ANSWER_SECONDS = 10.0
"""The seconds that workers have to answer whether they see the snapshots."""
BUSY = "it does a task: what it sees was not asked"


def security(files: Mapping[str, str], role: Literal["client", "worker"]) -> Security | None:
    """Return the TLS settings of a client or worker, or None to leave them to Dask's own
    configuration.

    ``files``: the paths ca_file, cert_file and key_file; "" where not set.
    """
    if not any(files.values()):
        return None
    named = {
        "tls_ca_file": files["ca_file"],
        f"tls_{role}_cert": files["cert_file"],
        f"tls_{role}_key": files["key_file"],
    }
    # A file that is not set is left to Dask's own configuration.
    given = {name: path for name, path in named.items() if path}
    return Security(require_encryption=True, **given)


@dataclass(frozen=True)
class There:
    """The workers of a cluster. ``fit``: addresses of those that may do tasks. ``refused``:
    addresses of the others -> why."""

    fit: Sequence[str]
    refused: Mapping[str, str]


@dataclass
class Cluster:
    """A connection to a Dask cluster, as a context.

    ``number``: the workers that are waited for before the first task; None where the cluster grows
    with the tasks that wait. ``wait_seconds``: the longest wait for a worker. ``ship``: returns the
    files of the project as one. ``tell``: receives messages while the run goes on.
    """

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
    reported: set[str] = field(default_factory=set, init=False)
    """Addresses of the workers whose refusal was reported."""
    since: float = field(default=0.0, init=False)
    """The time at which a worker that may do tasks was last seen, or first waited for."""

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection. Tasks under way end on their workers; nobody waits for them."""
        if self.client:
            self.client.close(timeout=CLOSE_SECONDS)
            self.client = None

    def do(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        if not tasks:
            return
        suspects: list[Task] = []
        with self.calls() as calls:
            shipped = self._shipped()
            yield from self._done(calls, shipped, tasks, suspects.append)
            # Dask suspects every task that waited at a worker as it ended. Each is tried alone, so
            # that only one that ends its worker again is blamed.
            for task in suspects:
                yield from self._done(calls, shipped, [task], _blame_task)

    @contextmanager
    def calls(self) -> Iterator["Calls"]:
        """Wait for workers, and provide calls to them. Those that are left are cancelled."""
        client = self._connected()
        self._await_workers(client)
        with Calls(self, client) as calls:
            yield calls

    def there(self) -> There:
        """Return the workers as they are now. Raises WorkerError where no scheduler answers."""
        return self._there(self._connected())

    def find_blind_workers(self, workers: Sequence[str]) -> dict[str, str]:
        """Return the workers that do not see the run's snapshots or cannot write to them -> what is
        wrong.

        Those that do not answer within ANSWER_SECONDS are included. This may be called while a run
        is under way.
        """
        client = self._connected()
        asked = f"look-{token_hex(8)}"
        # Each worker copies the file ``asked`` to a name of its own.
        names = {worker: f"{asked}-{number}" for number, worker in enumerate(workers)}
        with temporary_file(self.snapshots.root / UNFINISHED) as file:
            file.write_text(asked, encoding="utf-8")
            self.snapshots.tasks.share({asked: file})
        try:
            answers = {}
            for worker, name in names.items():
                answers[worker] = client.submit(
                    answer_about, asked, name, key=name, workers=[worker], pure=False
                )
            deadline = time.monotonic() + ANSWER_SECONDS
            faults = {}
            for worker, answer in answers.items():
                faults[worker] = _fault(answer, deadline - time.monotonic())
            for worker, fault in list(faults.items()):
                if fault:
                    continue
                try:
                    self.snapshots.tasks.find_shared(names[worker]).read_bytes()
                except (OSError, DataError):
                    faults[worker] = "what it has written to its snapshots is not in the run's"
            return {worker: fault for worker, fault in faults.items() if fault}
        finally:
            self.snapshots.tasks.withdraw_own([asked, *names.values()])

    def _done(
        self,
        calls: "Calls",
        shipped: Shipped,
        tasks: Sequence[Task],
        suspect: Callable[[Task], None],
    ) -> Iterator[tuple[Task, Files]]:
        by_key = {f"{task.step}-{token_hex(16)}": task for task in tasks}
        calls.submit(do_task, by_key, shipped=shipped)
        while calls.going:
            key, found = calls.next()
            task = by_key[key]
            if isinstance(found, Failed):
                raise self._error_of(task, found)
            if found is None:
                suspect(task)
            else:
                yield task, found

    def _error_of(self, task: Task, failed: Failed) -> GraphmillError:
        """Return the error of a failed task, with the message that its worker has shared."""
        where = f"step '{task.step}', bucket {task.bucket}: worker {failed.worker}"
        if not failed.name:
            return WorkerError(
                f"{where} sees other snapshots than the run: what it has just put there is not"
                " there; start it with the run's (GRAPHMILL_SNAPSHOTS), and run again"
            )
        try:
            file = self.snapshots.tasks.find_shared(failed.name)
            said: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, DataError):
            return WorkerError(
                f"{where} met {failed.kind}, and could not write more to the snapshots; see that it"
                " can, and run again: what is finished is kept"
            )
        self.snapshots.tasks.withdraw([failed.name])
        if said["kind"] == SettingsError.__name__:
            # The worker's environment is wrong, not the run's.
            return SettingsError(f"{where}: {said['message']}")
        known = getattr(pipeline.errors, said["kind"], None)
        is_class = isinstance(known, type) and issubclass(known, GraphmillError)
        # A class with a constructor of its own takes more than a message.
        if known and is_class and "__init__" not in vars(known):
            return known(said["message"])
        return GraphmillError(said["message"])

    def gone(self) -> WorkerError:
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
            except MemoryError:
                # Bytes of another protocol were read as the length of a message.
                raise WorkerError(
                    f"engine.address: what answers at {self.address} is no scheduler; name the port"
                    " that the scheduler tells as 'Scheduler at', not that of its dashboard"
                ) from None
            # The run reports the client's errors itself.
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
            self.tell(f"dask: {self.client.dashboard_link}")
        return self.client

    def _shipped(self) -> Shipped:
        """Share the files of the project. This is repeated for each step, since shared files are
        deleted at its end."""
        with temporary_file(self.snapshots.root / UNFINISHED) as file:
            file.write_bytes(self.ship())
            shipped = Shipped(self.run, sha256_of(file))
            self.snapshots.tasks.share({shipped.name: file})
        return shipped

    def _await_workers(self, client: Client) -> None:
        """Wait for the number of workers that the settings name, or continue with fewer."""
        began = self.since = time.monotonic()
        there = self.check_workers(client)
        while there < (self.number or 0):
            if time.monotonic() - began > self.wait_seconds:
                self.tell(
                    f"dask: {counted(there, 'worker')} of engine.workers: {self.number} came; goes"
                    " on with them"
                )
                break
            time.sleep(POLL_SECONDS / 10)
            there = self.check_workers(client)
        self.number = min(there, self.number) if self.number else None

    def check_workers(self, client: Client) -> int:
        """Return the number of workers that may do tasks, and report each refused one once.

        Raises WorkerError when there has been no worker for ``wait_seconds``.
        """
        there = self._there(client)
        for address in sorted(there.refused.keys() - self.reported):
            self.tell(f"dask: worker {address} is refused: {there.refused[address]}")
        self.reported |= there.refused.keys()
        if there.fit:
            self.since = time.monotonic()
        elif time.monotonic() - self.since > self.wait_seconds:
            refusals = [f"{address}: {why}" for address, why in there.refused.items()]
            known = "; ".join(refusals) or "none has joined"
            raise WorkerError(
                f"engine.address: no worker that may do tasks in {self.wait_seconds:g} s"
                f" ({known}); start some with 'graphmill worker"
                f" {self.address}', and run again: what is finished is kept"
            )
        return len(there.fit)

    def _there(self, client: Client) -> There:
        try:
            workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, RuntimeError, TimeoutError, CancelledError, KeyError):
            raise self.gone() from None
        wanted = resource_of(self.facts)
        fit = [address for address, worker in workers.items() if wanted in worker["resources"]]
        refused = {}
        for address in sorted(workers.keys() - set(fit)):
            refused[address] = self._why_not(workers[address].get(GRAPHMILL))
        return There(sorted(fit), refused)

    def _why_not(self, theirs: Facts | None) -> str:
        """Return why a worker with these facts may not do tasks."""
        if theirs is None:
            return (
                "it has no graphmill, or was started without it; start it with 'graphmill worker'"
            )
        differences: list[str] = []
        for name in sorted({*self.facts, *theirs}):
            there = theirs.get(name, "none")
            here = self.facts.get(name, "none")
            if there != here:
                differences.append(f"{name} {there}, here {here}")
        return f"it has {', '.join(differences)}; install there what is installed here"


@dataclass
class Calls:
    """Calls of one function under way on a cluster, as a context that cancels those that are left.

    ``going``: those that have not ended, by the keys that their caller chose.
    """

    cluster: Cluster
    client: Client
    going: dict[str, Future] = field(default_factory=dict, init=False)
    ended: SimpleQueue[Future] = field(default_factory=SimpleQueue, init=False)

    def __enter__(self) -> "Calls":
        return self

    def __exit__(self, *_: object) -> None:
        if self.going and self.client.status == "running":
            self.client.cancel(list(self.going.values()), force=True)

    def submit(self, function: Callable[..., Any], by_key: Mapping[str, Any], **more: Any) -> None:
        """Give workers of the run's kind a call for each key.

        A call receives the value of its key, and the same ``more`` as all others. Raises
        WorkerError if the scheduler is gone.
        """
        # Only workers that are what the run is have a unit of this resource.
        needs = {resource_of(self.cluster.facts): 1}
        try:
            futures: list[Future] = self.client.map(
                function,
                list(by_key.values()),
                key=list(by_key),
                resources=needs,
                pure=False,
                **more,
            )
        except ClosedClientError:
            # The scheduler ended since the workers were counted.
            raise self.cluster.gone() from None
        self.going |= {str(future.key): future for future in futures}
        for future in futures:
            future.add_done_callback(self.ended.put)

    def next(self) -> tuple[str, Any]:
        """Wait for a call that has ended; return its key and result, None if its worker was ended.

        Raises WorkerError if there are no workers, or if the scheduler is gone.
        """
        while True:
            try:
                future = self.ended.get(timeout=POLL_SECONDS)
            except Empty:
                self.cluster.check_workers(self.client)
                continue
            try:
                found = self._result_of(future)
            except TimeoutError:
                # Its worker ended before the result was fetched: another one repeats the call.
                future.add_done_callback(self.ended.put)
                continue
            except KilledWorker:
                found = None
            key = str(future.key)
            # Dask frees the result of a call when nothing refers to its future any more.
            del self.going[key]
            return key, found

    def _result_of(self, future: Future) -> Any:
        """Return the result of a call. Raises TimeoutError if it is not available yet, and
        KilledWorker."""
        try:
            return future.result(timeout=POLL_SECONDS)
        except (TimeoutError, KilledWorker):
            raise
        except (CancelledError, OSError):
            raise self.cluster.gone() from None
        except Exception as error:
            # Dask raises many classes, and its versions differ.
            raise WorkerError(f"dask: {in_words(error)}; see the worker's log") from error


def _greet(address: str, keys: Security | None) -> None:
    """Connect once to the scheduler and close the connection.

    Raises TimeoutError where the connection is accepted but nothing is answered, as by a suspended
    scheduler: Client would wait for that without end.
    """
    sent = (keys or Security()).get_connection_args("client")

    async def greet() -> None:
        connection = await connect(address, timeout=CONNECT_SECONDS, **sent)
        await connection.close()

    LoopRunner().run_sync(greet, callback_timeout=CONNECT_SECONDS)


def _blame_task(task: Task) -> None:
    raise WorkerError(
        f"step '{task.step}', bucket {task.bucket}, {counted(task.number, 'row')}: each worker that"
        " did it was ended, though it did nothing else, perhaps for want of memory; give it more,"
        " and run again: what is finished is kept"
    )


def _fault(answer: Future, seconds: float) -> str:
    """Return what a worker answered, or that it is busy or has ended."""
    try:
        return str(answer.result(timeout=max(seconds, 0.1)))
    except TimeoutError:
        answer.cancel(force=True)
        return BUSY
    except (KilledWorker, CancelledError, OSError):
        return "it has ended"
