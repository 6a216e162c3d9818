"""Errors for calls without an answer, and the limits that a refusal of a long prompt states."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import ModelError, PromptTooLongError

LOWER_THE_BUDGET = (
    "lower query.max_total_tokens; 'graphmill doctor' measures how much the model reads"
)
ADVICE: Mapping[str, str] = {
    "timeout": "ask again, or raise the model's timeout",
    "server_error": "ask again",
    "empty": "a model that thinks may need a larger max_tokens; else take another model",
    "refusal": "ask in other words",
    "content_filter": "ask in other words: the endpoint refuses these by its policy",
    "bad_request": "correct what the endpoint names, in settings.yaml",
}
"""Next action for each reason of a failed call. "Ask again" is advised only if the same call may
succeed later."""
LOOK = "'graphmill doctor' looks for the cause"


def no_answer(fact: str, reason: str, sent: int | None = None) -> ModelError:
    """Return the error for a call that failed for this reason.

    ``fact`` is the first part of the message. ``sent`` is the number of tokens of the prompt as
    graphmill counts them.
    """
    if reason == "too_long":
        return PromptTooLongError(fact, LOWER_THE_BUDGET, sent)
    return ModelError(f"{fact}; {ADVICE.get(reason, LOOK)}")


_NUMBER = r"(\d[\d,]{2,})"
_WINDOW = re.compile(
    rf"(?:context|maximum|limit|window|n_ctx)[^0-9]{{0,40}}{_NUMBER}"
    rf"|(?:> ?|with |<= ?|less than ){_NUMBER}(?: tokens)?(?: maximum|\. Given)",
    re.IGNORECASE,
)
"""Words in which refusals state the window: "maximum context length is 8192 tokens" (OpenAI, vLLM,
Azure), "context size (8192 tokens)" (llama.cpp), "210000 > 200000 maximum" (Anthropic), "tokens
allowed (1048575)" (Gemini), "must be <= 4096. Given" (Text Generation Inference), "too large for
model with 32768 maximum" (Mistral)."""
_PROMPT = re.compile(
    rf"n_prompt_tokens\W{{1,4}}{_NUMBER}|request \({_NUMBER} tokens|{_NUMBER} (?:in the messages|in"
    r" your prompt)"
    rf"|(?:messages|prompt|request|input) (?:resulted in|has|contains|of) {_NUMBER}|{_NUMBER}"
    r" `?inputs?`? tokens"
    rf"|{_NUMBER} tokens from the input|token count \({_NUMBER}\)|too long: {_NUMBER}|\(length"
    rf" {_NUMBER}\)",
    re.IGNORECASE,
)
"""Words in which refusals state the length of the refused prompt."""
_REQUESTED = re.compile(rf"requested (?:a total of )?{_NUMBER}", re.IGNORECASE)
"""Words to use if a refusal states nothing more exact. The number may include the limit of the
reply."""
_EACH_MINUTE = re.compile(r"per.?min|tpm", re.IGNORECASE)
"""Words of a rate limit in tokens per minute, which is no window."""
LEAST_SCALE, MOST_SCALE = 0.5, 2.0
"""Two tokenizers differ by less than these factors. Outside this range, one of the two numbers is
not the length of the prompt."""


@dataclass(frozen=True)
class StatedLimits:
    """Limits that a refusal states, in the server's tokens. None means not stated.

    ``window``: the tokens that the model reads, its reply included. ``prompt``: the length of the
    refused prompt.
    """

    window: int | None
    prompt: int | None

    def window_in_our_tokens(self, sent: int | None) -> int | None:
        """Return the window as graphmill's tokenizer counts it, or None if it is unknown.

        ``sent`` is our count of the refused prompt. The ratio of the server's count to ours
        converts the window.
        """
        if self.window is None or not (sent and self.prompt):
            return self.window
        scale = self.prompt / sent
        if not LEAST_SCALE < scale < MOST_SCALE:
            return self.window
        return round(self.window / scale)


def limits_in(refusal: str) -> StatedLimits:
    """Return the limits that the text of a refusal states.

    A text about a limit per minute states none of them.
    """
    if _EACH_MINUTE.search(refusal):
        return StatedLimits(None, None)
    prompt = _first_number(_PROMPT, refusal) or _first_number(_REQUESTED, refusal)
    return StatedLimits(_first_number(_WINDOW, refusal), prompt)


def _first_number(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the number in the group that matched, or None without a match."""
    found = pattern.search(text)
    if not found:
        return None
    # Each alternative of the pattern has its own group, and exactly one of them matches.
    number = next(filter(None, found.groups()))
    return int(number.replace(",", ""))
