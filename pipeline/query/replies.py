"""Replies of calls before the last one: some may be bad, not all."""

from collections.abc import Sequence

from pipeline.errors import ModelError
from pipeline.models.base import ChatReply


def refuse_failed(reply: ChatReply) -> None:
    """Raises ModelError for a reply that is no answer."""
    if reply.reason:
        raise ModelError(f"query: the chat model gave no answer ({reply.reason}: {reply.message}); ask again")


def refuse_all_failed(replies: Sequence[ChatReply]) -> None:
    """Raises ModelError where none of the replies says anything."""
    if replies and all(reply.reason for reply in replies):
        refuse_failed(replies[0])


def told_failures(replies: Sequence[ChatReply], of: str) -> tuple[str, ...]:
    """What is to be said of replies that could not be read, or only in part."""
    bad = [reply.reason or reply.message for reply in replies if not reply.good]
    return (f"{len(bad)} of {len(replies)} {of} were not, or not wholly, read by the model ({bad[0]})",) if bad else ()
