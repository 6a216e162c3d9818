"""A second attempt with a shorter prompt after the model refused the first as too long."""

from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import PromptTooLongError
from pipeline.models.no_answer import limits_in
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.settings.query_fields import REPORT_MODES

Result = TypeVar("Result")
UNTOLD_SHARE = 0.5
"""Share of a refused prompt that is tried if the refusal does not name the model's window."""
SHORTEN = "shorten the question, or the conversation before it"


def ask_within_window(
    request: QueryRequest,
    resources: QueryResources,
    ask: Callable[[QueryRequest, tuple[str, ...]], Result],
) -> Result:
    """Return the result of ``ask``; if its prompt is too long, ask once more with a shorter one.

    ``ask`` receives a request and notes for the caller. Raises PromptTooLongError if the second
    prompt is refused too.
    """
    try:
        return ask(request, ())
    except PromptTooLongError as refusal:
        shorter, note = shorten_prompt(request, resources, refusal)
    return ask(shorter, (note,))


def shorten_prompt(
    request: QueryRequest, resources: QueryResources, refusal: PromptTooLongError
) -> tuple[QueryRequest, str]:
    """Return the request with a budget that its model accepts, and a note for the caller.

    A window that the refusal names is stored for later questions. Raises PromptTooLongError, with
    other advice, if a smaller budget cannot help.
    """
    if request.mode == "bypass":
        raise PromptTooLongError(refusal.fact, SHORTEN)
    window = limits_in(refusal.fact).window_in_our_tokens(refusal.sent)
    if window is None:
        sent = refusal.sent or _largest_prompt(request)
        most = int(sent * UNTOLD_SHARE)
        said = (
            f"the chat model refused a prompt of about {sent:,} tokens, and did not say how many it"
            " reads"
        )
        action = "lower query.max_total_tokens; 'graphmill doctor --long' measures it"
        return (
            _with_budget(request, most),
            f"{said}: it was asked again with at most {most:,}; {action}",
        )
    if refusal.sent:
        # Tokenizers differ, but what was refused is longer than the window.
        window = min(window, refusal.sent)
    longest_reply = resources.longest_reply(request.model)
    if longest_reply and longest_reply >= window:
        fact = f"{refusal.fact}: max_tokens, {longest_reply:,}, leaves no room for a prompt"
        raise PromptTooLongError(fact, "lower max_tokens of the model in settings.yaml")
    learnt = resources.learn_window(request.model, window)
    most = learnt.longest_prompt(longest_reply) or window
    said = (
        f"the chat model refused a prompt as too long: it reads about {window:,} tokens, its reply"
        " included"
    )
    return (
        _with_budget(request, most),
        f"{said}; it was asked again with at most {most:,}, as later questions are",
    )


def _largest_prompt(request: QueryRequest) -> int:
    if request.mode in REPORT_MODES:
        return min(request.max_total_tokens, request.max_map_tokens)
    return request.max_total_tokens


def _with_budget(request: QueryRequest, most: int) -> QueryRequest:
    return request.model_copy(update={"max_total_tokens": most})
