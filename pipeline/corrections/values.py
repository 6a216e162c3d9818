"""Read and write the properties of a record, for corrections of their values."""

import json
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.text.ids import match_key


class DecidedValue(NamedTuple):
    """A value of a property that a person has set, as the attributes of a record hold it.

    ``value`` is what the person wrote. ``correction`` says which correction sets it, and who made
    it. ``is_cited``: whether the text unit of the record is its source.
    """

    value: str
    correction: str
    is_cited: bool


def read_decided(content: Any) -> DecidedValue | None:
    """Return the value that a person has set, from the JSON of a property; None for another one.

    No text can give one: conform_extractions makes a text of each object.
    """
    if isinstance(content, dict) and set(content) == set(DecidedValue._fields):
        return DecidedValue(**content)
    return None


def sign_value(id: str, by: str) -> str:
    """Return the source of a value that a person has set: the correction, and who made it."""
    return f"correction {id}, by {by}" if by else f"correction {id}"


def property_key(name: str) -> str:
    """Return the key that is equal for all spellings of a property: birth_date, Birth date."""
    return match_key(name.replace("_", " "))


def plain_phrase(text: str) -> str:
    """Return the text as phrases are looked for: with single blanks, and one form of each letter.

    A person copies a phrase from a page, which shows neither.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def parse_properties(cell: Any) -> dict[str, Any]:
    """Return the properties of a record, or {} where the cell holds no object."""
    if not isinstance(cell, str) or not cell.strip():
        return {}
    try:
        content = json.loads(cell)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write_properties(properties: Mapping[str, Any]) -> str:
    """Return the properties as the cell of a record."""
    return json.dumps(properties, ensure_ascii=False)


def leave_out(content: Any, value: str) -> Any:
    """Return the values of a property without this one, or without any if ``value`` is empty.

    They are an empty list if none is left.
    """
    values = content if isinstance(content, list) else [content]
    if not value:
        return []
    others = [each for each in values if not _is_value(each, value)]
    return others if isinstance(content, list) or not others else others[0]


def _is_value(given: Any, value: str) -> bool:
    """Check that a value of a property is this one, as a number or as a text."""
    if not isinstance(given, int | float):
        return str(given) == value
    try:
        return float(value) == float(given)
    except ValueError:
        return False
