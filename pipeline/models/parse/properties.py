"""Properties of entities and relationships in a reply that was asked for them. No reply raises an
error."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pipeline.models.parse.lenient_json import fold_keys, one_line, text_of
from pipeline.models.parse.records import (
    LONGEST_NAME,
    Entity,
    Problem,
    PropertyRecord,
    Record,
    problem,
)
from pipeline.text.ids import clean, clean_name, match_key

_PROPERTIES = ("properties", "attributes")
_NAME, _VALUE = ("name", "property", "key"), ("value", "values")
_LARGEST_INTEGER = 2**63 - 1
_DEEPEST = 5
"""Nesting of a value; what lies deeper says nothing that a property could hold."""


def json_properties(item: Any) -> str:
    """Return the JSON of the properties of a record in JSON; "" if it has none.

    They are an object, or a list of objects with a name and a value.
    """
    fields = fold_keys(item)
    given = next((fields[key] for key in _PROPERTIES if fields.get(key)), None)
    pairs: list[tuple[str, Any]] = []
    if isinstance(given, Mapping):
        pairs = [(str(name), value) for name, value in given.items()]
    elif isinstance(given, list):
        for one in given:
            pair = fold_keys(one)
            name = next((pair[key] for key in _NAME if pair.get(key)), None)
            value = next((pair[key] for key in _VALUE if pair.get(key) is not None), None)
            pairs.append((text_of(name), value))
    return _write(pairs)


def attach_properties(
    found: Iterable[Record | PropertyRecord],
) -> tuple[tuple[Record, ...], tuple[Problem, ...]]:
    """Return the records with the properties that records of their own give them, and problems.

    A property belongs to the first record with its names. An entity that has no record gets one
    without a type: an earlier reply about the text may have described it.
    """
    records: list[Record] = []
    places: dict[tuple[str, str], int] = {}
    properties: list[PropertyRecord] = []
    for one in found:
        if isinstance(one, PropertyRecord):
            properties.append(one)
            continue
        names = (one.name, "") if isinstance(one, Entity) else (one.source, one.target)
        places.setdefault(_key(*names), len(records))
        records.append(one)
    pairs: dict[int, list[tuple[str, Any]]] = {}
    problems: list[Problem] = []
    for one in properties:
        key = _key(one.owner, one.target)
        if key not in places and one.target:
            shown = f"{one.owner}, {one.target}: {one.name} {one.value}"
            problems.append(problem("kind", shown, "a property of no relationship of the reply"))
            continue
        if key not in places:
            places[key] = len(records)
            records.append(Entity(one.owner, "", ""))
        pairs.setdefault(places[key], []).append((one.name, one.value))
    for place, given in pairs.items():
        records[place] = replace(records[place], attributes=_write(given))
    return tuple(records), tuple(problems)


def _key(name: str, target: str) -> tuple[str, str]:
    return match_key(name), match_key(target)


def _write(pairs: Iterable[tuple[str, Any]]) -> str:
    """Return the JSON of properties; one that is given several times has a list of values."""
    values: dict[str, list[Any]] = {}
    for name, given in pairs:
        value = _plain_value(given, _DEEPEST)
        cleaned = clean_name(name)
        if value is None or not cleaned or len(cleaned) > LONGEST_NAME:
            continue
        values.setdefault(cleaned, []).extend(value if isinstance(value, list) else [value])
    attributes: dict[str, Any] = {}
    for name in sorted(values):
        given = values[name]
        if given:
            attributes[name] = given[0] if len(given) == 1 else given
    return json.dumps(attributes, ensure_ascii=False) if attributes else ""


def _plain_value(value: Any, depth: int) -> Any:
    """Return a value of JSON that every store accepts, or None if there is none."""
    if isinstance(value, str):
        return one_line(clean(value)) or None
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_INTEGER else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth and isinstance(value, list):
        plain = [_plain_value(one, depth - 1) for one in value]
        return [one for one in plain if one is not None]
    if depth and isinstance(value, Mapping):
        cleaned = {clean(str(key)): _plain_value(one, depth - 1) for key, one in value.items()}
        return {key: one for key, one in cleaned.items() if one is not None}
    return None
