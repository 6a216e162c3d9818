"""The question's keywords: themes (high level) and names and details (low level)."""

from dataclasses import dataclass

from pipeline.models.base import ChatModel, ChatRequest
from pipeline.models.parse import parse_keywords
from pipeline.prompts import Placeholders, Prompt
from pipeline.query.request import QueryRequest

PLACEHOLDERS = Placeholders(("query",))
SHORT_QUESTION = 50
"""Characters below which a question without keywords is a keyword itself."""


@dataclass(frozen=True)
class Keywords:
    high: tuple[str, ...]
    low: tuple[str, ...]


def find_keywords(request: QueryRequest, chat: ChatModel | None, prompt: Prompt) -> Keywords:
    """The caller's keywords, else the model's. Without a model, or where it fails, the question itself is both.

    Both lists empty: a short question becomes the low-level keyword.
    """
    if request.hl_keywords or request.ll_keywords:
        return Keywords(request.hl_keywords, request.ll_keywords)
    itself = Keywords((request.query,), (request.query,))
    if chat is None:
        return itself
    prompt.check(PLACEHOLDERS)
    message = {"role": "user", "content": prompt.render(query=request.query)}
    reply = chat.complete([ChatRequest("keywords", (message,), check=_unreadable)])[0]
    parsed = None if reply.reason else parse_keywords(reply.text)
    if parsed is None:
        return itself
    high, low = parsed
    if not high and not low and len(request.query) < SHORT_QUESTION:
        low = [request.query]
    return Keywords(tuple(high), tuple(low))


def _unreadable(text: str) -> str | None:
    return None if parse_keywords(text) is not None else "no keyword lists in the reply"
