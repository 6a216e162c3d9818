"""The properties of entities, as further columns of nodes in an export."""

import json
import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from pipeline.export.source import ExportSource
from pipeline.stores.neo4j.rows import PREFIX, dump_properties

TABLE = "entity_properties"
_PLAIN_NAME = re.compile(r"\w[\w .-]*")
"""The names that a header of the import tool can hold: others could end the field or its type."""
_KINDS: Mapping[type, tuple[str, pa.DataType]] = {
    str: ("string", pa.large_string()),
    int: ("long", pa.int64()),
    float: ("double", pa.float64()),
}
"""Type of a value -> its name in a header of the import tool, and the type of the column."""


class Form(NamedTuple):
    """The form of a property's value: the type of the value or of its items."""

    kind: type
    is_list: bool


class Properties:
    """The properties of all entities of an export, by entity. There are none without the table."""

    def __init__(self, source: ExportSource):
        self.of_entity: dict[str, dict[str, Any]] = {}
        if source.has(TABLE):
            for rows in source.batches(TABLE):
                cells = map(json.loads, rows["properties"])
                self.of_entity.update(zip(rows["id"], cells, strict=True))

    @cached_property
    def forms(self) -> dict[str, Form]:
        """The properties that a CSV file can hold, by name, each with the form of its column.

        All values of a column of the import tool have one form. Where some entities have a list of
        conflicting values, the column holds the other entities' single values.
        """
        forms_of_values: dict[str, set[Form]] = {}
        for properties in self.of_entity.values():
            for name, value in properties.items():
                forms = forms_of_values.setdefault(name, set())
                forms.add(form_of(value))
        chosen: dict[str, Form] = {}
        for name in sorted(forms_of_values):
            if _PLAIN_NAME.fullmatch(name):
                chosen[name] = _choose_form(forms_of_values[name])
        return chosen

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns of the import tool, by their names in its header."""
        types: dict[str, pa.DataType] = {}
        for name, form in self.forms.items():
            kind, type = _KINDS[form.kind]
            header = f"{PREFIX}{name}:{kind}"
            if form.is_list:
                # The items of a list are joined to one text.
                types[f"{header}[]"] = pa.large_string()
            else:
                types[header] = type
        return types

    def dump(self, id: str) -> str:
        """Return the properties of an entity as the JSON that a load hashes, "" without any."""
        return dump_properties(self.of_entity[id]) if id in self.of_entity else ""

    def add_columns(self, rows: pd.DataFrame, separator: str) -> pd.DataFrame:
        """Return the rows with ``columns``; a value of another form than its column is missing."""
        # Both have one entry for each property, in the same order.
        for column, (name, form) in zip(self.columns, self.forms.items(), strict=True):
            values = [self._read_value(id, name, form) for id in rows["id"]]
            if form.is_list:
                values = [_join_list(value, separator) for value in values]
            rows[column] = pd.Series(values, rows.index, dtype=object)
        return rows

    def find_incomplete(self, ids: Collection[str]) -> set[str]:
        """Return the entities that have a property which their columns cannot hold."""
        incomplete: set[str] = set()
        for id in ids:
            properties = self.of_entity.get(id, {})
            for name, value in properties.items():
                if self.forms.get(name) != form_of(value):
                    incomplete.add(id)
        return incomplete

    def _read_value(self, id: str, name: str, form: Form) -> Any:
        """Return the value of a property; None without one, or if it is of another form."""
        value = self.of_entity.get(id, {}).get(name)
        if value is None or form_of(value) != form:
            return None
        return value


def _join_list(value: list[Any] | None, separator: str) -> str | None:
    """Return the items of a list as one cell; None for a missing list."""
    if value is None:
        return None
    return separator.join(str(item).replace(separator, "") for item in value)


def form_of(value: Any) -> Form:
    """Return the form of a value; the items of a list have one type."""
    if isinstance(value, list):
        return Form(type(value[0]), is_list=True)
    return Form(type(value), is_list=False)


def _choose_form(forms: Collection[Form]) -> Form:
    """Return the form of a column: a single value before a list, a text before a number."""
    kinds = list(_KINDS)

    def rank_form(form: Form) -> tuple[bool, int]:
        return form.is_list, kinds.index(form.kind)

    return min(forms, key=rank_form)
