"""What a reply says about a text: entities, relationships, and what could not be read of it."""

import re
from dataclasses import dataclass

from pipeline.models.reply_text import MISSING_WEIGHT, name_of, one_line, plain

LONGEST_NAME = 500


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


Record = Entity | Relationship


@dataclass(frozen=True)
class Problem:
    """What could not be read. ``reason``: kind, fields, name, truncated, parse, empty or refusal."""

    reason: str
    record_text: str
    message: str


@dataclass(frozen=True)
class Parsed:
    """``records`` in the order they came; ``complete`` when the reply says that it is at its end."""

    records: tuple[Record, ...]
    problems: tuple[Problem, ...]
    complete: bool

    @property
    def entities(self) -> tuple[Entity, ...]:
        return tuple(record for record in self.records if isinstance(record, Entity))

    @property
    def relationships(self) -> tuple[Relationship, ...]:
        return tuple(record for record in self.records if isinstance(record, Relationship))


_REFUSAL = re.compile(
    r"\W{0,5}(?:(?:i['’]?m |i am |we are |we['’]re )?(?:very |so )?sorry"
    r"|(?:unfortunately,? )?i (?:can['’]?t|can ?not|won['’]t|am unable|am not able|must decline)"
    r"|i['’]m (?:unable|not able)|as an ai|很?抱歉|对不起|對不起|我无法|我無法|我不能)",
    re.IGNORECASE,
)


def unreadable(parsed: Parsed, reply: str) -> Problem | None:
    """What makes the reply useless as a whole; None when it has a record, or says that there is none."""
    if parsed.records or (parsed.complete and not parsed.problems):
        return None
    text = plain(reply).strip()
    if not text:
        return Problem("empty", "", "the reply is empty")
    if _REFUSAL.match(text):
        return Problem("refusal", clipped(text), f"the model declined: {clipped(text)}")
    if parsed.problems:
        return Problem(
            "parse",
            parsed.problems[0].record_text,
            f"no readable record; first: {parsed.problems[0].message}",
        )
    return Problem("parse", clipped(text), f"no record in the reply: {clipped(text)}")


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


def problem(reason: str, record_text: str, message: str) -> Problem:
    shown = clipped(record_text)
    return Problem(reason, shown, f"{message}: {shown}")


def clipped(text: str) -> str:
    return " ".join(text[:400].split())[:200]


def _is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME
