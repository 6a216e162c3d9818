"""extract_graph: ask a chat model for the entities and relationships in each text unit.

extract_graph_with_headers shows the model the title and the headings of each text too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

import pandas as pd
import regex
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import EXTRACTIONS, REJECTS, TEXT_UNIT_HEADERS, UNIT_TEXTS
from pipeline.models.base import ChatModel, Message
from pipeline.models.parse.graph import Entity, Graph, Record, parse_graph_json, parse_records
from pipeline.models.parse.graph_format import (
    BOUNDED_GRAPH_JSON_FORMAT,
    GRAPH_JSON_FORMAT,
    PROPERTIES_IN_JSON,
    PROPERTIES_IN_RECORDS,
    make_response_format,
)
from pipeline.ontology.vocabulary import Vocabulary
from pipeline.text.headers import text_with_header
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
from pipeline.verbs.read_text import (
    Mark,
    Passage,
    Questions,
    Reading,
    group_by_text,
    read_text,
    reject_rows,
)

_LETTERS = r"\p{Latin}\p{Greek}\p{Cyrillic}"
_SPACED = regex.compile(rf"[{_LETTERS}\d]")
"""A letter or digit of a script that separates words by spaces."""
_WORD = regex.compile(rf"[{_LETTERS}\p{{M}}\d]+[+#]*|[\p{{L}}\p{{M}}]+")
"""A word of these scripts, with the signs of C++ and C#, or a run of letters of another script."""
_SHORTEST_INFLECTED = 4
"""Letters of the shortest word that may have an ending."""
_LONGEST_ENDING = 3
"""Letters of the longest ending."""
_START = regex.compile(rf"(?<![{_LETTERS}\d])")
"""The place before a whole word."""
_END = regex.compile(rf"(?![{_LETTERS}\d+#])")
"""The place behind a whole word. C is no whole word in "C++"."""
_INFLECTED_END = regex.compile(rf"[{_LETTERS}]{{0,{_LONGEST_ENDING}}}(?![{_LETTERS}\d+#])")
"""The place behind a whole word with its ending."""


class ExtractParams(Params):
    """The types of entities, the format of replies, and how often the model is asked.

    ``gleanings`` is the number of times that the model is asked for records that it missed.

    ``format`` is that of the replies. "json" needs an endpoint that accepts a JSON schema. With
    "auto" the project's formats.yaml decides; a run fills it by a trial before the first
    extraction. A direct call of the function treats "auto" as "records".

    ``repair`` says whether an unreadable reply is requested once more. ``ungrounded`` says what
    happens to a record with a name that does not occur in its text. "drop" drops it. "flag" sets
    the column ``grounded`` to false; "keep" is another word for it.

    ``vocabulary`` has the types that the prompt names in place of ``entity_types``. In a project
    with prompts/vocabulary.yaml, that file gives it.
    """

    entity_types: tuple[str, ...] = ("person", "organization", "location", "event", "concept")
    gleanings: int = Field(default=0, ge=0, le=5)
    format: Format = RECORDS
    repair: bool = True
    ungrounded: Literal["keep", "flag", "drop"] = "flag"

    vocabulary: Vocabulary | None = None

    @model_serializer(mode="wrap")
    def omit_empty_vocabulary(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the params. If there is no vocabulary, they do not have it.

        Steps of earlier versions, which knew none, so keep their fingerprint.
        """
        fields: dict[str, Any] = serialize(self)
        if self.vocabulary is None:
            fields.pop("vocabulary", None)
        return fields

    def format_undecided(self) -> bool:
        """Return whether a trial has to decide on the format."""
        return self.format == AUTO


@verb(
    inputs={"text_units": UNIT_TEXTS},
    outputs={"extractions": EXTRACTIONS, "rejects": REJECTS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id", "rejects": "row_id"},
    placeholders={"extract": EXTRACT_PLACEHOLDERS, "glean": Placeholders()},
    libraries=("json-repair", "regex"),
    settings="vocabulary",
)
def extract_graph(
    text_units: pd.DataFrame, params: ExtractParams, extract: Prompt, glean: Prompt, chat: ChatModel
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the entities and relationships of each text unit (EXTRACTIONS), and rejects.

    ``order`` numbers the records of a text unit as they came. ``grounded`` says whether their names
    occur in the text.

    The model is asked about equal texts once. After a reply that was cut off, it is asked about two
    halves of the text. An unreadable reply is requested once more. If this helps, the text gets a
    mark of the kind ``recovered``, else the whole text is rejected. An unreadable record and a
    failed gleaning are rejected by themselves.
    """
    return _extract(
        group_by_text(text_units), params, _make_questions(params, extract, glean), chat
    )


@verb(
    inputs={"text_units": UNIT_TEXTS, "headers": TEXT_UNIT_HEADERS},
    outputs={"extractions": EXTRACTIONS, "rejects": REJECTS},
    rowwise="text_units",
    keyed={"headers": ("id",)},
    row_of={"extractions": "text_unit_id", "rejects": "row_id"},
    placeholders={"extract": EXTRACT_PLACEHOLDERS, "glean": Placeholders()},
    libraries=("json-repair", "regex"),
    settings="vocabulary",
)
def extract_graph_with_headers(
    text_units: pd.DataFrame,
    headers: pd.DataFrame,
    params: ExtractParams,
    extract: Prompt,
    glean: Prompt,
    chat: ChatModel,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return extractions and rejects as extract_graph does; the model reads each text's header too.

    The header stands before the text, with a blank line between them, and its names count as names
    of the text. Equal texts with different headers are asked about separately. A text without a
    header gets the same request as from extract_graph, so one cached reply serves both.
    """
    header_of_unit = dict(zip(headers["id"], headers["header"], strict=True))
    passages = group_by_text(text_units, header_of_unit)
    return _extract(passages, params, _make_questions(params, extract, glean), chat)


def _extract(
    passages: Mapping[Passage, Sequence[str]],
    params: ExtractParams,
    questions: Questions[Record],
    chat: ChatModel,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ask about each passage; give its records and rejects to all text units that have it."""
    # A conversation about each passage, under the id of the first text unit that has it.
    talks = (
        read_text(ids[0], passage.text, replace(questions, header=passage.header))
        for passage, ids in passages.items()
    )
    readings = chat.converse(talks)
    found: list[tuple[str, TextExtraction]] = []
    for (passage, ids), reading in zip(passages.items(), readings, strict=True):
        shown = text_with_header(passage.header, passage.text)
        extraction = _check_grounding(reading, shown, params)
        found += [(id, extraction) for id in ids]
    marks = ((id, extraction.marks) for id, extraction in found)
    return EXTRACTIONS.frame(_make_rows(found)), REJECTS.frame(reject_rows(marks))


def _make_questions(params: ExtractParams, extract: Prompt, glean: Prompt) -> Questions[Record]:
    if params.vocabulary is not None:
        return _make_questions_of_vocabulary(params, params.vocabulary, extract, glean)
    types = ", ".join(params.entity_types)
    in_json = params.format == JSON
    # Earlier versions asked for JSON in other words; the replies to these that are cached count.
    asked_before = partial(earlier_opening, extract, entity_types=types) if in_json else None
    return Questions(
        opening=partial(opening, extract, params.format, entity_types=types),
        parse=partial(_parse_reply, format=params.format),
        glean=glean.render(),
        gleanings=params.gleanings,
        repair=params.repair,
        response_format=GRAPH_JSON_FORMAT if in_json else None,
        bounded_format=BOUNDED_GRAPH_JSON_FORMAT if in_json else None,
        earlier_opening=asked_before,
    )


def _make_questions_of_vocabulary(
    params: ExtractParams, vocabulary: Vocabulary, extract: Prompt, glean: Prompt
) -> Questions[Record]:
    """Return the questions whose first message names the types. The JSON schema allows no others.

    No earlier version had a vocabulary, so there is no earlier form of the question.
    """
    names, keywords = vocabulary.entity_names, vocabulary.relationship_names
    types = ", ".join(names or params.entity_types)
    in_json = params.format == JSON
    with_properties = vocabulary.has_properties
    content = vocabulary.instructions()
    if with_properties:
        form = PROPERTIES_IN_JSON if in_json else PROPERTIES_IN_RECORDS
        content = f"{content}\n{form}"
    instructions: Message = {"role": "system", "content": content}

    def ask(text: str) -> tuple[Message, ...]:
        return (instructions, *opening(extract, params.format, text, types))

    make_format = partial(
        make_response_format,
        types=names,
        keywords=keywords,
        entity_properties=vocabulary.entity_properties,
        relationship_properties=vocabulary.relationship_properties,
    )
    return Questions(
        opening=ask,
        parse=partial(_parse_reply, format=params.format, with_properties=with_properties),
        glean=glean.render(),
        gleanings=params.gleanings,
        repair=params.repair,
        response_format=make_format(bounded=False) if in_json else None,
        bounded_format=make_format(bounded=True) if in_json else None,
    )


# Each reply is parsed twice: when it is checked and when it is used. The cache saves the second.
@lru_cache(maxsize=256)
def _parse_reply(reply: str, format: Format, with_properties: bool = False) -> Graph:
    if format == JSON:
        return parse_graph_json(reply, with_properties)
    return parse_records(reply, with_properties)


@dataclass(frozen=True)
class CheckedRecord:
    """A record of a text. ``grounded`` says whether all its names occur in the text."""

    record: Record
    grounded: bool


@dataclass(frozen=True)
class TextExtraction:
    """The records of one text, and marks on it, which become rejects."""

    records: tuple[CheckedRecord, ...]
    marks: tuple[Mark, ...]


def _check_grounding(reading: Reading[Record], text: str, params: ExtractParams) -> TextExtraction:
    """Return the records, each with whether its names occur in the text.

    With ``ungrounded`` "drop", a record of which a name does not occur is dropped, and gets a mark.
    """
    known = TextNames(text)
    checked: list[CheckedRecord] = []
    marks = list(reading.marks)
    for record in reading.records:
        missing = known.find_missing(record)
        if missing and params.ungrounded == "drop":
            names = ", ".join(missing)
            marks.append(Mark("record", "ungrounded", f"not in its text: {names}"))
        else:
            checked.append(CheckedRecord(record, grounded=not missing))
    return TextExtraction(tuple(checked), tuple(marks))


class TextNames:
    """Finds names in a text: as a whole, or word by word.

    Case and punctuation do not count. A word of Latin, Greek or Cyrillic letters must be a whole
    word: US does not occur in "house". A longer word may have a short ending (Berlins, Budapesten).
    In other scripts any part of the text will do, since words are not separated there, or have
    prepositions attached.
    """

    def __init__(self, text: str):
        self.key = match_key(text)
        self.words = frozenset(_WORD.findall(self.key))

    def has_names_of(self, record: Record) -> bool:
        """Return whether all names of the record occur in the text."""
        return not self.find_missing(record)

    def find_missing(self, record: Record) -> list[str]:
        """Return the names of the record that do not occur in the text."""
        names = _list_names(record)
        return [name for name in names if not self._contains_name(match_key(name))]

    def _contains_name(self, key: str) -> bool:
        """Return whether a name, given by its match key, occurs in the text."""
        if not _SPACED.search(key):
            return key in self.key
        words = _WORD.findall(key)
        if self._contains_phrase(key, words):
            return True
        return bool(words) and all(self._contains_word(word) for word in words)

    def _contains_phrase(self, key: str, words: Sequence[str]) -> bool:
        """Return whether all words of a match key occur one after the other."""
        last = words[-1] if words else ""
        # A key may end with a sign behind its last word, as "r&" does; no ending follows a sign.
        may_have_ending = len(last) >= _SHORTEST_INFLECTED and key.endswith(last)
        end = _INFLECTED_END if may_have_ending else _END
        start = self.key.find(key)
        while start >= 0:
            if _START.match(self.key, start) and end.match(self.key, start + len(key)):
                return True
            start = self.key.find(key, start + 1)
        return False

    def _contains_word(self, word: str) -> bool:
        """Return whether a word occurs in the text, perhaps with an ending."""
        if word in self.words:
            return True
        if not _SPACED.search(word):
            return word in self.key
        if len(word) < _SHORTEST_INFLECTED:
            return False
        return any(
            0 < len(longer) - len(word) <= _LONGEST_ENDING and longer.startswith(word)
            for longer in self.words
        )


def _list_names(record: Record) -> tuple[str, ...]:
    """Return the name of an entity, or the names of both ends of a relationship."""
    return (record.name,) if isinstance(record, Entity) else (record.source, record.target)


def _make_rows(found: Iterable[tuple[str, TextExtraction]]) -> Iterator[dict[str, object]]:
    """Yield the rows of EXTRACTIONS; ``found`` has pairs of a text unit's id and its records."""
    for unit, extraction in found:
        for order, checked in enumerate(extraction.records):
            place = {"text_unit_id": unit, "order": order, "grounded": checked.grounded}
            yield {**place, **_fill_columns(checked.record)}


def _fill_columns(record: Record) -> dict[str, object]:
    """Return the columns of EXTRACTIONS that a record fills."""
    fields = {**vars(record), "attributes": record.attributes or None}
    if isinstance(record, Entity):
        return {
            "kind": "entity",
            "source": "",
            "target": "",
            "keywords": [],
            "weight": 1.0,
            **fields,
        }
    return {"kind": "relationship", "name": "", "type": "", **fields}
