"""The machine behind the test endpoint: it starts, and ends replies at the limit that was asked
for."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.servers.openai_replies import Reply
from tests.servers.openai_shapes import Counting, Request

LIMITS = ("max_tokens", "max_completion_tokens")
ENDLESS = "steam pumps, location, founding, 1921, "


@dataclass
class Starting:
    """A server that is not ready yet: the first ``calls`` requests, and those of the first
    ``seconds`` after the first one, get ``status``. ``kinds``: of the requests that it concerns
    (llama.cpp lists its models while it loads one)."""

    calls: int = 0
    seconds: float = 0.0
    kinds: tuple[str, ...] = ("models", "chat", "embeddings")
    status: int = 503
    message: str = "Loading model"
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: int = 0
    first_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Reply | None:
        """Return the refusal of a request that comes too early, else None."""
        if request.kind not in self.kinds:
            return None
        with self.lock:
            now = time.monotonic()
            self.first_at = self.first_at or now
            if self.refused >= self.calls and now - self.first_at >= self.seconds:
                return None
            self.refused += 1
        return Reply(self.message, status=self.status, headers=self.headers)


@dataclass(frozen=True)
class OutputRules:
    """What a server makes of a limit on its output.

    ``unsupported``: the limits that it refuses by name, as OpenAI's o-series refuses
    ``max_tokens``. ``most``: a larger limit is refused. ``window``: so is one that does not fit the
    window together with the prompt. ``thinking``: hidden tokens that it spends, within the limit,
    before it says a word.
    """

    unsupported: tuple[str, ...] = ()
    most: int | None = None
    window: int | None = None
    thinking: int = 0

    def refuse(self, request: Request) -> Reply | None:
        """Return the refusal of a request for its limit, else None."""
        for name in self.unsupported:
            if name in request.body:
                other = next(other for other in LIMITS if other != name)
                text = (
                    f"Unsupported parameter: '{name}' is not supported with this model. Use"
                    f" '{other}' instead."
                )
                return Reply(text, status=400)
        limit = limit_of(request.body)
        if limit is None:
            return None
        if self.most is not None and limit > self.most:
            text = (
                f"max_tokens is too large: {limit}. This model supports at most {self.most}"
                f" completion tokens, whereas you provided {limit}."
            )
            return Reply(text, status=400)
        asked = request.prompt_tokens + limit
        if self.window is not None and asked > self.window:
            text = (
                f"This model's maximum context length is {self.window} tokens. However, you"
                f" requested {asked} tokens ({request.prompt_tokens} in the messages, {limit} in"
                " the completion)."
            )
            return Reply(text, status=400)
        return None

    def cut(self, reply: Reply, body: Mapping[str, Any], counting: Counting) -> Reply:
        """Return the reply as far as the limit lets it come; one that never ends is held where
        there is no limit."""
        limit = limit_of(body)
        if reply.status >= 400:
            return reply
        if reply.endless:
            if limit is None:
                return replace(reply, hold=True)
            reply = replace(reply, text=ENDLESS * limit)
        text = reply.text or ""
        room = None if limit is None else limit - self.thinking
        if room is None or counting.text(text) <= room:
            return replace(reply, thinking=self.thinking)
        kept = text.encode("utf-8", "surrogatepass")[: max(0, 4 * (room - 1))].decode(
            "utf-8", "ignore"
        )
        return replace(
            reply, text=kept, finish_reason="length", thinking=min(self.thinking, limit or 0)
        )


def limit_of(body: Mapping[str, Any]) -> int | None:
    return next((body[name] for name in LIMITS if body.get(name) is not None), None)
