"""Read the values of properties as the ontology declares them.

A value that was read is a number, or a text: a date in ISO 8601 with the precision that is known,
the name of an enum's value, or the text itself.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from pipeline.ontology.schema import EnumValue, Property
from pipeline.ontology.text_patterns import fits_pattern
from pipeline.ontology.type_names import TypeNames
from pipeline.ontology.units import convert_amount, find_unit, unit_key
from pipeline.text.dates import parse_date
from pipeline.text.ids import NOTHING, clean

UNKNOWN_PROPERTY, BAD_VALUE, WRONG_UNIT = "unknown_property", "bad_value", "wrong_unit"
MISSING_PROPERTY = "missing_property"
"""Reasons of rejects."""
Scalar = str | int | float
Attributes = dict[str, Scalar | list[Scalar]]
"""Properties by name; a property with several values has a list of them."""
LONGEST_VALUE = 500
"""The most characters of a value; a longer text is a description, and no store could index it."""
MOST_DIGITS = 15
"""The digits of a number that are kept: as many as a float of 64 bits has for certain."""
LARGEST_EXPONENT = 30
_SPACES = re.compile(r"[\s\u00a0\u202f\u2009]+")
_AMOUNT = re.compile(
    r"(?P<before>[^\d+\-−.,]{0,20}?)\s?(?P<sign>[+\-−]?)"
    r"(?P<digits>\d[\d.,'’ ]*\d|\d)(?P<exponent>[eE][+-]?\d{1,2})?"
    r"(?:\s?(?P<scale>thousand|million|billion|trillion|mio|bn)\b\.?)?"
    r"\s?(?P<unit>.{0,40})"
)
_SCALES: Mapping[str, int] = {
    "thousand": 10**3,
    "million": 10**6,
    "mio": 10**6,
    "billion": 10**9,
    "bn": 10**9,
    "trillion": 10**12,
}
_SIGNS = "%°€$£¥"
"""The characters that a unit may begin with, beside letters."""
_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_GROUPED = re.compile(r"\d{1,3}(?:(?P<mark>[,'’ ])\d{3})(?:(?P=mark)\d{3})*(?:\.\d+)?")
"""Digits in groups of three, with a point before decimals: 1,234,567.5."""
_GROUPED_BY_POINT = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}(?:\.\d{3})+,\d+")
"""Digits in groups of three behind points, which nothing else can be: 1.234.567 or 1.234,5."""
_COMMA_DECIMAL = re.compile(r"\d+,(?:\d{1,2}|\d{4,})")


class Fault(NamedTuple):
    """A value that was not read: the reason of its reject, what is wrong, and the value's text."""

    reason: str
    fact: str
    text: str = ""


class Properties:
    """The properties of a type, found by their names and synonyms in any spelling."""

    def __init__(self, properties: Iterable[Property]):
        self.by_name = {one.name: one for one in properties}
        self._names = TypeNames.of((one.name, one.synonyms) for one in self.by_name.values())

    def find(self, name: str) -> Property | None:
        found = self._names.find(name)
        return None if found is None else self.by_name[found]

    @property
    def required(self) -> list[str]:
        return [name for name, one in self.by_name.items() if one.required]


def read_values(property: Property, given: Any) -> Iterator[Scalar | Fault]:
    """Yield each value that was given for a property as it was read, or the fault.

    ``given`` is a value of JSON. A list has several values. Nothing is yielded for words that say
    that there is none.
    """
    for item in _list_items(property, given):
        text = _to_text(item)
        value = _read_text(property, text)
        if isinstance(value, Fault) and text.casefold() in NOTHING:
            continue
        if property.type in ("string", "list") and text.casefold() in NOTHING:
            continue
        yield value._replace(text=text) if isinstance(value, Fault) else value


def as_given(given: Any) -> list[Scalar]:
    """Return the values of something that no property declares, as texts."""
    items = given if isinstance(given, list) else [given]
    texts = [_to_text(item)[:LONGEST_VALUE] for item in items]
    return [text for text in texts if text.casefold() not in NOTHING]


def with_values(values: Mapping[str, Sequence[Scalar]]) -> str | None:
    """Return the JSON of properties with their values, each once; None where there are none."""
    attributes: Attributes = {}
    for name in sorted(values):
        distinct = sorted(set(values[name]), key=lambda value: (isinstance(value, str), value))
        if distinct:
            attributes[name] = distinct[0] if len(distinct) == 1 else distinct
    return json.dumps(attributes, ensure_ascii=False) if attributes else None


