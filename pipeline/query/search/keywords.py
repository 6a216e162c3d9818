"""Keywords of a question: high-level ones are themes, low-level ones are names and details."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.errors import AuthError, ModelError, NoSuchModelError
from pipeline.models.base import ChatModel, ChatReply, ChatRequest, readable
from pipeline.query.request import QueryRequest

PLACEHOLDERS = Placeholders(("query",))
SHORT_QUESTION = 50
"""Characters; a shorter question without keywords is used as a keyword itself."""
LONGEST_TURN = 1000
"""Characters of a turn of the conversation that are read for keywords."""
UNREADABLE = "no keyword lists in the reply"


@dataclass(frozen=True)
class Keywords:
    """The keywords of a question, and how they were found.

    ``question``: the question in a form that can be understood without its conversation, or "" if
    the model gave none. ``reply``: the model's reply; None if it was not asked. ``notes``: messages
    for the caller.
    """

    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    reply: ChatReply | None = None
    notes: tuple[str, ...] = ()
    question: str = ""


def find_keywords(
    request: QueryRequest,
    chat: ChatModel | None,
    prompt: Prompt,
    form: Mapping[str, Any] | None = None,
) -> Keywords:
    """Return the keywords that the request gives, or ask the model for them.

    ``form`` is the ``response_format`` of the call. Without a model, or if it fails or its reply
    cannot be read, the question itself is both kinds of keywords. If the model finds none, a short
    question becomes the low-level keyword, except in mode ``global``. Raises SettingsError if the
    prompt has wrong placeholders.
    """
    if request.hl_keywords or request.ll_keywords:
        return Keywords(request.hl_keywords, request.ll_keywords)
    question_itself = Keywords((request.searched,), (request.searched,))
    if chat is None:
        return question_itself
    # This import loads a library that other questions do not need.
    from pipeline.models.parse.graph import parse_keywords

    prompt.check(PLACEHOLDERS)
    message = {"role": "user", "content": prompt.render(query=_with_conversation(request))}
    check = readable(parse_keywords, UNREADABLE)
    try:
        reply = chat.complete([ChatRequest("keywords", (message,), form, check=check)])[0]
    except (AuthError, ModelError, NoSuchModelError) as error:
        return replace(question_itself, notes=(_no_keywords_note(str(error)),))
    parsed = None if reply.reason else parse_keywords(reply.text)
    if parsed is None:
        note = _no_keywords_note(reply.reason or UNREADABLE)
        return replace(question_itself, reply=reply, notes=(note,))
    high, low = tuple(parsed.high), tuple(parsed.low)
    standalone = parsed.question[:LONGEST_TURN] if request.conversation_history else ""
    is_short = len(request.query) < SHORT_QUESTION
    if not high and not low and request.mode != "global" and is_short:
        note = "no keywords in the question: it is searched for as it is"
        return Keywords((), (standalone or request.searched,), reply, (note,), standalone)
    return Keywords(high, low, reply, question=standalone)


def choose_search_text(request: QueryRequest, keywords: Keywords) -> str:
    """Return the text to search for: the model's standalone question, if it gave one.

    Otherwise it is the question together with the questions before it.
    """
    return keywords.question or request.searched


def _no_keywords_note(reason: str) -> str:
    return f"no keywords from the chat model, the question is searched for ({reason})"


def _with_conversation(request: QueryRequest) -> str:
    """Return the question followed by the turns before it, to which it may refer."""
    if not request.conversation_history:
        return request.query
    turns = [
        f"{turn.role}: {' '.join(turn.content.split())[:LONGEST_TURN]}"
        for turn in request.conversation_history
    ]
    return "\n".join([request.query, "Conversation before it, the oldest turn first:", *turns])
