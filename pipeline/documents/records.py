"""A file's text to records, by the kind of file."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WIDEST_FIELD = 2**31 - 1


@dataclass(frozen=True)
class Record:
    """One object of a file: its columns, and where it stands (line or row, from 1)."""

    columns: Mapping[str, Any]
    place: int


@dataclass(frozen=True)
class Unreadable:
    """A part of a file that is no record, and why. ``place`` 0: the whole file."""

    place: int
    message: str


Read = Callable[[str], Iterator[Record | Unreadable]]


def read_csv(text: str) -> Iterator[Record | Unreadable]:
    csv.field_size_limit(WIDEST_FIELD)
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for place, row in enumerate(rows, start=1):
            extra = row.pop(None, None)  # pyright: ignore[reportArgumentType, reportCallIssue]
            if extra:
                yield Unreadable(place, f"row {place} has more cells than the header has columns")
            else:
                yield Record({name: value for name, value in row.items() if value is not None}, place)
    except csv.Error as error:
        yield Unreadable(rows.line_num, f"line {rows.line_num}: {error}")


def read_json(text: str) -> Iterator[Record | Unreadable]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield Unreadable(0, f"not JSON: {error}")
        return
    for place, entry in enumerate(content if isinstance(content, list) else [content], start=1):
        yield _object(entry, place, "entry")


def read_jsonl(text: str) -> Iterator[Record | Unreadable]:
    for place, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Unreadable(place, f"line {place} is not JSON: {error}")
            continue
        yield _object(entry, place, "line")


RECORD_FILES: Mapping[str, Read] = {".csv": read_csv, ".json": read_json, ".jsonl": read_jsonl}


def _object(entry: Any, place: int, what: str) -> Record | Unreadable:
    if isinstance(entry, dict):
        return Record(entry, place)
    return Unreadable(place, f"{what} {place} is no object but {type(entry).__name__}")
