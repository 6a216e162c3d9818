"""A document's metadata: a JSON object, its values as JSON has them; and tables beside the
documents."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
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
_LEGACY = ("gb18030", "shift_jis", "cp1252")


def fields_of(documents: pd.DataFrame) -> list[dict[str, Any]]:
    """Per document its metadata."""
    return [json.loads(cell or "{}") for cell in documents["metadata"]]


def with_fields(documents: pd.DataFrame, fields: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The documents with this metadata, and the ``content_hash`` that goes with it."""
    cells = [as_json(entry) for entry in fields]
    parts = zip(documents["title"], documents["text"], cells, strict=True)
    return documents.assign(metadata=cells, content_hash=[content_hash(*part) for part in parts])


def content_hash(title: str, text: str, metadata: str) -> str:
    return digest(title, text, metadata)


def as_json(fields: Mapping[str, Any]) -> str:
    """The one way metadata is written, so that equal metadata are equal texts."""
    return json.dumps(fields, ensure_ascii=False, sort_keys=True, allow_nan=False)


def cleaned(value: Any) -> Any:
    """The value as JSON has it: texts without control characters, dates as ISO texts, NaN as None,
    and what JSON knows nothing of as its text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, set):  # of YAML
        return sorted(
            cleaned(item) if isinstance(item, str) else as_text(cleaned(item)) for item in value
        )
    if isinstance(value, dict):
        return {clean(str(name)): cleaned(item) for name, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else clean(str(value))


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

    Raises SettingsError when there is no such table, DataError when it cannot be read, lacks the
    column ``key``, or has a key twice.
    """
    _check(path)
    rows: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    has_key = False
    for record in _records(path, key, encoding):
        cells = {
            name: value for name, value in cleaned(record.fields).items() if value not in (None, "")
        }
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
    if not has_key and path.suffix.lower() != ".csv":  # the header of a csv has been checked
        raise DataError(f"{path}: no column '{key}'; set key to one that it has")
    return rows


def _check(path: Path) -> None:
    if path.suffix.lower() not in KINDS:
        raise SettingsError(
            f"{path}: '{path.suffix}' is no kind of table; give one of {', '.join(KINDS)}"
        )
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
        raise DataError(
            f"{path}: {named}; convert it to UTF-8 or set the step's encoding"
        ) from error
    if kind == ".csv":
        return read_csv(text, key, setting="key")
    return read_json(text) if kind == ".json" else read_jsonl(text)


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it")
