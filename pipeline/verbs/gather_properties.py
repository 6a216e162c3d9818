"""gather_properties: gather the values of each entity's properties into one JSON object."""

import json
from decimal import Decimal
from typing import Any

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import ATTRIBUTES, ENTITY_PROPERTIES

EXACT = 2**53
"""The absolute value below which a float holds each whole number exactly."""


@verb(
    inputs={"attributes": ATTRIBUTES},
    outputs={"entity_properties": ENTITY_PROPERTIES},
    keyed={"attributes": ("entity_id",)},
    row_of={"entity_properties": "id"},
)
def gather_properties(attributes: pd.DataFrame) -> pd.DataFrame:
    """Return the properties of each entity that has some (ENTITY_PROPERTIES).

    A number is a number, any other value is a text. A property of type list, and one with
    conflicting values, is a list; each value is in it once. All items of a list are of one kind.
    """
    distinct = attributes[["entity_id", "name", "type", "value"]].drop_duplicates()
    properties_of: dict[str, dict[str, Any]] = {}
    for (id, name), rows in distinct.groupby(["entity_id", "name"], sort=True):
        types = set(rows["type"])
        values = _read_values(types, list(rows["value"]))
        is_list = len(values) > 1 or "list" in types
        properties = properties_of.setdefault(str(id), {})
        properties[str(name)] = values if is_list else values[0]
    rows_of_result: list[tuple[str, str]] = []
    for id, properties in properties_of.items():
        cell = json.dumps(properties, ensure_ascii=False, sort_keys=True)
        rows_of_result.append((id, cell))
    return ENTITY_PROPERTIES.frame(rows_of_result)


def _read_values(types: set[str], texts: list[str]) -> list[Any]:
    """Return the values sorted, each once: numbers if all of them are numbers, else texts."""
    if types != {"number"}:
        return sorted(set(texts))
    numbers = sorted({Decimal(text) for text in texts})
    are_whole = all(number == int(number) and abs(number) < EXACT for number in numbers)
    to_number = int if are_whole else float
    return [to_number(number) for number in numbers]
