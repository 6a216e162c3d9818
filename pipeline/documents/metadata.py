"""Write the metadata of documents as JSON objects, and read lookup tables with more metadata."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.conditions import as_text
from pipeline.documents.encoding import UndecodableError, decode
from pipeline.documents.records import Fault, Record, read_csv, read_json, read_jsonl
from pipeline.errors import DataError, SettingsError
from pipeline.text.ids import clean, digest

KINDS = (".csv", ".json", ".jsonl", ".parquet")
"""The suffixes of lookup tables."""
_LEGACY = ("gb18030", "shift_jis", "cp1252")


def fields_of(documents: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the metadata of each document as an object."""
    return [json.loads(cell or "{}") for cell in documents["metadata"]]


def with_fields(documents: pd.DataFrame, fields: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the documents with other metadata, and with the `content_hash` of these.

    ``fields`` holds one object for each row.
    """
    cells = [as_json(entry) for entry in fields]
    contents = zip(documents["title"], documents["text"], cells, strict=True)
    hashes = [content_hash(title, text, metadata) for title, text, metadata in contents]
    return documents.assign(metadata=cells, content_hash=hashes)


def content_hash(title: str, text: str, metadata: str) -> str:
    """Return the hash by which a change of a document is noticed; ``metadata`` is JSON."""
    return digest(title, text, metadata)


def as_json(fields: Mapping[str, Any]) -> str:
    """Return metadata as JSON; equal metadata give equal texts."""
    return json.dumps(fields, ensure_ascii=False, sort_keys=True, allow_nan=False)


def cleaned(value: Any) -> Any:
    """Return a value of a file as a value of JSON.

    Texts lose their control characters, dates become ISO texts, NaN and infinity become None, bytes
    that are a text in UTF-8 become this text, and values of other types become texts.
    """
    if isinstance(value, bytes):
        # Some writers of Parquet do not say that a column of bytes holds texts.
        with suppress(UnicodeDecodeError):
            value = value.decode("utf-8")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, set):
        # YAML has sets; JSON has none, so they become sorted lists of texts.
        texts = [
            cleaned(item) if isinstance(item, str) else as_text(cleaned(item)) for item in value
        ]
        return sorted(texts)
    if isinstance(value, dict):
        return {clean(str(name)): cleaned(item) for name, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return clean(str(value))


def lookup_digest(path: Path) -> str:
    """Return a hash of a lookup table's kind and content.

    Raises SettingsError if there is no such table, and DataError if it cannot be read.
    """
    _check_lookup(path)
    try:
        with path.open("rb") as stream:
            return digest(path.suffix.lower(), hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lookup(path: Path, key: str, encoding: str) -> Mapping[str, dict[str, Any]]:
    """Map the text of the key of each row to the row's other cells that are not empty.

    Rows without a key are left out. An empty ``encoding`` stands for a guess. Raises SettingsError
    if there is no such table. Raises DataError if it cannot be read, lacks the column ``key``, or
    has a key twice.
    """
    _check_lookup(path)
    rows: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    has_key = False
    for record in _read_records(path, key, encoding):
        fields = cleaned(record.fields)
        cells = {name: value for name, value in fields.items() if value not in (None, "")}
        has_key = has_key or key in record.fields
        if key not in cells:
            continue
        text = as_text(cells.pop(key))
        if text in rows:
            raise DataError(
                f"{path}:{record.line}: '{key}' is '{text}' as at {lines[text]}; keep one of the"
                " two rows"
            )
        rows[text], lines[text] = cells, record.line
    # The header of a CSV file was checked when it was read.
    if not has_key and path.suffix.lower() != ".csv":
        raise DataError(f"{path}: no column '{key}'; set key to one that it has")
    return rows


def _check_lookup(path: Path) -> None:
    """Check that there is a table of a known kind. Raises SettingsError if not."""
    if path.suffix.lower() not in KINDS:
        raise SettingsError(
            f"{path}: '{path.suffix}' is no kind of table; give one of {', '.join(KINDS)}"
        )
    if not path.is_file():
        raise SettingsError(f"{path}: no such file; put the table there or correct the step's path")


def _read_records(path: Path, key: str, encoding: str) -> Iterator[Record]:
    """Yield the records of the table. Raises DataError for one that cannot be read."""
    for item in _records_and_faults(path, key, encoding):
        if isinstance(item, Fault):
            place = path if item.line is None else f"{path}:{item.line}"
            raise DataError(f"{place}: {item.message}")
        yield item


def _records_and_faults(path: Path, key: str, encoding: str) -> Iterator[Record | Fault]:
    """Return the records of the table, with a fault for each that cannot be read.

    Raises DataError if the whole file cannot be read.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            rows = pq.read_table(path).to_pylist()
            return (Record(line, row) for line, row in enumerate(rows, start=1))
        text = decode(path.read_bytes(), encoding, _LEGACY)
    except OSError as error:
        raise _unreadable(path, error) from error
    except pa.ArrowException as error:
        raise DataError(f"{path}: not Parquet ({error}); write it again") from error
    except (UndecodableError, LookupError) as error:
        fact = f"not in {encoding}" if encoding else "in no encoding that is known here"
        action = "convert it to UTF-8 or set the step's encoding"
        raise DataError(f"{path}: {fact}; {action}") from error
    if kind == ".csv":
        return read_csv(text, key, setting="key")
    return read_json(text) if kind == ".json" else read_jsonl(text)


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it")
