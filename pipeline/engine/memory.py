"""The memory of a run: the peak of a step, and the return of free memory to the system."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

SECONDS_BETWEEN_SAMPLES = 0.05
MEGABYTE = 1_000_000


@dataclass
class PeakMemory:
    """A context that measures peak memory.

    Afterwards ``megabytes`` is the greatest resident size seen of this process and its children
    together.
    """

    megabytes: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "PeakMemory":
        from psutil import Process

        self._process = Process()
        self._measure()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()
        self._measure()

    def _watch(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_SAMPLES):
            self._measure()

    def _measure(self) -> None:
        from psutil import Error

        resident = 0
        for process in (self._process, *self._process.children(recursive=True)):
            # A process may have ended meanwhile.
            with suppress(Error):
                resident += process.memory_info().rss
        self.megabytes = max(self.megabytes, round(resident / MEGABYTE, 1))


def release_memory() -> None:
    """Return free memory to the system.

    glibc keeps free memory below any allocation that is still in use, so the peaks of steps that
    never overlap would add up. Releasing Arrow's system pool trims the heap, including Python's
    part.
    """
    pa.default_memory_pool().release_unused()
