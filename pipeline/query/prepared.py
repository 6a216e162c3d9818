"""A question made ready for the chat model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pipeline.models.base import ChatReply, Talk
from pipeline.query.context import Context
from pipeline.query.data_citations import UNCHECKED, DataCitations
from pipeline.query.keywords import Keywords
from pipeline.query.messages import Messages
from pipeline.query.request import QueryRequest

Abstention = Literal["", "nothing_found", "below_min_score", "no_room", "not_in_context"]
"""Why there is no answer: the search found nothing; nothing similar enough; nothing fits into max_total_tokens; the
model found the answer in none of what it was shown."""


@dataclass(frozen=True)
class Prepared:
    """Everything before the model is asked for the answer. ``abstention``: why it is not to be asked.

    ``inquiry``: what is to be asked before that; it returns the question made ready for the last call. ``messages`` are
    those of the next call, or of the calls that come next. ``replies``: what was paid for already; ``most_calls``: how
    many calls the question can take in all. ``citable``: what the answer may cite as data; ``removed_citations``: those
    taken out of earlier replies."""

    request: QueryRequest
    keywords: Keywords
    context: Context
    messages: Messages
    timings: dict[str, float]
    abstention: Abstention
    notes: tuple[str, ...]
    most_calls: int = 1
    replies: tuple[ChatReply, ...] = ()
    citable: DataCitations = UNCHECKED
    removed_citations: int = 0
    inquiry: "Callable[[], Talk[Prepared]] | None" = None
