"""Faults that the test endpoint draws for chat requests, the same ones each time."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tests.servers.openai_replies import Messages, Reply, content_of, is_summary

MUMBLE = (
    "Well, the tide was out and the gulls were loud, and what was asked went by on the wind; "
    "somebody hummed, a kettle sang, and after a while nobody knew any more what it had been about."
)


@dataclass(frozen=True)
class Faults:
    """Shares of the chat requests that go wrong: ``error`` (status 500), ``malformed`` (words that no parser
    can read, or nothing at all for a summary, which is read by no parser) and ``truncated`` (half of the usual
    text, finish_reason "length"). A prompt for which ``never`` is true gets no answer; as a row of a batch it
    fails with status 504. Which requests are hit follows from the seed, the body, and how often it was seen."""

    seed: int = 0
    error: float = 0.0
    malformed: float = 0.0
    truncated: float = 0.0
    never: Callable[[str], bool] | None = None

    def draw(self, messages: Messages, body: Mapping[str, Any], times: int) -> Reply | None:
        """The faulty reply to a body that was seen so many times before; None: the usual one."""
        prompt = "\n".join(map(content_of, messages))
        if self.never and self.never(prompt):
            return Reply(hold=True, fault="never")
        point = self.point(body, times)
        if point < self.error:
            return Reply("The server had an error while it answered.", status=500, fault="error")
        if point < self.error + self.malformed:
            return Reply("" if is_summary(prompt) else MUMBLE, fault="malformed")
        if point < self.error + self.malformed + self.truncated:
            return Reply(finish_reason="length", fault="truncated")
        return None

    def point(self, body: Mapping[str, Any], times: int) -> float:
        """A number from 0 to 1."""
        digest = sha256(f"{self.seed} {times} ".encode() + canonical(body)).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


def canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()
