"""Read what a row of a project's own table says, or find out why it says nothing."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.documents.metadata import as_json, cleaned
from pipeline.documents.own_tables.columns import TableColumns
from pipeline.documents.records import Fault, Record
from pipeline.text.dates import parse_date
from pipeline.text.ids import NOTHING, clean, clean_name, digest

LONGEST_NAME = 1000
"""Characters of the longest name of an entity or a type. A longer one is a text, not a name."""
LONGEST_ID = 500
"""Characters of the longest id of master data, as many as a property may have."""
LONGEST_ROW = 100_000
"""Characters of the longest cell. A longer text is a document, not a property of a fact."""
ENDS = ("source", "target")
TYPES = ("type", "source_type", "target_type")
DATES = ("date", "valid_from", "valid_to")
_DIGITS = 20
"""Hexadecimal digits of a row's hash: no two of many millions of rows have the same."""
_FORMULA = re.compile(r"[=@][A-Za-z_.]+\(|=[$A-Z]+\d|#(?:REF|NAME|VALUE|DIV/0|N/A)[!?]?")
"""The beginning of a formula of a spreadsheet, or an error that it shows in place of a value."""


@dataclass(frozen=True)
class TableRow:
    """The facts of a row: that ``source`` is related to ``target``, or what the entity ``name`` is.

    ``type`` is that of the relationship, or of the entity ``name``. ``date`` is that of the
    document which the row is. ``valid_from`` and ``valid_to`` say when the fact holds. ``line`` is
    the place of the row in its file. ``key`` tells the row from others, wherever it stands: the
    cell of the key column, or else a hash of all cells. ``aliases`` are other names of the entity;
    they are None in a row that is no master data.
    """

    line: int
    key: str
    source: str = ""
    target: str = ""
    name: str = ""
    type: str = ""
    source_type: str = ""
    target_type: str = ""
    description: str = ""
    document: str = ""
    date: str = ""
    valid_from: str = ""
    valid_to: str = ""
    weight: float = 1.0
    aliases: Sequence[str] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def attributes(self) -> dict[str, Any]:
        """The properties, with the dates between which the fact holds."""
        dates = {"valid_from": self.valid_from, "valid_to": self.valid_to}
        return {**self.properties, **{name: text for name, text in dates.items() if text}}

    def sentence(self) -> str:
        """Return the row as a plain text, which can be cited and searched."""
        if self.name:
            subject = f"{self.name} ({in_words(self.type)})" if self.type else self.name
            parts = [f"{subject}."]
        else:
            between = in_words(self.type) or "–"
            parts = [f"{self.source} {between} {self.target}."]
        if self.aliases:
            parts.append(f"Also called {', '.join(self.aliases)}.")
        if self.description:
            parts.append(self.description)
        facts = [f"{name}: {_as_words(value)}" for name, value in sorted(self.attributes.items())]
        if facts:
            parts.append(f"{'; '.join(facts)}.")
        return " ".join(parts)


def read_row(record: Record, columns: TableColumns) -> TableRow | Fault:
    """Return what the row says, or its fault."""
    cells = _filled_cells(record.fields)
    for name, value in cells.items():
        if isinstance(value, str) and len(value) > LONGEST_ROW:
            fact = f"'{name}' has {len(value):,} characters, more than {LONGEST_ROW:,}"
            return Fault("too_large", f"{fact}; make the text a document", record.line)
    try:
        fields = _take_fields(cells, columns)
    except ValueError as error:
        return Fault("parse", str(error), record.line)
    id = fields.pop("id")
    if columns.is_master_data:
        fault = _find_fault_of_master(record.line, id, fields["name"])
        if fault is not None:
            return fault
        fields["properties"] |= {columns.id_property: id}
    row = TableRow(record.line, id or digest(as_json(cells))[:_DIGITS], **fields)
    return _incomplete(row) or row


def in_words(type: str) -> str:
    """Return a type as words: WORKS_AT becomes "works at"."""
    words = " ".join(type.replace("_", " ").split())
    return words.lower() if words.isupper() and "_" in type else words


