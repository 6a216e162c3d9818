"""The operations of ``derive``: a closed list.

An operation is read from YAML as data. No text is ever run as code.
"""

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
    field_of,
    plain_cells,
    require_number,
    require_plain,
    require_text,
    type_of,
)

Value = StrictStr | StrictBool | StrictInt | StrictFloat
TYPES: Mapping[type, pa.DataType] = {str: STRING, bool: BOOL, int: INT, float: FLOAT}
LARGEST = 2**63
"""The absolute value from which on an integer no longer fits a column of 64 bits."""
EXACT = 2**53
"""The absolute value up to which a float represents every integer exactly."""
ARITHMETIC = ("add", "subtract", "multiply", "divide")


class Operation(Params):
    """An operation and its operands.

    Operands are columns; those of arithmetic may be numbers, too. The other fields are options that
    some operations have.
    """

    operation: str
    operands: tuple[Value, ...] = Field(min_length=1)
    separator: str = ""
    prefix: str = ""
    key: str = ""
    value: Value | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Check that operands and options suit the operation. Raises ValueError if they do not."""
        if self.operation not in OPERATIONS:
            raise ValueError(
                f"no operation '{self.operation}'; {did_you_mean(self.operation, OPERATIONS)}"
            )
        rule = OPERATIONS[self.operation]
        given = self.model_fields_set - {"operation", "operands"}
        unknown = sorted(given - set(rule.options))
        if unknown:
            raise ValueError(f"{self.operation} has no '{unknown[0]}'; remove it")
        required = set(rule.options) & {"key", "value"}
        missing = sorted(required - given)
        if missing:
            raise ValueError(f"{self.operation} needs '{missing[0]}'; name it")
        number = len(self.operands)
        if number < rule.least or (rule.most and number > rule.most):
            raise ValueError(f"{self.operation} does not take {number} operands")
        takes_values = self.operation in (*ARITHMETIC, "literal")
        if not takes_values and not all(isinstance(one, str) for one in self.operands):
            raise ValueError(f"{self.operation} takes columns; use literal for a value of its own")
        return self


def expand_shorthand(entry: object) -> object:
    """Return {operation: lower, operands: [name]} for {lower: name}.

    Raises ValueError if the entry names several operations or none.
    """
    if not isinstance(entry, dict) or "operation" in entry:
        return entry
    options = Operation.model_fields.keys() - {"operation", "operands"}
    names = [name for name in entry if name not in options]
    if len(names) != 1:
        raise ValueError("name one operation, as {lower: name}")
    operation = names[0]
    given = entry[operation]
    operands = given if isinstance(given, list | tuple) else [given]
    given_options = {name: entry[name] for name in entry if name in options}
    return {"operation": operation, "operands": operands, **given_options}


@dataclass(frozen=True)
class Rule:
    """The code of an operation.

    ``type`` returns the type of the new column, and raises ValueError if the table does not fit.
    ``cell`` makes a cell from one cell of each operand. It gets missing cells, as None, only if
    ``sees_missing`` is set; otherwise the result of a missing cell is missing. ``options`` are the
    options of the operation. It takes at least ``least`` operands, and at most ``most``; 0 stands
    for any number.
    """

    type: Callable[[Operation, TableSchema], pa.DataType]
    cell: Callable[..., Any]
    options: tuple[str, ...] = ()
    least: int = 1
    most: int = 1
    sees_missing: bool = False


def type_made(operation: Operation, table: TableSchema) -> pa.DataType:
    """Return the type of the new column.

    Raises ValueError for a column that the table does not have, or that does not fit.
    """
    return OPERATIONS[operation.operation].type(operation, table)


def cells_of(operation: Operation, table: pd.DataFrame) -> list[Any]:
    """Return the cells of the new column."""
    rule = OPERATIONS[operation.operation]
    is_literal = operation.operation == "literal"
    read = _read_numbers if operation.operation in ARITHMETIC else plain_cells
    columns = []
    for operand in operation.operands:
        is_column = isinstance(operand, str) and not is_literal
        columns.append(read(table[operand]) if is_column else [operand] * len(table))
    cells = []
    for row in zip(*columns, strict=True):
        is_missing = None in row and not rule.sees_missing
        cells.append(None if is_missing else rule.cell(operation, *row))
    return cells


def _columns_of(operation: Operation) -> list[str]:
    """Return the operands that are columns."""
    return [operand for operand in operation.operands if isinstance(operand, str)]


# The next functions return the type of the new column, and raise ValueError if the operands do not
# fit. They are the values of `Rule.type`.


def _type_of_literal(operation: Operation, table: TableSchema) -> pa.DataType:
    return TYPES[type(operation.operands[0])]


def _type_of_column(operation: Operation, table: TableSchema) -> pa.DataType:
    return type_of(table, _columns_of(operation)[0])


def _text_from_plain(operation: Operation, table: TableSchema) -> pa.DataType:
    for name in _columns_of(operation):
        require_plain(table, name)
    return STRING


def _text_from_any(operation: Operation, table: TableSchema) -> pa.DataType:
    for name in _columns_of(operation):
        field_of(table, name)
    return STRING


def _from_texts(made: pa.DataType) -> Callable[[Operation, TableSchema], pa.DataType]:
    """Return a function that checks that all columns hold texts, and returns the type ``made``."""

    def type_(operation: Operation, table: TableSchema) -> pa.DataType:
        for name in _columns_of(operation):
            require_text(table, name)
        return made

    return type_


def _text_from_list(operation: Operation, table: TableSchema) -> pa.DataType:
    kind = _type_of_column(operation, table)
    if not is_list(kind) or pa.types.is_nested(kind.value_type):
        raise ValueError(
            f"column '{operation.operands[0]}' holds {type_name(kind)}, no lists of texts or"
            " numbers"
        )
    return STRING


def _integer_from_countable(operation: Operation, table: TableSchema) -> pa.DataType:
    kind = _type_of_column(operation, table)
    if kind != STRING and not is_list(kind):
        raise ValueError(
            f"column '{operation.operands[0]}' holds {type_name(kind)}, neither texts nor lists"
        )
    return INT


def _type_of_filled(operation: Operation, table: TableSchema) -> pa.DataType:
    kind = _type_of_column(operation, table)
    given = TYPES[type(operation.value)]
    # An integer may fill a column of floats.
    if kind != given and (kind, given) != (FLOAT, INT):
        raise ValueError(
            f"fill: column '{operation.operands[0]}' holds {type_name(kind)}, and the value is"
            f" {given}; make them agree"
        )
    return kind


def _boolean_from_equal_types(operation: Operation, table: TableSchema) -> pa.DataType:
    left, right = (type_of(table, name) for name in _columns_of(operation))
    if left != right:
        raise ValueError(
            f"equal: {operation.operands} are {left} and {right}; convert one of them first"
        )
    return BOOL


def _number_from_numbers(operation: Operation, table: TableSchema) -> pa.DataType:
    for name in _columns_of(operation):
        require_number(table, name)
    if any(isinstance(operand, bool) for operand in operation.operands):
        raise ValueError(f"{operation.operation} takes columns and numbers, no truth values")
    kinds = []
    for operand in operation.operands:
        is_column = isinstance(operand, str)
        kinds.append(type_of(table, operand) if is_column else TYPES[type(operand)])
    is_whole = operation.operation != "divide" and all(map(pa.types.is_integer, kinds))
    return INT if is_whole else FLOAT


# The next functions make cells. They are the values of `Rule.cell`.


def _calculate(step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function that combines numbers from left to right by ``step``.

    The result is None if no column can hold it: after a division by 0, or if it is out of range.
    """

    def cell(operation: Operation, *numbers: Any) -> Any:
        try:
            result = reduce(step, numbers)
        except (ZeroDivisionError, OverflowError):
            return None
        limit = LARGEST if isinstance(result, int) else math.inf
        return result if abs(result) < limit else None

    return cell


