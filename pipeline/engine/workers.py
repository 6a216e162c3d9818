"""Worker processes on this machine that do tasks in parallel."""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process
from typing import Any

from pipeline.engine.tasks import Files, Task, Workplace
from pipeline.errors import GraphmillError, WorkerError, in_words

SPAWN = get_context("spawn")
PER_PROCESS = 2
"""The tasks that each process holds at once, the one under way included. The others stay here, so
that a run that stops drops them."""


@dataclass
class Processes:
    """Worker processes, as a context. ``number``: how many start with the first task. ``opens``:
    returns what each needs; it can be pickled."""

    number: int
    opens: Callable[[], Workplace]
    pool: ProcessPoolExecutor | None = field(default=None, init=False)
    begun: Any = field(default_factory=SPAWN.Event, init=False)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the processes; tasks under way are given up."""
        if self.pool:
            processes: dict[int, Any] = dict(getattr(self.pool, "_processes", None) or {})
            for process in processes.values():
                process.terminate()
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = None

    def do(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        """Yield each task with its files as soon as it is done.

        Raises what a task raises, and WorkerError where a process was ended from outside.
        """
        if not tasks:
            return
        if self.pool is None:
            self.pool = ProcessPoolExecutor(self.number, SPAWN, _begin, (self.opens, self.begun))
        under_way: dict[Future[Files], Task] = {}
        try:
            for task in tasks:
                under_way[self.pool.submit(_do, task)] = task
                if len(under_way) >= PER_PROCESS * self.number:
                    yield from self._done(under_way)
            while under_way:
                yield from self._done(under_way)
        except BrokenProcessPool as error:
            if not self.begun.is_set():
                raise WorkerError(
                    "engine.workers: no process could start, since each imports your script; put"
                    " its code under `if __name__ == '__main__':`"
                ) from error
            raise WorkerError(
                "engine.workers: a process was ended from outside, perhaps for want of memory; run"
                " again, with fewer workers if it was: what they have finished is kept"
            ) from error

    def _done(self, under_way: dict[Future[Files], Task]) -> Iterator[tuple[Task, Files]]:
        """Wait for the next tasks that end, and yield them with their files."""
        ended = wait(under_way, return_when=FIRST_COMPLETED).done
        for future in ended:
            task = under_way.pop(future)
            yield task, future.result()


_here: list[Workplace] = []
"""The workplace of a worker's process; empty before it is initialized."""


def _begin(opens: Callable[[], Workplace], begun: Any) -> None:
    """Initialize a worker's process.

    It ignores Ctrl-C, which its parent handles, and ends with its parent, however that ends.
    """
    begun.set()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent
    threading.Thread(target=_exit_when_ready, args=(parent.sentinel,), daemon=True).start()
    _here.append(opens())


def _exit_when_ready(sentinel: int) -> None:
    """End this process when the parent has ended, whose sentinel then becomes ready."""
    connection.wait([sentinel])
    os._exit(1)


def _do(task: Task) -> Files:
    """Do a task. Raises what the task raises, in a form that can be pickled."""
    try:
        return _here[0].do(task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - bytes of the same line
        except Exception:  # noqa: BLE001 - whatever its class raises
            raise GraphmillError(in_words(error)) from None
        raise
