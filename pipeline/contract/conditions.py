"""Conditions on a document's fields, as ``where`` writes them.

year: 2020                  equal, as texts: 2020 and "2020" agree
language: [en, de]          any of these
year: {">=": 2020, "<": 2024}   every one of these operators holds
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

Operators = Mapping[str, Any]
Conditions = Mapping[str, Operators]
"""Conditions by field; each is a mapping of operators to operands, all of which must hold."""
OWN = ("id", "title", "source")
"""The document's own columns that a metadata key may be named like. Where both exist, the column
counts."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
NEGATED = {"!=": "=", "not in": "in"}
_HAVE = ", ".join(["=", "!=", "<", "<=", ">", ">=", "in", "not in", "matches", "exists"])


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


def holds(conditions: Conditions, fields: Mapping[Any, Any]) -> bool:
    """Check that the fields satisfy every condition. A field that is a list satisfies one if any of
    its items does."""
    for field, condition in conditions.items():
        value = fields.get(field)
        if not all(_holds(name, operand, value) for name, operand in condition.items()):
            return False
    return True


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
