"""Decide which request runs next: each key has a share of the places, and a free place goes to the
key that has used the server least lately."""

import asyncio
import math
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from pipeline.serve.usage import HALF_LIFE, Usage

AGING = 0.05
"""The used seconds that a key is forgiven for each second that it has waited for a turn. So it gets
one in the end, even if callers who have used nothing keep arriving."""
MEAN_LIFE = HALF_LIFE / math.log(2)
"""The seconds of use that a key has in the end if it uses one place all the time: the integral of
the decay by HALF_LIFE."""


@dataclass(frozen=True)
class Claim:
    """The caller of a request, and what it needs.

    ``key`` is the name by which requests are counted. ``most`` is how many of them may run at a
    time; None stands for all places, if nobody else can ask. ``chat`` says whether the request may
    ask a chat model.
    """

    key: str = ""
    most: int | None = None
    chat: bool = True

    @property
    def shared(self) -> str | None:
        """The key if others can ask as well, else None."""
        return None if self.most is None else self.key


@dataclass(frozen=True, eq=False)
class Turn:
    """A place that a request has: since when, and for how long probably."""

    key: str
    since: float
    expected: float


@dataclass
class Queue:
    """The waiting requests of one key; ``since``: when the first of them began to wait for the
    next turn of the key."""

    since: float
    waiting: deque[tuple[Claim, "asyncio.Future[Turn]"]] = field(default_factory=deque)


class TurnedOutError(Exception):
    """The request lost its place in the queue to a key that has fewer waiting requests."""


@dataclass
class Turns:
    """The places for one kind of requests, in one event loop.

    A place is a thread. The time for which a request holds it is counted as used by its key, also
    if the request was given up. A key's share is given back separately, because a call to a model
    may go on after its request was abandoned.

    ``share`` is the most places of one key while others wait, beside the limit of each claim. If
    nobody else waits, a key may take more, but leaves a share free for a key that comes. A claim
    without a limit may take all places. Places that the event loop's work for a key stands for are
    part of its share: else a key whose clients hang up all the time would have that work, and its
    whole share besides.
    """

    places: int
    share: int | None = None
    usage: Usage = field(default_factory=Usage)
    running: list[Turn] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)
    queues: OrderedDict[str, Queue] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.loop_usage = Usage(self.usage.clock)

    @property
    def waiting(self) -> int:
        return sum(self.waiting_of(key) for key in self.queues)

    def waiting_of(self, key: str) -> int:
        """Return how many requests of a key wait."""
        return len(self.queues[key].waiting) if key in self.queues else 0

    def others_wait(self, key: str) -> bool:
        """Return whether a request of another key waits."""
        return any(other != key for other in self.queues)

    def free_for(self, claim: Claim) -> bool:
        """Return whether a request can run at once: there is a place, and its key has none
        waiting."""
        has_place = len(self.running) < self.places and claim.key not in self.queues
        return has_place and (self._has_share(claim) or self._may_exceed_share(claim))

    async def take(self, claim: Claim) -> Turn:
        """Wait for a place. Raises TurnedOutError if ``turn_out`` removes the request."""
        if self.free_for(claim):
            return self._occupy(claim)
        turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        queue = self.queues.setdefault(claim.key, Queue(self.usage.clock()))
        queue.waiting.append((claim, turn))
        try:
            return await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It was given a place at the moment when it was cancelled.
                self.give_back_share(claim.key)
                self.give_back_place(turn.result())
            else:
                self._forget(claim, turn)
            raise

    def give_back_place(self, turn: Turn) -> None:
        self.running.remove(turn)
        self.usage.add_query(turn.key, self.usage.clock() - turn.since)
        self._begin_next()

    def give_back_share(self, key: str) -> None:
        self.held[key] -= 1
        if not self.held[key]:
            del self.held[key]
        self._begin_next()

    def count_loop(self, key: str, seconds: float) -> None:
        """Count time for which the event loop worked for a key.

        All requests that are running stand still meanwhile. Therefore it counts as much as a place
        for each of them.
        """
        used = seconds * max(1, len(self.running))
        self.usage.add(key, used)
        self.loop_usage.add(key, used)

    def turn_out(self, key: str) -> None:
        """Remove the newest waiting request of a key, which gets TurnedOutError."""
        _, turn = self.queues[key].waiting.pop()
        if not self.queues[key].waiting:
            del self.queues[key]
        # It is done if its client has disconnected just now.
        if not turn.done():
            turn.set_exception(TurnedOutError())

    def used(self, key: str) -> float:
        """Return the seconds that a key has used lately, with those of its running requests.

        A request that has just begun counts with the time that it will probably take. Otherwise a
        key could take several places at once before the first of them is counted.
        """
        now = self.usage.clock()
        running = sum(
            max(turn.expected, now - turn.since) for turn in self.running if turn.key == key
        )
        return self.usage.seconds(key) + running

    def _begin_next(self) -> None:
        """Give free places to waiting requests."""
        while len(self.running) < self.places:
            key = self._next_key()
            if key is None:
                return
            queue = self.queues[key]
            claim, turn = queue.waiting.popleft()
            if queue.waiting:
                queue.since = self.usage.clock()
                self.queues.move_to_end(key)
            else:
                del self.queues[key]
            if not turn.done():
                turn.set_result(self._occupy(claim))

    def _next_key(self) -> str | None:
        """Return the key whose turn it is: the one that has used least lately.

        Of keys that have used the same, it is the one that was served longest ago. None if no key
        may have a place.
        """
        first = {key: queue.waiting[0][0] for key, queue in self.queues.items()}
        candidates = [key for key, claim in first.items() if self._has_share(claim)]
        if not candidates:
            candidates = [key for key, claim in first.items() if self._may_exceed_share(claim)]
        return min(candidates, key=self._debt, default=None)

    def _debt(self, key: str) -> float:
        """Return the used seconds of a key less those that it is forgiven for waiting."""
        waited = self.usage.clock() - self.queues[key].since
        return self.used(key) - AGING * waited

    def _has_share(self, claim: Claim) -> bool:
        if claim.most is None:
            return True
        held = self.held[claim.key]
        if self.share is None:
            return held < claim.most
        # One place is always its own, whatever the loop has done for it.
        if held == 0:
            return True
        loop_places = self.loop_usage.seconds(claim.key) / MEAN_LIFE
        return held + loop_places < min(claim.most, self.share)

    def _may_exceed_share(self, claim: Claim) -> bool:
        """Return whether a key may take a place beyond its share: a share is then still free."""
        if self.share is None or claim.most is None:
            return False
        within_limit = self.held[claim.key] < claim.most
        return within_limit and self.places - len(self.running) > self.share

    def _occupy(self, claim: Claim) -> Turn:
        turn = Turn(claim.key, self.usage.clock(), self.usage.expected(claim.key))
        self.running.append(turn)
        self.held[claim.key] += 1
        return turn

    def _forget(self, claim: Claim, turn: "asyncio.Future[Turn]") -> None:
        queue = self.queues.get(claim.key)
        if queue is not None and (claim, turn) in queue.waiting:
            queue.waiting.remove((claim, turn))
            if not queue.waiting:
                del self.queues[claim.key]
