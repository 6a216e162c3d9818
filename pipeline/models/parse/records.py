"""What a reply says about a text: entities, relationships, and what could not be read of it.

Dates as models write them, as ISO 8601.
"""

import re
from dataclasses import dataclass
from datetime import date, time
from typing import Generic, TypeVar

from pipeline.models.base import ChatReply
from pipeline.models.parse.lenient_json import MISSING_WEIGHT, name_of, one_line, plain

LONGEST_NAME = 500
_NOBODY = frozenset({"", "none", "null", "n/a", "na", "nil", "unknown", "无", "無"})
_TRUE, _FALSE, _SUSPECTED = "TRUE", "FALSE", "SUSPECTED"
_STATUS = {
    "true": _TRUE,
    "confirmed": _TRUE,
    "yes": _TRUE,
    "false": _FALSE,
    "refuted": _FALSE,
    "no": _FALSE,
}
Item = TypeVar("Item")
_REFUSAL = re.compile(
    r"\W{0,5}(?:(?:i['’]?m|i am|we are|we['’]re) (?:very |so )?sorry|sorry(?:,| but)"
    r"|(?:unfortunately,? )?i (?:can['’]?t|can ?not|won['’]t|am unable|am not able|must decline)"
    r"|i['’]m (?:unable|not able)|as an ai (?:language )?(?:model|assistant)"
    r"|很?抱歉|对不起|對不起|我无法|我無法|我不能)",
    re.IGNORECASE,
)
_TIME = (
    r"(?:[T"
    r" ](?P<hours>\d{1,2}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}))?(?:\.\d{1,9})?\s?(?:Z|[+-]\d{2}:?\d{2})?)?"  # noqa: E501
)
_NAMES = (
    "january february march april may june july august september october november december".split()
)
_MONTHS = {
    form: number for number, name in enumerate(_NAMES, 1) for form in (name, name[:3], name[:4])
}
_MONTH = r"(?P<name>[A-Za-z]{3,9})\.?"
_FORMS = [
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?P<year>\d{{4}})(?:[-/.](?P<month>\d{{1,2}})(?:[-/.](?P<day>\d{{1,2}}){_TIME})?)?",
        r"(?P<year>\d{4})年(?:(?P<month>\d{1,2})月(?:(?P<day>\d{1,2})日)?)?",
        rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?)?{_MONTH},?\s(?P<year>\d{{4}})",
        rf"{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<year>\d{{4}})",
    )
]


@dataclass(frozen=True)
class Entity:
    """``type`` is upper case, empty where the reply has none."""

    name: str
    type: str
    description: str


@dataclass(frozen=True)
class Relationship:
    source: str
    target: str
    description: str
    keywords: tuple[str, ...]
    weight: float


@dataclass(frozen=True)
class Claim:
    """``object`` is empty where the reply names none; ``status`` is TRUE, FALSE or SUSPECTED; dates
    are ISO 8601, empty where there is none that can be read; ``source_text`` is what the text
    says."""

    subject: str
    object: str
    type: str
    status: str
    start_date: str
    end_date: str
    description: str
    source_text: str


Record = Entity | Relationship


@dataclass(frozen=True)
class Problem:
    """What could not be read. ``reason``: of a reply, a reject's; of a record in it, kind, fields,
    name, parse or truncated: that one is a reject for the reason ``record``."""

    reason: str
    record_text: str
    message: str


@dataclass(frozen=True)
class ParsedReply(Generic[Item]):
    """The content of a reply.

    ``records``: whole records, in the order they came. ``complete``: the reply says that it is at
    its end. ``cut``: it ends inside a record, or its JSON does not close. The record that was cut
    is a problem.
    """

    records: tuple[Item, ...]
    problems: tuple[Problem, ...]
    complete: bool
    cut: bool = False


@dataclass(frozen=True)
class Graph(ParsedReply[Record]):
    @property
    def entities(self) -> tuple[Entity, ...]:
        return tuple(record for record in self.records if isinstance(record, Entity))

    @property
    def relationships(self) -> tuple[Relationship, ...]:
        return tuple(record for record in self.records if isinstance(record, Relationship))


def cut_problem(parsed: ParsedReply[Item]) -> Problem | None:
    """Return the problem of a reply that ends too early, whatever its finish reason is; else
    None."""
    if not parsed.cut:
        return None
    inside = next((found for found in parsed.problems if found.reason == "truncated"), None)
    if inside is None:
        return Problem("truncated", "", "the JSON of the reply does not close")
    return Problem("truncated", inside.record_text, inside.message)


