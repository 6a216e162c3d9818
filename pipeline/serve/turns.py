"""Whose request runs next: each key has its share of the places, and keys take turns."""

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

Waiting = asyncio.Future[None]


@dataclass(frozen=True)
class Claim:
    """Say who asks, and for what. ``key``: by whose name requests are counted. ``most``: how many
    of them may run at a time; None: all places, where nobody else asks. ``chat``: whether a chat
    model may be asked."""

    key: str = ""
    most: int | None = None
    chat: bool = True

    @property
    def shared(self) -> str | None:
        """Return the key where others ask beside it."""
        return None if self.most is None else self.key


class TurnedOutError(Exception):
    """Another key, of which fewer requests wait, needs the room of one that waits."""


@dataclass
class Turns:
    """Hold the places of one kind of requests, for one event loop.

    A place is a thread. A key's share is given back apart from it, for a call to a model may go on
    after its request was given up. ``share``: the most places of one key, beside the limit that a
    claim brings; a claim without a limit may take all places.
    """

    places: int
    share: int | None = None
    running: int = 0
    held: Counter[str] = field(default_factory=Counter)
    queues: OrderedDict[str, deque[tuple[Claim, Waiting]]] = field(default_factory=OrderedDict)

    @property
    def waiting(self) -> int:
        return sum(map(len, self.queues.values()))

    def free_for(self, claim: Claim) -> bool:
        """Return whether such a request can run at once: no other request waits that could."""
        return (
            self.running < self.places and claim.key not in self.queues and self._has_share(claim)
        )

    async def take(self, claim: Claim) -> None:
        """Wait for a place. Raises TurnedOutError where ``turn_out`` took the room of the wait."""
        if self.free_for(claim):
            self._occupy(claim)
            return
        turn: Waiting = asyncio.get_running_loop().create_future()
        self.queues.setdefault(claim.key, deque()).append((claim, turn))
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It was given a place at the instant at which it was cancelled.
                self.give_back_share(claim.key)
                self.give_back_place()
            else:
                self._forget(claim, turn)
            raise

    def give_back_place(self) -> None:
        self.running -= 1
        self._begin_next()

    def give_back_share(self, key: str) -> None:
        self.held[key] -= 1
        if not self.held[key]:
            del self.held[key]
        self._begin_next()

    def turn_out(self, key: str) -> None:
        """Give up the wait of the newest request of a key."""
        _, turn = self.queues[key].pop()
        if not self.queues[key]:
            del self.queues[key]
        if not turn.done():  # else its client has hung up just now
            turn.set_exception(TurnedOutError())

    def _begin_next(self) -> None:
        """Give free places to those who wait: the key that was served last comes last."""
        while self.running < self.places:
            key = next(
                (key for key, queue in self.queues.items() if self._has_share(queue[0][0])), None
            )
            if key is None:
                return
            claim, turn = self.queues[key].popleft()
            if self.queues[key]:
                self.queues.move_to_end(key)
            else:
                del self.queues[key]
            if not turn.done():
                self._occupy(claim)
                turn.set_result(None)

    def _has_share(self, claim: Claim) -> bool:
        if claim.most is None:
            return True
        most = claim.most if self.share is None else min(claim.most, self.share)
        return self.held[claim.key] < most

    def _occupy(self, claim: Claim) -> None:
        self.running += 1
        self.held[claim.key] += 1

    def _forget(self, claim: Claim, turn: Waiting) -> None:
        queue = self.queues.get(claim.key)
        if queue is not None and (claim, turn) in queue:
            queue.remove((claim, turn))
            if not queue:
                del self.queues[claim.key]
