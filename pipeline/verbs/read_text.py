"""The conversation with a chat model about one text, and the records that it yields.

Verbs that ask a model to extract records from text units use it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, NamedTuple

import pandas as pd

from pipeline.contract.reasons import PASSING_REASONS
from pipeline.contract.schemas import UNIT_TEXTS
from pipeline.errors import counted
from pipeline.models.base import ChatReply, ChatRequest, Message, Talk
from pipeline.models.parse.graph import (
    ParsedReply,
    Problem,
    cut_problem,
    failed,
    has_end_mark,
    unreadable,
)
from pipeline.models.parse.records import Item
from pipeline.text.headers import text_with_header
from pipeline.text.sentences import split_in_two

REPAIR: Message = {
    "role": "user",
    "content": (
        "Your last message could not be read. Write the same content again, complete, in exactly"
        " the output format that was asked for, with nothing before it and nothing after it."
    ),
}
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
ASKED_IN_HALVES = frozenset({"truncated", "too_long", "unread"})
"""Problems that a shorter text may solve: the reply was cut, or the prompt was too long or read
only in part."""


@dataclass(frozen=True)
class Mark:
    """A remark on a text, which becomes a reject.

    ``kind``: "row" if nothing of the text is used; "cut" if only the whole records of cut replies
    are; "record" if a part of a reply is lost; "recovered" if nothing is lost though the first
    reply was of no use; "unended" if a reply lacks the end mark that the prompt asks for."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Reading(Generic[Item]):
    """The records that were read from one text, and the remarks on it."""

    records: tuple[Item, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def uses_all_replies(self) -> bool:
        """True if whole records of cut replies are kept. Then only a retry asks for them again."""
        return any(mark.kind == "cut" for mark in self.marks)


@dataclass(frozen=True)
class Questions(Generic[Item]):
    """The requests about a text.

    ``opening`` returns the messages with which the conversation begins. ``glean`` is the prompt for
    records that were missed; it is used ``gleanings`` times. ``repair`` says whether an unreadable
    reply is requested once more. ``bounded_format`` is described at ChatRequest.
    ``earlier_opening`` returns the messages with which earlier versions began. ``header`` stands
    before the text in each request, also in requests about one half of it.
    """

    opening: Callable[[str], tuple[Message, ...]]
    parse: Callable[[str], ParsedReply[Item]]
    glean: str
    gleanings: int
    repair: bool
    response_format: Mapping[str, Any] | None = None
    bounded_format: Mapping[str, Any] | None = None
    earlier_opening: Callable[[str], tuple[Message, ...]] | None = None
    header: str = ""

    def ask(
        self,
        unit: str,
        text: str,
        turns: tuple[Message, ...] = (),
        mends: ChatRequest | None = None,
    ) -> ChatRequest:
        """Ask about a text. ``turns`` are the messages after the opening, the last one being new.

        The text is compared with the endpoint's token count only if there are no turns. In a longer
        conversation a server's prefix cache holds the text too, and some servers count only what
        that cache did not hold.
        """
        shown = text_with_header(self.header, text)
        messages = (*self.opening(shown), *turns)
        lacks_end = self.lacks_end if self.asks_for_end_mark(messages) else None
        request = ChatRequest(
            unit,
            messages,
            self.response_format,
            self.complaint,
            mends,
            bounded_format=self.bounded_format,
            lacks_end=lacks_end,
            text="" if turns else shown,
        )
        if self.earlier_opening is None:
            return request
        earlier = replace(request, messages=(*self.earlier_opening(shown), *turns))
        if earlier.messages == messages:
            return request
        return replace(request, earlier=(earlier,))

    def complaint(self, reply: str) -> str | None:
        """Return what is wrong with the text of a reply as a whole, or None."""
        parsed = self.parse(reply)
        problem = cut_problem(parsed) or unreadable(parsed, reply)
        return problem.message if problem else None

    def problem(self, reply: ChatReply) -> Problem | None:
        """Return what is wrong with a reply as a whole, or None. A cut reply may still hold whole
        records."""
        parsed = self.parse(reply.text)
        return failed(reply) or cut_problem(parsed) or unreadable(parsed, reply.text)

    def asks_for_end_mark(self, messages: tuple[Message, ...]) -> bool:
        """Return whether replies should end with a mark.

        They should if a message mentions the mark and no JSON is asked for.
        """
        if self.response_format is not None:
            return False
        return any(has_end_mark(message["content"]) for message in messages)

    def lacks_end(self, reply: str) -> bool:
        """Return whether a reply with records neither ends with the mark nor was cut visibly."""
        parsed = self.parse(reply)
        return bool(parsed.records) and not parsed.complete and not parsed.cut


class Passage(NamedTuple):
    """A text that a model is asked about, and its header; "" if it has none."""

    header: str
    text: str


def group_by_text(
    text_units: pd.DataFrame, headers: Mapping[str, str] = NO_HEADERS
) -> dict[Passage, list[str]]:
    """Map each distinct text to the ids of its text units.

    ``headers`` maps ids to headers. Equal texts with different headers are different.
    """
    units: dict[Passage, list[str]] = {}
    ordered = text_units.sort_values(list(UNIT_TEXTS.key))
    for id, text in zip(ordered["id"], ordered["text"], strict=True):
        passage = Passage(headers.get(id, ""), text)
        units.setdefault(passage, []).append(id)
    return units


def read_text(unit: str, text: str, questions: Questions[Item]) -> Talk[Reading[Item]]:
    """Hold the conversation about one text.

    If the reply was cut, or the prompt was not read whole, two halves of the text are asked about.
    An unreadable reply is asked for once more.
    """
    opening = questions.ask(unit, text)
    (reply,) = yield (opening,)
    problem = questions.problem(reply)
    if problem is None:
        return (yield from _glean(opening, text, reply, questions))
    if problem.reason in ASKED_IN_HALVES:
        return (yield from _ask_in_halves(opening, text, reply, problem, questions))
    if problem.reason == "parse" and questions.repair:
        return (yield from _ask_again(opening, text, reply, problem, questions))
    return Reading(marks=(Mark("row", problem.reason, problem.message),))


def _ask_in_halves(
    asked: ChatRequest, text: str, reply: ChatReply, problem: Problem, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    """Ask about two halves of a text, and join what they say with the whole records of the
    ``reply``.

    A text that cannot be divided is not asked about again. Where a half fails too, all whole
    records are kept; only a text without any is rejected as a row.
    """
    first = _read_whole_records(reply, questions)
    parts = split_in_two(text)
    requests = []
    if len(parts) > 1:
        requests = [questions.ask(asked.row_id, part, mends=asked) for part in parts]
    replies = (yield requests) if requests else []
    problems: list[Problem] = []
    readings: list[Reading[Item]] = []
    for half, request in zip(replies, requests, strict=True):
        problem_of_half = questions.problem(half)
        if problem_of_half:
            problems.append(problem_of_half)
            readings.append(_read_whole_records(half, questions))
        else:
            readings.append(_read_reply(half, request, questions))
    if replies and not problems:
        recovered = Mark("recovered", problem.reason, f"{problem.message}; read in two halves")
        return _join_readings(Reading(first.records, (recovered,)), *readings)

    kept = _join_readings(first, *readings)
    # A transient problem of a half is reported first: with its reason the next run asks again.
    transient = next((found for found in problems if found.reason in PASSING_REASONS), None)
    if problems:
        fact = f"half of the text: {(transient or problems[0]).message}"
    else:
        fact = "the text cannot be divided"
    message = f"{problem.message}; {fact}"
    if not kept.records:
        first_problem = problems[0] if problems else problem
        reason = (transient or first_problem).reason
        return Reading(marks=(Mark("row", reason, message),))
    reason = (transient or problem).reason
    message = f"{message}; kept: {counted(len(kept.records), 'whole record')}"
    return Reading(kept.records, (Mark("cut", reason, message), *kept.marks))


def _ask_again(
    opening: ChatRequest, text: str, bad: ChatReply, problem: Problem, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    """Ask once more after an unreadable reply; ask in halves if the second reply was cut."""
    again = questions.ask(opening.row_id, text, (as_message(bad), REPAIR), mends=opening)
    (reply,) = yield (again,)
    found = questions.problem(reply)
    if found is None:
        recovered = Mark("recovered", problem.reason, f"{problem.message}; read when asked again")
        return _join_readings(Reading(marks=(recovered,)), _read_reply(reply, again, questions))
    if found.reason == "truncated":
        return (yield from _ask_in_halves(again, text, reply, found, questions))
    return Reading(marks=(Mark("row", problem.reason, problem.message),))


def _glean(
    opening: ChatRequest, text: str, reply: ChatReply, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    """Return the records of a good reply, and those that the model adds when it is asked for more.

    If the first reply has no record, the model is not asked for more. After a gleaning that was
    cut, none follows; its whole records are kept.
    """
    reading = _read_reply(reply, opening, questions)
    if not reading.records:
        return reading
    turns: tuple[Message, ...] = ()
    for _ in range(questions.gleanings):
        turns = (*turns, as_message(reply), {"role": "user", "content": questions.glean})
        asked = questions.ask(opening.row_id, text, turns)
        (reply,) = yield (asked,)
        problem = questions.problem(reply)
        if problem and problem.reason == "truncated":
            message = f"{problem.message}, when asked for more; its whole records are kept"
            cut = Mark("cut", problem.reason, message)
            whole_records = _read_whole_records(reply, questions)
            return _join_readings(reading, whole_records, Reading(marks=(cut,)))
        if problem:
            lost = Mark("record", problem.reason, problem.message)
            return replace(reading, marks=(*reading.marks, lost))
        longer = _join_readings(reading, _read_reply(reply, asked, questions))
        if longer.records == reading.records:
            return longer
        reading = longer
    return reading


def as_message(reply: ChatReply) -> Message:
    """Return a reply as a message of the conversation, for the next request."""
    return {"role": "assistant", "content": reply.text}


def _read_reply(
    reply: ChatReply, request: ChatRequest, questions: Questions[Item]
) -> Reading[Item]:
    """Return the records of a good reply to the request, and remarks on unreadable ones."""
    parsed = questions.parse(reply.text)
    marks = [Mark("record", "record", problem.message) for problem in parsed.problems]
    if request.lacks_end and request.lacks_end(reply.text):
        message = "the reply has no end mark; it may have been cut between two records"
        marks.append(Mark("unended", "unended", message))
    return Reading(tuple(dict.fromkeys(parsed.records)), tuple(marks))


def _read_whole_records(reply: ChatReply, questions: Questions[Item]) -> Reading[Item]:
    """Return the whole records of a cut reply, and remarks on unreadable ones.

    The record at which the reply was cut gets no remark.
    """
    parsed = questions.parse(reply.text)
    marks = [
        Mark("record", "record", problem.message)
        for problem in parsed.problems
        if problem.reason != "truncated"
    ]
    distinct_records = tuple(dict.fromkeys(parsed.records))
    return Reading(distinct_records, tuple(marks))


def _join_readings(*readings: Reading[Item]) -> Reading[Item]:
    """Return each record once, in the order of the readings, and all remarks.

    Of several remarks on a missing end mark, only the first is kept; it becomes the last remark.
    """
    # A dictionary keeps each record once, in order.
    records: dict[Item, None] = {}
    unended: list[Mark] = []
    others: list[Mark] = []
    for reading in readings:
        records |= dict.fromkeys(reading.records)
        for mark in reading.marks:
            if mark.kind == "unended":
                unended.append(mark)
            else:
                others.append(mark)
    return Reading(tuple(records), (*others, *unended[:1]))


def reject_rows(found: Iterable[tuple[str, Iterable[Mark]]]) -> Iterator[dict[str, str]]:
    """Yield rows of REJECTS; ``found`` has pairs of a row's id and the remarks on it."""
    for unit, marks in found:
        for mark in marks:
            yield {"step": "", "row_id": unit, **vars(mark)}
