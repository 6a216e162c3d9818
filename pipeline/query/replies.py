"""Replies of the chat model: failed ones are refused or asked for again, and notes on them."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.models.base import ChatReply, ChatRequest, Message, Talk
from pipeline.models.no_answer import no_answer

LEAST_TO_COMPARE, FAR_BELOW = 1000, 0.6
"""Bounds for the conclusion that an endpoint has cut a prompt.

LEAST_TO_COMPARE: least tokens of the prompt. FAR_BELOW: the endpoint's count is below this share
of ours. Tokenizers differ, in some languages by a third.
"""
WRITE_AGAIN: Message = {
    "role": "user",
    "content": (
        "Your last message could not be read. Write the same content again, complete, in exactly"
        " the form that was asked for, and nothing else."
    ),
}


def refuse_failed(reply: ChatReply, sent: int | None = None) -> None:
    """Raise ModelError if the reply failed, PromptTooLongError if its prompt was too long.

    ``sent`` is the number of tokens of the prompt.
    """
    if reply.reason:
        fact = f"query: the chat model gave no answer ({reply.reason}: {reply.message})"
        raise no_answer(fact, reply.reason, sent)


def refuse_all_failed(replies: Sequence[ChatReply]) -> None:
    """Raise as ``refuse_failed`` if all replies failed."""
    if replies and all(reply.reason for reply in replies):
        refuse_failed(replies[0])


def ask_twice(
    requests: Sequence[ChatRequest], most: int
) -> Talk[tuple[list[ChatReply], list[ChatReply]]]:
    """Ask for a reply to each request, and ask again for at most ``most`` unreadable ones.

    Return the best reply to each request, and all replies, which have to be paid for.
    """
    replies = list((yield requests))
    unreadable = [place for place, reply in enumerate(replies) if not reply.good and reply.text]
    repeated = unreadable[: max(most, 0)]
    if not repeated:
        return replies, replies
    second_replies = yield [_ask_again(requests[place], replies[place]) for place in repeated]
    best = list(replies)
    for place, second in zip(repeated, second_replies, strict=True):
        if second.good:
            best[place] = second
    return best, [*replies, *second_replies]


def _ask_again(request: ChatRequest, reply: ChatReply) -> ChatRequest:
    """Return the request continued by the unreadable reply and the wish to write it again."""
    said: Message = {"role": "assistant", "content": reply.text}
    return replace(request, messages=(*request.messages, said, WRITE_AGAIN), mends=request)


def note_cut_prompt(prompt: int, reply: ChatReply | None) -> tuple[str, ...]:
    """Return a note if the endpoint counted far less than the ``prompt`` tokens that were sent."""
    if reply is None or prompt < LEAST_TO_COMPARE:
        return ()
    # An endpoint that counts nothing gives 0.
    if reply.input_tokens <= 0 or reply.input_tokens >= FAR_BELOW * prompt:
        return ()
    note = (
        f"the endpoint counted {reply.input_tokens:,} tokens of a prompt of about {prompt:,}:"
        " the model may have seen only a part of what was found; 'graphmill doctor --long'"
        " measures how much it reads"
    )
    return (note,)


def note_failures(replies: Sequence[ChatReply], kind: str) -> tuple[str, ...]:
    """Return a note on the replies that were not, or only partly, readable.

    ``kind`` names in the plural what the replies are about.
    """
    bad = [reply.reason or reply.message for reply in replies if not reply.good]
    if not bad:
        return ()
    note = (
        f"{len(bad)} of {len(replies)} {kind} were not, or not wholly, read by the model ({bad[0]})"
    )
    return (note,)