def _filled_cells(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the cells that are not empty, as values of JSON."""
    cells: dict[str, Any] = {}
    for name, value in fields.items():
        cell = cleaned(value)
        if isinstance(cell, str):
            cell = cell.strip()
        if cell not in (None, "", [], {}):
            cells[clean(str(name)).strip()] = cell
    return cells


def _take_fields(cells: dict[str, Any], columns: TableColumns) -> dict[str, Any]:
    """Return the fields of a row; cells that belong to none of them are properties.

    Raises ValueError, with what to do, for a cell that cannot be read.
    """
    left = dict(cells)
    spelled = {name.casefold(): name for name in reversed(left)}

    def take(field: str) -> Any:
        column = columns.columns.get(field) or spelled.get(field, field)
        return left.pop(column, columns.values.get(field))

    # A row about one entity has no ends, so that a column "name" beside ends is a property.
    ends: dict[str, str] = {}
    aliases: Sequence[str] | None = None
    if columns.is_master_data:
        aliases = _read_aliases(take("aliases"))
    else:
        ends = {end: _read_name(end, take(end)) for end in ENDS}
    name = "" if any(ends.values()) else _read_name("name", take("name"))
    types = {kind: _read_name(kind, take(kind)) for kind in TYPES}
    dates = {kind: _read_date(kind, take(kind)) for kind in DATES}
    id, document = (" ".join(_as_text(take(kind)).split()) for kind in ("id", "document"))
    description = _as_text(take("description"))
    weight = _read_weight(take("weight"))
    properties = _read_properties(take("properties"))
    return {
        **ends, **types, **dates, "id": id, "name": name, "description": description,
        "document": document, "weight": weight, "aliases": aliases,
        "properties": {**properties, **left},
    }  # fmt: skip


def _incomplete(row: TableRow) -> Fault | None:
    """Return the fault of a row that names neither two ends nor an entity."""
    if row.name or (row.source and row.target):
        return None
    ends = {"source": row.source, "target": row.target}
    missing = " and ".join(f"'{end}'" for end, name in ends.items() if not name)
    action = "fill it, or name its column in tables.yaml"
    message = f"no {missing}, and no 'name' of an entity; {action}"
    return Fault("incomplete", message, row.line)


def _find_fault_of_master(line: int, id: str, name: str) -> Fault | None:
    """Return the fault of a row of master data without a name, or without an id."""
    action = "fill it, or name its column in tables.yaml"
    if not name:
        return Fault("incomplete", f"no 'name' of an entity; {action}", line)
    if id.casefold() in NOTHING:
        # No property has such a value, so the id would be lost.
        shown = f"'id' is {id!r}, which stands for none" if id else "no 'id'"
        return Fault("incomplete", f"{shown}; {action}", line)
    if len(id) > LONGEST_ID:
        fact = f"'id' has {len(id):,} characters, more than {LONGEST_ID:,}"
        return Fault("too_large", f"{fact}; write a shorter one", line)
    return None


def _read_name(field: str, cell: Any) -> str:
    """Return a name on one line. Raises ValueError for one that is none."""
    if isinstance(cell, dict | list | bool):
        raise ValueError(f"'{field}' is no name but {_describe_kind(cell)}; write a text")
    text = _as_text(cell)
    if _FORMULA.match(text):
        raise ValueError(f"'{field}' is a formula, or its error; save the table with values")
    if len(text) > LONGEST_NAME:
        fact = f"'{field}' has {len(text):,} characters, more than {LONGEST_NAME:,}"
        raise ValueError(f"{fact}; write a name, and the text as description")
    return clean_name(text)


def _read_aliases(cell: Any) -> list[str]:
    """Return the names of a list, or of a text that separates them by semicolons, each once.

    Raises ValueError for one that is no name.
    """
    parts = cell if isinstance(cell, list) else _as_text(cell).split(";")
    names = [_read_name("aliases", part) for part in parts]
    return list(dict.fromkeys(filter(None, names)))


def _read_date(field: str, cell: Any) -> str:
    """Return a date in ISO 8601, or "". Raises ValueError for a cell that holds none."""
    text = _as_text(cell)
    date = parse_date(text)
    if text and not date:
        raise ValueError(f"'{field}' is no date: {text[:40]!r}; write one such as 2024-03-31")
    return date


def _read_weight(cell: Any) -> float:
    """Return a weight above 0; 1 for an empty cell. Raises ValueError for another cell."""
    if cell is None:
        return 1.0
    try:
        weight = float(cell)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if isinstance(cell, bool) or not math.isfinite(weight) or weight <= 0:
        raise ValueError(f"'weight' is no number above 0: {_as_text(cell)[:40]!r}; correct it")
    return weight


def _read_properties(cell: Any) -> dict[str, Any]:
    """Return the properties of a cell: an object, or a text with one in JSON.

    Raises ValueError for another cell.
    """
    content = cell
    if isinstance(cell, str):
        try:
            content = json.loads(cell)
        except (ValueError, RecursionError):
            content = cell
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(
            f"'properties' is no JSON object but {_describe_kind(content)}; write {{...}}"
        )
    return _filled_cells(content)


def _describe_kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", bool: "true or false", str: "a text"}
    return kinds.get(type(value), "a number")


def _as_text(cell: Any) -> str:
    """Return a cell as a text: "" for a missing one, JSON for one that is no text."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float) and cell.is_integer():
        # Tables with missing cells have floats where people see whole numbers.
        return str(int(cell))
    return json.dumps(cell, ensure_ascii=False, sort_keys=True)


def _as_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return _as_text(value)
