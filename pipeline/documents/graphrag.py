"""The folder an index of Microsoft GraphRAG (0.3 to 3.x) was written to: tables, documents, text
units."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.schemas import WIDE
from pipeline.documents.metadata import as_json, cleaned, content_hash
from pipeline.errors import DataError, SettingsError
from pipeline.models.base import Tokenizer
from pipeline.text.ids import clean, digest, document_id, text_unit_id

Row = dict[str, Any]

BELOW = ("", "output")
"""Where the tables are: in the folder named, or in a project's usual one below it."""
_OURS = re.compile("doc-[0-9a-f]{32}")
_PREPENDED = re.compile(r"[^\n:]+: [^\n]*\.\n")
_CUT_CHARACTER = "\ufffd"
_LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class _Table:
    """``files``: its names, the newest first. ``needed`` and ``more``: our column -> its names, the
    newest first."""

    files: Sequence[str]
    needed: Mapping[str, Sequence[str]]
    more: Mapping[str, Sequence[str]]


TABLES: Mapping[str, _Table] = {
    "documents": _Table(
        ("documents", "create_final_documents"),
        {"id": ("id",), "text": ("text", "raw_content")},
        {"title": ("title",), "creation_date": ("creation_date",),
            "metadata": ("raw_data", "metadata", "attributes")},
    ),
    "text_units": _Table(
        ("text_units", "create_final_text_units"),
        {"id": ("id",), "text": ("text", "chunk"), "documents": ("document_id", "document_ids")},
        {},
    ),
    "entities": _Table(
        ("entities", "create_final_entities"),
        {"name": ("title", "name"), "text_unit_ids": ("text_unit_ids",)},
        {"id": ("id",), "type": ("type",), "description": ("description",),
            "frequency": ("frequency",),
         "types": ("types",)},
    ),
    "relationships": _Table(
        ("relationships", "create_final_relationships"),
        {"source": ("source",), "target": ("target",), "text_unit_ids": ("text_unit_ids",)},
        {"id": ("id",), "description": ("description",), "weight": ("weight",),
            "keywords": ("keywords",)},
    ),
}  # fmt: skip


def graphrag_digest(folder: Path) -> str:
    """Over the content of the tables. Raises SettingsError where one is missing, DataError for an
    unreadable one."""
    try:
        return digest(*(_sha256(path) for path in _files(folder).values()))
    except OSError as error:
        raise _unreadable(folder, error) from error


def read_graphrag_tables(folder: Path) -> dict[str, list[Row]]:
    """documents, text_units, entities and relationships: their rows under our names of columns, a
    cell that is not there as None.

    Raises SettingsError where a table is missing, DataError where one is damaged or lacks a column.
    """
    return {name: _rows(path, TABLES[name]) for name, path in _files(folder).items()}


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise SettingsError(
            f"{folder}: no such folder; run 'graphmill import graphrag DIR' or set graphrag.path"
        )
    return {name: _file(folder, table.files) for name, table in TABLES.items()}


def _file(folder: Path, names: Sequence[str]) -> Path:
    candidates = [folder / below / f"{name}.parquet" for below in BELOW for name in names]
    for path in candidates:
        if path.is_file():
            return path
    raise SettingsError(
        f"{folder}: no {' or '.join(f'{name}.parquet' for name in names)}; name the folder that"
        " GraphRAG wrote its tables to"
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
    return [
        missing | {name: cells[name][place] for name in cells} for place in range(content.num_rows)
    ]


def _columns(path: Path, have: Sequence[str], table: _Table) -> dict[str, str]:
    """Our name -> the column in the file."""
    found = {
        name: next((column for column in columns if column in have), None)
        for name, columns in {**table.needed, **table.more}.items()
    }
    for name, columns in table.needed.items():
        if found[name] is None:
            raise DataError(
                f"{path}: no column {' or '.join(columns)}; is it a table of GraphRAG 0.3 or later?"
            )
    return {name: column for name, column in found.items() if column is not None}


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it, or write it anew")


@dataclass
class GraphragRejects:
    """Rejects, as they come."""

    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, table: str, place: int, kind: str, reason: str, message: str) -> None:
        where = f"{table}[{place}]"
        said = clean(f"{where}: {message}")[:_LONGEST_MESSAGE]
        self.rows.append(
            {"step": "", "row_id": where, "kind": kind, "reason": reason, "message": said}
        )


def read_documents(rows: Sequence[Row], rejects: GraphragRejects) -> dict[str, dict[str, str]]:
    """Their id of it -> the document."""
    documents: dict[str, dict[str, str]] = {}
    for place, row in enumerate(rows):
        theirs = text_of(row["id"])
        if not theirs:
            rejects.add("documents", place, "row", "incomplete", "no id")
        elif theirs in documents:
            rejects.add("documents", place, "row", "duplicate_id", f"'{theirs}' is there already")
        else:
            documents[theirs] = _document(theirs, row)
    return documents


def _document(theirs: str, row: Row) -> dict[str, str]:
    title, text, given = text_of(row["title"]), text_of(row["text"]), row["metadata"]
    own = bool(_OURS.fullmatch(theirs))
    if own and isinstance(given, dict) and set(given) == {"source", "metadata"}:
        source, metadata = text_of(given["source"]), _rewritten(text_of(given["metadata"]))
    else:
        source, metadata = title or theirs, as_json(dict(_fields(given, row["creation_date"])))
    return {
        "id": theirs if own else document_id(theirs),
        "title": title or source,
        "text": text,
        "source": source,
        "metadata": metadata,
        "content_hash": content_hash(title or source, text, metadata),
        "title_from": "given" if title else "file_name",
    }


def _fields(given: Any, creation_date: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(given, dict):
        yield from cleaned(given).items()
    elif given:
        yield "metadata", cleaned(given)
    if creation_date:
        yield "creation_date", text_of(creation_date)


def _rewritten(metadata: str) -> str:
    """An object as this version writes it, whoever wrote it; an empty one for what is none."""
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        fields = {}
    return as_json(cleaned(fields)) if isinstance(fields, dict) else "{}"


def read_units(
    rows: Sequence[Row],
    documents: Mapping[str, Mapping[str, str]],
    tokenizer: Tokenizer,
    rejects: GraphragRejects,
) -> tuple[dict[str, list[str]], list[Row]]:
    """Their id of it -> our ids (theirs may come from the text alone, so that documents share it);
    and the rows."""
    known: dict[str, list[str]] = defaultdict(list)
    units: list[Row] = []
    seen: Counter[tuple[str, str]] = Counter()
    orders: Counter[str] = Counter()
    starts: dict[str, int] = defaultdict(lambda: -1)
    for place, row in enumerate(rows):
        theirs, text = text_of(row["id"]), text_of(row["text"])
        document = next(
            (documents[id] for id in texts_of(row["documents"]) if id in documents), None
        )
        if not theirs or not text.strip():
            rejects.add("text_units", place, "row", "incomplete", "no id, or no text")
        elif document is None:
            rejects.add(
                "text_units",
                place,
                "row",
                "dangling",
                f"no such document: {texts_of(row['documents'])}",
            )
        else:
            id = document["id"]
            unit = text_unit_id(id, text, seen[id, text])
            start, end = _span(text, document["text"], starts[id] + 1)
            units.append(
                {
                    "id": unit,
                    "text": text,
                    "n_tokens": tokenizer.count(text),
                    "document_id": id,
                    "start": start,
                    "end": end,
                    "order": orders[id],
                }
            )
            known[theirs].append(unit)
            seen[id, text] += 1
            orders[id] += 1
            starts[id] = start if end else starts[id]
    return known, units


def _span(unit: str, document: str, earliest: int) -> tuple[int, int]:
    """Where the unit is in the document. GraphRAG may put lines "key: value." before a unit's text,
    and cut a character in two at its ends."""
    for text in _bodies(unit):
        body = text.strip(_CUT_CHARACTER)
        start = document.find(body, earliest)
        start = document.find(body) if start < 0 else start
        if body and start >= 0:
            return start, start + len(body)
    return 0, 0


def _bodies(unit: str) -> Iterator[str]:
    yield unit
    place = 0
    while line := _PREPENDED.match(unit, place):
        place = line.end()
        yield unit[place:]


def text_of(cell: Any) -> str:
    return "" if cell is None or cell != cell else clean(str(cell))  # noqa: PLR0124  (NaN)


def texts_of(cell: Any) -> list[str]:
    return (
        list(map(text_of, cell))
        if isinstance(cell, list)
        else [text]
        if (text := text_of(cell))
        else []
    )
