"""How many calls of a model may be under way, and when the next one may start."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipeline.models.buckets import Bucket
from pipeline.models.parallel import StoppedError

LONGEST_WAIT = 60.0
SECONDS_BETWEEN_CUTS = 1.0
"""One overload refuses all calls under way: it cuts once, not once for each of them."""


@dataclass
class Limiter:
    """Additive increase, multiplicative decrease (Chiu and Jain 1989) of the calls under way, up to ``most``;
    ``bucket`` spaces their starts, less so where they are ``urgent``. Waiting is not a failed attempt."""

    most: int
    bucket: Bucket
    urgent: bool = False
    allowed: float = 0.0
    under_way: int = 0
    held_until: float = 0.0
    cut_at: float = 0.0
    changed: threading.Condition = field(default_factory=threading.Condition)
    next_in_line: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.allowed = float(self.most)

    @contextmanager
    def turn(self, tokens: int, stop: threading.Event) -> Iterator[None]:
        """Wait for a place and for the bucket's turn. Raises StoppedError when ``stop`` is set meanwhile."""
        with self.changed:
            while self.under_way >= max(1, int(self.allowed)):
                self.changed.wait(0.5)
                _unless_stopped(stop)
            self.under_way += 1
        try:
            if self.bucket.rate.limited:
                with self.next_in_line:  # the others take their turns when it is known what replies have cost
                    _unless_stopped(stop)
                    sleep(self.bucket.take(tokens, self.urgent), stop)
            while (seconds := self.held_until - time.monotonic()) > 0:
                sleep(seconds, stop)
            yield
        finally:
            with self.changed:
                self.under_way -= 1
                self.changed.notify()

    def succeeded(self) -> None:
        with self.changed:
            self.allowed = min(self.most, self.allowed + 1 / max(1.0, self.allowed))
            self.changed.notify()

    def overloaded(self, hold: float) -> None:
        """The endpoint is too busy: fewer calls from now on, and none for ``hold`` seconds."""
        with self.changed:
            now = time.monotonic()
            if now - self.cut_at >= SECONDS_BETWEEN_CUTS:
                self.cut_at = now
                self.allowed = max(1.0, self.allowed / 2)
            longer = now + hold > self.held_until
            self.held_until = max(self.held_until, now + hold)
        if longer and hold and self.bucket.rate.limited:
            self.bucket.hold(hold)


def backoff(attempt: int) -> float:
    """Seconds before the next attempt: up to 0.5, 1, 2, ... 60, of which at least half, the rest by chance."""
    return min(LONGEST_WAIT, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311  (no secret)


def sleep(seconds: float, stop: threading.Event) -> None:
    if seconds > 0:
        stop.wait(seconds)
    _unless_stopped(stop)


def _unless_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError
