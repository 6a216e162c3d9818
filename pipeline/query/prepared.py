"""A question that is ready to be sent to the chat model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pipeline.models.base import ChatReply, Message, Talk
from pipeline.query.context import Context
from pipeline.query.data_citations import UNCHECKED, DataCitations
from pipeline.query.request import QueryRequest
from pipeline.query.search.keywords import Keywords

Messages = tuple[Message, ...]
Abstention = Literal["", "nothing_found", "below_min_score", "no_room", "not_in_context"]
"""Reason why a question has no answer; "" if it has one.

nothing_found: the search found nothing. below_min_score: nothing found is similar enough. no_room:
nothing found fits into max_total_tokens. not_in_context: the model found no answer in the context.
"""


@dataclass(frozen=True)
class PreparedQuery:
    """A question with its evidence and messages, before the model is asked for the answer.

    ``abstention``: the reason not to ask the model. ``inquiry``: calls to make before the last one;
    they return the question prepared for the last call. ``messages``: those of the next call, or
    of the next calls together. ``replies``: replies already paid for. ``most_calls``: most calls
    that the question can take. ``citable``: records that the answer may cite as data.
    ``removed_citations``: number of citations removed from earlier replies. ``absence``: a clause
    that says which words of the question no passage has, or "".
    """

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
    absence: str = ""
    inquiry: "Callable[[], Talk[PreparedQuery]] | None" = None
