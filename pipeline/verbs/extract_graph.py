"""extract_graph: what a chat model says about each text unit, kept as it was said."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import pandas as pd
import regex
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import EXTRACTIONS, REJECTS, TEXT_UNITS
from pipeline.models.base import ChatModel
from pipeline.models.parse.graph import Entity, Graph, Record, parse_graph_json, parse_records
from pipeline.models.parse.graph_format import BOUNDED_GRAPH_JSON_FORMAT, GRAPH_JSON_FORMAT
from pipeline.text.ids import match_key
from pipeline.verbs.graph_prompt import (
    AUTO,
    EXTRACT_PLACEHOLDERS,
    JSON,
    RECORDS,
    Format,
    earlier_opening,
    opening,
)
from pipeline.verbs.read_text import Mark, Questions, Reading, by_text, read_text, rejects

_LETTERS = r"\p{Latin}\p{Greek}\p{Cyrillic}"
_SPACED = regex.compile(rf"[{_LETTERS}\d]")
"""Of words that spaces and punctuation set apart."""
_WORD = regex.compile(rf"[{_LETTERS}\p{{M}}\d]+[+#]*|[\p{{L}}\p{{M}}]+")
_INFLECTED, _LONGEST_ENDING = 4, 3
"""Letters of a word that may have an ending, and of the ending."""
_START = regex.compile(rf"(?<![{_LETTERS}\d])")
_END = regex.compile(rf"(?![{_LETTERS}\d+#])")
_INFLECTED_END = regex.compile(rf"[{_LETTERS}]{{0,{_LONGEST_ENDING}}}(?![{_LETTERS}\d+#])")


class ExtractParams(Params):
    """``gleanings``: how often the model is asked for what it missed. ``format``: of its replies;
    "json" needs an endpoint that takes a JSON schema; with "auto" the project's formats.yaml
    decides, which a run fills by a trial before the first extraction (a call by hand reads
    records). ``repair``: whether an unreadable reply is asked for once more. ``ungrounded``: what
    becomes of records with a name that does not stand in their text: "drop", or "flag" and "keep",
    which are one: ``grounded`` tells them."""

    entity_types: tuple[str, ...] = ("person", "organization", "location", "event", "concept")
    gleanings: int = Field(default=0, ge=0, le=5)
    format: Format = RECORDS
    repair: bool = True
    ungrounded: Literal["keep", "flag", "drop"] = "flag"

    def format_undecided(self) -> bool:
        return self.format == AUTO


@verb(
    inputs={"text_units": TEXT_UNITS},
    outputs={"extractions": EXTRACTIONS, "rejects": REJECTS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id", "rejects": "row_id"},
    placeholders={"extract": EXTRACT_PLACEHOLDERS, "glean": Placeholders()},
    libraries=("json-repair", "regex"),
)
def extract_graph(
    text_units: pd.DataFrame, params: ExtractParams, extract: Prompt, glean: Prompt, chat: ChatModel
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entities and relationships per text unit, ``order`` counting them as they came; ``grounded``
    says whether their names stand in the text.

    Equal texts are asked once. A reply that was cut off is asked for again in two halves of the
    text, an unreadable one once more as it is; where that helps the text is ``recovered``, else it
    is rejected whole. A record that cannot be read, and a gleaning that fails, is rejected alone.
    """
    units = by_text(text_units)
    questions = _questions(params, extract, glean)
    talks = (read_text(ids[0], text, questions) for text, ids in units.items())
    readings = zip(units.items(), chat.converse(talks), strict=True)
    found = [
        (id, finding)
        for (text, ids), reading in readings
        for finding in [_found(reading, text, params)]
        for id in ids
    ]
    marks = ((id, finding.marks) for id, finding in found)
    return EXTRACTIONS.frame(_extractions(found)), REJECTS.frame(rejects(marks))


def _questions(params: ExtractParams, extract: Prompt, glean: Prompt) -> Questions[Record]:
    types = ", ".join(params.entity_types)
    in_json = params.format == JSON
    return Questions(
        opening=partial(opening, extract, params.format, entity_types=types),
        parse=partial(_parse, format=params.format),
        glean=glean.render(),
        gleanings=params.gleanings,
        repair=params.repair,
        response_format=GRAPH_JSON_FORMAT if in_json else None,
        bounded_format=BOUNDED_GRAPH_JSON_FORMAT if in_json else None,
        earlier_opening=partial(earlier_opening, extract, entity_types=types) if in_json else None,
    )


@lru_cache(maxsize=256)  # each reply is read twice: as it is judged and as it is used
def _parse(reply: str, format: Format) -> Graph:
    return parse_graph_json(reply) if format == JSON else parse_records(reply)


@dataclass(frozen=True)
class TextExtraction:
    """The records of one text, each with whether its names stand there, and what is to be said of
    it."""

    records: tuple[tuple[Record, bool], ...]
    marks: tuple[Mark, ...]


def _found(reading: Reading[Record], text: str, params: ExtractParams) -> TextExtraction:
    stands = Grounding(text)
    records = tuple((record, stands(record)) for record in reading.records)
    if params.ungrounded != "drop":
        return TextExtraction(records, reading.marks)
    dropped = [record for record, grounded in records if not grounded]
    marks = (
        Mark("record", "ungrounded", f"not in its text: {', '.join(_names(record))}")
        for record in dropped
    )
    return TextExtraction(tuple(entry for entry in records if entry[1]), (*reading.marks, *marks))


class Grounding:
    """Whether a record's names stand in a text: as they are, case and punctuation aside, or word by
    word.

    A word of Latin, Greek or Cyrillic letters must be a whole one, but for a short ending of a
    longer word (Berlins, Budapesten): US does not stand in "house". Elsewhere words are not set
    apart, or begin with prepositions.
    """

    def __init__(self, text: str):
        self.key = match_key(text)
        self.words = frozenset(_WORD.findall(self.key))

    def __call__(self, record: Record) -> bool:
        return all(self._stands(match_key(name)) for name in _names(record))

    def _stands(self, key: str) -> bool:
        if not _SPACED.search(key):
            return key in self.key
        parts = _WORD.findall(key)
        return self._whole(key, parts) or (bool(parts) and all(map(self._has, parts)))

    def _whole(self, key: str, parts: Sequence[str]) -> bool:
        inflected = parts and len(parts[-1]) >= _INFLECTED and key.endswith(parts[-1])
        end, at = _INFLECTED_END if inflected else _END, self.key.find(key)
        while at >= 0:
            if _START.match(self.key, at) and end.match(self.key, at + len(key)):
                return True
            at = self.key.find(key, at + 1)
        return False

    def _has(self, word: str) -> bool:
        if word in self.words:
            return True
        if not _SPACED.search(word):
            return word in self.key
        return len(word) >= _INFLECTED and any(
            len(one) - len(word) in range(1, _LONGEST_ENDING + 1) and one.startswith(word)
            for one in self.words
        )


def _names(record: Record) -> tuple[str, ...]:
    return (record.name,) if isinstance(record, Entity) else (record.source, record.target)


def _extractions(found: Iterable[tuple[str, TextExtraction]]) -> Iterator[dict[str, object]]:
    for unit, finding in found:
        for order, (record, grounded) in enumerate(finding.records):
            yield {"text_unit_id": unit, "order": order, "grounded": grounded, **_columns(record)}


def _columns(record: Record) -> dict[str, object]:
    if isinstance(record, Entity):
        return {
            "kind": "entity",
            "source": "",
            "target": "",
            "keywords": [],
            "weight": 1.0,
            **vars(record),
        }
    return {"kind": "relationship", "name": "", "type": "", **vars(record)}
