"""The conversation about one text, and what was read of it: for verbs that ask a model what a text says."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic

import pandas as pd

from pipeline.contract.schemas import TEXT_UNITS
from pipeline.models.base import ChatReply, ChatRequest, Message, Talk
from pipeline.models.parse.graph import ParsedReply, Problem, failed, unreadable
from pipeline.models.parse.records import Item
from pipeline.text.sentences import halves

REPAIR: Message = {
    "role": "user",
    "content": "Your last message could not be read. Write the same content again, complete, in exactly the output "
    "format that was asked for, with nothing before it and nothing after it.",
}


@dataclass(frozen=True)
class Mark:
    """``kind``: "row" when nothing of the text is used, "record" when a part of it is lost, "recovered" when all is
    there though the first reply was of no use."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Reading(Generic[Item]):
    """What was read from one text."""

    records: tuple[Item, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Questions(Generic[Item]):
    """What may be asked about a text. ``opening``: the messages it begins with; ``glean``: the prompt for what was
    missed, used ``gleanings`` times; ``repair``: whether an unreadable reply is asked for once more.

    ``bounded_format``: see ChatRequest. ``earlier_opening``: the messages with which earlier versions began."""

    opening: Callable[[str], tuple[Message, ...]]
    parse: Callable[[str], ParsedReply[Item]]
    glean: str
    gleanings: int
    repair: bool
    response_format: Mapping[str, Any] | None = None
    bounded_format: Mapping[str, Any] | None = None
    earlier_opening: Callable[[str], tuple[Message, ...]] | None = None

    def ask(
        self, unit: str, text: str, turns: tuple[Message, ...] = (), mends: ChatRequest | None = None
    ) -> ChatRequest:
        """Ask about a text. ``turns``: what was said after the opening, and what is asked now."""
        messages = (*self.opening(text), *turns)
        request = ChatRequest(
            unit, messages, self.response_format, self.complaint, mends, bounded_format=self.bounded_format
        )
        if self.earlier_opening is None:
            return request
        earlier = replace(request, messages=(*self.earlier_opening(text), *turns))
        return request if earlier.messages == messages else replace(request, earlier=(earlier,))

    def complaint(self, reply: str) -> str | None:
        problem = unreadable(self.parse(reply), reply)
        return problem.message if problem else None

    def problem(self, reply: ChatReply) -> Problem | None:
        """What makes the reply useless."""
        return failed(reply) or unreadable(self.parse(reply.text), reply.text)


def by_text(text_units: pd.DataFrame) -> dict[str, list[str]]:
    """Each text once, with the ids of its units."""
    units: dict[str, list[str]] = {}
    ordered = text_units.sort_values(list(TEXT_UNITS.key))
    for id, text in zip(ordered["id"], ordered["text"], strict=True):
        units.setdefault(text, []).append(id)
    return units


def read_text(unit: str, text: str, questions: Questions[Item]) -> Talk[Reading[Item]]:
    """The conversation about one text. A reply that was cut off is asked for again in two halves of the text, an
    unreadable one once more as it is."""
    opening = questions.ask(unit, text)
    (reply,) = yield (opening,)
    problem = questions.problem(reply)
    if problem is None:
        return (yield from _gleaned(unit, text, reply, questions))
    if problem.reason == "truncated":
        return (yield from _by_halves(opening, text, problem, questions))
    if problem.reason == "parse" and questions.repair:
        return (yield from _repaired(opening, text, reply, problem, questions))
    return Reading(marks=(Mark("row", problem.reason, problem.message),))


def _by_halves(opening: ChatRequest, text: str, problem: Problem, questions: Questions[Item]) -> Talk[Reading[Item]]:
    replies = yield [questions.ask(opening.row_id, half, mends=opening) for half in halves(text)]
    problems = [found for found in map(questions.problem, replies) if found]
    if problems or not replies:
        worst = (problems or [problem])[0]
        return Reading(marks=(Mark("row", worst.reason, f"{worst.message}, also for half of the text"),))
    recovered = Mark("recovered", problem.reason, f"{problem.message}; read in two halves")
    readings = [_reading(questions.parse(reply.text)) for reply in replies]
    return _joined(Reading(marks=(recovered,)), *readings)


def _repaired(
    opening: ChatRequest, text: str, bad: ChatReply, problem: Problem, questions: Questions[Item]
) -> Talk[Reading[Item]]:
    (reply,) = yield (questions.ask(opening.row_id, text, (said(bad), REPAIR), mends=opening),)
    if questions.problem(reply):
        return Reading(marks=(Mark("row", problem.reason, problem.message),))
    recovered = Mark("recovered", problem.reason, f"{problem.message}; read when asked again")
    return _joined(Reading(marks=(recovered,)), _reading(questions.parse(reply.text)))


def _gleaned(unit: str, text: str, reply: ChatReply, questions: Questions[Item]) -> Talk[Reading[Item]]:
    """The reading of a good reply, and of what the model adds to it when it is asked for more; where it found
    nothing it is not asked."""
    reading = _reading(questions.parse(reply.text))
    turns: tuple[Message, ...] = ()
    for _ in range(questions.gleanings if reading.records else 0):
        turns = (*turns, said(reply), {"role": "user", "content": questions.glean})
        (reply,) = yield (questions.ask(unit, text, turns),)
        problem = questions.problem(reply)
        if problem:
            return replace(reading, marks=(*reading.marks, Mark("record", problem.reason, problem.message)))
        longer = _joined(reading, _reading(questions.parse(reply.text)))
        if longer.records == reading.records:
            return longer
        reading = longer
    return reading


def said(reply: ChatReply) -> Message:
    return {"role": "assistant", "content": reply.text}


def _reading(parsed: ParsedReply[Item]) -> Reading[Item]:
    marks = (Mark("record", "record", problem.message) for problem in parsed.problems)
    return Reading(tuple(dict.fromkeys(parsed.records)), tuple(marks))


def _joined(*readings: Reading[Item]) -> Reading[Item]:
    """Each record once, in order."""
    records = dict.fromkeys(record for reading in readings for record in reading.records)
    return Reading(tuple(records), tuple(mark for reading in readings for mark in reading.marks))


def rejects(found: Iterable[tuple[str, Iterable[Mark]]]) -> Iterator[dict[str, str]]:
    """Rows of the table of rejects, of (row id, what is to be said of it)."""
    for unit, marks in found:
        for mark in marks:
            yield {"step": "", "row_id": unit, **vars(mark)}
