"""How many calls of a model may be under way, and when the next may start: shared by threads and
machines.

One clock per model for requests and one for tokens, shared by all threads and, through the cache's
database, by all processes: the generic cell rate algorithm (ITU-T I.371, appendix I), with a burst
of one call.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from pipeline.errors import counted
from pipeline.models.cache.database import BUCKETS, INSERTS, Database
from pipeline.models.conversations import StoppedError

SHARE_OF_THE_LIMIT = 0.93
"""Clocks differ and networks bunch calls together: at the very limit some would be refused."""
SECONDS_AHEAD = 30.0
"""Of urgent calls: enough for one to pass the large calls of several processes; a burst of them
exceeds what a minute lets through by at most half of it, and what comes later makes up for it."""
SECONDS_BETWEEN_CUTS = 1.0
"""One overload refuses all calls under way: it cuts once, not once for each of them."""

GROWTH_AFTER_TIMEOUTS = 0.25
"""A timeout costs the server all the work that it has done on the call: after one, the calls under
way increase by one only when four times as many as they are have been answered."""
MANY_OVERTAKEN, SHARE_OVERTAKEN = 3, 0.25
"""So many calls, and for each answered call this share, that timed out while later ones were
answered: fewer than that are slow by themselves, as a reply without end is."""


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
        return _seconds(requests, self.requests_per_minute), _seconds(
            tokens, self.tokens_per_minute
        )


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

        An urgent call may go SECONDS_AHEAD of its turn, and all turns after it are as much later as
        if it had waited: the tolerance of the algorithm, given to some callers alone.
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
            zero = INSERTS[connection.dialect.name](BUCKETS).values(
                name=name, requests_at=0, tokens_at=0
            )
            connection.execute(zero.on_conflict_do_nothing())
            turn = connection.execute(update).one()
    return max(0.0, *turn)


def _hold(database: Database, name: str, seconds: float) -> None:
    now, latest = _now(database), _latest(database)
    later = latest(BUCKETS.c.requests_at, now + seconds)
    with database.connection(write=True) as connection:
        connection.execute(
            sa.update(BUCKETS).where(BUCKETS.c.name == name).values(requests_at=later)
        )


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


@dataclass(frozen=True)
class Place:
    """A call's place among those under way. ``level``: how many were under way when it was sent,
    itself included; ``since``: when that was (monotonic)."""

    level: int
    since: float


@dataclass
class Limiter:
    """Additive increase, multiplicative decrease (Chiu and Jain 1989) of the calls under way, up to
    ``most``; ``bucket`` spaces their starts, less so where they are ``urgent``. Waiting is not a
    failed attempt.

    ``ceiling``: the increase ends there, below the lowest level at which calls timed out while
    others were answered.
    """

    most: int
    bucket: Bucket
    urgent: bool = False
    allowed: float = 0.0
    under_way: int = 0
    held_until: float = 0.0
    cut_at: float = 0.0
    ceiling: int = 0
    timeouts: int = 0
    highest_timeout: int = 0
    answered_at: float = 0.0
    newest_answered: float = 0.0
    answers: int = 0
    overtaken: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)
    next_in_line: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the timeouts of an earlier run: the server may have been busy with something else
        then."""
        with self.changed:
            self.allowed = float(self.most)
            self.ceiling = self.most
            self.timeouts = self.highest_timeout = 0
            self.answers = self.overtaken = 0
            self.changed.notify_all()

    @contextmanager
    def turn(self, tokens: int, stop: threading.Event) -> Iterator[Place]:
        """Wait for a place and for the bucket's turn. Raises StoppedError when ``stop`` is set
        before."""
        _unless_stopped(stop)
        with self.changed:
            while self.under_way >= max(1, int(self.allowed)):
                self.changed.wait(0.5)
                _unless_stopped(stop)
            self.under_way += 1
        try:
            if self.bucket.rate.limited:
                with (
                    self.next_in_line
                ):  # the others take their turns when it is known what replies have cost
                    _unless_stopped(stop)
                    sleep(self.bucket.take(tokens, self.urgent), stop)
            while (seconds := self.held_until - time.monotonic()) > 0:
                sleep(seconds, stop)
            yield Place(self.under_way, time.monotonic())
        finally:
            with self.changed:
                self.under_way -= 1
                self.changed.notify()

    def succeeded(self, place: Place) -> None:
        """Note that the call at this place was answered: one more may be under way, sooner or
        later."""
        with self.changed:
            self.answered_at = time.monotonic()
            self.newest_answered = max(self.newest_answered, place.since)
            self.answers += 1
            growth = 1.0 if self.ceiling == self.most else GROWTH_AFTER_TIMEOUTS
            longer = self.allowed + growth / max(1.0, self.allowed)
            self.allowed = max(self.allowed, min(self.ceiling, longer))
            self.changed.notify()

    def overloaded(self, hold: float) -> None:
        """Note that the endpoint is too busy: fewer calls from now on, and none for ``hold``
        seconds."""
        with self.changed:
            now = time.monotonic()
            if now - self.cut_at >= SECONDS_BETWEEN_CUTS:
                self.cut_at = now
                self.allowed = max(1.0, self.allowed / 2)
            longer = now + hold > self.held_until
            self.held_until = max(self.held_until, now + hold)
        if longer and hold and self.bucket.rate.limited:
            self.bucket.hold(hold)

    def timed_out(self, place: Place) -> bool:
        """Return whether the call at this place timed out because it had to queue at the server.

        It had not if no other call is under way, or if a call that was sent later has been
        answered: a server that takes calls in their order was then at work on this one. Too many
        calls are under way in the first case, and also where a large part of them is overtaken, as
        by a server that works on all of them ever more slowly: then fewer may be under way from now
        on. One cut is for all calls that were sent before it.
        """
        with self.changed:
            alone = place.level == 1 or self.under_way == 0
            overtaken = self.newest_answered > place.since
            if overtaken:
                self.overtaken += 1
            many = (
                self.overtaken >= MANY_OVERTAKEN
                and self.overtaken >= SHARE_OVERTAKEN * self.answers
            )
            if alone or (overtaken and not many):
                return False
            self.timeouts += 1
            self.highest_timeout = max(self.highest_timeout, place.level)
            if place.since >= self.cut_at:
                self.cut_at = time.monotonic()
                self.allowed = max(1.0, min(self.allowed, place.level) / 2)
                self.answers = self.overtaken = 0
            if (
                self.answered_at > place.since
            ):  # else the server may have been busy with something else
                self.ceiling = max(1, min(self.ceiling, place.level - 1))
                self.allowed = min(self.allowed, self.ceiling)
            return not overtaken

    def answered_since(self, moment: float) -> bool:
        """Return whether any call was answered after ``moment`` (monotonic)."""
        return self.answered_at > moment

    def note(self, setting: str) -> str:
        """Return what the timeouts came to, or "" where there were none; ``setting`` names the
        concurrency."""
        if not self.timeouts:
            return ""
        few = f"{counted(self.timeouts, 'timeout')} with {self.highest_timeout} calls under way"
        return (
            f"{few}: concurrency lowered to {int(self.allowed)}; set {setting}: {int(self.allowed)}"
        )


def sleep(seconds: float, stop: threading.Event) -> None:
    if seconds > 0:
        stop.wait(seconds)
    _unless_stopped(stop)


def _unless_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError
