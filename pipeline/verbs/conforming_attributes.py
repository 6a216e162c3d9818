"""Read the properties of records as the ontology declares them, for conform_extractions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import CO_OCCURS, STRING
from pipeline.ontology.property_values import (
    BAD_VALUE,
    LONGEST_VALUE,
    MISSING_PROPERTY,
    UNKNOWN_PROPERTY,
    Fault,
    Properties,
    Scalar,
    as_given,
    parse_attributes,
    read_values,
    with_values,
)
from pipeline.ontology.schema import ANY_TYPE, Property
from pipeline.text.ids import clean_name, match_key

PropertiesByType = Mapping[str, tuple[Property, ...]]
"""The properties of each type that has some."""
LONGEST_NAME = 100
"""The most characters of the name of a property, as ontology.yaml has it."""
LONGEST_SHOWN = 80
"""The characters of a value that the message of a reject quotes."""
CELLS = ["text_unit_id", "kind", "name", "type", "source", "target", "keywords", "attributes"]


def conform_attributes(
    extractions: pd.DataFrame,
    entity_properties: PropertiesByType,
    relationship_properties: PropertiesByType,
    keeps_others: bool,
) -> tuple[pd.DataFrame, list[dict[str, str]]]:
    """Return the records with the properties that the ontology has, and rows of REJECTS.

    ``extractions`` have types of the ontology. With ``keeps_others``, what is no property of a
    type, or no value of one, stays as a text. A property that a relationship must have and lacks is
    a reject too. An entity may have what it must have from another record, so that is not checked
    here.
    """
    if "attributes" not in extractions.columns:
        return extractions, []
    reader = _Reader(
        {type: Properties(each) for type, each in entity_properties.items()},
        {type: Properties(each) for type, each in relationship_properties.items()},
        keeps_others,
    )
    has_properties = (extractions["attributes"].fillna("") != "").to_numpy(dtype=bool)
    is_concerned = has_properties | reader.find_demanding(extractions)
    if not is_concerned.any():
        return extractions, []
    # Types are given by other records of the same text unit. Most text units need none.
    units = extractions["text_unit_id"]
    is_in_such_unit = units.isin(units[has_properties])
    types = types_of_names(extractions[is_in_such_unit])
    attributes = extractions["attributes"].to_numpy(dtype=object, copy=True)
    concerned = extractions[CELLS][is_concerned].itertuples(index=False, name=None)
    for place, row in zip(np.flatnonzero(is_concerned), concerned, strict=True):
        attributes[place] = reader.read(row, types)
    column = pd.Series(attributes, extractions.index, dtype=pd.ArrowDtype(STRING))
    return extractions.assign(attributes=column.astype("str")), reader.rejects


def types_of_names(records: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Map a text unit and the match key of an entity's name to the first type that is given there.

    A record that only adds properties to an entity gives it no type.
    """
    is_entity = records["kind"] == "entity"
    has_type = records["type"].fillna("") != ""
    entities = records[is_entity & has_type].sort_values(["text_unit_id", "order"])
    types: dict[tuple[str, str], str] = {}
    cells: Any = entities[["text_unit_id", "name", "type"]].itertuples(index=False, name=None)
    for unit, name, type in cells:
        types.setdefault((unit, match_key(name)), type)
    return types


@dataclass
class _Reader:
    """Reads the properties of records one by one, and collects the rejects."""

    entity_properties: Mapping[str, Properties]
    relationship_properties: Mapping[str, Properties]
    keeps_others: bool
    rejects: list[dict[str, str]] = field(default_factory=list)

    def find_demanding(self, extractions: pd.DataFrame) -> np.ndarray:
        """Return which records are relationships of a type that must have properties."""
        demanding = {
            type for type, properties in self.relationship_properties.items() if properties.required
        }
        if self.keeps_others or not demanding:
            return np.zeros(len(extractions), dtype=bool)
        lists_of_keywords = extractions["keywords"].to_numpy(dtype=object)
        is_demanding = [_first_keyword(keywords) in demanding for keywords in lists_of_keywords]
        return np.array(is_demanding, dtype=bool)

    def read(self, row: tuple[Any, ...], types: Mapping[tuple[str, str], str]) -> str | None:
        """Return the JSON of the properties of a record, which is a row of CELLS."""
        unit, kind, name, type, source, target, keywords, cell = row
        if kind == "relationship":
            type = _first_keyword(keywords)
            owner = f"{source!r} {type} {target!r}"
            properties = self.relationship_properties.get(type)
        else:
            type = type or types.get((unit, match_key(name)), "")
            owner = f"{name!r} of type {type!r}"
            any_type = self.entity_properties.get(ANY_TYPE)
            properties = self.entity_properties.get(type, any_type)
        given = parse_attributes(cell)
        if given is None:
            self._reject(unit, owner, Fault(BAD_VALUE, "the properties are no JSON object"))
            given = {}
        values = self._read_all(unit, owner, properties, given)
        if kind == "relationship" and properties is not None and not self.keeps_others:
            for required in properties.required:
                if not values.get(required):
                    fact = f"the property {required!r} is required"
                    self._reject(unit, owner, Fault(MISSING_PROPERTY, fact))
        return with_values(values)

    def _read_all(
        self, unit: str, owner: str, properties: Properties | None, given: Mapping[str, Any]
    ) -> dict[str, list[Scalar]]:
        values: dict[str, list[Scalar]] = {}
        for name, content in sorted(given.items()):
            found = None if properties is None else properties.find(name)
            shown = f"{name!r} is {str(content)[:LONGEST_SHOWN]!r}"
            if found is None:
                others = as_given(content)
                if self.keeps_others:
                    values.setdefault(clean_name(name)[:LONGEST_NAME], []).extend(others)
                elif others:
                    fact = f"{shown}, and the type has no such property"
                    self._reject(unit, owner, Fault(UNKNOWN_PROPERTY, fact))
                continue
            values_of_property = values.setdefault(found.name, [])
            faults: list[Fault] = []
            for value in read_values(found, content):
                if isinstance(value, Fault):
                    faults.append(value)
                else:
                    values_of_property.append(value)
            for fault in faults:
                if self.keeps_others:
                    values_of_property.append(fault.text[:LONGEST_VALUE])
                else:
                    self._reject(unit, owner, Fault(fault.reason, f"{shown}: {fault.fact}"))
        return values

    def _reject(self, unit: str, owner: str, fault: Fault) -> None:
        self.rejects.append(make_reject(unit, fault.reason, f"{owner}: {fault.fact}"))


def _first_keyword(keywords: Iterable[str]) -> str:
    """Return the type of a relationship, or "" if nothing is stated."""
    first = next(_filled(keywords), "")
    return "" if first == CO_OCCURS else first


def _filled(keywords: Iterable[str]) -> Iterator[str]:
    return (keyword for keyword in keywords if keyword)
