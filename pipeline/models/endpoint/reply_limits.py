"""Send requests with a limit on the tokens of the reply, and learn which limits an endpoint
accepts.

The limit stops a model that repeats itself without end. It is not part of the request's identity:
cache keys and identities of models do not contain it. Limits in the settings are sent unchanged,
and no other limit is sent with them.
"""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pipeline.models.base import TRUNCATED, ChatRequest
from pipeline.models.cache.replies import Completion
from pipeline.models.endpoint.client import Failure

Answer = TypeVar("Answer")
NAMES = ("max_tokens", "max_completion_tokens")
"""Parameters for the limit, in the order in which they are tried. llama.cpp, Ollama and vLLM know
the first. OpenAI's reasoning models know only the second."""
OWN_OPTIONS = frozenset({*NAMES, "reasoning_effort", "n_predict", "num_predict"})
"""Options of the settings with which graphmill sends no limit of its own. They are limits
themselves, or they turn on thinking, which is billed as a part of the reply and has no natural
length."""
NAMED_IN_A_REFUSAL = re.compile(
    r"max_(completion_|new_)?tokens|in the completion|completion tokens", re.IGNORECASE
)
NAMES_THE_WINDOW = re.compile(
    r"context.?(length|window|size)|tokens.{0,2}\+ .?max_new_tokens", re.IGNORECASE
)
USE_THE_OTHER = re.compile(r"max_completion_tokens", re.IGNORECASE)
REFUSALS = (400, 422)
REFUSALS_OF_LENGTH = (*REFUSALS, 413, 429)
"""Statuses that may mean that the limit is too large. OpenAI and Groq count the limit of the reply
among the tokens per minute. They refuse a request that is larger than a minute's tokens with 429 or
413. Without the limit it may pass."""
REASONING_MODEL = re.compile(r"^(.*/)?(o\d|gpt-5)", re.IGNORECASE)
"""OpenAI's models that accept only the second name. Without this, a whole batch would be refused
first."""
STARTS_THINKING = re.compile(r"\s*<\s?(think|thinking|thought|reasoning)\s?>", re.IGNORECASE)
ENDS_THINKING = re.compile(r"<\s?/\s?(think|thinking|thought|reasoning)\s?>", re.IGNORECASE)
CLOSE_TO_THE_LIMIT = 0.95
"""Share of the limit from which it counts as reached, because a server may count the end of a reply
as a token."""


@dataclass(frozen=True)
class Limit:
    """Limit of a reply to ``tokens``, sent as the parameter ``name``."""

    name: str
    tokens: int

    def is_reached_by(self, completion: Completion) -> bool:
        """Check whether the reply ended at this limit, and not at a limit of the model's own."""
        counted = completion.output_tokens or self.tokens
        return completion.finish_reason == "length" and counted >= CLOSE_TO_THE_LIMIT * self.tokens


@dataclass
class ReplyLimits:
    """Limits that one endpoint accepts, as its answers in this process have shown.

    ``options``: the options of the settings. ``name``: the parameter that is sent, or "" for none.
    """

    options: Mapping[str, Any]
    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_model(cls, model: str, options: Mapping[str, Any]) -> "ReplyLimits":
        """Return the limits of a model before any answer is known."""
        return cls(options, NAMES[1] if REASONING_MODEL.match(model) else NAMES[0])

    def of(self, request: ChatRequest) -> Limit | None:
        """Return the limit to send with the request, or None."""
        own = OWN_OPTIONS & {*self.options, *(self.options.get("extra_body") or {})}
        if request.max_tokens is None or own or not self.name:
            return None
        return Limit(self.name, request.max_tokens)

    def ask(
        self,
        request: ChatRequest,
        send: Callable[[Limit | None], Completion | Failure],
        thought: Callable[[], bool],
    ) -> Completion | Failure:
        """Return the answer to ``send(limit)``. Repeat the call if the limit was at fault.

        A refusal of the limit costs nothing. A reply of hidden thinking that ended at the limit is
        paid for; after one, no limit is sent any more. If a limit exceeds the window beside this
        prompt, only this request is sent without one. ``thought`` returns whether the last answer
        reported thinking.
        """
        for _ in NAMES:
            limit = self.of(request)
            answer = send(limit)
            if limit is None:
                return answer
            if isinstance(answer, Completion):
                if limit.is_reached_by(answer) and (thought() or is_only_thinking(answer.text)):
                    self.drop()
                    return send(None)
                return answer
            if not self.may_be_refused_by(answer):
                return answer
            if is_limit_outside_window(answer.message):
                return send(None)
            if not self.learn(answer.message, limit.name):
                without = send(None)
                # A prompt that is too long says nothing of the limits of other requests.
                if not isinstance(without, Failure) and answer.reason != "too_long":
                    self.drop()
                return without
        return send(self.of(request))

    def learn(self, refusal: str, sent: str) -> bool:
        """Record a refusal of the limit that was sent as ``sent``. Return whether the refusal was
        about it."""
        if not NAMED_IN_A_REFUSAL.search(refusal):
            return False
        with self.lock:
            # If the name differs, another thread has already learnt this.
            if self.name == sent:
                has_other_name = sent == NAMES[0] and USE_THE_OTHER.search(refusal)
                self.name = NAMES[1] if has_other_name else ""
        return True

    def drop(self) -> None:
        """Stop sending a limit."""
        self.name = ""

    def may_be_refused_by(self, failure: Failure) -> bool:
        """Check whether the same request may succeed without a limit."""
        if failure.reason == "too_long":
            return failure.status in REFUSALS_OF_LENGTH
        return failure.status in REFUSALS and failure.reason == "bad_request"


def outcome_of(finish_reason: str) -> str:
    """Return the outcome of a reply for the usage records."""
    return TRUNCATED if finish_reason == "length" else "ok"


def is_limit_outside_window(refusal: str) -> bool:
    """Check whether the prompt and the limit of its reply together exceed the model's window."""
    return bool(NAMES_THE_WINDOW.search(refusal) and NAMED_IN_A_REFUSAL.search(refusal))


def is_only_thinking(text: str) -> bool:
    """Check whether a reply that was cut off has no text, or only thinking that does not end.

    White space is no sign of thinking, because a model that writes JSON may repeat it without end.
    """
    return not text or bool(STARTS_THINKING.match(text) and not ENDS_THINKING.search(text))


def reports_thinking(body: Mapping[str, Any]) -> bool:
    """Check whether the JSON of an answer reports thinking that is not a part of its text."""
    usage = body.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, Mapping) else None
    if isinstance(details, Mapping) and details.get("reasoning_tokens"):
        return True
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return isinstance(message, Mapping) and bool(
        message.get("reasoning_content") or message.get("reasoning")
    )
