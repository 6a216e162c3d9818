"""Limits on the number of concurrent calls of a model, and on the rate at which calls start.

Each model has one clock for requests and one for tokens. All threads share them and, through the
cache's database, all processes and machines. The algorithm is the generic cell rate algorithm
(ITU-T I.371, appendix I) with a burst of one call.
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
"""Share of the limit that is used. Clocks differ and networks deliver calls in bursts, so some
calls would be refused at the exact limit."""
SECONDS_AHEAD = 30.0
"""Time by which an urgent call may precede its turn. It is enough to pass the large calls of
several processes. A burst of urgent calls exceeds the limit of a minute by at most half, and later
calls wait longer for it."""
SECONDS_BETWEEN_CUTS = 1.0
"""Time between two reductions. One overload refuses all calls under way, and must reduce their
number once, not once for each call."""

GROWTH_AFTER_TIMEOUTS = 0.25
"""Growth of the concurrency after a timeout. A timeout costs the server all its work on the
call. After one, the concurrency increases by one only when four times as many calls have been
answered."""
MANY_OVERTAKEN, SHARE_OVERTAKEN = 3, 0.25
"""Number of calls, and share of the answered calls, that timed out while later ones were answered.
Fewer such calls are slow by themselves, such as a reply without end."""


@dataclass(frozen=True)
class Rate:
    """Limits of calls and tokens per minute; None means unlimited."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def limited(self) -> bool:
        return bool(self.requests_per_minute or self.tokens_per_minute)

    def seconds(self, requests: int, tokens: int) -> tuple[float, float]:
        """Return how many seconds of the two clocks this many requests and tokens take."""
        return (
            _seconds_of(requests, self.requests_per_minute),
            _seconds_of(tokens, self.tokens_per_minute),
        )


def _seconds_of(amount: int, per_minute: float | None) -> float:
    if not per_minute:
        return 0.0
    return 60 * amount / (per_minute * SHARE_OF_THE_LIMIT)


@dataclass(frozen=True)
class Bucket:
    """Clocks of one model at one endpoint. ``name`` is a digest of both."""

    name: str
    rate: Rate
    database: Database

    def take(self, tokens: int, urgent: bool = False) -> float:
        """Take the next turn for a call of this many tokens. Return the seconds until the turn
        comes.

        An urgent call may start SECONDS_AHEAD before its turn. All later turns come as late as if
        it had waited. This is the tolerance of the algorithm, but only for some callers.
        """
        seconds = self._move(*self.rate.seconds(1, tokens))
        return max(0.0, seconds - SECONDS_AHEAD) if urgent else seconds

    def correct(self, tokens: int) -> None:
        """Correct an earlier estimate: the call needed this many tokens more (or less, if
        negative)."""
        if tokens and self.rate.tokens_per_minute:
            self._move(*self.rate.seconds(0, tokens))

    def hold(self, seconds: float) -> None:
        """Let no call start for this many seconds."""
        if self.database.there:
            _hold_in_database(self.database, self.name, seconds)
        else:
            _LOCAL.hold(self.name, seconds)

    def _move(self, requests: float, tokens: float) -> float:
        """Advance the clocks by these seconds. Return the seconds until the turn comes."""
        if self.database.there:
            return _move_in_database(self.database, self.name, requests, tokens)
        return _LOCAL.move(self.name, requests, tokens)


def _move_in_database(database: Database, name: str, requests: float, tokens: float) -> float:
    """Advance the clocks in the database by these seconds, and create them if they are missing.

    Returns the seconds until the turn comes: the time between now and the later clock.
    """
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


def _hold_in_database(database: Database, name: str, seconds: float) -> None:
    """Set the clock of requests to at least this many seconds from now."""
    now, latest = _now(database), _latest(database)
    later = latest(BUCKETS.c.requests_at, now + seconds)
    with database.connection(write=True) as connection:
        update = sa.update(BUCKETS).where(BUCKETS.c.name == name).values(requests_at=later)
        connection.execute(update)


def _now(database: Database) -> sa.ColumnElement[float]:
    """Return the current time in seconds, by a clock that all processes share.

    It is the database server's clock, or this machine's for a SQLite file.
    """
    if database.is_sqlite:
        return sa.literal(time.time(), sa.Double)
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)


def _latest(database: Database) -> Callable[..., sa.ColumnElement[float]]:
    """Return the SQL function that gives the greatest of its arguments."""
    return sa.func.max if database.is_sqlite else sa.func.greatest


