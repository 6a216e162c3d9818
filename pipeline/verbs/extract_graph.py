"""extract_graph: what a chat model says about each text unit, kept as it was said."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd
from pydantic import Field

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Message
from pipeline.models.parse import (
    ASK_FOR_GRAPH_JSON,
    GRAPH_JSON_FORMAT,
    Entity,
    Parsed,
    Record,
    failed,
    parse_graph_json,
    parse_records,
    unreadable,
)
from pipeline.prompts import Placeholders, Prompt
from pipeline.registry import Params, verb
from pipeline.schemas import EXTRACTIONS, REJECTS, TEXT_UNITS

Format = Literal["records", "json"]


class ExtractParams(Params):
    """``gleanings``: how often the model is asked for what it missed. ``format``: of its replies; "json"
    needs an endpoint that takes a JSON schema."""

    entity_types: tuple[str, ...] = ("person", "organization", "location", "event", "concept")
    gleanings: int = Field(default=0, ge=0, le=5)
    format: Format = "records"


@dataclass(frozen=True)
class Reject:
    """``kind``: "row" when nothing of the text is used, "record" when a part of it is lost."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Reading:
    """One text's conversation so far and what was read from it; ``open`` when more may be asked."""

    unit: str
    messages: tuple[Message, ...]
    records: tuple[Record, ...] = ()
    rejects: tuple[Reject, ...] = ()
    open: bool = True


@verb(
    inputs={"text_units": TEXT_UNITS},
    outputs={"extractions": EXTRACTIONS, "rejects": REJECTS},
    rowwise="text_units",
    placeholders={"extract": Placeholders(("text",), ("entity_types",)), "glean": Placeholders()},
    libraries=("json-repair",),
)
def extract_graph(
    text_units: pd.DataFrame, params: ExtractParams, extract: Prompt, glean: Prompt, chat: ChatModel
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entities and relationships per text unit, ``order`` counting them as they came.

    Equal texts are asked once. A text whose reply fails, is cut off or holds no record is rejected whole;
    a record that cannot be read, and a gleaning that fails, is rejected alone.
    """
    units = text_units.sort_values(list(TEXT_UNITS.key)).groupby("text", sort=False)["id"].agg(list)
    ids = list(units)
    readings = [Reading(own[0], _opening(text, params, extract)) for text, own in zip(units.index, ids, strict=True)]
    readings = _ask(readings, params.format, chat)
    for _ in range(params.gleanings):
        readings = _glean(readings, params.format, glean, chat)
    by_unit = [(id, reading) for own, reading in zip(ids, readings, strict=True) for id in own]
    return EXTRACTIONS.frame(_extractions(by_unit)), REJECTS.frame(_rejects(by_unit))


def _opening(text: str, params: ExtractParams, extract: Prompt) -> tuple[Message, ...]:
    prompt = extract.render(text=text, entity_types=", ".join(params.entity_types))
    asked: Message = {"role": "user", "content": prompt}
    return (ASK_FOR_GRAPH_JSON, asked) if params.format == "json" else (asked,)


def _glean(readings: Sequence[Reading], format: Format, glean: Prompt, chat: ChatModel) -> list[Reading]:
    """Ask the open conversations once more."""
    question: Message = {"role": "user", "content": glean.render()}
    asked = [replace(one, messages=(*one.messages, question)) for one in readings if one.open]
    answered = {one.unit: one for one in _ask(asked, format, chat)}
    return [answered.get(one.unit, one) for one in readings]


def _ask(readings: Sequence[Reading], format: Format, chat: ChatModel) -> list[Reading]:
    response_format = GRAPH_JSON_FORMAT if format == "json" else None
    requests = [ChatRequest(one.unit, one.messages, response_format) for one in readings]
    replies = chat.complete(requests, check=lambda text: _complaint(text, format)) if requests else []
    return [_read(one, reply, format) for one, reply in zip(readings, replies, strict=True)]


def _complaint(text: str, format: Format) -> str | None:
    problem = unreadable(_parse(text, format), text)
    return problem.message if problem else None


def _parse(text: str, format: Format) -> Parsed:
    return parse_graph_json(text) if format == "json" else parse_records(text)


def _read(reading: Reading, reply: ChatReply, format: Format) -> Reading:
    """The reading with what the reply adds: records that are new, or why there are none."""
    parsed = _parse(reply.text, format)
    problem = failed(reply) or unreadable(parsed, reply.text)
    if problem:
        lost = Reject("record" if reading.records else "row", problem.reason, problem.message)
        return replace(reading, rejects=(*reading.rejects, lost), open=False)
    known = set(reading.records)
    new = [record for record in dict.fromkeys(parsed.records) if record not in known]
    return Reading(
        unit=reading.unit,
        messages=(*reading.messages, {"role": "assistant", "content": reply.text}),
        records=(*reading.records, *new),
        rejects=(
            *reading.rejects,
            *(Reject("record", "record", problem.message) for problem in parsed.problems),
        ),
        open=bool(new),
    )


def _extractions(readings: Iterable[tuple[str, Reading]]) -> Iterator[dict[str, object]]:
    for unit, reading in readings:
        for order, record in enumerate(reading.records):
            yield {"text_unit_id": unit, "order": order, **_columns(record)}


def _columns(record: Record) -> dict[str, object]:
    if isinstance(record, Entity):
        return {"kind": "entity", "source": "", "target": "", "keywords": [], "weight": 1.0, **vars(record)}
    return {"kind": "relationship", "name": "", "type": "", **vars(record)}


def _rejects(readings: Iterable[tuple[str, Reading]]) -> Iterator[dict[str, str]]:
    for unit, reading in readings:
        for reject in reading.rejects:
            yield {"step": "", "row_id": unit, **vars(reject)}
