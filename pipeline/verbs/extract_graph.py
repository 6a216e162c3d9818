"""extract_graph: what a chat model says about each text unit, kept as it was said."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import pandas as pd
from pydantic import Field

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Message, Talk
from pipeline.models.parse import (
    ASK_FOR_GRAPH_JSON,
    GRAPH_JSON_FORMAT,
    Entity,
    Parsed,
    Problem,
    Record,
    failed,
    parse_graph_json,
    parse_records,
    unreadable,
)
from pipeline.prompts import Placeholders, Prompt
from pipeline.registry import Params, verb
from pipeline.schemas import EXTRACTIONS, REJECTS, TEXT_UNITS
from pipeline.sentences import halves
from pipeline.text import match_key

Format = Literal["records", "json"]
REPAIR: Message = {
    "role": "user",
    "content": "Your last message could not be read. Write the same content again, complete, in exactly the output "
    "format that was asked for, with nothing before it and nothing after it.",
}


class ExtractParams(Params):
    """``gleanings``: how often the model is asked for what it missed. ``format``: of its replies; "json"
    needs an endpoint that takes a JSON schema. ``repair``: whether an unreadable reply is asked for once more.
    ``ungrounded``: what becomes of records with a name that does not stand in their text: "drop", or "flag" and "keep",
    which are one: ``grounded`` tells them."""

    entity_types: tuple[str, ...] = ("person", "organization", "location", "event", "concept")
    gleanings: int = Field(default=0, ge=0, le=5)
    format: Format = "records"
    repair: bool = True
    ungrounded: Literal["keep", "flag", "drop"] = "flag"


@dataclass(frozen=True)
class Mark:
    """``kind``: "row" when nothing of the text is used, "record" when a part of it is lost, "recovered" when all is
    there though the first reply was of no use."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Reading:
    """What was read from one text."""

    records: tuple[Record, ...] = ()
    marks: tuple[Mark, ...] = ()


