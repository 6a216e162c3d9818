"""The conversation about one text, and what was read of it: for verbs that ask a model what a text
says."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic

import pandas as pd

from pipeline.contract.reasons import PASSING_REASONS
from pipeline.contract.schemas import TEXT_UNITS
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
from pipeline.text.sentences import halves

REPAIR: Message = {
    "role": "user",
    "content": (
        "Your last message could not be read. Write the same content again, complete, in exactly"
        " the output format that was asked for, with nothing before it and nothing after it."
    ),
}


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
        """Whether cut replies are kept for their whole records. Then only a retry asks for them
        again."""
        return any(mark.kind == "cut" for mark in self.marks)


@dataclass(frozen=True)
class Questions(Generic[Item]):
    """What may be asked about a text. ``opening``: the messages it begins with; ``glean``: the
    prompt for what was missed, used ``gleanings`` times; ``repair``: whether an unreadable reply is
    asked for once more.

    ``bounded_format``: see ChatRequest. ``earlier_opening``: the messages with which earlier
    versions began."""

    opening: Callable[[str], tuple[Message, ...]]
    parse: Callable[[str], ParsedReply[Item]]
    glean: str
    gleanings: int
    repair: bool
    response_format: Mapping[str, Any] | None = None
    bounded_format: Mapping[str, Any] | None = None
    earlier_opening: Callable[[str], tuple[Message, ...]] | None = None

    def ask(
        self,
        unit: str,
        text: str,
        turns: tuple[Message, ...] = (),
        mends: ChatRequest | None = None,
    ) -> ChatRequest:
        """Ask about a text. ``turns``: what was said after the opening, and what is asked now.

        The text is compared with the endpoint's token count only if there are no turns. In a longer
        conversation a server's prefix cache holds the text too, and some servers count only what
        that cache did not hold.
        """
        messages = (*self.opening(text), *turns)
        request = ChatRequest(
            unit,
            messages,
            self.response_format,
            self.complaint,
            mends,
            bounded_format=self.bounded_format,
            lacks_end=self.lacks_end if self.asks_for_end_mark(messages) else None,
            text="" if turns else text,
        )
        if self.earlier_opening is None:
            return request
        earlier = replace(request, messages=(*self.earlier_opening(text), *turns))
        return request if earlier.messages == messages else replace(request, earlier=(earlier,))

    def complaint(self, reply: str) -> str | None:
        parsed = self.parse(reply)
        problem = cut_problem(parsed) or unreadable(parsed, reply)
        return problem.message if problem else None

    def problem(self, reply: ChatReply) -> Problem | None:
        """Return what is wrong with a reply as a whole, or None. A cut reply may still hold whole
        records."""
        parsed = self.parse(reply.text)
        return failed(reply) or cut_problem(parsed) or unreadable(parsed, reply.text)

    def asks_for_end_mark(self, messages: tuple[Message, ...]) -> bool:
        """Whether replies end with a mark: it stands in the prompt, and no JSON is asked for."""
        return self.response_format is None and any(
            has_end_mark(message["content"]) for message in messages
        )

    def lacks_end(self, reply: str) -> bool:
        parsed = self.parse(reply)
        return bool(parsed.records) and not parsed.complete and not parsed.cut


def by_text(text_units: pd.DataFrame) -> dict[str, list[str]]:
    """Each text once, with the ids of its units."""
    units: dict[str, list[str]] = {}
    ordered = text_units.sort_values(list(TEXT_UNITS.key))
    for id, text in zip(ordered["id"], ordered["text"], strict=True):
        units.setdefault(text, []).append(id)
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
        return (yield from _gleaned(opening, text, reply, questions))
    if problem.reason in ASKED_IN_HALVES:
        return (yield from _by_halves(opening, text, reply, problem, questions))
    if problem.reason == "parse" and questions.repair:
        return (yield from _repaired(opening, text, reply, problem, questions))
    return Reading(marks=(Mark("row", problem.reason, problem.message),))


def _by_halves(
    asked: ChatRequest, text: str, reply: ChatReply, problem: Problem, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    """Ask about two halves of a text, and join what they say with the whole records of the
    ``reply``.

    A text that cannot be divided is not asked about again. Where a half fails too, all whole
    records are kept; only a text without any is rejected as a row.
    """
    first = _whole_records(reply, questions)
    parts = halves(text)
    requests = (
        [questions.ask(asked.row_id, part, mends=asked) for part in parts] if len(parts) > 1 else []
    )
    replies = (yield requests) if requests else []
    problems = [found for half in replies if (found := questions.problem(half))]
    readings = [
        (
            _whole_records(half, questions)
            if questions.problem(half)
            else _reading(half, request, questions)
        )
        for half, request in zip(replies, requests, strict=True)
    ]
    if replies and not problems:
        recovered = Mark("recovered", problem.reason, f"{problem.message}; read in two halves")
        return _joined(Reading(first.records, (recovered,)), *readings)
    kept = _joined(first, *readings)
    # The reason of a half that another try may mend is told first: with it the next run asks again.
    passing = next((found for found in problems if found.reason in PASSING_REASONS), None)
    halves_too = (
        f"half of the text: {(passing or problems[0]).message}"
        if problems
        else "the text cannot be divided"
    )
    message = f"{problem.message}; {halves_too}"
    if not kept.records:
        reason = (passing or (problems or [problem])[0]).reason
        return Reading(marks=(Mark("row", reason, message),))
    reason = (passing or problem).reason
    message = f"{message}; kept: {counted(len(kept.records), 'whole record')}"
    return Reading(kept.records, (Mark("cut", reason, message), *kept.marks))


def _repaired(
    opening: ChatRequest, text: str, bad: ChatReply, problem: Problem, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    again = questions.ask(opening.row_id, text, (said(bad), REPAIR), mends=opening)
    (reply,) = yield (again,)
    found = questions.problem(reply)
    if found is None:
        recovered = Mark("recovered", problem.reason, f"{problem.message}; read when asked again")
        return _joined(Reading(marks=(recovered,)), _reading(reply, again, questions))
    if found.reason == "truncated":
        return (yield from _by_halves(again, text, reply, found, questions))
    return Reading(marks=(Mark("row", problem.reason, problem.message),))


def _gleaned(
    opening: ChatRequest, text: str, reply: ChatReply, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    """Return what a good reply says, and what the model adds to it when it is asked for more.

    If the first reply has no record, no more is asked. A gleaning that was cut is the last: its
    whole records are kept.
    """
    reading = _reading(reply, opening, questions)
    turns: tuple[Message, ...] = ()
    for _ in range(questions.gleanings if reading.records else 0):
        turns = (*turns, said(reply), {"role": "user", "content": questions.glean})
        asked = questions.ask(opening.row_id, text, turns)
        (reply,) = yield (asked,)
        problem = questions.problem(reply)
        if problem and problem.reason == "truncated":
            cut = Mark(
                "cut",
                problem.reason,
                f"{problem.message}, when asked for more; its whole records are kept",
            )
            return _joined(reading, _whole_records(reply, questions), Reading(marks=(cut,)))
        if problem:
            return replace(
                reading, marks=(*reading.marks, Mark("record", problem.reason, problem.message))
            )
        longer = _joined(reading, _reading(reply, asked, questions))
        if longer.records == reading.records:
            return longer
        reading = longer
    return reading


def said(reply: ChatReply) -> Message:
    return {"role": "assistant", "content": reply.text}


def _reading(reply: ChatReply, request: ChatRequest, questions: Questions[Item]) -> Reading[Item]:
    """Return what a good reply to the request says."""
    parsed = questions.parse(reply.text)
    marks = [Mark("record", "record", problem.message) for problem in parsed.problems]
    if request.lacks_end and request.lacks_end(reply.text):
        marks.append(
            Mark(
                "unended",
                "unended",
                "the reply has no end mark; it may have been cut between two records",
            )
        )
    return Reading(tuple(dict.fromkeys(parsed.records)), tuple(marks))


def _whole_records(reply: ChatReply, questions: Questions[Item]) -> Reading[Item]:
    """Return the whole records of a reply that was cut, and remarks on its unreadable ones; the cut
    one is none."""
    parsed = questions.parse(reply.text)
    bad = [problem for problem in parsed.problems if problem.reason != "truncated"]
    marks = (Mark("record", "record", problem.message) for problem in bad)
    return Reading(tuple(dict.fromkeys(parsed.records)), tuple(marks))


def _joined(*readings: Reading[Item]) -> Reading[Item]:
    """Return each record once, in the order of the readings, and all remarks; a missing end mark is
    told once."""
    records = dict.fromkeys(record for reading in readings for record in reading.records)
    marks = [mark for reading in readings for mark in reading.marks]
    unended = [mark for mark in marks if mark.kind == "unended"]
    return Reading(
        tuple(records), (*(mark for mark in marks if mark.kind != "unended"), *unended[:1])
    )


def rejects(found: Iterable[tuple[str, Iterable[Mark]]]) -> Iterator[dict[str, str]]:
    """Rows of the table of rejects, of (row id, what is to be said of it)."""
    for unit, marks in found:
        for mark in marks:
            yield {"step": "", "row_id": unit, **vars(mark)}
