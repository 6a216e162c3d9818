"""The most memory that a step took."""

import threading
from dataclasses import dataclass, field

import psutil

SECONDS_BETWEEN_LOOKS = 0.05
MEGABYTE = 1_000_000


@dataclass
class PeakMemory:
    """A context; afterwards ``megabytes`` is the greatest resident size of this process that was seen in it."""

    megabytes: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "PeakMemory":
        self._process = psutil.Process()
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
        self.megabytes = max(self.megabytes, round(self._process.memory_info().rss / MEGABYTE, 1))
