"""Calls at the same time: the one place with threads for model calls."""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
SECONDS_OF_GRACE = 2.0


def in_parallel(function: Callable[[Item], object], items: Iterable[Item], threads: int) -> None:
    """``function(item)`` for every item (none is None), ``threads`` at a time; returns when all are done.

    The first exception, or Ctrl-C, stops it: no item is started any more, those under way get
    a moment to end.
    """
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            while (item := _next(waiting)) is not None and not stop.is_set():
                function(item)
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    # Daemons, and no ThreadPoolExecutor: the interpreter would wait for an executor's calls before it exits.
    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, waiting.qsize()))]
    for worker in workers:
        worker.start()
    try:
        for _ in workers:
            error = ended.get()
            if error is not None:
                raise error
    except BaseException:
        stop.set()
        deadline = time.monotonic() + SECONDS_OF_GRACE
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        raise


def _next(waiting: "queue.SimpleQueue[Item]") -> Item | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None
