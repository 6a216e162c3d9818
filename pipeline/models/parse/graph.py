"""Parse the graph, claims or keywords in a reply, from records or from JSON. No reply raises an
error.

Parsing time grows linearly with the length of the reply, because every repetition in a pattern is
bounded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple

from pipeline.models.parse.lenient_json import (
    CLOSE,
    OPEN,
    QUOTES,
    distinct_names,
    drop_unopened_brackets,
    ending_of,
    first_value,
    fold_keys,
    json_values,
    keywords_of,
    name_of,
    one_line,
    plain,
    text_of,
    weight_of,
)
from pipeline.models.parse.properties import attach_properties, json_properties
from pipeline.models.parse.records import (
    Claim,
    Entity,
    Graph,
    Item,
    ParsedReply,
    Problem,
    PropertyRecord,
    Record,
    Relationship,
    claim,
    cut_problem,
    entity,
    failed,
    problem,
    relationship,
    unreadable,
    unusable,
)
from pipeline.models.parse.report import REPORT_JSON_FORMAT, Finding, Report, parse_report
from pipeline.text.ids import clean

# Models also write the full-width and look-alike forms of these characters.
_Q = f"[{re.escape(QUOTES)}]"
_LT, _GT, _BAR, _HASH = "[<＜〈《⟨]", "[>＞〉》⟩]", "[|｜¦│]", "[#＃]"
_MARK = "\x1f"
"""Control character that replaces every delimiter of a reply before records are searched."""
_COMPLETION = re.compile(
    rf"(?:{_LT}\s?{_BAR}?|{_BAR})\s?/?\s?completed?\s?(?:{_BAR}?\s?{_GT}|{_BAR}|$)"
    r"|[<{]\|?completion_delimiter\|?[>}]|^\W{0,3}complete\W{0,3}\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""The completion mark, also in damaged forms."""
_DELIMITER = re.compile(
    rf"{_LT}{{1,2}}\s?[/\\]?\s?{_BAR}\s?[^<>|\n\"]{{0,3}}?\s?{_BAR}{{0,2}}\s?[/\\]?\s?{_GT}{{1,2}}"
    r"|[<{]\|?(?:tuple_delimiter|sep)\|?[>}]",
    re.IGNORECASE,
)
"""A delimiter of fields, also in damaged forms that contain a bar."""
_REMAINS = (
    rf"{_LT}\s?{_BAR}{{1,3}}#?{_BAR}?|{_LT}?{_BAR}?#?{_BAR}{{1,2}}\s?{_GT}|{_LT}\s?[#/]?\s?{_GT}"
)
"""Text that is left of a delimiter when characters are lost."""
_DAMAGED = rf"(?:(?<!\s)(?:{_REMAINS})|(?:{_REMAINS})(?!\s)|(?<={_Q})\s?{_BAR}\s?(?={_Q}|\d))"
_DAMAGED_DELIMITER = re.compile(_DAMAGED)
"""A delimiter that lost characters. It counts only where other delimiters give too few fields."""
_BARE_BAR = re.compile(_BAR)
"""A bar alone, which some models write as the delimiter."""
_QUOTED_COMMA = re.compile(rf"(?<={_Q})\s?,\s?|,\s?(?={_Q})")
"""A comma beside a quote, which some models write as the delimiter."""
_SEPARATOR = re.compile(rf"(?<=[{CLOSE}\]}}])\s?##|##\s?(?:\n|\Z)")
"""The separator of records: after a closing bracket, or at the end of a line."""
_CLOSED_AFTER_QUOTE = re.compile(rf"(?:{_Q}|\d)\s?[{CLOSE}]{{1,3}}[\s,;]{{0,3}}(?:\n|\Z)")
"""The end of a record whose last field ends in a quote or a digit."""
_CLOSED = re.compile(rf"[{CLOSE}\]}}][ ,;]{{0,3}}(?:\n|\Z)")
"""A closing bracket at the end of a line."""
_LINES = re.compile(r"##|\n")
_BEGUN_MARK = re.compile(
    rf"(?<=[{CLOSE}])\s?(?:#|{_LT}\s?{_BAR}?\s?(?:C[A-Z]{{0,7}})?)\Z", re.IGNORECASE
)
"""The beginning of a separator or of the completion mark, at the end of a reply and after a whole
record."""
_BEGUN_RECORD = re.compile(rf"(?:\n|##)\s?(?P<begun>[{OPEN}][^{CLOSE}\n{_MARK}]{{0,60}})\Z")
"""The beginning of a record at the end of a reply, cut before its kind was complete."""
# Patterns that normalize white space.
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")
# Names that models give to the fields of JSON, in the form that fold_keys returns. The first one
# that has a value counts.
_ENTITIES = ("entities", "entity", "nodes")
_RELATIONSHIPS = ("relationships", "relations", "relationship", "edges")
_NAME = ("name", "entityname", "entity", "title")
_TYPE = ("type", "entitytype", "category", "label")
_DESCRIPTION = ("description", "entitydescription", "relationshipdescription", "summary")
_SOURCE = ("source", "sourceentity", "src", "srcid", "from", "subject", "head")
_TARGET = ("target", "targetentity", "tgt", "tgtid", "to", "object", "tail")
_KEYWORDS = ("keywords", "relationshipkeywords", "keyword", "type", "relation")
_STRENGTH = ("strength", "relationshipstrength", "weight", "score", "rating")
_HIGH = ("highlevelkeywords", "highlevel", "high", "hlkeywords", "hl")
_QUESTION = ("question", "standalonequestion")
_LOW = ("lowlevelkeywords", "lowlevel", "low", "llkeywords", "ll")
ENDS_INSIDE = "the reply ends inside this record"
"""Message about a record that is cut."""
PROPERTY_FIELDS = 3
"""Number of fields of a property of an entity."""
CLAIM_FIELDS = 8
LEAST_CLAIM_FIELDS = 7
"""Number of fields of a claim. The last one, the source text, may be missing."""


@dataclass(frozen=True)
class Kind(Generic[Item]):
    """A kind of record.

    ``words``: a pattern of its name. ``marks``: the number of delimiters before its last field,
    which may have several lines. ``fields``: the number of its fields. ``read``: makes a record of
    its fields; None for a kind that is skipped.
    """

    words: str
    marks: int
    fields: int
    read: Callable[[list[str], str], Item | Problem] | None


@dataclass(frozen=True)
class RecordFormat(Generic[Item]):
    """A format of records. ``stray``: the message about text that has delimiters but is of no known
    kind."""

    kinds: tuple[Kind[Item], ...]
    stray: str

    @cached_property
    def _head(self) -> re.Pattern[str]:
        """Pattern of the beginning of a record: its kind and the first delimiter, with optional
        markup."""
        words = "|".join(kind.words for kind in self.kinds)
        return re.compile(
            rf"(?:(?P<opened>[{OPEN}\[{{【])\s?"
            rf"|(?:^|(?<=##))\s?(?:\d{{1,4}}[.)]\s?|[-*•]\s)?[{OPEN}\[{{【]?\s?)"
            rf"[*_]{{0,2}}{_Q}{{0,3}}(?P<kind>{words}){_Q}{{0,3}}[*_]{{0,2}}[ \n]?"
            rf"(?:(?P<delimiter>{_MARK}|{_DAMAGED})|(?P<bar>{_BAR})|(?<={_Q})\s?(?P<comma>,))",
            re.IGNORECASE | re.MULTILINE,
        )

    def parse(self, reply: str) -> ParsedReply[Item]:
        """Return the records of a reply, and the problems of what could not be read."""
        text = _normalize(plain(reply))
        is_complete = self._ends_with_mark(text)
        if not is_complete:
            text = _BEGUN_MARK.sub("", text.rstrip())
        # A completion mark may also come from the document, so it only separates records.
        text = _COMPLETION.sub("\n##\n", text)
        text = _DELIMITER.sub(_MARK, text).strip()
        # Each record extends to the head of the next one.
        heads = list(self._head.finditer(text))
        ends = [head.start() for head in heads[1:]] + [len(text)]
        before_first = text[: heads[0].start()] if heads else text
        found: list[Item | Problem] = [*self._stray_problems(before_first)]
        for head, end in zip(heads, ends, strict=False):
            may_be_cut = end == len(text) and not is_complete
            found += self._read_record(head, text[head.end() : end], may_be_cut)
        begun = None if is_complete else _BEGUN_RECORD.search(text)
        if heads and begun and begun.start() >= heads[-1].end():
            found.append(record_problem("truncated", begun["begun"], ENDS_INSIDE))
        problems = tuple(one for one in found if isinstance(one, Problem))
        return ParsedReply(
            records=tuple(one for one in found if not isinstance(one, Problem)),
            problems=problems,
            complete=is_complete,
            cut=any(one.reason == "truncated" for one in problems),
        )

    def _ends_with_mark(self, text: str) -> bool:
        """Check that a completion mark follows the last record.

        A mark before another record ends nothing, because it may come from the document itself.
        """
        marks = list(_COMPLETION.finditer(text))
        if not marks:
            return False
        rest = _DELIMITER.sub(_MARK, text[marks[-1].end() :])
        return self._head.search(rest) is None

    def _read_record(
        self, head: re.Match[str], region: str, may_be_cut: bool
    ) -> list[Item | Problem]:
        """Return the record of this head, and the problems in the text between it and the next.

        ``region`` is the text from the head to the next one. ``may_be_cut``: it is the last record
        of a reply without a completion mark.
        """
        kind = next(
            kind for kind in self.kinds if re.fullmatch(kind.words, head["kind"], re.IGNORECASE)
        )
        body, closed, rest = _split_record(region, bool(head["opened"]), kind.marks)
        if kind.read is None:
            return [*self._stray_problems(rest)]
        shown = f"{head[0]}{body}"
        if may_be_cut and _is_cut(head, body, closed, kind.marks):
            return [record_problem("truncated", shown, ENDS_INSIDE)]
        record = kind.read(_split_fields(head, body, kind.fields), shown)
        return [record, *self._stray_problems(rest)]

    def _stray_problems(self, text: str) -> list[Problem]:
        """Return a problem for each line between records that has a delimiter."""
        if _MARK not in text:
            return []
        return [
            record_problem("kind", line, self.stray) for line in _LINES.split(text) if _MARK in line
        ]


def has_end_mark(text: str) -> bool:
    """Check that a prompt or a reply contains the completion mark."""
    return _COMPLETION.search(text) is not None


def _normalize(text: str) -> str:
    r"""Normalize white space, and write record separators as ``##``.

    If the reply has no line end, the characters ``\n`` are replaced by real ones.
    """
    lines = text if "\n" in text.strip() else text.replace("\\n", "\n")
    spaced = _LINE_ENDS.sub("\n", _SPACES.sub(" ", lines))
    return _BLANK_LINES.sub("\n\n", spaced).replace("＃＃", "##")


def _split_record(region: str, opened: bool, marks: int) -> tuple[str, bool, str]:
    """Split the text after a head into the record and the text behind it.

    Returns (record, whether its end was found, text behind it). ``opened``: the record began with a
    bracket. A closing parenthesis ends the record only after its last delimiter, because a field
    may also have one at the end of a line.
    """
    rest = ""
    separator = _SEPARATOR.search(region)
    if separator:
        region, rest = region[: separator.start()], region[separator.end() :]
    # Find the start of the last field, or of the last one that is there.
    start = 0
    for _ in range(marks):
        mark = region.find(_MARK, start)
        if mark >= 0:
            start = mark + 1
    is_quoted = region[start : start + 2].strip()[:1] in QUOTES
    end = _CLOSED_AFTER_QUOTE.search(region, start) if is_quoted else None
    if end is None:
        end = _CLOSED.search(region, start)
    if opened and end:
        return region[: end.end()], True, region[end.end() :] + rest
    # A record without brackets ends with its line, one that is not closed with its paragraph.
    line_end = region.find("\n\n" if opened else "\n", start)
    if line_end < 0:
        return region, separator is not None, rest
    return region[:line_end], True, region[line_end:] + rest


def _is_cut(head: re.Match[str], body: str, closed: bool, marks: int) -> bool:
    """Check whether the last record of a reply without a completion mark is cut.

    A closing parenthesis at its end may belong to its text, as in ``("entity"<|>Ivo (the miller)``.
    The record is closed only if all opened parentheses are.
    """
    record = f"{head[0]}{body}"
    opened = sum(record.count(bracket) for bracket in OPEN)
    ended = sum(record.count(bracket) for bracket in CLOSE)
    stays_open = opened > ended
    if closed:
        return stays_open and body.rstrip()[-1:] in CLOSE
    # A model that leaves out the last parenthesis still writes all fields.
    lacks_fields = head["delimiter"] == _MARK and body.count(_MARK) < marks
    return (stays_open and lacks_fields) or _ends_midway(body)


def _ends_midway(body: str) -> bool:
    """Return whether the text ends in a character that ends no field."""
    end = body.rstrip()[-1:]
    return not end or not (end.isdigit() or end in QUOTES + CLOSE + ".!?。！？")


def _split_fields(head: re.Match[str], body: str, wanted: int) -> list[str]:
    """Split the record into its fields, by the kind of delimiter that follows its head.

    Damaged delimiters count if the intact ones give fewer than ``wanted`` fields.
    """
    trimmed = drop_unopened_brackets(body.strip(" \n,;]}"))
    if head["bar"]:
        return _BARE_BAR.split(trimmed)
    if head["comma"]:
        return _QUOTED_COMMA.split(trimmed)
    fields = trimmed.split(_MARK)
    if len(fields) < wanted:
        fields = [part for field in fields for part in _split_damaged(field)]
    while len(fields) > 2 and not fields[-1].strip(QUOTES + " \n"):
        fields.pop()
    return fields


def _split_damaged(field: str) -> list[str]:
    """Split a field at damaged delimiters.

    A delimiter has text on both sides; otherwise the field stays whole, as ``vector<>`` is a name.
    """
    parts = _DAMAGED_DELIMITER.split(field)
    are_all_filled = all(part.strip(QUOTES + " \n") for part in parts)
    return parts if are_all_filled else [field]


def running_text(fields: list[str]) -> str:
    """Join fields that are parts of one text, on one line."""
    lines = [one_line(field) for field in fields]
    return " ".join(filter(None, lines)).replace(_MARK, " ")


def record_problem(reason: str, text: str, message: str) -> Problem:
    """Return the problem of a record, with the beginning of its text and readable delimiters."""
    return problem(reason, text[:400].replace(_MARK, "<|>"), message)


def parse_graph_json(reply: str, with_properties: bool = False) -> Graph:
    """Return the records of a reply that contains ``{"entities": [...], "relationships": [...]}``.

    ``with_properties``: the reply was asked for properties; else those that it has are left out. A
    list of records without the object is read as well. ``complete``: there is a list of entities,
    even if it is empty. ``cut``: the JSON does not close. The record in which it is cut is left
    out, because its remaining fields are unknown.
    """
    values, ending = json_values(reply), ending_of(reply)
    problems: list[Problem] = []
    if ending == "inside" and values:
        values[-1], last = _without_last_record(values[-1])
        problems.append(problem("truncated", clean(str(last)), ENDS_INSIDE))
    records: list[Record] = []
    unreadable_records: list[Problem] = []
    for value in values:
        for item in _find_items(value):
            record = _read_json_record(item)
            if isinstance(record, Problem):
                unreadable_records.append(record)
            elif with_properties:
                records.append(replace(record, attributes=json_properties(item)))
            else:
                records.append(record)
    entity_lists = [first_value(fold_keys(value), _ENTITIES) for value in values]
    return Graph(
        records=tuple(records),
        problems=(*unreadable_records, *problems),
        complete=any(isinstance(entities, list) for entities in entity_lists),
        cut=ending != "whole",
    )


def _without_last_record(value: Any) -> tuple[Any, Any]:
    """Remove the last record from a graph, a list of graphs or a list of records.

    Returns the value without the record, and the record, or None if there is none. Objects keep the
    order of the text, so the last list is the one that was being written.
    """
    if isinstance(value, list) and value:
        *before, last_item = value
        fields = fold_keys(last_item)
        lists = (first_value(fields, _ENTITIES), first_value(fields, _RELATIONSHIPS))
        is_graph = any(isinstance(items, list) for items in lists)
        if not is_graph:
            return before, last_item
        rest, last = _without_last_record(last_item)
        return [*before, rest], last
    if isinstance(value, Mapping) and value:
        name = list(value)[-1]
        rest, last = _without_last_record(value[name])
        return {**value, name: rest}, last
    return value, None


class SearchTerms(NamedTuple):
    """High-level and low-level keywords, and the question reworded to stand without its
    conversation, if given."""

    high: list[str]
    low: list[str]
    question: str = ""


def parse_keywords(reply: str) -> SearchTerms | None:
    """Return the keywords in the JSON of a reply, or None if it has no such object."""
    for value in json_values(reply):
        fields = fold_keys(value)
        high, low = first_value(fields, _HIGH), first_value(fields, _LOW)
        if high is not None or low is not None:
            question = " ".join(text_of(first_value(fields, _QUESTION)).split())
            return SearchTerms(_read_phrases(high), _read_phrases(low), question)
    return None


def _find_items(value: Any) -> Iterator[Any]:
    """Yield the items that should be records.

    They are those of a graph or of a list of graphs or records, or else the value itself.
    """
    if isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping):
                yield from _find_items(item)
            else:
                yield item
        return
    graph = fold_keys(value)
    values = (first_value(graph, _ENTITIES), first_value(graph, _RELATIONSHIPS))
    lists = [items for items in values if isinstance(items, list)]
    if lists:
        for items in lists:
            yield from items
    elif value:
        yield value


def _read_json_record(item: Any) -> Record | Problem:
    """Return the entity or relationship of a JSON object, or the problem.

    An object with a source or a target is a relationship.
    """
    fields, shown = fold_keys(item), clean(str(item))
    source = first_value(fields, _SOURCE)
    target = first_value(fields, _TARGET)
    name = first_value(fields, _NAME)
    description = one_line(text_of(first_value(fields, _DESCRIPTION)))
    if source is not None or target is not None:
        keywords = keywords_of(_texts(first_value(fields, _KEYWORDS)))
        weight = weight_of(text_of(first_value(fields, _STRENGTH)))
        return relationship(text_of(source), text_of(target), description, keywords, weight, shown)
    if name is not None:
        return entity(text_of(name), text_of(first_value(fields, _TYPE)), description, shown)
    return problem("kind", shown, "neither an entity nor a relationship")


def _read_phrases(value: Any) -> list[str]:
    """Return the phrases of a list, or of a text with commas, each of them once."""
    if isinstance(value, list):
        return list(distinct_names(_texts(value)))
    return list(keywords_of(_texts(value)))


def _texts(value: Any) -> Iterable[str]:
    return map(text_of, value if isinstance(value, list) else [value])


def parse_records(reply: str, with_properties: bool = False) -> Graph:
    """Return the entities and relationships of a reply in the record format.

    ``with_properties``: the reply was asked for records of properties too.
    """
    if not with_properties:
        return Graph(**vars(_FORMAT.parse(reply)))
    parsed = _FORMAT_WITH_PROPERTIES.parse(reply)
    records, problems = attach_properties(parsed.records)
    return Graph(records, (*parsed.problems, *problems), parsed.complete, parsed.cut)


def _read_entity(fields: list[str], shown: str) -> Record | Problem:
    """Return the entity of these fields, or the problem."""
    if len(fields) < 2:
        return record_problem("fields", shown, "an entity needs a name, a type and a description")
    name, type, *description = fields
    # A type has few words: a long text in its place is the description.
    if not description and len(type.split()) > 3:
        type, description = "", [type]
    # Some models also give an entity a strength.
    if len(description) > 1 and weight_of(description[-1], strict=True) is not None:
        description.pop()
    return entity(name, type, running_text(description), shown)


def _read_relationship(fields: list[str], shown: str) -> Record | Problem:
    """Return the relationship of these fields, or the problem."""
    if len(fields) < 3:
        return record_problem(
            "fields", shown, "a relationship needs a source, a target and a description"
        )
    source, target, *others = fields
    weight = weight_of(others[-1], strict=len(others) < 3)
    if weight is None and len(others) > 2 and weight_of(others[-2], strict=True) is not None:
        # Keywords and strength are in the wrong order.
        others[-2], others[-1] = others[-1], others[-2]
        weight = weight_of(others[-1])
    if weight is not None:
        others.pop()
    keywords = others.pop() if len(others) > 1 else ""
    return relationship(
        source, target, running_text(others), keywords_of([keywords]), weight, shown
    )


_FORMAT: RecordFormat[Record] = RecordFormat(
    (
        Kind("entity|entities|实体|實體", marks=2, fields=3, read=_read_entity),
        Kind("relationships?|relations?|关系|關係", marks=3, fields=5, read=_read_relationship),
        # LightRAG's prompts also request keywords of the whole text.
        Kind("content[ _]keywords?", marks=3, fields=5, read=None),
    ),
    stray="neither an entity nor a relationship",
)


def _read_property(fields: list[str], shown: str) -> PropertyRecord | Problem:
    """Return the property of these fields, or the problem.

    With three fields it is one of an entity, with four one of a relationship.
    """
    names = [name_of(field) for field in fields[:-1]]
    if len(fields) not in (PROPERTY_FIELDS, PROPERTY_FIELDS + 1) or not all(names):
        return record_problem(
            "fields", shown, "a property needs an entity or two ends, its name and a value"
        )
    owner, name = names[0], names[-1]
    target = names[1] if len(fields) > PROPERTY_FIELDS else ""
    return PropertyRecord(owner, target, name, name_of(fields[-1]))


_PROPERTY_KIND: Kind[Any] = Kind(
    "property|properties|attributes?",
    marks=PROPERTY_FIELDS - 1,
    fields=PROPERTY_FIELDS,
    read=_read_property,
)
_GRAPH_KINDS: tuple[Kind[Any], ...] = _FORMAT.kinds


_FORMAT_WITH_PROPERTIES: RecordFormat[Record | PropertyRecord] = RecordFormat(
    (*_GRAPH_KINDS, _PROPERTY_KIND),
    stray=_FORMAT.stray,
)


def parse_claims(reply: str) -> ParsedReply[Claim]:
    """Return the claims of a reply in the record format.

    The fields are subject, object, type, status, start, end, description and source text.
    """
    return _CLAIM_FORMAT.parse(reply)


def _read_claim(fields: list[str], shown: str) -> Claim | Problem:
    """Return the claim of these fields, or the problem."""
    if len(fields) < LEAST_CLAIM_FIELDS:
        return record_problem(
            "fields",
            shown,
            "a claim needs a subject, an object, a type, a status, two dates and words",
        )
    subject, object, type, status, start, end, description, *source = fields
    return claim(
        subject, object, status, (start, end), (type, description, " ".join(source)), shown
    )


_CLAIM_FORMAT: RecordFormat[Claim] = RecordFormat(
    (Kind("claims?|covariates?|声明|聲明|主张", CLAIM_FIELDS - 1, CLAIM_FIELDS, _read_claim),),
    "no claim",
)


__all__ = [
    "REPORT_JSON_FORMAT",
    "Claim",
    "Entity",
    "Finding",
    "Graph",
    "ParsedReply",
    "Problem",
    "Record",
    "Relationship",
    "Report",
    "cut_problem",
    "failed",
    "has_end_mark",
    "parse_claims",
    "parse_graph_json",
    "parse_keywords",
    "parse_records",
    "parse_report",
    "unreadable",
    "unusable",
]
