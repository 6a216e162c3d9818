"""Records of a parsed reply (entities, relationships, claims) and the problems of what could not be
read.

Dates in the forms that models write become ISO 8601.
"""

import re
from dataclasses import dataclass
from datetime import date, time
from typing import Generic, TypeVar

from pipeline.models.base import ChatReply
from pipeline.models.parse.lenient_json import MISSING_WEIGHT, name_of, one_line, plain

LONGEST_NAME = 500
"""Length in characters of the longest name that is accepted."""
_NOBODY = frozenset({"", "none", "null", "n/a", "na", "nil", "unknown", "无", "無"})
"""Words that models write if a claim has no object."""
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
"""The beginning of a reply in which the model declines to answer."""
_TIME = (
    r"(?:[T ](?P<hours>\d{1,2}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}))?"
    r"(?:\.\d{1,9})?\s?(?:Z|[+-]\d{2}:?\d{2})?)?"
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
"""Forms of dates, from ISO 8601 to "4 March 1871" and "March 4, 1871"."""


@dataclass(frozen=True)
class Entity:
    """An entity. ``type`` is upper case, or "" if the reply has none.

    ``attributes`` is the JSON of its properties, "" if it has none or nothing asked for them.
    """

    name: str
    type: str
    description: str
    attributes: str = ""


@dataclass(frozen=True)
class Relationship:
    """A relationship between two entities. ``weight`` is within 0.1 to 10.

    ``attributes`` is that of an entity.
    """

    source: str
    target: str
    description: str
    keywords: tuple[str, ...]
    weight: float
    attributes: str = ""


@dataclass(frozen=True)
class PropertyRecord:
    """A property in the record format: of an entity, or of the relationship to ``target``."""

    owner: str
    target: str
    name: str
    value: str


@dataclass(frozen=True)
class Claim:
    """A claim about an entity.

    ``object`` is "" if the reply names none. ``status`` is TRUE, FALSE or SUSPECTED. Dates are ISO
    8601, or "" if none can be read. ``source_text`` is the passage that states the claim.
    """

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
    """Something in a reply that could not be read.

    ``reason`` of a whole reply is the reason code of its reject. ``reason`` of a record is kind,
    fields, name, parse or truncated; its reject has the reason code ``record``.
    """

    reason: str
    record_text: str
    message: str


@dataclass(frozen=True)
class ParsedReply(Generic[Item]):
    """Content of a reply.

    ``records``: the whole records in their order. ``complete``: the reply says that it has ended.
    ``cut``: the reply ends inside a record, or its JSON does not close. The record that was cut is
    among the problems.
    """

    records: tuple[Item, ...]
    problems: tuple[Problem, ...]
    complete: bool
    cut: bool = False


@dataclass(frozen=True)
class Graph(ParsedReply[Record]):
    """Entities and relationships of a reply."""

    @property
    def entities(self) -> tuple[Entity, ...]:
        return tuple(record for record in self.records if isinstance(record, Entity))

    @property
    def relationships(self) -> tuple[Relationship, ...]:
        return tuple(record for record in self.records if isinstance(record, Relationship))


def cut_problem(parsed: ParsedReply[Item]) -> Problem | None:
    """Return the problem of a reply that ends too early, whatever its finish reason, or None."""
    if not parsed.cut:
        return None
    inside = next((found for found in parsed.problems if found.reason == "truncated"), None)
    if inside is None:
        return Problem("truncated", "", "the JSON of the reply does not close")
    return Problem("truncated", inside.record_text, inside.message)


def unreadable(parsed: ParsedReply[Item], reply: str) -> Problem | None:
    """Return the problem that makes a whole reply useless.

    Returns None if the reply has a record, or says that there is none.
    """
    if parsed.records or (parsed.complete and not parsed.problems):
        return None
    if parsed.problems:
        first = parsed.problems[0]
        return Problem(
            "parse", first.record_text, f"no readable record; the first: {first.message}"
        )
    return unusable(reply) or problem("parse", plain(reply), "no record in the reply")


def unusable(reply: str) -> Problem | None:
    """Return the problem of a reply whose words alone matter: it is empty or a refusal. Otherwise
    None."""
    text = plain(reply).strip()
    if not text:
        return Problem("empty", "", "the reply is empty")
    if _REFUSAL.match(text):
        return problem("refusal", text, "the model declined")
    return None


def failed(reply: ChatReply) -> Problem | None:
    """Return the problem of a call that failed, or None.

    The call has also failed if its reply was cut off, or if the model read only a part of the
    prompt.
    """
    if reply.reason:
        return Problem(reply.reason, clip(reply.text), reply.message)
    if reply.finish_reason == "length":
        return Problem("truncated", "", "the reply was cut off at the output limit")
    if reply.prompt_cut:
        return Problem("unread", "", reply.message)
    return None


def entity(name: str, type: str, description: str, record_text: str) -> Entity | Problem:
    """Return the entity, or the problem if its name is empty or too long."""
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
    """Return the relationship, or the problem if a name of its ends is empty or too long."""
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
    """Return the claim, or the problem if the name of its subject is empty or too long.

    ``dates``: start and end. ``words``: type, description and source text.
    """
    cleaned = name_of(subject)
    if not _is_name(cleaned):
        return problem("name", record_text, "the subject of the claim is empty or too long")
    cleaned_object = name_of(object)
    if cleaned_object.casefold() in _NOBODY or not _is_name(cleaned_object):
        cleaned_object = ""
    type, description, source_text = words
    return Claim(
        subject=cleaned,
        object=cleaned_object,
        type=name_of(one_line(type)).upper(),
        status=_status(status),
        start_date=iso_date(dates[0]),
        end_date=iso_date(dates[1]),
        description=one_line(description),
        source_text=one_line(source_text),
    )


def problem(reason: str, record_text: str, message: str) -> Problem:
    """Return a problem whose message ends with the beginning of the record."""
    shown = clip(record_text)
    return Problem(reason, shown, f"{message}: {shown}")


def clip(text: str) -> str:
    """Return at most 200 characters of the text, on one line."""
    return " ".join(text[:400].split())[:200]


def _is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME


def _status(text: str) -> str:
    """Return TRUE, FALSE or SUSPECTED. Any unknown word means SUSPECTED."""
    return _STATUS.get(name_of(text).casefold(), _SUSPECTED)


def iso_date(text: str) -> str:
    """Return the date as ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, or "" if it cannot be read.

    A time other than midnight is added as ``THH:MM:SS``; time zones are left out. A date with two
    readings (``03/04/1871``) cannot be read.
    """
    line = " ".join(text.split())
    matches = (form.fullmatch(line) for form in _FORMS)
    found = next(filter(None, matches), None)
    if found is None:
        return ""
    parts = found.groupdict()
    try:
        month = _month(parts)
        day = int(parts["day"]) if parts.get("day") else None
        # The constructors raise ValueError for a day or an hour that does not exist.
        date(int(parts["year"]), month or 1, day or 1)
        clock = time(
            int(parts.get("hours") or 0),
            int(parts.get("minutes") or 0),
            int(parts.get("seconds") or 0),
        )
    except ValueError:
        return ""
    numbers = [f"{int(parts['year']):04}"]
    numbers += [f"{number:02}" for number in (month, day) if number]
    time_of_day = f"T{clock.isoformat()}" if clock != time() else ""
    return "-".join(numbers) + time_of_day


def _month(parts: dict[str, str | None]) -> int | None:
    """Return the number of the month, or None if the date has none.

    Raises ValueError for a word that is no month.
    """
    name, number = parts.get("name"), parts.get("month")
    if name is None:
        return int(number) if number else None
    if name.casefold() not in _MONTHS:
        raise ValueError(name)
    return _MONTHS[name.casefold()]
