"""The folder an index of Microsoft GraphRAG has been written to, whichever version (0.3 to 3.x) wrote it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DataError, SettingsError
from pipeline.schemas import WIDE
from pipeline.text import digest

Row = dict[str, Any]

BELOW = ("", "output")
"""Where the tables are: in the folder named, or in a project's usual one below it."""


@dataclass(frozen=True)
class _Table:
    """``files``: its names, the newest first. ``needed`` and ``more``: our column -> its names, the newest first."""

    files: Sequence[str]
    needed: Mapping[str, Sequence[str]]
    more: Mapping[str, Sequence[str]]


TABLES: Mapping[str, _Table] = {
    "documents": _Table(
        ("documents", "create_final_documents"),
        {"id": ("id",), "text": ("text", "raw_content")},
        {"title": ("title",), "creation_date": ("creation_date",), "metadata": ("raw_data", "metadata", "attributes")},
    ),
    "text_units": _Table(
        ("text_units", "create_final_text_units"),
        {"id": ("id",), "text": ("text", "chunk"), "documents": ("document_id", "document_ids")},
        {},
    ),
    "entities": _Table(
        ("entities", "create_final_entities"),
        {"name": ("title", "name"), "text_unit_ids": ("text_unit_ids",)},
        {"id": ("id",), "type": ("type",), "description": ("description",), "frequency": ("frequency",),
         "types": ("types",)},
    ),
    "relationships": _Table(
        ("relationships", "create_final_relationships"),
        {"source": ("source",), "target": ("target",), "text_unit_ids": ("text_unit_ids",)},
        {"id": ("id",), "description": ("description",), "weight": ("weight",), "keywords": ("keywords",)},
    ),
}  # fmt: skip


def graphrag_digest(folder: Path) -> str:
    """Over the content of the tables. Raises SettingsError where one is missing, DataError for an unreadable one."""
    try:
        return digest(*(_sha256(path) for path in _files(folder).values()))
    except OSError as error:
        raise _unreadable(folder, error) from error


def read_graphrag_tables(folder: Path) -> dict[str, list[Row]]:
    """documents, text_units, entities and relationships: their rows under our names of columns, a cell that is not
    there as None.

    Raises SettingsError where a table is missing, DataError where one is damaged or lacks a column.
    """
    return {name: _rows(path, TABLES[name]) for name, path in _files(folder).items()}


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise SettingsError(f"{folder}: no such folder; run 'graphmill import graphrag DIR' or set graphrag.path")
    return {name: _file(folder, table.files) for name, table in TABLES.items()}


def _file(folder: Path, names: Sequence[str]) -> Path:
    candidates = [folder / below / f"{name}.parquet" for below in BELOW for name in names]
    for path in candidates:
        if path.is_file():
            return path
    raise SettingsError(
        f"{folder}: no {' or '.join(f'{name}.parquet' for name in names)}; name the folder that GraphRAG wrote its "
        "tables to"
    )


def _rows(path: Path, table: _Table) -> list[Row]:
    try:
        with pq.ParquetFile(path, **WIDE) as file:
            columns = _columns(path, file.schema_arrow.names, table)
            content = file.read(columns=list(columns.values()))
    except OSError as error:  # what Arrow says of bytes it cannot read may be one too
        raise _unreadable(path, error) from error
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"{path}: not readable as Parquet ({error}); write it anew") from error
    cells = {name: content[column].to_pylist() for name, column in columns.items()}
    missing = dict.fromkeys([*table.needed, *table.more])
    return [missing | {name: cells[name][place] for name in cells} for place in range(content.num_rows)]


def _columns(path: Path, have: Sequence[str], table: _Table) -> dict[str, str]:
    """Our name -> the column in the file."""
    found = {
        name: next((column for column in columns if column in have), None)
        for name, columns in {**table.needed, **table.more}.items()
    }
    for name, columns in table.needed.items():
        if found[name] is None:
            raise DataError(f"{path}: no column {' or '.join(columns)}; is it a table of GraphRAG 0.3 or later?")
    return {name: column for name, column in found.items() if column is not None}


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it, or write it anew")
