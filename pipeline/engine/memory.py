"""The memory of a run: what a step takes at most, and how what is free goes back to the system."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

SECONDS_BETWEEN_LOOKS = 0.05
MEGABYTE = 1_000_000


@dataclass
class PeakMemory:
    """A context; afterwards ``megabytes`` is the greatest resident size of this process and of
    those it has begun that was seen in it."""

    megabytes: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "PeakMemory":
        from psutil import Process

        self._process = Process()
        self._look()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_LOOKS):
            self._look()

    def _look(self) -> None:
        from psutil import Error

        resident = 0
        for process in (self._process, *self._process.children(recursive=True)):
            with suppress(Error):  # it has ended meanwhile
                resident += process.memory_info().rss
        self.megabytes = max(self.megabytes, round(resident / MEGABYTE, 1))


def release_memory() -> None:
    """Give back to the system what is free. glibc keeps what lies below anything that is still in
    use, so that the peaks of pieces of work which never meet would add up; releasing the system's
    pool trims its heap, with what is Python's."""
    pa.default_memory_pool().release_unused()