@verb(
    inputs={"text_units": TEXT_UNITS},
    outputs={"extractions": EXTRACTIONS, "rejects": REJECTS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id", "rejects": "row_id"},
    placeholders={"extract": Placeholders(("text",), ("entity_types",)), "glean": Placeholders()},
    libraries=("json-repair",),
)
def extract_graph(
    text_units: pd.DataFrame, params: ExtractParams, extract: Prompt, glean: Prompt, chat: ChatModel
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entities and relationships per text unit, ``order`` counting them as they came; ``grounded`` says whether their
    names stand in the text.

    Equal texts are asked once. A reply that was cut off is asked for again in two halves of the text, an unreadable
    one once more as it is; where that helps the text is ``recovered``, else it is rejected whole. A record that cannot
    be read, and a gleaning that fails, is rejected alone.
    """
    units = _by_text(text_units)
    questions = Questions(params, extract, glean)
    talks = (read_text(ids[0], text, questions) for text, ids in units.items())
    readings = zip(units.items(), chat.converse(talks), strict=True)
    found = [
        (id, finding) for (text, ids), reading in readings for finding in [_found(reading, text, params)] for id in ids
    ]
    return EXTRACTIONS.frame(_extractions(found)), REJECTS.frame(_rejects(found))


def _by_text(text_units: pd.DataFrame) -> dict[str, list[str]]:
    """Each text once, with the ids of its units."""
    units: dict[str, list[str]] = {}
    ordered = text_units.sort_values(list(TEXT_UNITS.key))
    for id, text in zip(ordered["id"], ordered["text"], strict=True):
        units.setdefault(text, []).append(id)
    return units


@dataclass(frozen=True)
class Questions:
    """What may be asked about a text."""

    params: ExtractParams
    extract: Prompt
    glean: Prompt

    def opening(self, text: str) -> tuple[Message, ...]:
        prompt = self.extract.render(text=text, entity_types=", ".join(self.params.entity_types))
        asked: Message = {"role": "user", "content": prompt}
        return (ASK_FOR_GRAPH_JSON, asked) if self.params.format == "json" else (asked,)

    def ask(self, unit: str, messages: tuple[Message, ...], mends: ChatRequest | None = None) -> ChatRequest:
        response_format = GRAPH_JSON_FORMAT if self.params.format == "json" else None
        return ChatRequest(unit, messages, response_format, self.complaint, mends)

    def complaint(self, reply: str) -> str | None:
        problem = unreadable(self.parse(reply), reply)
        return problem.message if problem else None

    def parse(self, reply: str) -> Parsed:
        return _parse(reply, self.params.format)

    def problem(self, reply: ChatReply) -> Problem | None:
        """What makes the reply useless."""
        return failed(reply) or unreadable(self.parse(reply.text), reply.text)


@lru_cache(maxsize=256)  # each reply is read twice: as it is judged and as it is used
def _parse(reply: str, format: Format) -> Parsed:
    return parse_graph_json(reply) if format == "json" else parse_records(reply)


def read_text(unit: str, text: str, questions: Questions) -> Talk[Reading]:
    """The conversation about one text."""
    opening = questions.ask(unit, questions.opening(text))
    (reply,) = yield (opening,)
    problem = questions.problem(reply)
    if problem is None:
        return (yield from _gleaned(unit, opening.messages, reply, questions))
    if problem.reason == "truncated":
        return (yield from _by_halves(opening, text, problem, questions))
    if problem.reason == "parse" and questions.params.repair:
        return (yield from _repaired(opening, reply, problem, questions))
    return Reading(marks=(Mark("row", problem.reason, problem.message),))


def _by_halves(opening: ChatRequest, text: str, problem: Problem, questions: Questions) -> Talk[Reading]:
    replies = yield [questions.ask(opening.row_id, questions.opening(half), mends=opening) for half in halves(text)]
    problems = [found for found in map(questions.problem, replies) if found]
    if problems or not replies:
        worst = (problems or [problem])[0]
        return Reading(marks=(Mark("row", worst.reason, f"{worst.message}, also for half of the text"),))
    recovered = Mark("recovered", problem.reason, f"{problem.message}; read in two halves")
    readings = [_reading(questions.parse(reply.text)) for reply in replies]
    return _joined(Reading(marks=(recovered,)), *readings)


def _repaired(opening: ChatRequest, bad: ChatReply, problem: Problem, questions: Questions) -> Talk[Reading]:
    messages = (*opening.messages, _said(bad), REPAIR)
    (reply,) = yield (questions.ask(opening.row_id, messages, mends=opening),)
    if questions.problem(reply):
        return Reading(marks=(Mark("row", problem.reason, problem.message),))
    recovered = Mark("recovered", problem.reason, f"{problem.message}; read when asked again")
    return _joined(Reading(marks=(recovered,)), _reading(questions.parse(reply.text)))


def _gleaned(unit: str, opening: tuple[Message, ...], reply: ChatReply, questions: Questions) -> Talk[Reading]:
    """The reading of a good reply, and of what the model adds to it when it is asked for more; where it found
    nothing it is not asked."""
    reading, messages = _reading(questions.parse(reply.text)), opening
    for _ in range(questions.params.gleanings if reading.records else 0):
        messages = (*messages, _said(reply), {"role": "user", "content": questions.glean.render()})
        (reply,) = yield (questions.ask(unit, messages),)
        problem = questions.problem(reply)
        if problem:
            return replace(reading, marks=(*reading.marks, Mark("record", problem.reason, problem.message)))
        longer = _joined(reading, _reading(questions.parse(reply.text)))
        if longer.records == reading.records:
            return longer
        reading = longer
    return reading


def _said(reply: ChatReply) -> Message:
    return {"role": "assistant", "content": reply.text}


def _reading(parsed: Parsed) -> Reading:
    marks = (Mark("record", "record", problem.message) for problem in parsed.problems)
    return Reading(tuple(dict.fromkeys(parsed.records)), tuple(marks))


def _joined(*readings: Reading) -> Reading:
    """Each record once, in order."""
    records = dict.fromkeys(record for reading in readings for record in reading.records)
    return Reading(tuple(records), tuple(mark for reading in readings for mark in reading.marks))


@dataclass(frozen=True)
class Finding:
    """The records of one text, each with whether its names stand there, and what is to be said of it."""

    records: tuple[tuple[Record, bool], ...]
    marks: tuple[Mark, ...]


def _found(reading: Reading, text: str, params: ExtractParams) -> Finding:
    stands = Grounding(text)
    records = tuple((record, stands(record)) for record in reading.records)
    if params.ungrounded != "drop":
        return Finding(records, reading.marks)
    dropped = [record for record, grounded in records if not grounded]
    marks = (Mark("record", "ungrounded", f"not in its text: {', '.join(_names(record))}") for record in dropped)
    return Finding(tuple(entry for entry in records if entry[1]), (*reading.marks, *marks))


class Grounding:
    """Whether a record's names stand in a text: as they are, case and punctuation aside, or word by word."""

    def __init__(self, text: str):
        self.key = match_key(text)
        self.words = frozenset(self.key.split())

    def __call__(self, record: Record) -> bool:
        return all(self._stands(match_key(name)) for name in _names(record))

    def _stands(self, key: str) -> bool:
        return key in self.key or self.words.issuperset(key.split())


def _names(record: Record) -> tuple[str, ...]:
    return (record.name,) if isinstance(record, Entity) else (record.source, record.target)


def _extractions(found: Iterable[tuple[str, Finding]]) -> Iterator[dict[str, object]]:
    for unit, finding in found:
        for order, (record, grounded) in enumerate(finding.records):
            yield {"text_unit_id": unit, "order": order, "grounded": grounded, **_columns(record)}


def _columns(record: Record) -> dict[str, object]:
    if isinstance(record, Entity):
        return {"kind": "entity", "source": "", "target": "", "keywords": [], "weight": 1.0, **vars(record)}
    return {"kind": "relationship", "name": "", "type": "", **vars(record)}


def _rejects(found: Iterable[tuple[str, Finding]]) -> Iterator[dict[str, str]]:
    for unit, finding in found:
        for mark in finding.marks:
            yield {"step": "", "row_id": unit, **vars(mark)}
