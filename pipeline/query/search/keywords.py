"""The question's keywords: themes (high level) and names and details (low level)."""

from dataclasses import dataclass

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.models.base import ChatModel, ChatReply, ChatRequest, readable
from pipeline.models.parse.graph import parse_keywords
from pipeline.query.request import QueryRequest

PLACEHOLDERS = Placeholders(("query",))
_CHECK = readable(parse_keywords, "no keyword lists in the reply")
SHORT_QUESTION = 50
"""Characters below which a question without keywords is a keyword itself."""


@dataclass(frozen=True)
class Keywords:
    """``reply``: what the model was paid for; None where it was not asked. ``notes``: what is to be said of it."""

    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    reply: ChatReply | None = None
    notes: tuple[str, ...] = ()


def find_keywords(request: QueryRequest, chat: ChatModel | None, prompt: Prompt) -> Keywords:
    """The caller's keywords, else the model's; without a model the question itself is both.

    Both lists empty: a short question becomes the low-level keyword, but not in mode ``global``. A model that fails
    gives none: the search is then that of ``naive``.
    """
    if request.hl_keywords or request.ll_keywords:
        return Keywords(request.hl_keywords, request.ll_keywords)
    if chat is None:
        return Keywords((request.query,), (request.query,))
    prompt.check(PLACEHOLDERS)
    message = {"role": "user", "content": prompt.render(query=request.query)}
    reply = chat.complete([ChatRequest("keywords", (message,), check=_CHECK)])[0]
    parsed = None if reply.reason else parse_keywords(reply.text)
    if parsed is None:
        why = reply.reason or "no keyword lists in the reply"
        return Keywords(reply=reply, notes=(f"no keywords from the chat model ({why})",))
    high, low = map(tuple, parsed)
    if not high and not low and request.mode != "global" and len(request.query) < SHORT_QUESTION:
        return Keywords((), (request.query,), reply, ("no keywords in the question: it is searched for as it is",))
    return Keywords(high, low, reply)
