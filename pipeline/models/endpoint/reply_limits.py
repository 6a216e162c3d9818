"""Send requests with a limit on the reply's tokens, and learn which limits an endpoint takes.

A model that repeats itself without end stops at the limit. The limit is no part of what was asked:
keys of the cache and identities of models do not have it. Limits that the settings name are sent
unchanged, and no other limit with them.
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
"""Parameters of a limit, in the order in which they are tried: llama.cpp, Ollama and vLLM know the
first, OpenAI's reasoning models only the second."""
OWN_OPTIONS = frozenset({*NAMES, "reasoning_effort", "n_predict", "num_predict"})
"""Options of the settings beside which graphmill sends no limit. They are limits themselves, or
they turn on thinking, which is paid for as a part of the reply and has no natural length."""
NAMED_IN_A_REFUSAL = re.compile(
    r"max_(completion_|new_)?tokens|in the completion|completion tokens", re.IGNORECASE
)
NAMES_THE_WINDOW = re.compile(
    r"context.?(length|window|size)|tokens.{0,2}\+ .?max_new_tokens", re.IGNORECASE
)
USE_THE_OTHER = re.compile(r"max_completion_tokens", re.IGNORECASE)
REFUSALS = (400, 422)
REFUSALS_OF_LENGTH = (*REFUSALS, 413, 429)
"""Where an account may take few tokens in each minute, OpenAI and Groq count the limit of the reply
among them, and refuse a request that is larger than a minute's tokens with 429 or 413. Without the
limit it may pass."""
REASONING_MODEL = re.compile(r"^(.*/)?(o\d|gpt-5)", re.IGNORECASE)
"""OpenAI's models that take only the second name. Without this, a whole batch would be refused
first."""
STARTS_THINKING = re.compile(r"\s*<\s?(think|thinking|thought|reasoning)\s?>", re.IGNORECASE)
ENDS_THINKING = re.compile(r"<\s?/\s?(think|thinking|thought|reasoning)\s?>", re.IGNORECASE)
CLOSE_TO_THE_LIMIT = 0.95
"""The share of the limit from which on it counts as reached: a server may count the end of a reply
as a token."""


@dataclass(frozen=True)
class Limit:
    """Limit a reply to ``tokens``, sent as the parameter ``name``."""

    name: str
    tokens: int

    def is_reached_by(self, completion: Completion) -> bool:
        """Check whether the reply ended here, not at a limit of the model's own."""
        counted = completion.output_tokens or self.tokens
        return completion.finish_reason == "length" and counted >= CLOSE_TO_THE_LIMIT * self.tokens


@dataclass
class ReplyLimits:
    """Keep which limits one endpoint takes, as its answers in this process have shown.

    ``options``: those of the settings. ``name``: the parameter that is sent; "" for none.
    """

    options: Mapping[str, Any]
    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_model(cls, model: str, options: Mapping[str, Any]) -> "ReplyLimits":
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
        """Return the answer to ``send(limit)``; ask again if the limit was at fault.

        A refusal of the limit costs nothing. A reply of hidden thinking that ended at the limit is
        paid for; then no limit is sent any more. A limit that does not fit the window beside this
        prompt says nothing of other requests, so only this one is sent without. ``thought``:
        whether the last answer reported thinking.
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
        """Note a refusal of the limit that was sent under the name ``sent``; return whether it was
        one."""
        if not NAMED_IN_A_REFUSAL.search(refusal):
            return False
        with self.lock:
            if self.name == sent:  # else another thread has learnt it already
                has_other_name = sent == NAMES[0] and USE_THE_OTHER.search(refusal)
                self.name = NAMES[1] if has_other_name else ""
        return True

    def drop(self) -> None:
        """Send no limit any more."""
        self.name = ""

    def may_be_refused_by(self, failure: Failure) -> bool:
        """Check whether the same request without a limit may do better."""
        if failure.reason == "too_long":
            return failure.status in REFUSALS_OF_LENGTH
        return failure.status in REFUSALS and failure.reason == "bad_request"


def outcome_of(finish_reason: str) -> str:
    """Return the outcome of a reply in the usage."""
    return TRUNCATED if finish_reason == "length" else "ok"


def is_limit_outside_window(refusal: str) -> bool:
    """Check whether a prompt and the limit of its reply together do not fit the model's window."""
    return bool(NAMES_THE_WINDOW.search(refusal) and NAMED_IN_A_REFUSAL.search(refusal))


def is_only_thinking(text: str) -> bool:
    """Check whether a reply that was cut off has no text, or only thinking that does not end.

    White space is no sign of thinking: a model that writes JSON may repeat it without end.
    """
    return not text or bool(STARTS_THINKING.match(text) and not ENDS_THINKING.search(text))


def reports_thinking(body: Mapping[str, Any]) -> bool:
    """Check whether an answer's JSON reports thinking that is not a part of its text."""
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
