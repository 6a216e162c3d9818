"""Count the tokens of a call: as the endpoint reports them, else with the model's tokenizer.

Some gateways and local servers leave ``usage`` out of an answer, or fill it with zeros. Without a
count of our own, such a call would cost nothing in the bill and would never reach a limit.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pipeline.models.base import Tokens

MOST_TOKENS = 2**31 - 1
"""The greatest count that is believed. The columns of the cache, PostgreSQL's above all, hold no
greater one."""
WRITTEN = ("content", "refusal", "reasoning_content", "reasoning", "thinking")
"""The fields of a message that hold what the model wrote. Endpoints bill its reasoning as output
too."""


def reported_tokens(usage: Any) -> Tokens:
    """Read the ``usage`` of an OpenAI answer; a count that is missing or is no number is 0.

    Some servers report the total and only one of its two parts: the other part is the difference.
    Some leave the tokens that their prefix cache held out of the prompt's: those are added.
    """
    details = getattr(usage, "prompt_tokens_details", None)
    prompt = as_count(getattr(usage, "prompt_tokens", None)) or 0
    completion = as_count(getattr(usage, "completion_tokens", None)) or 0
    total = as_count(getattr(usage, "total_tokens", None)) or 0
    rest = max(total - prompt - completion, 0)
    if rest and not prompt:
        prompt = rest
    elif rest and not completion:
        completion = rest
    cached = as_count(getattr(details, "cached_tokens", None)) or 0
    # The prompt includes the cached tokens, as the protocol says, unless the counts themselves
    # contradict that.
    is_left_out = cached > prompt or (cached > 0 and total == prompt + cached + completion)
    if prompt and is_left_out:
        prompt = min(prompt + cached, MOST_TOKENS)
    return Tokens(prompt, completion, cached)


def with_estimates(reported: Tokens, prompt: Callable[[], int], reply: Callable[[], int]) -> Tokens:
    """Fill in the counts that the endpoint did not report, and mark the result as estimated if any
    was filled in.

    ``prompt`` and ``reply`` count the tokens of both texts. Each is called only if its count is
    missing, because counting takes processor time.
    """
    tokens = reported
    if not reported.input:
        tokens = tokens._replace(input=prompt())
    if not reported.output:
        tokens = tokens._replace(output=reply())
    return tokens._replace(estimated=tokens != reported)


def written_text(message: Mapping[str, Any]) -> str:
    """Return all text that the model wrote in a message, or in one piece of a stream."""
    return "".join(plain_text(message.get(name)) for name in WRITTEN)


def written_in(body: Mapping[str, Any]) -> str:
    """Return all text that the model wrote in an answer's JSON; "" where there is none."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return written_text(message) if isinstance(message, Mapping) else ""


def plain_text(content: Any) -> str:
    """Return the text of a message's content, which some servers send as a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def as_count(value: Any) -> int | None:
    """Return a number of tokens as JSON has it; None for what cannot be one, such as 1e30."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value) if is_number and 0 <= value <= MOST_TOKENS else None
