"""Records of csv, json and jsonl texts."""

import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Record:
    """``line``: the line (csv, jsonl) or the position (json) it stands at, from 1."""

    line: int
    fields: dict[str, object]


@dataclass(frozen=True)
class Fault:
    """Why a file, or with ``line`` one record of it, is not read. ``reason``: a reject's reason code."""

    reason: str
    message: str
    line: int | None = None


def read_csv(text: str, required: str, setting: str = "input.text_column") -> Iterator[Record | Fault]:
    """A record a row; the first row names the columns, the ``required`` one among them, which ``setting`` sets.
    Fields may be of any length."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    limit = csv.field_size_limit(sys.maxsize)
    try:
        header = [name.strip() for name in next(reader, [])]
        if required not in header or len(set(header)) < len(header):
            yield Fault("parse", f"columns {header} lack '{required}' or name one twice; set {setting}")
            return
        yield from (_csv_record(reader.line_num, header, row) for row in reader if row)
    except csv.Error as error:
        yield Fault("parse", f"line {reader.line_num}: {error}; quote the field or double its quotes")
    finally:
        csv.field_size_limit(limit)


def read_json(text: str) -> Iterator[Record | Fault]:
    """An object is one record, an array one for each of its objects."""
    value = _parsed(text, None)
    if isinstance(value, Fault):
        yield value
        return
    for position, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _json_record(position, item)


def read_jsonl(text: str) -> Iterator[Record | Fault]:
    """A record a line; a malformed line is a fault of its own."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = _parsed(line, number)
            yield value if isinstance(value, Fault) else _json_record(number, value)


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return max(",;\t", key=header.count)


def _csv_record(line: int, header: list[str], row: list[str]) -> Record | Fault:
    if len(row) > len(header):
        return Fault("parse", f"{len(row)} fields for {len(header)} columns; quote the field", line)
    return Record(line, {name: value for name, value in zip(header, row, strict=False) if value})


def _json_record(line: int, value: object) -> Record | Fault:
    if isinstance(value, dict):
        return Record(line, value)
    return Fault("parse", f"not an object but {type(value).__name__}; write {{...}}", line)


def _parsed(text: str, line: int | None) -> object:
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return Fault("parse", f"not JSON: {error}; mend it or take it out", line)


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
