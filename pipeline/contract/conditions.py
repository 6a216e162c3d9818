"""Conditions on a document's fields, as ``where`` writes them.

year: 2020                  equal, as texts: 2020 and "2020" agree
language: [en, de]          any of these
year: {">=": 2020, "<": 2024}   every one of these operators holds
date: {">=": 2024-05}       the date of the document, to the precision that is known
entity.built: {"<": 1900}   a value that a text of the document gives for a property of an entity
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pipeline.text.dates import parse_date, range_of

Operators = Mapping[str, Any]
Conditions = Mapping[str, Operators]
"""Conditions by field; each is a mapping of operators to operands, all of which must hold."""
OWN = ("id", "title", "source")
"""The document's own columns that a metadata key may be named like. Where both exist, the column
counts."""
CORRECTION_PREFIX = "corrections.jsonl#"
"""The beginning of the source of a statement that a person has added and no document states. No
condition chooses it, not even one such as !=: who may see some documents is shown what they say."""
DATE = "date"
"""The field that is the document's own date, where it has one and a condition names a date. Else it
is a metadata key as any other."""
OF_ENTITIES = "entity."
"""The beginning of a field that is a property of entities."""
COMPARED_DATES = frozenset({"=", "<", "<=", ">", ">=", "in"})
"""The operators that compare dates as spans of days."""
ORDERING = frozenset({"<", "<=", ">", ">="})
"""The operators that say which of two values is greater."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
NEGATED = {"!=": "=", "not in": "in"}
_HAVE = ", ".join(["=", "!=", "<", "<=", ">", ">=", "in", "not in", "matches", "exists"])


class Comparison(NamedTuple):
    """An operand as it is compared with values of a property that have this type and unit.

    ``value`` has the form in which such values are stored; of "matches" it is a pattern.
    """

    type: str
    unit: str
    value: str


def property_of(field: str) -> str:
    """Return the name of the property that a field stands for; "" for a field of documents."""
    return field.removeprefix(OF_ENTITIES) if field.startswith(OF_ENTITIES) else ""


def refuse_properties(where: Mapping[str, Any], reason: str) -> None:
    """Raise ValueError if a field of the conditions is a property of entities."""
    for field in where:
        if property_of(field):
            raise ValueError(f"'{field}': {reason}; name fields of documents only")


def refuse_no_dates(where: Conditions) -> None:
    """Raise ValueError if DATE is to be before or after a value that is neither date nor number.

    Such a condition would hold of no document, without a word. A number may be meant for metadata.
    """
    for operator, operand in _list_orders(where.get(DATE, {})):
        if not parse_date(operand):
            raise ValueError(
                f"'{DATE}' {operator} {operand}: no date; write one as 2024-05-31, 2024-05 or 2024"
            )


def list_orders_of_texts(where: Conditions) -> list[str]:
    """Return the conditions that order metadata by a value that is neither number nor date.

    They are right where the metadata are texts. Where these are numbers, they hold by chance.
    """
    found: list[str] = []
    for field, condition in where.items():
        if field in (*OWN, DATE) or property_of(field):
            continue
        for operator, operand in _list_orders(condition):
            if not parse_date(operand):
                found.append(f"'{field}' {operator} {operand}")
    return found


def _list_orders(condition: Operators) -> list[tuple[str, str]]:
    """Return the operators of a condition that order, with operands that are no numbers."""
    orders = [(name, as_text(operand)) for name, operand in condition.items() if name in ORDERING]
    return [(name, text) for name, text in orders if not is_number(text)]


def operators(field: str, wanted: Any) -> dict[str, Any]:
    """Return the condition on a field as a mapping of operators to operands.

    ``wanted``: the condition as written: a value, a list of values, or a mapping of operators.
    Raises ValueError for an unknown operator, or an operand that does not fit it.
    """
    if isinstance(wanted, dict):
        if not wanted:
            raise ValueError(f"'{field}' names no operator; write a value, or one of {_HAVE}")
        return {name: _operand(field, name, operand) for name, operand in wanted.items()}
    name = "in" if isinstance(wanted, list | tuple) else "="
    return {name: _operand(field, name, wanted)}


def holds(conditions: Conditions, fields: Mapping[Any, Any], date: str = "") -> bool:
    """Check that the fields satisfy every condition. A field that is a list satisfies one if any of
    its items does.

    ``date``: the date of the document in ISO 8601, "" if it has none.
    """
    for field, condition in conditions.items():
        value = fields.get(field)
        own_date = date if field == DATE else ""
        for name, operand in condition.items():
            is_satisfied = (
                _date_holds(name, operand, own_date, value)
                if own_date
                else _holds(name, operand, value)
            )
            if not is_satisfied:
                return False
    return True


