"""Measure how much of the server each key has used lately."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from pipeline.serve.access import Access

HALF_LIFE = 10.0
"""The seconds after which used time counts half. It is longer than the usual wait for a turn, so
that a key cannot wait until its use is forgotten, and short, so that a busy hour has no effect on
the next one."""
NEGLIGIBLE = 0.001
"""Used seconds that are dropped. Otherwise the names of all users of a front end would add up."""
SWEPT_AFTER = 1000
"""The number of keys at which those with negligible use are looked for."""
RECENT = 0.3
"""The weight of a key's last query in the time that its next one is expected to take."""
LOOP_FACTOR = 2.0
"""The loop's time of a request, over the part of it that is measured. The connection and the
headers of a request take about as long as everything behind them."""


@dataclass
class Used:
    """The time of one key: the sum at a moment, and the time that its next query may take."""

    seconds: float = 0.0
    at: float = 0.0
    expected: float = 0.0


@dataclass
class Usage:
    """The time that each key has used lately: a sum in which older time counts less."""

    clock: Callable[[], float] = time.monotonic
    of_keys: dict[str, Used] = field(default_factory=dict)

    def seconds(self, key: str) -> float:
        """Return the used seconds of a key as they count now."""
        used = self.of_keys.get(key)
        return 0.0 if used is None else self._decayed(used)

    def expected(self, key: str) -> float:
        """Return the seconds that the next query of a key may take, judged by its last ones."""
        used = self.of_keys.get(key)
        return 0.0 if used is None else used.expected

    def add(self, key: str, seconds: float) -> None:
        """Add time that a key has used now."""
        used = self.of_keys.get(key)
        if used is None:
            self._sweep()
            used = self.of_keys[key] = Used()
        used.seconds, used.at = self._decayed(used) + seconds, self.clock()

    def add_query(self, key: str, seconds: float) -> None:
        """Add the time of a whole query, and expect of the next one about as much."""
        self.add(key, seconds)
        used = self.of_keys[key]
        used.expected += RECENT * (seconds - used.expected)

    def _decayed(self, used: Used) -> float:
        return used.seconds * 0.5 ** ((self.clock() - used.at) / HALF_LIFE)

    def _sweep(self) -> None:
        if len(self.of_keys) < SWEPT_AFTER:
            return
        self.of_keys = {
            key: used for key, used in self.of_keys.items() if self._decayed(used) > NEGLIGIBLE
        }


class Measured(Awaitable[None]):
    """An awaitable around a coroutine that measures the time of its steps in the event loop.

    Time in which the coroutine waits is not counted. ``seconds`` is the time so far. The clock is
    one of wall time, as that of the places: both then grow alike on a busy machine.
    """

    def __init__(
        self, work: Coroutine[Any, Any, None], clock: Callable[[], float] = time.perf_counter
    ):
        self.work, self.clock, self.seconds = work, clock, 0.0

    def __await__(self) -> Generator[Any, Any, None]:
        step = partial(self.work.send, None)
        while True:
            begun = self.clock()
            try:
                waited_for = step()
            except StopIteration:
                return
            finally:
                self.seconds += self.clock() - begun
            try:
                given = yield waited_for
                step = partial(self.work.send, given)
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it
                step = partial(self.work.throw, error)


@dataclass(frozen=True)
class Counted:
    """An ASGI application around another that counts the event loop's time of each request.

    ``count`` gets the name by which the caller's requests are counted, and the seconds.
    """

    app: ASGIApp
    count: Callable[[str, float], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        access: Access | None = scope.get("access")
        if access is None:
            return await self.app(scope, receive, send)
        # An ASGI application is a coroutine function, though its type says less.
        work = cast(Coroutine[Any, Any, None], self.app(scope, receive, send))
        measured = Measured(work)
        try:
            await measured
        finally:
            self.count(access.turns_key, LOOP_FACTOR * measured.seconds)
