"""Read the values of properties that people have set, for list_attributes."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pipeline.contract.rejects import make_reject
from pipeline.ontology.property_values import (
    BAD_VALUE,
    UNKNOWN_PROPERTY,
    Fault,
    Properties,
    Scalar,
    number_text,
    read_values,
)
from pipeline.ontology.schema import ANY_TYPE, Property
from pipeline.text.ids import attribute_id, clean_name

PLAIN = Property(name="text")
"""The declaration of a property that no type has, where the ontology keeps others."""


class Decided(NamedTuple):
    """The values that people have set.

    ``rows``: rows of ATTRIBUTES. ``replaced``: the entities and properties whose values of texts
    they replace. ``rejects``: rows of REJECTS.
    """

    rows: list[tuple[Any, ...]]
    replaced: set[tuple[str, str]]
    rejects: list[dict[str, str]]


def decide_attributes(
    given: Iterable[tuple[Any, ...]],
    types: Mapping[str, str],
    declared: Mapping[str, Mapping[str, Property]],
    keeps_others: bool,
) -> Decided:
    """Return the values that people have set, as the types of the entities declare them.

    ``given`` are rows of GIVEN_ATTRIBUTES with a correction, in their order; ``types`` has the type
    of each entity. A value that is none of the property is a reject, and the values of texts stay.
    With ``keeps_others`` a property that the type does not have is a text.
    """
    rows: dict[str, tuple[Any, ...]] = {}
    rejects: dict[tuple[str, ...], dict[str, str]] = {}
    replaced: set[tuple[str, str]] = set()
    by_type: dict[str, Properties] = {}
    for type, properties_of_type in declared.items():
        by_type[type] = Properties(properties_of_type.values())
    for id, name, written, unit, document, _, correction in given:
        type = types[id]
        properties = by_type.get(type, by_type.get(ANY_TYPE))
        found = None if properties is None else properties.find(name)
        if found is None and keeps_others:
            found = PLAIN.model_copy(update={"name": clean_name(name)})
        values = read_decided_value(found, written)
        if isinstance(values, Fault):
            fact = f"{correction}: {name!r} of an entity of type {type!r} is {written!r}"
            reject = make_reject(id, values.reason, f"{fact}: {values.fact}")
            # Each text unit of the entity has the value; one reject says enough.
            rejects[id, correction] = reject
            continue
        assert found is not None, "a property that was not found is a fault"
        replaced.add((id, found.name))
        # A value that no document gives is from no text unit.
        unit_id = unit if document else ""
        place = (unit_id, document, correction)
        for value in values:
            key = attribute_id(id, found.name, value, unit_id)
            row = (key, id, found.name, found.type, value, found.unit, *place)
            # Two corrections may agree on a value: the first one stands for both.
            rows[key] = min(row, rows.get(key, row))
    return Decided(list(rows.values()), replaced, list(rejects.values()))


def read_decided_value(property: Property | None, written: str) -> list[str] | Fault:
    """Return the texts of the values that a person wrote for a property, or the first fault.

    ``property`` is None where the type of the entity does not have it.
    """
    if property is None:
        return Fault(UNKNOWN_PROPERTY, "the type has no such property")
    values = list(read_values(property, written))
    faults = [value for value in values if isinstance(value, Fault)]
    if faults:
        return faults[0]
    if not values:
        return Fault(BAD_VALUE, "it says that there is no value")
    return [_to_text(value) for value in values if not isinstance(value, Fault)]


def _to_text(value: Scalar) -> str:
    return value if isinstance(value, str) else number_text(value)
