"""Decide which request runs next: each key has a share of the places, and keys take turns."""

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

Waiting = asyncio.Future[None]


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


class TurnedOutError(Exception):
    """The request lost its place in the queue to a key that has fewer waiting requests."""


@dataclass
class Turns:
    """The places for one kind of requests, in one event loop.

    A place is a thread. A key's share is given back separately, because a call to a model may go on
    after its request was abandoned. ``share`` is the most places of one key, beside the limit of
    each claim. A claim without a limit may take all places.
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
        """Return whether a request can run at once: there is a place, and its key has none
        waiting."""
        has_place = self.running < self.places and claim.key not in self.queues
        return has_place and self._has_share(claim)

    async def take(self, claim: Claim) -> None:
        """Wait for a place. Raises TurnedOutError if ``turn_out`` removes the request."""
        if self.free_for(claim):
            self._occupy(claim)
            return
        turn: Waiting = asyncio.get_running_loop().create_future()
        self.queues.setdefault(claim.key, deque()).append((claim, turn))
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # It was given a place at the moment when it was cancelled.
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
        """Remove the newest waiting request of a key, which gets TurnedOutError."""
        _, turn = self.queues[key].pop()
        if not self.queues[key]:
            del self.queues[key]
        # It is done if its client has disconnected just now.
        if not turn.done():
            turn.set_exception(TurnedOutError())

    def _begin_next(self) -> None:
        """Give free places to waiting requests; the key that was served last comes last."""
        while self.running < self.places:
            # The first entry of a queue has the claim that has waited longest.
            may_run = (key for key, queue in self.queues.items() if self._has_share(queue[0][0]))
            key = next(may_run, None)
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