def as_dates(name: str, operand: Any) -> list[str] | None:
    """Return the dates that an operator compares a document's own date with.

    Returns None if one of the operands is no date, or has a time of day, or the operator compares
    no dates: then the field is compared as any other.
    """
    if name not in COMPARED_DATES:
        return None
    operands = operand if name == "in" else [operand]
    dates: list[str] = []
    for each in operands:
        date = _date_of(each)
        if not date:
            # The others are not read: a date in words takes milliseconds.
            return None
        dates.append(date)
    return dates


def _date_of(operand: Any) -> str:
    text = "" if isinstance(operand, bool | float) else str(operand)
    return "" if ":" in text else parse_date(text)


def _date_holds(name: str, operand: Any, date: str, value: Any) -> bool:
    """Check a condition on the date of a document that has one; ``value``: the metadata's date."""
    if name == "exists":
        return operand
    if name in NEGATED:
        return not _date_holds(NEGATED[name], operand, date, value)
    if name == "matches":
        return _holds(name, operand, date)
    dates = as_dates(name, operand)
    if dates is None:
        return _holds(name, operand, value)
    return any(_compare_dates(name, date, wanted) for wanted in dates)


def _compare_dates(name: str, date: str, wanted: str) -> bool:
    """Check that the comparison holds for every day that the date may mean."""
    days, wanted_days = range_of(date), range_of(wanted)
    if name == "<":
        return days.last < wanted_days.first
    if name == "<=":
        return days.last <= wanted_days.last
    if name == ">":
        return days.first > wanted_days.last
    if name == ">=":
        return days.first >= wanted_days.first
    return wanted_days.first <= days.first and days.last <= wanted_days.last


def as_text(value: Any) -> str:
    """Return a value as the text that is compared: 2020, 2020.0 and "2020" give the same text."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _holds(name: str, operand: Any, value: Any) -> bool:
    if name == "exists":
        return (value is not None) == operand
    if name in NEGATED:
        return not _holds(NEGATED[name], operand, value)
    items = value if isinstance(value, list) else [value]
    return any(_TESTS[name](item, operand) for item in items if item is not None)


def _equal(value: Any, operand: Any) -> bool:
    text = as_text(value)
    if isinstance(operand, bool):
        # Metadata may say True, which is the text "true" as JSON.
        text = text.lower()
    return text == as_text(operand)


def _compare(value: Any, operand: Any) -> int | None:
    """Compare two values; return a number below, at or above 0, as ``value`` is less, equal or
    greater.

    They are compared as numbers if the operand is one, otherwise as texts. Returns None if only the
    operand is a number.
    """
    number, wanted = _to_number(value), _to_number(operand)
    if wanted is None:
        return _order(as_text(value), as_text(operand))
    return None if number is None else _order(number, wanted)


def _order(left: Any, right: Any) -> int:
    if left == right:
        return 0
    return -1 if left < right else 1


def _to_number(value: Any) -> Decimal | None:
    text = as_text(value)
    return Decimal(text) if is_number(text) else None


def is_number(text: str) -> bool:
    """Check whether the text is compared as a number."""
    return _NUMBER.fullmatch(text) is not None


def _ordered(test: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, operand: Any) -> bool:
        order = _compare(value, operand)
        return order is not None and test(order)

    return compare


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": _equal,
    "in": lambda value, operand: any(_equal(value, item) for item in operand),
    "<": _ordered(lambda order: order < 0),
    "<=": _ordered(lambda order: order <= 0),
    ">": _ordered(lambda order: order > 0),
    ">=": _ordered(lambda order: order >= 0),
    "matches": lambda value, operand: fnmatchcase(as_text(value), operand),
}


def _operand(field: str, name: str, operand: Any) -> Any:
    where = f"'{field}' {name}"
    if name == "exists":
        if not isinstance(operand, bool):
            raise ValueError(f"{where}: no truth value; write true or false")
        return operand
    if name in ("in", "not in"):
        if not isinstance(operand, list | tuple) or not operand:
            raise ValueError(f"{where}: no list of values; write [one, another]")
        return [_scalar(where, item) for item in operand]
    if name not in _TESTS and name not in NEGATED:
        raise ValueError(f"'{field}' has no operator '{name}'; have: {_HAVE}")
    return str(_scalar(where, operand)) if name == "matches" else _scalar(where, operand)


def _scalar(where: str, operand: Any) -> str | int | float | bool:
    if isinstance(operand, date | time):  # YAML reads 2020-01-31 as a date
        return operand.isoformat()
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(f"{where}: not a finite number; write one")
    if not isinstance(operand, str | int | float):
        raise ValueError(
            f"{where}: {type(operand).__name__} is no value to compare with; for a missing one use"
            " exists"
        )
    return operand