def _read_numbers(column: pd.Series) -> list[Any]:
    """Return the numbers of a column.

    pandas holds integers as floats in a column with missing cells. They become integers again.
    """
    cells = plain_cells(column)
    return [_as_integer(cell) for cell in cells] if None in cells else cells


def _as_integer(cell: Any) -> Any:
    """Return a float with an integer value as an integer, and any other cell unchanged."""
    is_whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT
    return int(cell) if is_whole else cell


def _concat(operation: Operation, *cells: Any) -> str:
    texts = [as_text_unstripped(cell) for cell in cells if cell is not None]
    return operation.separator.join(texts)


def as_text_unstripped(cell: Any) -> str:
    """Return a cell as a text; a text keeps the white space at its ends."""
    return cell if isinstance(cell, str) else as_text(cell)


def _split(operation: Operation, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(operation.separator or ",")]
    return [part for part in parts if part]


def _join_items(operation: Operation, items: list[Any]) -> str:
    return _concat(operation, *items)


def _encode_json(operation: Operation, *cells: Any) -> str:
    values = [_as_integer(cell) for cell in cells]
    return as_json(dict(zip(_columns_of(operation), values, strict=True)))


def _read_field(operation: Operation, text: str) -> str | None:
    """Return the value of the field ``key`` of a text in JSON, or None if there is none."""
    try:
        record = json.loads(text)
    except ValueError:
        return None
    value = record.get(operation.key) if isinstance(record, dict) else None
    return None if value is None else as_text_unstripped(value)


def _make_digest(operation: Operation, *cells: Any) -> str:
    texts = ["" if cell is None else as_text_unstripped(cell) for cell in cells]
    return operation.prefix + digest(*texts)


OPERATIONS: Mapping[str, Rule] = {
    "literal": Rule(_type_of_literal, lambda _, value: value),
    "copy": Rule(_type_of_column, lambda _, cell: cell),
    "fill": Rule(
        _type_of_filled,
        lambda made, cell: made.value if cell is None else cell,
        ("value",),
        sees_missing=True,
    ),
    "concat": Rule(_text_from_plain, _concat, ("separator",), most=0, sees_missing=True),
    "join_items": Rule(_text_from_list, _join_items, ("separator",)),
    "split": Rule(_from_texts(STRINGS), _split, ("separator",)),
    "lower": Rule(_from_texts(STRING), lambda _, text: text.lower()),
    "upper": Rule(_from_texts(STRING), lambda _, text: text.upper()),
    "strip": Rule(_from_texts(STRING), lambda _, text: text.strip()),
    "length": Rule(_integer_from_countable, lambda _, cell: len(cell)),
    "digest": Rule(_text_from_plain, _make_digest, ("prefix",), most=0, sees_missing=True),
    "json": Rule(_text_from_any, _encode_json, most=0, sees_missing=True),
    "field": Rule(_from_texts(STRING), _read_field, ("key",)),
    "equal": Rule(
        _boolean_from_equal_types,
        lambda _, left, right: left == right,
        least=2,
        most=2,
        sees_missing=True,
    ),
    "add": Rule(_number_from_numbers, _calculate(add), least=2, most=0),
    "subtract": Rule(_number_from_numbers, _calculate(sub), least=2, most=0),
    "multiply": Rule(_number_from_numbers, _calculate(mul), least=2, most=0),
    "divide": Rule(_number_from_numbers, _calculate(truediv), least=2, most=0),
}
