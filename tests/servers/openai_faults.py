"""Faults that the test endpoint draws for requests, the same ones each time."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.servers.openai_machine import LIMITS
from tests.servers.openai_replies import Messages, Reply, content_of, is_summary

MUMBLE = (
    "Well, the tide was out and the gulls were loud, and what was asked went by on the wind; "
    "somebody hummed, a kettle sang, and after a while nobody knew any more what it had been about."
)
SLOW_DOWN = "Rate limit reached. Please slow down."
FAULTS: Mapping[str, Reply] = {
    "error": Reply("The server had an error while it answered.", status=500),
    "malformed": Reply(MUMBLE),
    "truncated": Reply(finish_reason="length"),
    "bad_gateway": Reply("<html>502 Bad Gateway</html>", status=502),
    "unavailable": Reply("The service is overloaded.", status=503),
    "gateway_timeout": Reply("The upstream server did not answer.", status=504),
    "loading": Reply("Loading model", status=503),
    "too_many": Reply(SLOW_DOWN, status=429),
    "too_many_until": Reply(SLOW_DOWN, status=429, headers={"Retry-After": "1"}),
    "silent": Reply(hold=True),
    "dropped": Reply(drop=True),
    "broken": Reply(break_at=0.5),
    "garbage": Reply(
        "", raw=b"<html><body>It works!</body></html>", headers={"Content-Type": "text/html"}
    ),
    "empty": Reply(""),
    "content_filter": Reply("", finish_reason="content_filter"),
    "cut_inside": Reply(cut="inside"),
    "cut_between": Reply(cut="between"),
    "no_usage": Reply(usage="none"),
    "zero_usage": Reply(usage="zeros"),
    "plain": Reply(plain=True),
}
"""Name of a fault -> the reply with it. A reply without a text has the usual one, whole or cut."""
TRANSPORT = frozenset({
    "error", "bad_gateway", "unavailable", "gateway_timeout", "loading", "too_many",
    "too_many_until", "silent",
    "dropped", "broken", "garbage", "no_usage", "zero_usage", "plain",
})  # fmt: skip
"""Faults that leave the text of a reply as it is, or let none arrive."""


@dataclass(frozen=True)
class Faults:
    """Shares of the requests that go wrong, each with a fault of FAULTS.

    ``error``, ``malformed`` and ``truncated`` have fields of their own; ``shares`` has the share of
    every other fault by its name. A summary, which no parser reads, is empty where it would be
    malformed. ``only``: names of the faults that a prompt may get, or None for all of them;
    TRANSPORT suits a reply that nobody can see to be damaged. ``embeddings``: whether requests for
    embeddings get the faults of TRANSPORT too. A prompt for which ``never`` is true gets no answer;
    in a batch its row fails with status 504. Which requests are hit follows from the seed, the
    body, and how often it was seen.
    """

    seed: int = 0
    error: float = 0.0
    malformed: float = 0.0
    truncated: float = 0.0
    never: Callable[[str], bool] | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    only: Callable[[str], frozenset[str] | None] | None = None
    embeddings: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.shares) - set(FAULTS)
        assert not unknown, f"no such faults: {sorted(unknown)}"

    def draw(self, messages: Messages, body: Mapping[str, Any], times: int) -> Reply | None:
        """Return the faulty reply to a body that was seen so many times before; None stands for the
        usual reply."""
        prompt = "\n".join(map(content_of, messages))
        if self.never and self.never(prompt):
            return Reply(hold=True, fault="never")
        name = self.name_at(self.point(body, times))
        allowed = self.allowed(messages, prompt)
        if name is None or (allowed is not None and name not in allowed):
            return None
        fault = FAULTS[name]
        text = "" if name == "malformed" and is_summary(prompt) else fault.text
        return Reply(**{**vars(fault), "text": text, "fault": name})

    def allowed(self, messages: Messages, prompt: str) -> frozenset[str] | None:
        """Return the names of the faults that this request may get; None stands for all."""
        if not messages:  # a request for embeddings
            return TRANSPORT if self.embeddings else frozenset()
        return self.only(prompt) if self.only else None

    def name_at(self, point: float) -> str | None:
        """Return the fault whose share holds the point, with the shares laid end to end from 0."""
        fields = {"error": self.error, "malformed": self.malformed, "truncated": self.truncated}
        end = 0.0
        for name, share in [*fields.items(), *self.shares.items()]:
            end += share
            if point < end:
                return name
        return None

    def point(self, body: Mapping[str, Any], times: int) -> float:
        """Return a number from 0 to 1."""
        digest = sha256(f"{self.seed} {times} ".encode() + canonical(body)).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


def canonical(body: Mapping[str, Any]) -> bytes:
    """Return the body without limits on the output, which the requests of one reply may differ
    in."""
    asked = {name: value for name, value in body.items() if name not in LIMITS}
    return json.dumps(asked, sort_keys=True).encode()
