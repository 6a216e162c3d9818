"""A table beside the documents: rows by key, from csv, json, jsonl or parquet."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.documents.csv_records import read_csv
from pipeline.documents.encoding import UndecodableError, decode
from pipeline.documents.metadata import as_text, cleaned
from pipeline.documents.records import Fault, Record, read_json, read_jsonl
from pipeline.errors import DataError, SettingsError
from pipeline.text import digest

KINDS = (".csv", ".json", ".jsonl", ".parquet")
_LEGACY = ("gb18030", "shift_jis", "cp1252")


def lookup_digest(path: Path) -> str:
    """Over the table's kind and content. Raises SettingsError when there is no such table."""
    _check(path)
    try:
        with path.open("rb") as stream:
            return digest(path.suffix.lower(), hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lookup(path: Path, key: str, encoding: str) -> Mapping[str, dict[str, Any]]:
    """Each row's filled cells but the key's, by the key's text; rows without a key are left out.

    Raises SettingsError when there is no such table, DataError when it cannot be read, lacks the column
    ``key``, or has a key twice.
    """
    _check(path)
    rows: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    has_key = False
    for record in _records(path, key, encoding):
        cells = {name: value for name, value in cleaned(record.fields).items() if value not in (None, "")}
        has_key = has_key or key in record.fields
        if key not in cells:
            continue
        text = as_text(cells.pop(key))
        if text in rows:
            raise DataError(f"{path}:{record.line}: '{key}' is '{text}' as at {lines[text]}; keep one of the two rows")
        rows[text], lines[text] = cells, record.line
    if not has_key and path.suffix.lower() != ".csv":  # the header of a csv has been checked
        raise DataError(f"{path}: no column '{key}'; set key to one that it has")
    return rows


def _check(path: Path) -> None:
    if path.suffix.lower() not in KINDS:
        raise SettingsError(f"{path}: '{path.suffix}' is no kind of table; give one of {', '.join(KINDS)}")
    if not path.is_file():
        raise SettingsError(f"{path}: no such file; put the table there or correct the step's path")


def _records(path: Path, key: str, encoding: str) -> Iterator[Record]:
    for item in _items(path, key, encoding):
        if isinstance(item, Fault):
            place = path if item.line is None else f"{path}:{item.line}"
            raise DataError(f"{place}: {item.message}")
        yield item


def _items(path: Path, key: str, encoding: str) -> Iterator[Record | Fault]:
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            rows = pq.read_table(path).to_pylist()
            return (Record(line, row) for line, row in enumerate(rows, start=1))
        text = decode(path.read_bytes(), encoding, _LEGACY)
    except OSError as error:
        raise _unreadable(path, error) from error
    except pa.ArrowException as error:
        raise DataError(f"{path}: not Parquet ({error}); write it anew") from error
    except (UndecodableError, LookupError) as error:
        named = f"not in {encoding}" if encoding else "in no encoding that is known here"
        raise DataError(f"{path}: {named}; convert it to UTF-8 or set the step's encoding") from error
    if kind == ".csv":
        return read_csv(text, key, setting="key")
    return read_json(text) if kind == ".json" else read_jsonl(text)


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it")