def parse_attributes(cell: Any) -> dict[str, Any] | None:
    """Return the JSON object of a cell: {} for an empty one, None if it is no JSON object."""
    if not isinstance(cell, str) or not cell.strip():
        return {}
    try:
        content = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def number_text(value: float) -> str:
    """Return the digits of a number, without an exponent: 1850, 12.5."""
    return format(_normalize(Decimal(repr(value))), "f")


def _list_items(property: Property, given: Any) -> list[Any]:
    if isinstance(given, list):
        return given
    if property.type == "list" and isinstance(given, str):
        return given.split(";") if ";" in given else given.split(",")
    return [given]


def _to_text(item: Any) -> str:
    """Return a value of JSON as a text on one line."""
    if item is None:
        return ""
    if isinstance(item, Mapping):
        # Some models write {"value": 12, "unit": "km"}.
        return " ".join(_to_text(part) for part in item.values())
    if isinstance(item, list):
        return ", ".join(_to_text(part) for part in item)
    text = item if isinstance(item, str) else json.dumps(item)
    return _SPACES.sub(" ", clean(text)).strip()


def _read_text(property: Property, text: str) -> Scalar | Fault:
    if len(text) > LONGEST_VALUE:
        return Fault(BAD_VALUE, f"longer than {LONGEST_VALUE} characters")
    if property.type == "number":
        return read_number(text, property.unit)
    if property.type == "date":
        return parse_date(text) or Fault(BAD_VALUE, "no date that exists")
    if property.type == "enum":
        found = _enum_names(property.values).find(text)
        names = ", ".join(value.name for value in property.values)
        return found or Fault(BAD_VALUE, f"none of {names}")
    if property.pattern and not fits_pattern(property.pattern, text):
        return Fault(BAD_VALUE, f"not in the pattern {property.pattern}")
    return text


@lru_cache(maxsize=256)
def _enum_names(values: tuple[EnumValue, ...]) -> TypeNames:
    return TypeNames.of((value.name, value.synonyms) for value in values)


def read_number(text: str, unit: str) -> int | float | Fault:
    """Return the number of a text in this unit; a text without a unit is in it already."""
    found = _AMOUNT.fullmatch(text)
    amount = None if found is None else _read_digits(found["digits"].strip())
    if found is None or amount is None:
        return Fault(BAD_VALUE, "no number")
    if found["exponent"]:
        amount *= Decimal(10) ** int(found["exponent"][1:])
    if found["scale"]:
        amount *= _SCALES[found["scale"].lower()]
    if found["sign"] in ("-", "−"):
        amount = -amount
    before, behind = found["before"].strip(), found["unit"].strip(" .")
    is_word = before and find_unit(before) is None and unit_key(before) != unit_key(unit)
    is_no_unit = behind and not (behind[0].isalpha() or behind[0] in _SIGNS)
    if is_word or is_no_unit or (before and behind):
        return Fault(BAD_VALUE, "no plain number")
    given = before or behind
    if given:
        converted = convert_amount(amount, given, unit) if unit else None
        if converted is None:
            wanted = f"does not convert to {unit!r}" if unit else "stands at a number that has none"
            return Fault(WRONG_UNIT, f"the unit {given!r} {wanted}")
        amount = converted
    return _to_number(amount)


def _read_digits(digits: str) -> Decimal | None:
    """Return the number that digits with their marks spell, or None if they have no clear form."""
    if _PLAIN.fullmatch(digits):
        plain = digits
    elif _GROUPED.fullmatch(digits):
        plain = re.sub(r"[,'’ ]", "", digits)
    elif _GROUPED_BY_POINT.fullmatch(digits):
        plain = digits.replace(".", "").replace(",", ".")
    elif _COMMA_DECIMAL.fullmatch(digits):
        plain = digits.replace(",", ".")
    else:
        return None
    return Decimal(plain)


def _to_number(amount: Decimal) -> int | float | Fault:
    """Return the amount as a number of JSON with MOST_DIGITS digits."""
    if amount and abs(amount.adjusted()) > LARGEST_EXPONENT:
        return Fault(BAD_VALUE, "out of the range of numbers")
    try:
        rounded = _normalize(amount)
    except InvalidOperation:
        return Fault(BAD_VALUE, "out of the range of numbers")
    is_whole = rounded == rounded.to_integral_value() and abs(rounded) < 10**MOST_DIGITS
    return int(rounded) if is_whole else float(rounded)


def _normalize(amount: Decimal) -> Decimal:
    """Return the amount with MOST_DIGITS digits, and without zeros at its end."""
    rounded = Decimal(f"{amount:.{MOST_DIGITS}g}")
    return rounded.normalize() if rounded else Decimal(0)
