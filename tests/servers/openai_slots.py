"""The slots of a model server: how many requests it works on at once, while the others wait for
their turn."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LOOKS = 0.05
"""How often a waiting request looks whether its client has hung up."""


class Slots:
    """``limit`` may change at any time; None stands for no limit. Requests get their turn in the
    order of arrival."""

    def __init__(self) -> None:
        self._limit: int | None = None
        self._busy = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def limit(self) -> int | None:
        return self._limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    @contextmanager
    def turn(self, has_hung_up: Callable[[], bool]) -> Iterator[bool]:
        """Wait for a slot and hold it; yield False, without one, when the client has hung up
        meanwhile."""
        got = self._enter(has_hung_up)
        try:
            yield got
        finally:
            if got:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def _enter(self, has_hung_up: Callable[[], bool]) -> bool:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while not self._is_next(ticket):
                self._changed.wait(SECONDS_BETWEEN_LOOKS)
                if has_hung_up():
                    self._waiting.remove(ticket)
                    self._changed.notify_all()
                    return False
            self._waiting.remove(ticket)
            self._busy += 1
            self._changed.notify_all()
            return True

    def _is_next(self, ticket: object) -> bool:
        is_free = self._limit is None or self._busy < self._limit
        return is_free and self._waiting[0] is ticket
