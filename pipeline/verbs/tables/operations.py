"""The operations of ``derive``: a closed list, each read from YAML as data. No text is ever run as
code."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul, sub, truediv
from typing import Any, Self

import pandas as pd
import pyarrow as pa
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from pipeline.contract.conditions import as_text
from pipeline.contract.registry import Params
from pipeline.contract.schemas import (
    BOOL,
    FLOAT,
    INT,
    STRING,
    STRINGS,
    TableSchema,
    is_list,
    type_name,
)
from pipeline.documents.metadata import as_json
from pipeline.settings.validation import did_you_mean
from pipeline.text.ids import digest
from pipeline.verbs.tables.cells import (
    number_column,
    plain_cells,
    plain_column,
    text_column,
    type_of,
)

Value = StrictStr | StrictBool | StrictInt | StrictFloat
TYPES: Mapping[type, pa.DataType] = {str: STRING, bool: BOOL, int: INT, float: FLOAT}
LARGEST = 2**63
EXACT = 2**53
ARITHMETIC = ("add", "subtract", "multiply", "divide")


class Operation(Params):
    """``operands``: columns, and for arithmetic numbers as well. The other fields are options of
    some operations."""

    operation: str
    operands: tuple[Value, ...] = Field(min_length=1)
    separator: str = ""
    prefix: str = ""
    key: str = ""
    value: Value | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.operation not in OPERATIONS:
            raise ValueError(
                f"no operation '{self.operation}'; {did_you_mean(self.operation, OPERATIONS)}"
            )
        rule = OPERATIONS[self.operation]
        given = self.model_fields_set - {"operation", "operands"}
        if odd := sorted(given - set(rule.options)):
            raise ValueError(f"{self.operation} has no '{odd[0]}'; remove it")
        if lost := sorted(set(rule.options) & {"key", "value"} - given):
            raise ValueError(f"{self.operation} needs '{lost[0]}'; name it")
        if not rule.least <= len(self.operands) <= (rule.most or len(self.operands)):
            raise ValueError(f"{self.operation} does not take {len(self.operands)} operands")
        if self.operation not in (*ARITHMETIC, "literal") and not all(
            isinstance(one, str) for one in self.operands
        ):
            raise ValueError(f"{self.operation} takes columns; use literal for a value of its own")
        return self


def written_short(entry: object) -> object:
    """{lower: name} as {operation: lower, operands: [name]}."""
    if not isinstance(entry, dict) or "operation" in entry:
        return entry
    options = Operation.model_fields.keys() - {"operation", "operands"}
    names = [name for name in entry if name not in options]
    if len(names) != 1:
        raise ValueError("name one operation, as {lower: name}")
    given = entry[names[0]]
    operands = given if isinstance(given, list | tuple) else [given]
    return {
        "operation": names[0],
        "operands": operands,
        **{name: entry[name] for name in entry if name in options},
    }


@dataclass(frozen=True)
class Rule:
    """``type``: of the new column, raising ValueError where the table does not fit; ``cell``: made
    of one cell for each operand. ``sees_nothing``: whether it is asked about missing cells, as
    None, too. ``options``: those that it knows; ``least`` and ``most`` operands, 0 for any
    number."""

    type: Callable[[Operation, TableSchema], pa.DataType]
    cell: Callable[..., Any]
    options: tuple[str, ...] = ()
    least: int = 1
    most: int = 1
    sees_nothing: bool = False


def type_made(operation: Operation, table: TableSchema) -> pa.DataType:
    """Raises ValueError for a column that is not there or does not fit."""
    return OPERATIONS[operation.operation].type(operation, table)


def cells_of(operation: Operation, table: pd.DataFrame) -> list[Any]:
    """The new column's cells."""
    rule, fixed = OPERATIONS[operation.operation], operation.operation == "literal"
    read = _numbers if operation.operation in ARITHMETIC else plain_cells
    columns = [
        read(table[operand]) if isinstance(operand, str) and not fixed else [operand] * len(table)
        for operand in operation.operands
    ]
    rows = zip(*columns, strict=True)
    return [
        None if not rule.sees_nothing and None in row else rule.cell(operation, *row)
        for row in rows
    ]


def _columns(operation: Operation) -> list[str]:
    return [operand for operand in operation.operands if isinstance(operand, str)]


def _of_value(operation: Operation, table: TableSchema) -> pa.DataType:
    return TYPES[type(operation.operands[0])]


def _as_column(operation: Operation, table: TableSchema) -> pa.DataType:
    return type_of(table, _columns(operation)[0])


def _text_of_plain(operation: Operation, table: TableSchema) -> pa.DataType:
    for name in _columns(operation):
        plain_column(table, name)
    return STRING


def _text_of_any(operation: Operation, table: TableSchema) -> pa.DataType:
    for name in _columns(operation):
        type_of(table, name)
    return STRING


def _of_texts(made: pa.DataType) -> Callable[[Operation, TableSchema], pa.DataType]:
    def type_(operation: Operation, table: TableSchema) -> pa.DataType:
        for name in _columns(operation):
            text_column(table, name)
        return made

    return type_