def unreadable(parsed: ParsedReply[Item], reply: str) -> Problem | None:
    """Return the problem that makes a reply useless as a whole; None if it has a record, or says
    that there is none."""
    if parsed.records or (parsed.complete and not parsed.problems):
        return None
    if parsed.problems:
        first = parsed.problems[0]
        return Problem(
            "parse", first.record_text, f"no readable record; the first: {first.message}"
        )
    return unusable(reply) or problem("parse", plain(reply), "no record in the reply")


def unusable(reply: str) -> Problem | None:
    """What is wrong with a reply of which only the words matter: none, or a refusal."""
    text = plain(reply).strip()
    if not text:
        return Problem("empty", "", "the reply is empty")
    return problem("refusal", text, "the model declined") if _REFUSAL.match(text) else None


def failed(reply: ChatReply) -> Problem | None:
    """Return why the call brought no reply, or only a part of one, or one to a part of the prompt;
    else None."""
    if reply.reason:
        return Problem(reply.reason, clipped(reply.text), reply.message)
    if reply.finish_reason == "length":
        return Problem("truncated", "", "the reply was cut off at the output limit")
    if reply.prompt_cut:
        return Problem("unread", "", reply.message)
    return None


def entity(name: str, type: str, description: str, record_text: str) -> Entity | Problem:
    """The entity, or what is wrong with its name."""
    cleaned = name_of(name)
    if not _is_name(cleaned):
        return problem("name", record_text, "the entity's name is empty or too long")
    return Entity(cleaned, name_of(one_line(type)).upper(), description)


def relationship(
    source: str,
    target: str,
    description: str,
    keywords: tuple[str, ...],
    weight: float | None,
    record_text: str,
) -> Relationship | Problem:
    """The relationship, or what is wrong with its ends."""
    ends = name_of(source), name_of(target)
    if not all(map(_is_name, ends)):
        return problem("name", record_text, "an end of the relationship is empty or too long")
    return Relationship(*ends, description, keywords, MISSING_WEIGHT if weight is None else weight)


def claim(
    subject: str,
    object: str,
    status: str,
    dates: tuple[str, str],
    words: tuple[str, str, str],
    record_text: str,
) -> Claim | Problem:
    """The claim, or what is wrong with its subject; ``words``: its type, description and source
    text."""
    cleaned = name_of(subject)
    if not _is_name(cleaned):
        return problem("name", record_text, "the subject of the claim is empty or too long")
    about = name_of(object)
    type, description, source_text = words
    return Claim(
        subject=cleaned,
        object="" if about.casefold() in _NOBODY or not _is_name(about) else about,
        type=name_of(one_line(type)).upper(),
        status=_status(status),
        start_date=iso_date(dates[0]),
        end_date=iso_date(dates[1]),
        description=one_line(description),
        source_text=one_line(source_text),
    )


def problem(reason: str, record_text: str, message: str) -> Problem:
    shown = clipped(record_text)
    return Problem(reason, shown, f"{message}: {shown}")


def clipped(text: str) -> str:
    return " ".join(text[:400].split())[:200]


def _is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME


def _status(text: str) -> str:
    """What is neither said to be true nor to be false is suspected."""
    return _STATUS.get(name_of(text).casefold(), _SUSPECTED)


def iso_date(text: str) -> str:
    """``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, with ``THH:MM:SS`` where the text has a time other
    than midnight; zones are left out. Empty for what is no date, or may be read in two ways
    (``03/04/1871``)."""
    found = next(
        (match for form in _FORMS if (match := form.fullmatch(" ".join(text.split())))), None
    )
    if found is None:
        return ""
    parts = found.groupdict()
    try:
        month = _month(parts)
        day = int(parts["day"]) if parts.get("day") else None
        date(int(parts["year"]), month or 1, day or 1)
        clock = time(
            int(parts.get("hours") or 0),
            int(parts.get("minutes") or 0),
            int(parts.get("seconds") or 0),
        )
    except ValueError:
        return ""
    pieces = [f"{int(parts['year']):04}", *(f"{number:02}" for number in (month, day) if number)]
    return "-".join(pieces) + (f"T{clock.isoformat()}" if clock != time() else "")


def _month(parts: dict[str, str | None]) -> int | None:
    """Raises ValueError for a word that is no month."""
    name, number = parts.get("name"), parts.get("month")
    if name is None:
        return int(number) if number else None
    if name.casefold() not in _MONTHS:
        raise ValueError(name)
    return _MONTHS[name.casefold()]
