"""Make the error of a call without an answer, and read the limits that a refusal of a long prompt
names."""

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
"""Reason of a failed call -> the next action. "Ask again" is advised only if the same call may
succeed later."""
LOOK = "'graphmill doctor' looks for the cause"


def no_answer(fact: str, reason: str, sent: int | None = None) -> ModelError:
    """Return the error of a call that failed for this reason; ``sent``: tokens of its prompt, as we
    count them."""
    if reason == "too_long":
        return PromptTooLongError(fact, LOWER_THE_BUDGET, sent)
    return ModelError(f"{fact}; {ADVICE.get(reason, LOOK)}")


_NUMBER = r"(\d[\d,]{2,})"
_WINDOW = re.compile(
    rf"(?:context|maximum|limit|window|n_ctx)[^0-9]{{0,40}}{_NUMBER}"
    rf"|(?:> ?|with |<= ?|less than ){_NUMBER}(?: tokens)?(?: maximum|\. Given)",
    re.IGNORECASE,
)
"""The words in which refusals name the window: "maximum context length is 8192 tokens" (OpenAI,
vLLM, Azure), "context size (8192 tokens)" (llama.cpp), "210000 > 200000 maximum" (Anthropic),
"tokens allowed (1048575)" (Gemini), "must be <= 4096. Given" (Text Generation Inference), "too
large for model with 32768 maximum" (Mistral)."""
_PROMPT = re.compile(
    rf"n_prompt_tokens\W{{1,4}}{_NUMBER}|request \({_NUMBER} tokens|{_NUMBER} (?:in the messages|in"
    r" your prompt)"
    rf"|(?:messages|prompt|request|input) (?:resulted in|has|contains|of) {_NUMBER}|{_NUMBER}"
    r" `?inputs?`? tokens"
    rf"|{_NUMBER} tokens from the input|token count \({_NUMBER}\)|too long: {_NUMBER}|\(length"
    rf" {_NUMBER}\)",
    re.IGNORECASE,
)
"""The words in which refusals name the length of the prompt that they refuse."""
_REQUESTED = re.compile(rf"requested (?:a total of )?{_NUMBER}", re.IGNORECASE)
"""The words to use if a refusal says nothing more exact: the number may include the limit of the
reply."""
_EACH_MINUTE = re.compile(r"per.?min|tpm", re.IGNORECASE)
LEAST_SCALE, MOST_SCALE = 0.5, 2.0
"""Tokenizers differ by less than these factors. Beyond them, one of the two numbers is no length of
the prompt."""


@dataclass(frozen=True)
class StatedLimits:
    """Hold the limits that a refusal states, in the server's tokens; None for what it does not
    state.

    ``window``: the tokens that the model reads, its reply included. ``prompt``: the length of the
    refused prompt.
    """

    window: int | None
    prompt: int | None

    def window_in_our_tokens(self, sent: int | None) -> int | None:
        """Return the window as our tokenizer counts, by the prompt of ``sent`` tokens that was
        refused."""
        if self.window is None or not (sent and self.prompt):
            return self.window
        scale = self.prompt / sent
        return round(self.window / scale) if LEAST_SCALE < scale < MOST_SCALE else self.window


def limits_in(refusal: str) -> StatedLimits:
    """Read the words of a refusal. A limit of tokens in each minute is no window."""
    if _EACH_MINUTE.search(refusal):
        return StatedLimits(None, None)
    prompt = _first_number(_PROMPT, refusal) or _first_number(_REQUESTED, refusal)
    return StatedLimits(_first_number(_WINDOW, refusal), prompt)


def _first_number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(next(filter(None, found.groups())).replace(",", "")) if found else None
