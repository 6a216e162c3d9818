"""How many calls of a model may be under way, and when the next may start: shared by threads and machines.

One clock per model for requests and one for tokens, shared by all threads and, through the cache's database, by all
processes: the generic cell rate algorithm (ITU-T I.371, appendix I), with a burst of one call.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from pipeline.models.cache.database import BUCKETS, INSERTS, Database
from pipeline.models.conversations import StoppedError

SHARE_OF_THE_LIMIT = 0.93
"""Clocks differ and networks bunch calls together: at the very limit some would be refused."""
SECONDS_AHEAD = 30.0
"""Of urgent calls: enough for one to pass the large calls of several processes; a burst of them exceeds what a minute
lets through by at most half of it, and what comes later makes up for it."""
SECONDS_BETWEEN_CUTS = 1.0
"""One overload refuses all calls under way: it cuts once, not once for each of them."""


@dataclass(frozen=True)
class Rate:
    """Calls and tokens a minute; None is unlimited."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def limited(self) -> bool:
        return bool(self.requests_per_minute or self.tokens_per_minute)

    def seconds(self, requests: int, tokens: int) -> tuple[float, float]:
        """How long the two clocks are taken up by so much."""
        return _seconds(requests, self.requests_per_minute), _seconds(tokens, self.tokens_per_minute)


def _seconds(amount: int, per_minute: float | None) -> float:
    return 60 * amount / (per_minute * SHARE_OF_THE_LIMIT) if per_minute else 0.0


@dataclass(frozen=True)
class Bucket:
    """``name`` says whose it is: an endpoint and a model, as a digest."""

    name: str
    rate: Rate
    database: Database

    def take(self, tokens: int, urgent: bool = False) -> float:
        """Take the next turn for one call of so many tokens; seconds until it comes.

        An urgent call may go SECONDS_AHEAD of its turn, and all turns after it are as much later as if it had waited:
        the tolerance of the algorithm, given to some callers alone.
        """
        seconds = self._move(*self.rate.seconds(1, tokens))
        return max(0.0, seconds - SECONDS_AHEAD) if urgent else seconds

    def correct(self, tokens: int) -> None:
        """So many tokens more (or less) than what was taken."""
        if tokens and self.rate.tokens_per_minute:
            self._move(*self.rate.seconds(0, tokens))

    def hold(self, seconds: float) -> None:
        """Nobody's turn comes before so many seconds."""
        if self.database.there:
            _hold(self.database, self.name, seconds)
        else:
            _LOCAL.hold(self.name, seconds)

    def _move(self, requests: float, tokens: float) -> float:
        if self.database.there:
            return _move(self.database, self.name, requests, tokens)
        return _LOCAL.move(self.name, requests, tokens)


def _move(database: Database, name: str, requests: float, tokens: float) -> float:
    now, latest = _now(database), _latest(database)
    update = (
        sa.update(BUCKETS)
        .where(BUCKETS.c.name == name)
        .values(
            requests_at=latest(BUCKETS.c.requests_at, now) + requests,
            tokens_at=latest(BUCKETS.c.tokens_at, now) + tokens,
        )
        .returning(BUCKETS.c.requests_at - requests - now, BUCKETS.c.tokens_at - tokens - now)
    )
    with database.connection(write=True) as connection:
        turn = connection.execute(update).first()
        if turn is None:
            zero = INSERTS[connection.dialect.name](BUCKETS).values(name=name, requests_at=0, tokens_at=0)
            connection.execute(zero.on_conflict_do_nothing())
            turn = connection.execute(update).one()
    return max(0.0, *turn)


def _hold(database: Database, name: str, seconds: float) -> None:
    now, latest = _now(database), _latest(database)
    later = latest(BUCKETS.c.requests_at, now + seconds)
    with database.connection(write=True) as connection:
        connection.execute(sa.update(BUCKETS).where(BUCKETS.c.name == name).values(requests_at=later))


def _now(database: Database) -> sa.ColumnElement[float]:
    """By one clock for all: the server's, or this machine's for a file."""
    if database.is_sqlite:
        return sa.literal(time.time(), sa.Double)
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)


def _latest(database: Database) -> Callable[..., sa.ColumnElement[float]]:
    return sa.func.max if database.is_sqlite else sa.func.greatest


@dataclass
class _Clocks:
    """The same without a database, for this process."""

    at: dict[str, tuple[float, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def move(self, name: str, requests: float, tokens: float) -> float:
        with self.lock:
            now = time.time()
            turns = [max(at, now) for at in self.at.get(name, (0.0, 0.0))]
            self.at[name] = (turns[0] + requests, turns[1] + tokens)
            return max(turns) - now

    def hold(self, name: str, seconds: float) -> None:
        with self.lock:
            requests_at, tokens_at = self.at.get(name, (0.0, 0.0))
            self.at[name] = (max(requests_at, time.time() + seconds), tokens_at)


_LOCAL = _Clocks()


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


def sleep(seconds: float, stop: threading.Event) -> None:
    if seconds > 0:
        stop.wait(seconds)
    _unless_stopped(stop)


def _unless_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError
