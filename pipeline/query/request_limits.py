"""Limits of a request: system turns, the model's window, long questions and long conversations.

Each function returns the request, changed where it exceeds a limit, and notes for the caller.
"""

from pipeline.errors import UsageError, counted
from pipeline.models.base import Tokenizer
from pipeline.models.measured import Measured
from pipeline.query.request import QueryRequest

LONG_QUESTION = 1000
"""Tokens; a question up to this length is searched for even if the budget has no room for it."""
Notes = tuple[str, ...]


def remove_system_turns(request: QueryRequest, allowed: bool) -> tuple[QueryRequest, Notes]:
    """Remove the conversation's system turns unless they are ``allowed``.

    A system turn would give the model other rules than the project's, as a system prompt does.
    """
    kept = tuple(turn for turn in request.conversation_history if turn.role != "system")
    left_out = len(request.conversation_history) - len(kept)
    if allowed or not left_out:
        return request, ()
    note = (
        f"{counted(left_out, 'system turn')} of the conversation left out: system prompts are not"
        " allowed here"
    )
    return request.model_copy(update={"conversation_history": kept}), (note,)


def limit_to_window(
    request: QueryRequest, measured: Measured, longest_reply: int | None = None
) -> tuple[QueryRequest, Notes]:
    """Lower the prompt's budget to what the model reads.

    Mode ``bypass`` has no evidence that could be shortened. ``longest_reply`` is the model's
    max_tokens.
    """
    most = measured.longest_prompt(longest_reply)
    if most is None or request.mode == "bypass" or request.max_total_tokens <= most:
        return request, ()
    note = (
        f"max_total_tokens is {most:,}, not {request.max_total_tokens:,}: the chat model reads"
        f" about {measured.window:,} tokens, its reply included, {measured.known_from}"
    )
    return request.model_copy(update={"max_total_tokens": most}), (note,)


def refuse_long_question(request: QueryRequest, tokenizer: Tokenizer) -> None:
    """Raise UsageError for a question that leaves no room for evidence.

    Searching for so long a question would take long.
    """
    tokens = tokenizer.count(request.query)
    if tokens > max(request.max_total_tokens, LONG_QUESTION):
        raise UsageError(
            f"query: the question has {tokens:,} tokens; shorten it, or raise max_total_tokens"
        )


def shorten_conversation(request: QueryRequest, tokenizer: Tokenizer) -> tuple[QueryRequest, Notes]:
    """Keep only the end of the conversation, within ``history_turns`` and ``history_share``.

    What is kept does not begin with an answer. Mode ``bypass`` keeps everything.
    """
    turns = request.conversation_history
    if request.mode == "bypass":
        return request, ()
    most_tokens = int(request.max_total_tokens * request.history_share)
    n_kept, n_questions, n_tokens = 0, 0, 0
    for turn in reversed(turns):
        if turn.role == "user":
            n_questions += 1
        n_tokens += tokenizer.count(turn.content)
        if n_questions > request.history_turns or n_tokens > most_tokens:
            break
        n_kept += 1
    kept = turns[len(turns) - n_kept :]
    while kept and len(kept) < len(turns) and kept[0].role == "assistant":
        kept = kept[1:]
    if len(kept) == len(turns):
        return request, ()
    note = (
        f"the oldest {len(turns) - len(kept)} of {len(turns)} turns are left out (history_turns,"
        " history_share)"
    )
    return request.model_copy(update={"conversation_history": kept}), (note,)
