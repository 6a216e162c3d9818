"""Limits on requests and tokens per minute, over a sliding window, for each model by itself."""

import math
from collections import deque
from dataclasses import dataclass, field

from tests.servers.openai_replies import Reply


@dataclass(frozen=True)
class Limits:
    """``minute`` is its length in seconds: ``Limits(20, minute=1.0)`` are 20 requests a second."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    minute: float = 60.0


@dataclass
class Admitted:
    at: float
    tokens: int


@dataclass
class Window:
    """What one model was asked in the last minute. A refused request does not count."""

    admitted: deque[Admitted] = field(default_factory=deque)
    used: int = 0

    def admit(self, limits: Limits, model: str, tokens: int, now: float) -> Admitted | Reply:
        """Let a request with so many prompt tokens in, or say with a 429 when to come again.

        The tokens of the reply, which nobody knows before, are to be charged afterwards.
        """
        while self.admitted and self.admitted[0].at <= now - limits.minute:
            self.used -= self.admitted.popleft().tokens
        refused = self.refuse_request(limits, model, now) or self.refuse_tokens(
            limits, model, tokens, now
        )
        if refused:
            return refused
        entry = Admitted(now, 0)
        self.admitted.append(entry)
        self.charge(entry, tokens)
        return entry

    def charge(self, entry: Admitted, tokens: int) -> None:
        entry.tokens += tokens
        self.used += tokens

    def refuse_request(self, limits: Limits, model: str, now: float) -> Reply | None:
        limit, used = limits.requests_per_minute, len(self.admitted)
        if limit is None or used < limit:
            return None
        wait = self.admitted[used - limit].at + limits.minute - now if limit else limits.minute
        return refusal(
            f"Rate limit reached for {model} on requests per min: limit {limit}, used {used}.", wait
        )

    def refuse_tokens(self, limits: Limits, model: str, tokens: int, now: float) -> Reply | None:
        limit, used = limits.tokens_per_minute, self.used
        if limit is None or used + tokens <= limit:
            return None
        text = (
            f"Rate limit reached for {model} on tokens per min: limit {limit}, used {used},"
            f" requested {tokens}."
        )
        left = used
        for entry in self.admitted:
            left -= entry.tokens
            if left + tokens <= limit:
                return refusal(text, entry.at + limits.minute - now)
        return refusal(f"Request too large. {text}", limits.minute)


def refusal(message: str, wait: float) -> Reply:
    """A 429 whose headers and message say how many seconds to wait."""
    milliseconds = max(math.ceil(wait * 1000), 1)
    headers = {"Retry-After": f"{milliseconds / 1000:.3f}", "retry-after-ms": str(milliseconds)}
    return Reply(
        f"{message} Please try again in {milliseconds}ms.",
        status=429,
        headers=headers,
        at_once=True,
    )
