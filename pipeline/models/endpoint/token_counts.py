"""Count the tokens of a call, as the endpoint reports them or with the model's tokenizer.

Some gateways and local servers leave ``usage`` out of an answer, or fill it with zeros. Without a
count of our own, such a call would cost nothing in the bill and would never reach a limit.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pipeline.models.base import Tokens

MOST_TOKENS = 2**31 - 1
"""The greatest plausible count. The columns of the cache cannot hold a greater one, above all in
PostgreSQL."""
WRITTEN = ("content", "refusal", "reasoning_content", "reasoning", "thinking")
"""Fields of a message with text that the model wrote. Endpoints also bill its reasoning as
output."""


def reported_tokens(usage: Any) -> Tokens:
    """Read the ``usage`` of an OpenAI answer. A count that is missing or not a number becomes 0.

    Some servers report the total and only one of its two terms: the other term is the difference.
    Some do not count the tokens that their prefix cache held: those are added.
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
    # By the protocol, the prompt includes the cached tokens. Some counts contradict that.
    is_left_out = cached > prompt or (cached > 0 and total == prompt + cached + completion)
    if prompt and is_left_out:
        prompt = min(prompt + cached, MOST_TOKENS)
    return Tokens(prompt, completion, cached)


def with_estimates(reported: Tokens, prompt: Callable[[], int], reply: Callable[[], int]) -> Tokens:
    """Return the counts, completed by our own where the endpoint reported none.

    ``prompt`` and ``reply`` count the tokens of both texts. Each is called only if its count is
    missing, because counting takes processor time. The result is marked as estimated if one was
    called.
    """
    tokens = reported
    if not reported.input:
        tokens = tokens._replace(input=prompt())
    if not reported.output:
        tokens = tokens._replace(output=reply())
    return tokens._replace(estimated=tokens != reported)


def written_text(message: Mapping[str, Any]) -> str:
    """Return all text that the model wrote in a message or in one chunk of a stream."""
    return "".join(plain_text(message.get(name)) for name in WRITTEN)


def written_in(body: Mapping[str, Any]) -> str:
    """Return all text that the model wrote in the JSON of an answer, or ""."""
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
    """Return a number in JSON as a count of tokens, or None for a value that cannot be one, such as
    1e30."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MOST_TOKENS:
        return None
    return round(value)