def _of_lists(operation: Operation, table: TableSchema) -> pa.DataType:
    kind = _as_column(operation, table)
    if not is_list(kind) or pa.types.is_nested(kind.value_type):
        raise ValueError(
            f"column '{operation.operands[0]}' holds {type_name(kind)}, no lists of texts or"
            " numbers"
        )
    return STRING


def _of_countable(operation: Operation, table: TableSchema) -> pa.DataType:
    kind = _as_column(operation, table)
    if kind != STRING and not is_list(kind):
        raise ValueError(
            f"column '{operation.operands[0]}' holds {type_name(kind)}, neither texts nor lists"
        )
    return INT


def _filled(operation: Operation, table: TableSchema) -> pa.DataType:
    kind, given = _as_column(operation, table), TYPES[type(operation.value)]
    if kind != given and (kind, given) != (FLOAT, INT):
        raise ValueError(
            f"fill: column '{operation.operands[0]}' holds {type_name(kind)}, and the value is"
            f" {given}; make them agree"
        )
    return kind


def _of_equals(operation: Operation, table: TableSchema) -> pa.DataType:
    left, right = (type_of(table, name) for name in _columns(operation))
    if left != right:
        raise ValueError(
            f"equal: {operation.operands} are {left} and {right}; convert one of them first"
        )
    return BOOL


def _of_numbers(operation: Operation, table: TableSchema) -> pa.DataType:
    for name in _columns(operation):
        number_column(table, name)
    if any(isinstance(operand, bool) for operand in operation.operands):
        raise ValueError(f"{operation.operation} takes columns and numbers, no truth values")
    kinds = [
        type_of(table, one) if isinstance(one, str) else TYPES[type(one)]
        for one in operation.operands
    ]
    whole = operation.operation != "divide" and all(map(pa.types.is_integer, kinds))
    return INT if whole else FLOAT


def _calculated(step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Left to right; nothing for what no column can hold: a division by 0, a result out of
    range."""

    def cell(operation: Operation, *numbers: Any) -> Any:
        try:
            result = reduce(step, numbers)
        except (ZeroDivisionError, OverflowError):
            return None
        limit = LARGEST if isinstance(result, int) else math.inf
        return result if abs(result) < limit else None

    return cell


def _numbers(column: pd.Series) -> list[Any]:
    """Whole numbers as integers where there are gaps: pandas then holds integers as floats."""
    cells = plain_cells(column)
    return list(map(_whole, cells)) if None in cells else cells


def _whole(cell: Any) -> Any:
    return (
        int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT else cell
    )


def _concat(operation: Operation, *cells: Any) -> str:
    return operation.separator.join(as_text_unstripped(cell) for cell in cells if cell is not None)


def as_text_unstripped(cell: Any) -> str:
    return cell if isinstance(cell, str) else as_text(cell)


def _split(operation: Operation, text: str) -> list[str]:
    parts = text.split(operation.separator or ",")
    return [part.strip() for part in parts if part.strip()]


def _join_items(operation: Operation, items: list[Any]) -> str:
    return _concat(operation, *items)


def _json(operation: Operation, *cells: Any) -> str:
    return as_json(dict(zip(_columns(operation), map(_whole, cells), strict=True)))


def _field(operation: Operation, text: str) -> str | None:
    try:
        record = json.loads(text)
    except ValueError:
        return None
    value = record.get(operation.key) if isinstance(record, dict) else None
    return None if value is None else as_text_unstripped(value)


def _digest(operation: Operation, *cells: Any) -> str:
    return operation.prefix + digest(
        *("" if cell is None else as_text_unstripped(cell) for cell in cells)
    )


OPERATIONS: Mapping[str, Rule] = {
    "literal": Rule(_of_value, lambda _, value: value),
    "copy": Rule(_as_column, lambda _, cell: cell),
    "fill": Rule(
        _filled,
        lambda made, cell: made.value if cell is None else cell,
        ("value",),
        sees_nothing=True,
    ),
    "concat": Rule(_text_of_plain, _concat, ("separator",), most=0, sees_nothing=True),
    "join_items": Rule(_of_lists, _join_items, ("separator",)),
    "split": Rule(_of_texts(STRINGS), _split, ("separator",)),
    "lower": Rule(_of_texts(STRING), lambda _, text: text.lower()),
    "upper": Rule(_of_texts(STRING), lambda _, text: text.upper()),
    "strip": Rule(_of_texts(STRING), lambda _, text: text.strip()),
    "length": Rule(_of_countable, lambda _, cell: len(cell)),
    "digest": Rule(_text_of_plain, _digest, ("prefix",), most=0, sees_nothing=True),
    "json": Rule(_text_of_any, _json, most=0, sees_nothing=True),
    "field": Rule(_of_texts(STRING), _field, ("key",)),
    "equal": Rule(
        _of_equals, lambda _, left, right: left == right, least=2, most=2, sees_nothing=True
    ),
    "add": Rule(_of_numbers, _calculated(add), least=2, most=0),
    "subtract": Rule(_of_numbers, _calculated(sub), least=2, most=0),
    "multiply": Rule(_of_numbers, _calculated(mul), least=2, most=0),
    "divide": Rule(_of_numbers, _calculated(truediv), least=2, most=0),
}