@dataclass
class _Clocks:
    """Clocks of this process, for models without a database.

    ``at`` holds the times of the two clocks by the name of the bucket.
    """

    at: dict[str, tuple[float, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def move(self, name: str, requests: float, tokens: float) -> float:
        """Advance the clocks by these seconds. Return the seconds until the turn comes."""
        with self.lock:
            now = time.time()
            turns = [max(at, now) for at in self.at.get(name, (0.0, 0.0))]
            self.at[name] = (turns[0] + requests, turns[1] + tokens)
            return max(turns) - now

    def hold(self, name: str, seconds: float) -> None:
        """Set the clock of requests to at least this many seconds from now."""
        with self.lock:
            requests_at, tokens_at = self.at.get(name, (0.0, 0.0))
            self.at[name] = (max(requests_at, time.time() + seconds), tokens_at)


_LOCAL = _Clocks()


@dataclass(frozen=True)
class Place:
    """A call's place among those under way.

    ``level``: the number of calls under way when it was sent, itself included. ``since``: the time
    when it was sent (``time.monotonic``).
    """

    level: int
    since: float


@dataclass
class Limiter:
    """Limit the calls under way by additive increase and multiplicative decrease (Chiu and Jain
    1989).

    There are at most ``most`` calls. ``bucket`` also spaces their starts, with a tolerance for
    ``urgent`` calls. Waiting for a place does not count as a failed attempt.

    ``ceiling`` limits the increase. It is below the lowest level at which calls timed out while
    others were answered. ``allowed`` is the current limit.
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
        """Forget the timeouts of an earlier run, because the server may have been busy with other
        work then."""
        with self.changed:
            self.allowed = float(self.most)
            self.ceiling = self.most
            self.timeouts = self.highest_timeout = 0
            self.answers = self.overtaken = 0
            self.changed.notify_all()

    @contextmanager
    def wait_for_turn(self, tokens: int, stop: threading.Event) -> Iterator[Place]:
        """Wait for a place and for the bucket's turn, and hold the place during the block.

        Raises StoppedError if ``stop`` is set before.
        """
        _raise_if_stopped(stop)
        with self.changed:
            while self.under_way >= max(1, int(self.allowed)):
                self.changed.wait(0.5)
                _raise_if_stopped(stop)
            self.under_way += 1
        try:
            if self.bucket.rate.limited:
                # One thread waits for its turn at a time. The others take theirs later, when the
                # cost of more replies is known.
                with self.next_in_line:
                    _raise_if_stopped(stop)
                    sleep(self.bucket.take(tokens, self.urgent), stop)
            # Another call may prolong the hold while this one sleeps.
            while time.monotonic() < self.held_until:
                sleep(self.held_until - time.monotonic(), stop)
            yield Place(self.under_way, time.monotonic())
        finally:
            with self.changed:
                self.under_way -= 1
                self.changed.notify()

    def record_success(self, place: Place) -> None:
        """Record that the call at this place was answered, which slowly raises the limit."""
        with self.changed:
            self.answered_at = time.monotonic()
            self.newest_answered = max(self.newest_answered, place.since)
            self.answers += 1
            growth = 1.0 if self.ceiling == self.most else GROWTH_AFTER_TIMEOUTS
            # Divided by the limit, the growth is one per round of calls under way.
            raised = self.allowed + growth / max(1.0, self.allowed)
            self.allowed = max(self.allowed, min(self.ceiling, raised))
            self.changed.notify()

    def record_overload(self, hold: float) -> None:
        """Record that the endpoint is too busy: halve the limit, and start no call for ``hold``
        seconds."""
        with self.changed:
            now = time.monotonic()
            if now - self.cut_at >= SECONDS_BETWEEN_CUTS:
                self.cut_at = now
                self.allowed = max(1.0, self.allowed / 2)
            is_longer = now + hold > self.held_until
            self.held_until = max(self.held_until, now + hold)
        # Other processes must wait as well.
        if is_longer and hold and self.bucket.rate.limited:
            self.bucket.hold(hold)

    def record_timeout(self, place: Place) -> bool:
        """Return whether the call at this place timed out because it had to queue at the server.

        It did not queue if no other call was under way. It did not queue either if a later call has
        been answered: a server that handles calls in order was then at work on this one.

        If it queued, too many calls are under way. The same holds if many calls are overtaken, as
        by a server that works on all of them ever more slowly. In both cases the limit is lowered.
        One reduction counts for all calls that were sent before it.
        """
        with self.changed:
            is_alone = place.level == 1 or self.under_way == 0
            is_overtaken = self.newest_answered > place.since
            if is_overtaken:
                self.overtaken += 1
            are_many_overtaken = (
                self.overtaken >= MANY_OVERTAKEN
                and self.overtaken >= SHARE_OVERTAKEN * self.answers
            )
            if is_alone or (is_overtaken and not are_many_overtaken):
                return False
            self.timeouts += 1
            self.highest_timeout = max(self.highest_timeout, place.level)
            if place.since >= self.cut_at:
                self.cut_at = time.monotonic()
                self.allowed = max(1.0, min(self.allowed, place.level) / 2)
                self.answers = self.overtaken = 0
            # If no call was answered meanwhile, the server may have been busy with other work.
            if self.answered_at > place.since:
                self.ceiling = max(1, min(self.ceiling, place.level - 1))
                self.allowed = min(self.allowed, self.ceiling)
            return not is_overtaken

    def answered_since(self, moment: float) -> bool:
        """Return whether any call was answered after ``moment`` (``time.monotonic``)."""
        return self.answered_at > moment

    def note(self, setting: str) -> str:
        """Return a sentence about the timeouts, or "" if there were none. ``setting`` names the
        concurrency."""
        if not self.timeouts:
            return ""
        few = f"{counted(self.timeouts, 'timeout')} with {self.highest_timeout} calls under way"
        return (
            f"{few}: concurrency lowered to {int(self.allowed)}; set {setting}: {int(self.allowed)}"
        )


def sleep(seconds: float, stop: threading.Event) -> None:
    """Sleep for this many seconds. Raise StoppedError when ``stop`` is set."""
    if seconds > 0:
        stop.wait(seconds)
    _raise_if_stopped(stop)


def _raise_if_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError
