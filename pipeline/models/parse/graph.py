"""Read a graph, claims or keywords that a model wrote, as records or as JSON. No reply raises.

Time grows with the length of the reply: every repetition in a pattern is bounded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple

from pipeline.models.parse.lenient_json import (
    CLOSE,
    OPEN,
    QUOTES,
    balanced,
    distinct_names,
    ending_of,
    first_of,
    folded,
    json_values,
    keywords_of,
    one_line,
    plain,
    text_of,
    weight_of,
)
from pipeline.models.parse.records import (
    Claim,
    Entity,
    Graph,
    Item,
    ParsedReply,
    Problem,
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

_Q = f"[{re.escape(QUOTES)}]"
_LT, _GT, _BAR, _HASH = "[<＜〈《⟨]", "[>＞〉》⟩]", "[|｜¦│]", "[#＃]"
_MARK = "\x1f"
_COMPLETION = re.compile(
    rf"(?:{_LT}\s?{_BAR}?|{_BAR})\s?/?\s?completed?\s?(?:{_BAR}?\s?{_GT}|{_BAR}|$)"
    r"|[<{]\|?completion_delimiter\|?[>}]|^\W{0,3}complete\W{0,3}\Z",
    re.IGNORECASE | re.MULTILINE,
)
_DELIMITER = re.compile(
    rf"{_LT}{{1,2}}\s?[/\\]?\s?{_BAR}\s?[^<>|\n\"]{{0,3}}?\s?{_BAR}{{0,2}}\s?[/\\]?\s?{_GT}{{1,2}}"
    r"|[<{]\|?(?:tuple_delimiter|sep)\|?[>}]",
    re.IGNORECASE,
)
_REMAINS = (
    rf"{_LT}\s?{_BAR}{{1,3}}#?{_BAR}?|{_LT}?{_BAR}?#?{_BAR}{{1,2}}\s?{_GT}|{_LT}\s?[#/]?\s?{_GT}"
)
_DAMAGED = rf"(?:(?<!\s)(?:{_REMAINS})|(?:{_REMAINS})(?!\s)|(?<={_Q})\s?{_BAR}\s?(?={_Q}|\d))"
_DAMAGED_DELIMITER = re.compile(_DAMAGED)
_BARE_BAR = re.compile(_BAR)
_QUOTED_COMMA = re.compile(rf"(?<={_Q})\s?,\s?|,\s?(?={_Q})")
_SEPARATOR = re.compile(rf"(?<=[{CLOSE}\]}}])\s?##|##\s?(?:\n|\Z)")
_CLOSED_AFTER_QUOTE = re.compile(rf"(?:{_Q}|\d)\s?[{CLOSE}]{{1,3}}[\s,;]{{0,3}}(?:\n|\Z)")
_CLOSED = re.compile(rf"[{CLOSE}\]}}][ ,;]{{0,3}}(?:\n|\Z)")
_LINES = re.compile(r"##|\n")
_BEGUN_MARK = re.compile(
    rf"(?<=[{CLOSE}])\s?(?:#|{_LT}\s?{_BAR}?\s?(?:C[A-Z]{{0,7}})?)\Z", re.IGNORECASE
)
"""At the end of a reply: the beginning of a separator or of the completion mark, after a whole
record."""
_BEGUN_RECORD = re.compile(rf"(?:\n|##)\s?(?P<begun>[{OPEN}][^{CLOSE}\n{_MARK}]{{0,60}})\Z")
"""At the end of a reply: a record of which not even its kind was written whole."""
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")
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
FIELDS = 8
LEAST_FIELDS = 7
"""The source text may be missing."""


@dataclass(frozen=True)
class Kind(Generic[Item]):
    """``words``: a pattern of its name; ``marks``: delimiters before the field that is its last, be
    it several lines; ``fields``: how many it has; ``read``: a record of its fields, None for a kind
    that is passed over."""

    words: str
    marks: int
    fields: int
    read: Callable[[list[str], str], Item | Problem] | None


@dataclass(frozen=True)
class RecordFormat(Generic[Item]):
    """``stray``: what is wrong with what has delimiters and is of no kind."""

    kinds: tuple[Kind[Item], ...]
    stray: str

    @cached_property
    def _head(self) -> re.Pattern[str]:
        words = "|".join(kind.words for kind in self.kinds)
        return re.compile(
            rf"(?:(?P<opened>[{OPEN}\[{{【])\s?|(?:^|(?<=##))\s?(?:\d{{1,4}}[.)]\s?|[-*•]\s)?[{OPEN}\[{{【]?\s?)"
            rf"[*_]{{0,2}}{_Q}{{0,3}}(?P<kind>{words}){_Q}{{0,3}}[*_]{{0,2}}[ \n]?"
            rf"(?:(?P<delimiter>{_MARK}|{_DAMAGED})|(?P<bar>{_BAR})|(?<={_Q})\s?(?P<comma>,))",
            re.IGNORECASE | re.MULTILINE,
        )

    def parse(self, reply: str) -> ParsedReply[Item]:
        """Return the records of a reply, however damaged it is."""
        text = _tidied(plain(reply))
        complete = self._ends_with_mark(text)
        unfinished = text if complete else _BEGUN_MARK.sub("", text.rstrip())
        whole = _COMPLETION.sub("\n##\n", unfinished)
        marked = _DELIMITER.sub(_MARK, whole).strip()
        heads = list(self._head.finditer(marked))
        ends = [head.start() for head in heads[1:]] + [len(marked)]
        found: list[Item | Problem] = [
            *self._stray(marked[: heads[0].start()] if heads else marked)
        ]
        for head, end in zip(heads, ends, strict=False):
            may_be_cut = end == len(marked) and not complete
            found += self._read(head, marked[head.end() : end], may_be_cut)
        begun = None if complete else _BEGUN_RECORD.search(marked)
        if heads and begun and begun.start() >= heads[-1].end():
            found.append(record_problem("truncated", begun["begun"], ENDS_INSIDE))
        problems = tuple(one for one in found if isinstance(one, Problem))
        return ParsedReply(
            records=tuple(one for one in found if not isinstance(one, Problem)),
            problems=problems,
            complete=complete,
            cut=any(one.reason == "truncated" for one in problems),
        )

    def _ends_with_mark(self, text: str) -> bool:
        """Check that a completion mark stands after the last record.

        A mark before another record ends nothing: it may come from the document itself.
        """
        marks = list(_COMPLETION.finditer(text))
        if not marks:
            return False
        rest = _DELIMITER.sub(_MARK, text[marks[-1].end() :])
        return self._head.search(rest) is None

    def _read(self, head: re.Match[str], region: str, may_be_cut: bool) -> list[Item | Problem]:
        """The record after this head, and what else stands before the next one."""
        kind = next(
            kind for kind in self.kinds if re.fullmatch(kind.words, head["kind"], re.IGNORECASE)
        )
        body, closed, rest = _cut(region, bool(head["opened"]), kind.marks)
        if kind.read is None:
            return [*self._stray(rest)]
        shown = f"{head[0]}{body}"
        if may_be_cut and _is_cut(head, body, closed, kind.marks):
            return [record_problem("truncated", shown, ENDS_INSIDE)]
        return [kind.read(_fields(head, body, kind.fields), shown), *self._stray(rest)]

    def _stray(self, text: str) -> list[Problem]:
        """Lines between records that look like one."""
        lines = _LINES.split(text) if _MARK in text else ()
        return [record_problem("kind", line, self.stray) for line in lines if _MARK in line]


def has_end_mark(text: str) -> bool:
    """Check that the completion mark stands in a prompt or a reply."""
    return _COMPLETION.search(text) is not None


def _tidied(text: str) -> str:
    """White space collapsed, line ends that the reply spells out made real, record separators as
    ``##``."""
    lines = text if "\n" in text.strip() else text.replace("\\n", "\n")
    spaced = _LINE_ENDS.sub("\n", _SPACES.sub(" ", lines))
    return _BLANK_LINES.sub("\n\n", spaced).replace("＃＃", "##")


def _cut(region: str, opened: bool, marks: int) -> tuple[str, bool, str]:
    """(record, whether it was closed, what follows it). A closing parenthesis ends a record only
    after its last delimiters, for a field may hold some at the end of a line."""
    separator = _SEPARATOR.search(region)
    region, rest = (
        (region[: separator.start()], region[separator.end() :]) if separator else (region, "")
    )
    start = 0
    for _ in range(marks):
        start = region.find(_MARK, start) + 1 or start
    quoted = region[start : start + 2].strip()[:1] in QUOTES
    end = (_CLOSED_AFTER_QUOTE.search(region, start) if quoted else None) or _CLOSED.search(
        region, start
    )
    if opened and end:
        return region[: end.end()], True, region[end.end() :] + rest
    broken = region.find("\n\n" if opened else "\n", start)
    if broken < 0:
        return region, separator is not None, rest
    return region[:broken], True, region[broken:] + rest


def _is_cut(head: re.Match[str], body: str, closed: bool, marks: int) -> bool:
    """Check that the last record of a reply without a completion mark is cut.

    A closing parenthesis at its end may belong to its text, as in ``("entity"<|>Ivo (the miller)``:
    only as many of them as were opened close the record.
    """
    record = f"{head[0]}{body}"
    opened, ended = (sum(map(record.count, brackets)) for brackets in (OPEN, CLOSE))
    stays_open = opened > ended
    if closed:
        return stays_open and body.rstrip()[-1:] in CLOSE
    # A model that leaves out the last parenthesis still writes all fields.
    lacks_fields = head["delimiter"] == _MARK and body.count(_MARK) < marks
    return (stays_open and lacks_fields) or _ends_midway(body)


def _ends_midway(body: str) -> bool:
    end = body.rstrip()[-1:]
    return not end or not (end.isdigit() or end in QUOTES + CLOSE + ".!?。！？")


def _fields(head: re.Match[str], body: str, wanted: int) -> list[str]:
    """The body's fields; delimiters that are damaged count where the others give too few."""
    trimmed = balanced(body.strip(" \n,;]}"))
    if head["bar"]:
        return _BARE_BAR.split(trimmed)
    if head["comma"]:
        return _QUOTED_COMMA.split(trimmed)
    fields = trimmed.split(_MARK)
    if len(fields) < wanted:
        fields = [piece for field in fields for piece in _split_damaged(field)]
    while len(fields) > 2 and not fields[-1].strip(QUOTES + " \n"):
        fields.pop()
    return fields


def _split_damaged(field: str) -> list[str]:
    """A delimiter has something on both sides: ``vector<>`` is a name."""
    pieces = _DAMAGED_DELIMITER.split(field)
    return pieces if all(piece.strip(QUOTES + " \n") for piece in pieces) else [field]


def running_text(pieces: list[str]) -> str:
    """Fields that are one text, on one line."""
    return " ".join(filter(None, map(one_line, pieces))).replace(_MARK, " ")


def record_problem(reason: str, text: str, message: str) -> Problem:
    return problem(reason, text[:400].replace(_MARK, "<|>"), message)


def parse_graph_json(reply: str) -> Graph:
    """Return the records of a reply that is, or holds, ``{"entities": [...], "relationships":
    [...]}``.

    A bare list of records is read too. ``complete``: there is a list of entities, be it empty.
    ``cut``: the JSON does not close. A record in which it stops is left out, for nobody knows the
    rest of its fields.
    """
    values, ending = json_values(reply), ending_of(reply)
    problems: list[Problem] = []
    if ending == "inside" and values:
        values[-1], last = _without_last_record(values[-1])
        problems.append(problem("truncated", clean(str(last)), ENDS_INSIDE))
    found = [_record(item) for value in values for item in _items(value)]
    return Graph(
        records=tuple(one for one in found if not isinstance(one, Problem)),
        problems=(*(one for one in found if isinstance(one, Problem)), *problems),
        complete=any(isinstance(first_of(folded(value), _ENTITIES), list) for value in values),
        cut=ending != "whole",
    )


def _without_last_record(value: Any) -> tuple[Any, Any]:
    """Take the last record out of a graph, a list of graphs or a list of records. Returns both, the
    record None if there is none. Objects keep the order of the text, so the last list is the one
    that was being written."""
    if isinstance(value, list) and value:
        fields = folded(value[-1])
        is_graph = any(
            isinstance(first_of(fields, names), list) for names in (_ENTITIES, _RELATIONSHIPS)
        )
        if not is_graph:
            return value[:-1], value[-1]
        rest, last = _without_last_record(value[-1])
        return [*value[:-1], rest], last
    if isinstance(value, Mapping) and value:
        name = list(value)[-1]
        rest, last = _without_last_record(value[name])
        return {**value, name: rest}, last
    return value, None


class SearchTerms(NamedTuple):
    """High-level and low-level keywords, and the question as it stands without its conversation, if
    given."""

    high: list[str]
    low: list[str]
    question: str = ""


def parse_keywords(reply: str) -> SearchTerms | None:
    """None when the reply holds no such object."""
    for value in json_values(reply):
        fields = folded(value)
        high, low = first_of(fields, _HIGH), first_of(fields, _LOW)
        if high is not None or low is not None:
            return SearchTerms(
                _phrases(high),
                _phrases(low),
                " ".join(text_of(first_of(fields, _QUESTION)).split()),
            )
    return None


def _items(value: Any) -> Iterator[Any]:
    """What should be records: those of a graph, of a list of graphs or records, or the value
    itself."""
    if isinstance(value, list):
        for item in value:
            yield from _items(item) if isinstance(item, Mapping) else [item]
        return
    graph = folded(value)
    lists = [first_of(graph, _ENTITIES), first_of(graph, _RELATIONSHIPS)]
    if any(isinstance(items, list) for items in lists):
        yield from (item for items in lists if isinstance(items, list) for item in items)
    elif value:
        yield value


def _record(item: Any) -> Record | Problem:
    fields, shown = folded(item), clean(str(item))
    source, target, name = (first_of(fields, keys) for keys in (_SOURCE, _TARGET, _NAME))
    description = one_line(text_of(first_of(fields, _DESCRIPTION)))
    if source is not None or target is not None:
        keywords = keywords_of(_texts(first_of(fields, _KEYWORDS)))
        weight = weight_of(text_of(first_of(fields, _STRENGTH)))
        return relationship(text_of(source), text_of(target), description, keywords, weight, shown)
    if name is not None:
        return entity(text_of(name), text_of(first_of(fields, _TYPE)), description, shown)
    return problem("kind", shown, "neither an entity nor a relationship")


def _phrases(value: Any) -> list[str]:
    return list(
        distinct_names(_texts(value)) if isinstance(value, list) else keywords_of(_texts(value))
    )


def _texts(value: Any) -> Iterable[str]:
    return map(text_of, value if isinstance(value, list) else [value])


def parse_records(reply: str) -> Graph:
    """The entities and relationships of a reply, however damaged."""
    return Graph(**vars(_FORMAT.parse(reply)))


def _entity(fields: list[str], shown: str) -> Record | Problem:
    if len(fields) < 2:
        return record_problem("fields", shown, "an entity needs a name, a type and a description")
    name, type, *description = fields
    if not description and len(type.split()) > 3:
        type, description = "", [type]
    if len(description) > 1 and weight_of(description[-1], strict=True) is not None:
        description.pop()
    return entity(name, type, running_text(description), shown)


def _relationship(fields: list[str], shown: str) -> Record | Problem:
    if len(fields) < 3:
        return record_problem(
            "fields", shown, "a relationship needs a source, a target and a description"
        )
    source, target, *others = fields
    weight = weight_of(others[-1], strict=len(others) < 3)
    if weight is None and len(others) > 2 and weight_of(others[-2], strict=True) is not None:
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
        Kind("entity|entities|实体|實體", 2, 3, _entity),
        Kind("relationships?|relations?|关系|關係", 3, 5, _relationship),
        Kind("content[ _]keywords?", 3, 5, None),
    ),
    "neither an entity nor a relationship",
)


def parse_claims(reply: str) -> ParsedReply[Claim]:
    """The claims of a reply, however damaged: subject, object, type, status, start, end,
    description, source text."""
    return _CLAIM_FORMAT.parse(reply)


def _claim(fields: list[str], shown: str) -> Claim | Problem:
    if len(fields) < LEAST_FIELDS:
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
    (Kind("claims?|covariates?|声明|聲明|主张", FIELDS - 1, FIELDS, _claim),), "no claim"
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
