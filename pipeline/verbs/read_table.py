"""read_table: read a project's own tables, each row of which is a document with one fact."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pandas as pd
from pydantic import Field, PrivateAttr

from pipeline.contract.laws import Law, Part
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import DOCUMENTS, REJECTS, STRING, table
from pipeline.corrections.decisions import AddStatement
from pipeline.corrections.file import FILE as CORRECTIONS
from pipeline.corrections.file import Line
from pipeline.corrections.own_documents import read_own_statements
from pipeline.documents.files import list_files
from pipeline.documents.input_files import InputFile, Listing, one_line
from pipeline.documents.metadata import as_json, content_hash
from pipeline.documents.own_tables.columns import (
    AS_NAMED,
    FILE,
    FOLDER,
    TableColumns,
    read_columns,
)
from pipeline.documents.own_tables.files import GUESSED, KINDS, read_rows
from pipeline.documents.own_tables.rows import TableRow, read_row
from pipeline.documents.records import Fault, Record
from pipeline.text.ids import clean, digest, document_id

IN_A_FILE = "#:"
"""The characters that separate the name of a file from a row or a line of it."""
LONGEST_AUTHOR = 100
"""Characters of a person's name in the title of a statement that the person has added."""
NO_TABLE = frozenset({"unsupported", "empty", "outside", "lock_file"})
"""Reasons why a file is no table. What it said before is kept."""
ROWS_AT_ONCE = 20_000
"""The number of documents that are Python objects at one time: a table may have a million rows."""
ROWS_TRIED = 1000
"""The number of rows after which a table none of whose rows can be used is given up: its columns
have other names, or the wrong values."""


class TableParams(Params):
    """``path`` is the folder with the tables; a relative path starts at ``root``, the project's
    folder. ``corrections`` is a file whose added statements without a document are rows too, if it
    is named. ``files`` is false where such statements are all there is to read."""

    path: str = FOLDER
    # Not part of the fingerprint: a project may move, and the digest has the rest.
    root: str = Field(default=".", exclude=True)
    corrections: str = Field(default="", exclude=True)
    files: bool = Field(default=True, exclude=True)
    _listing: Listing | None = PrivateAttr(default=None)
    _statements: tuple[Line, ...] | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path:
        return Path(self.root) / self.path

    def following(self, last: Mapping[str, str]) -> Self:
        """Return params with the files and the statements as they are now."""
        found = self.model_copy()
        found._listing = self._list_tables()
        found._statements = self._read_statements()
        return found

    @property
    def listing(self) -> Listing:
        """The files as they were listed last, or as they are now if they were not listed."""
        return self._list_tables() if self._listing is None else self._listing

    @property
    def statements(self) -> tuple[Line, ...]:
        """The lines of corrections.jsonl that are rows, as they were listed last, or as they are
        now."""
        return self._read_statements() if self._statements is None else self._statements

    def read_columns(self) -> Mapping[str, TableColumns]:
        """Return the columns that tables.yaml names. Raises SettingsError for a mistake."""
        return read_columns(self.folder) if self.files else {}

    def _list_tables(self) -> Listing:
        """Return the files of the folder. Raises SettingsError if there is no such folder."""
        return list_files(str(self.folder), "**/*") if self.files else Listing(())

    def _read_statements(self) -> tuple[Line, ...]:
        return tuple(read_own_statements(Path(self.corrections))) if self.corrections else ()

    @property
    def statements_digest(self) -> str:
        """A hash of these lines with their authors, "" if there are none."""
        parts = [f"{line.decision.id} {line.decision.by}" for line in self.statements]
        return digest(*sorted(parts)) if parts else ""


def tables_digest(params: TableParams) -> str:
    """Return a digest of the tables and of tables.yaml; it changes when one of them does.

    It is empty if a transient error kept a file from being read.
    """
    return _with_statements(params.listing.digest, params)


def tables_version(params: TableParams) -> str:
    """Return a version that changes whenever a table is written, even if unchanged."""
    return _with_statements(params.listing.version, params)


def _with_statements(listed: str, params: TableParams) -> str:
    """Return a hash of the files together with that of added statements, if there are any."""
    added = params.statements_digest
    return digest(listed, added) if listed and added else listed


TABLE_FILES = table("name", name=STRING, content=STRING, columns=STRING)
"""The files of tables.

``name`` is the path below the project's folder. ``content`` is the hash of the content, or the
reason why the file is not read. ``columns`` is a hash of what tables.yaml says of the file.
"""


def _list_parts(params: TableParams) -> tuple[Part, ...]:
    """Return the sub-steps of read_table: list the files, then read those that changed."""
    law = Law(
        {"files": ("name",)}, row_of={"documents": "source", "rejects": "row_id"}, until=IN_A_FILE
    )
    outputs = {"documents": DOCUMENTS, "rejects": REJECTS}
    return (
        Part(find_tables, inputs={}, outputs={"files": TABLE_FILES}, law=None),
        Part(read_tables, inputs={"files": TABLE_FILES}, outputs=outputs, law=law),
    )


@verb(
    inputs={},
    outputs={"documents": DOCUMENTS, "rejects": REJECTS},
    parts=_list_parts,
    libraries=("charset-normalizer", "networkx", "pyarrow"),
    settings="project",
    stamp=tables_digest,
    version=tables_version,
)
def read_table(params: TableParams = TableParams()) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables of the folder ``path``: CSV, TSV, JSON, JSON Lines, Parquet and GraphML.
    Return DOCUMENTS, one for each row, and REJECTS.

    A row relates ``source`` to ``target``, or describes the entity ``name``. Further columns are
    ``type``, ``source_type``, ``target_type``, ``description``, ``weight``, ``properties`` (a JSON
    object), ``document``, ``date``, ``valid_from``, ``valid_to`` and ``id``; all others are
    properties. tables.yaml in the folder may give columns other names, and values for all rows.

    The text of a document says the row in words. Its metadata have the ``table``, the ``row``, the
    properties, and as ``record`` what ``extract_table`` makes records of. The id is made of the
    column ``id``, or else of all cells, so that it stays when rows are put before it.

    Rejects of the kind ``row`` are rows: parse, incomplete, too_large, duplicate_id,
    duplicate_row. Those of the kinds ``source`` and ``skipped`` are files that were not read, or in
    part only: encoding, parse, in_part, unreadable, io_error, unsupported, empty, outside,
    lock_file. Raises SettingsError if there is no such folder, or tables.yaml has a mistake.
    """
    return read_tables(find_tables(params), params)


def find_tables(params: TableParams) -> pd.DataFrame:
    """Return TABLE_FILES. If a row changes, the documents of this file change, and no others."""
    columns = params.read_columns()
    listing = params.listing
    rows: list[Any] = []
    for file, content in zip(listing.files, listing.contents, strict=True):
        if file.name != FILE:
            said = columns.get(file.name, AS_NAMED).digest
            rows.append((_name_of(file), content or "", said))
    added = params.statements_digest
    if added:
        rows.append((CORRECTIONS, added, ""))
    return TABLE_FILES.frame(rows)


def read_tables(files: pd.DataFrame, params: TableParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read these files (TABLE_FILES); return DOCUMENTS and REJECTS."""
    columns = params.read_columns()
    wanted = set(files["name"])
    frames: list[pd.DataFrame] = []
    rejects: list[dict[str, str]] = []
    for file in params.listing.files:
        if _name_of(file) not in wanted:
            continue
        rows: list[dict[str, Any]] = []
        for item in _read_table_file(file, columns.get(file.name, AS_NAMED)):
            if isinstance(item, Fault):
                rejects.append(_reject_row(file, item))
                continue
            rows.append(_document_row(file, item))
            if len(rows) == ROWS_AT_ONCE:
                frames.append(DOCUMENTS.frame(rows))
                rows = []
        if rows:
            frames.append(DOCUMENTS.frame(rows))
    if CORRECTIONS in wanted:
        frames.append(DOCUMENTS.frame([_statement_row(line) for line in params.statements]))
    documents = pd.concat(frames, ignore_index=True) if frames else DOCUMENTS.frame()
    return documents, REJECTS.frame(rejects)


def _name_of(file: InputFile) -> str:
    """Return the name of a table in the column ``source``."""
    return f"{FOLDER}/{file.name}"


def _read_table_file(file: InputFile, columns: TableColumns) -> Iterator[TableRow | Fault]:
    """Yield the rows of a table and its faults; a row that is there already is a fault."""
    obstacle = _find_obstacle(file)
    if obstacle:
        yield obstacle
        return
    # The line of each row by its key.
    lines: dict[str, int] = {}
    unused: list[Fault] = []
    unread: list[Fault] = []
    for record in read_rows(file.path, columns.encoding):
        item = record if isinstance(record, Fault) else _read_table_row(record, columns, lines)
        if isinstance(record, Fault):
            unread.append(record)
        elif isinstance(item, TableRow):
            lines[item.key] = item.line
        elif not lines:
            # Where no row can be used, the fault is one of the table, not of its million rows.
            unused.append(item)
            if len(unused) == ROWS_TRIED:
                break
            continue
        yield item
    if lines:
        yield from unused
    elif unused:
        yield Fault("parse", f"no row of it can be used: {unused[0].message}")
    yield from _fault_of_file(bool(lines or unused), unread)


def _find_obstacle(file: InputFile) -> Fault | None:
    """Return the fault because of which the file is not read, or None."""
    if file.fault:
        return Fault(*file.fault)
    if file.suffix in KINDS:
        return None
    known = ", ".join(suffix[1:] for suffix in KINDS)
    return Fault("unsupported", f"'{file.suffix}' is no table; convert it to one of {known}")


def _fault_of_file(has_rows: bool, unread: Sequence[Fault]) -> Iterator[Fault]:
    """Yield the fault of a file that has no rows, or of which some could not be read."""
    lost = [fault for fault in unread if fault.line is not None]
    is_told = any(fault.line is None and fault.reason != GUESSED for fault in unread)
    if is_told:
        return
    if lost:
        yield Fault("in_part", f"read but for {len(lost)} of its rows; mend the file")
    elif not has_rows:
        yield Fault("empty", "no rows in it; remove the file, or write its rows")


def _read_table_row(
    record: Record, columns: TableColumns, lines: Mapping[str, int]
) -> TableRow | Fault:
    """Return what a row says, or its fault; ``lines`` has the line of each row before, by key."""
    row = read_row(record, columns)
    if isinstance(row, TableRow) and row.key in lines:
        return _duplicate(row, lines[row.key], record.fields, columns)
    return row


def _duplicate(
    row: TableRow, first: int, fields: Mapping[str, object], columns: TableColumns
) -> Fault:
    """Return the fault of a row whose key is that of the row at the line ``first``."""
    column = columns.columns.get("id", "id").casefold()
    has_key = any(name.casefold() == column and fields[name] for name in fields)
    if has_key:
        message = f"'{row.key}' is there already, at {first}; give the row an id of its own"
        return Fault("duplicate_id", message, row.line)
    return Fault("duplicate_row", f"the same row is at {first}; nothing to do", row.line)


def _document_row(file: InputFile, row: TableRow) -> dict[str, Any]:
    """Return a row of DOCUMENTS."""
    name = _name_of(file)
    text = row.sentence()
    fields = {"table": file.name, "record": _record_of(row)}
    metadata = {**row.properties, **fields, "row": row.line}
    # The sign # keeps such a title out of headers: it changes when rows are put before this one.
    place = f"table {file.name}, row #{row.line}"
    title = f"{row.document} ({place})" if row.document else place
    return {
        "id": document_id(f"table {name}#{row.key}"),
        "title": title,
        "text": text,
        "source": f"{name}#{row.key}",
        "metadata": as_json(metadata),
        # A row that only moves within its table is not edited.
        "content_hash": content_hash(row.document, text, as_json({**row.properties, **fields})),
        "title_from": "file_name",
        "date": row.date,
        "date_from": "metadata" if row.date else "",
        "aliases": [],
    }


def _statement_row(line: Line) -> dict[str, Any]:
    """Return a row of DOCUMENTS for a statement that a person has added.

    Its metadata have no record: ``correct_extractions`` adds the statement, as it adds those that
    are cited by other documents, and so a person has the last word on its type.
    """
    said = line.decision
    assert isinstance(said, AddStatement)
    row = TableRow(
        line.number,
        said.id,
        said.source,
        said.target,
        type=said.type,
        description=said.description,
    )
    text = row.sentence()
    author = f", by {one_line(said.by)[:LONGEST_AUTHOR]}" if said.by else ""
    return {
        "id": said.document_id,
        # As with a row, the sign # keeps such a title out of headers: it says nothing of the text.
        "title": f"correction #{said.id}{author}",
        "text": text,
        "source": said.own_document,
        "metadata": as_json({"correction": said.id}),
        "content_hash": content_hash(author, text, ""),
        "title_from": "file_name",
        "date": "",
        "date_from": "",
        "aliases": [],
    }


def _record_of(row: TableRow) -> dict[str, Any]:
    """Return the parts of a row that records are made of, without empty ones."""
    parts = dataclasses.asdict(row)
    for name in ("line", "key", "document", "date", "properties", "valid_from", "valid_to"):
        del parts[name]
    # An empty list stays: it tells master data without aliases from other rows.
    filled = {name: value for name, value in parts.items() if value not in ("", None)}
    return filled | {"properties": row.attributes}


def _reject_row(file: InputFile, fault: Fault) -> dict[str, str]:
    """Return a row of REJECTS; its id is the file, with the line of the fault."""
    name = _name_of(file)
    place = f"{name}:{fault.line}" if fault.line else name
    message = clean(f"{place}: {fault.message}")
    return make_reject(place, fault.reason, message, _choose_kind(fault))


def _choose_kind(fault: Fault) -> str:
    """Return the kind of the reject; the docstring of ``read_table`` describes the kinds."""
    if fault.reason == GUESSED:
        return "recovered"
    if fault.reason in NO_TABLE:
        return "skipped"
    return "source" if fault.line is None else "row"
