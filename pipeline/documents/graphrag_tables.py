"""Find and read the tables of an index of Microsoft GraphRAG (0.3 to 3.x)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.schemas import WIDE
from pipeline.errors import DataError, SettingsError
from pipeline.text.ids import digest

Row = dict[str, Any]

OF_MANY = frozenset(
    {"documents", "text_unit_ids", "entity_ids", "metadata", "types", "keywords", "findings"}
)
"""Our names of the columns whose cells may be lists or objects. Others hold texts or numbers."""
BELOW = ("", "output")
"""The folders that may hold the tables: the given one, or the usual one of a project below it."""


ERAS = 2
"""The number of names that each table has had, the newest first."""
_OLD_NAME = "create_final_"
"""The beginning of the names of files in GraphRAG 0.3 to 1."""


@dataclass(frozen=True)
class _Table:
    """A table of GraphRAG, whose names have changed between its versions.

    ``files`` holds the names of its file. ``needed`` and ``more`` map our names of columns to the
    names in the file; only columns in ``more`` may be missing. The newest names come first.
    An index need not have the table if ``is_optional``. GraphRAG 0.3 wrote the table without the
    column ``added_later``; such a table is not read.
    """

    files: Sequence[str]
    needed: Mapping[str, Sequence[str]]
    more: Mapping[str, Sequence[str]]
    is_optional: bool = False
    added_later: str = ""


TABLES: Mapping[str, _Table] = {
    "documents": _Table(
        files=("documents", "create_final_documents"),
        needed={"id": ("id",), "text": ("text", "raw_content")},
        more={
            "title": ("title",),
            "creation_date": ("creation_date",),
            "metadata": ("raw_data", "metadata", "attributes"),
            "text_unit_ids": ("text_unit_ids",),
        },
    ),
    "text_units": _Table(
        files=("text_units", "create_final_text_units"),
        needed={
            "id": ("id",),
            "text": ("text", "chunk"),
            "documents": ("document_id", "document_ids"),
        },
        more={},
    ),
    "entities": _Table(
        files=("entities", "create_final_entities"),
        needed={"name": ("title", "name"), "text_unit_ids": ("text_unit_ids",)},
        more={
            "id": ("id",),
            "type": ("type",),
            "description": ("description",),
            "frequency": ("frequency",),
            "types": ("types",),
        },
    ),
    "relationships": _Table(
        files=("relationships", "create_final_relationships"),
        needed={
            "source": ("source",),
            "target": ("target",),
            "text_unit_ids": ("text_unit_ids",),
        },
        more={
            "id": ("id",),
            "description": ("description",),
            "weight": ("weight",),
            "keywords": ("keywords",),
        },
    ),
    "communities": _Table(
        files=("communities", "create_final_communities"),
        needed={
            "community": ("community",),
            "level": ("level",),
            "parent": ("parent",),
            "entity_ids": ("entity_ids",),
        },
        more={"text_unit_ids": ("text_unit_ids",)},
        is_optional=True,
        added_later="entity_ids",
    ),
    "community_reports": _Table(
        files=("community_reports", "create_final_community_reports"),
        needed={
            "community": ("community",),
            "title": ("title",),
            "summary": ("summary",),
            "content": ("full_content",),
        },
        more={
            "rating": ("rank",),
            "rating_explanation": ("rating_explanation", "rank_explanation"),
            "findings": ("findings",),
        },
        is_optional=True,
    ),
    "covariates": _Table(
        files=("covariates", "create_final_covariates"),
        needed={
            "subject": ("subject_id",),
            "text_unit_ids": ("text_unit_id",),
            "description": ("description",),
        },
        more={
            "object": ("object_id",),
            "type": ("type",),
            "status": ("status",),
            "start_date": ("start_date",),
            "end_date": ("end_date",),
            "source_text": ("source_text",),
        },
        is_optional=True,
    ),
}


def graphrag_digest(folder: Path) -> str:
    """Return a hash of the content of all tables, and of the names and sizes of other files.

    Raises SettingsError if a table is missing and DataError if one cannot be read.
    """
    try:
        hashes = [_sha256(path) for path in _find_files(folder).values()]
        others = [part for other in list_other_files(folder) for part in other]
    except OSError as error:
        raise _unreadable(folder, error) from error
    return digest(*hashes, *others)


def read_graphrag_tables(folder: Path) -> dict[str, list[Row]]:
    """Return the rows of each table; a table that the index need not have may be empty.

    Columns have our names; missing ones are None. Raises SettingsError if a table is missing, and
    DataError if one is damaged or lacks a needed column.
    """
    files = _find_files(folder)
    return {
        name: _read_rows(files[name], table) if name in files else []
        for name, table in TABLES.items()
    }


def list_other_files(folder: Path) -> list[tuple[str, str]]:
    """Return the name of each file beside the tables that is not read, and what it holds.

    Tables of another run in the folder above are named, too.
    """
    read = set(_find_files(folder).values())
    place = next(path.parent for path in read if path.stem.endswith("documents"))
    paths = [path for path in sorted(place.iterdir()) if not path.name.startswith(".")]
    if place != folder:
        names = sorted(name for table in TABLES.values() for name in table.files)
        paths += [folder / f"{name}.parquet" for name in names]
    found: list[tuple[str, str]] = []
    for path in paths:
        if path in read or not path.exists():
            continue
        rows = _count_rows(path)
        content = "not read" if rows is None else f"{rows} rows, not read"
        name = path.name if path.parent == place else f"../{path.name}"
        found.append((name, content))
    return found


def _count_rows(path: Path) -> int | None:
    """Return the number of rows of a Parquet file; None for any other file."""
    if path.suffix != ".parquet" or not path.is_file():
        return None
    try:
        return pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowException, ValueError):
        return None


def _find_files(folder: Path) -> dict[str, Path]:
    """Map each table to its file. Raises SettingsError if the folder or a needed one is missing."""
    if not folder.is_dir():
        raise SettingsError(
            f"{folder}: no such folder; name one with the tables of a GraphRAG index, by"
            " 'graphmill import graphrag DIR' or graphrag.path"
        )
    for below in BELOW:
        for era in range(ERAS):
            files = _files_of_era(folder / below, era)
            if all(name in files for name, table in TABLES.items() if not table.is_optional):
                return files
    raise SettingsError(
        f"{folder}: {_describe_missing(folder)}; name the folder that GraphRAG wrote its tables to"
    )


def _files_of_era(folder: Path, era: int) -> dict[str, Path]:
    """Return the files of the tables in a folder that have the names of one era.

    A folder may still have tables of an earlier run: with other names, or in the folder above. They
    do not fit the newer ones.
    """
    files: dict[str, Path] = {}
    for name, table in TABLES.items():
        path = folder / f"{table.files[era]}.parquet"
        if path.is_file() and not _is_of_version_0_3(path, table):
            files[name] = path
    return files


def _describe_missing(folder: Path) -> str:
    """Return which needed table a folder lacks, the first one that is nowhere."""
    for table in TABLES.values():
        paths = [folder / below / f"{name}.parquet" for below in BELOW for name in table.files]
        if not table.is_optional and not any(path.is_file() for path in paths):
            return f"no {' or '.join(f'{name}.parquet' for name in table.files)}"
    return "no whole set of tables of one run"


def _is_of_version_0_3(path: Path, table: _Table) -> bool:
    """Check whether this is a table of GraphRAG 0.3 without the column that came later.

    Any other file that lacks a needed column is damaged, and reading it raises an error.
    """
    if not table.added_later or not path.stem.startswith(_OLD_NAME):
        return False
    try:
        have = pq.read_schema(path).names
    except (OSError, pa.ArrowException, ValueError):
        return False  # It is damaged: reading it raises the error that says so.
    return table.added_later not in have


def _read_rows(path: Path, table: _Table) -> list[Row]:
    """Return the rows of a file under our names of columns; missing cells are None."""
    try:
        with pq.ParquetFile(path, **WIDE) as file:
            columns = _match_columns(path, file.schema_arrow.names, table)
            _refuse_other_types(path, file.schema_arrow, columns)
            content = file.read(columns=list(columns.values()))
    except OSError as error:
        # Arrow also raises an OSError for bytes that it cannot read.
        raise _unreadable(path, error) from error
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"{path}: not readable as Parquet ({error}); write it again") from error
    cells = {name: content[column].to_pylist() for name, column in columns.items()}
    missing = dict.fromkeys([*table.needed, *table.more])
    rows: list[Row] = []
    for place in range(content.num_rows):
        present = {name: column[place] for name, column in cells.items()}
        rows.append(missing | present)
    return rows


def _match_columns(path: Path, have: Sequence[str], table: _Table) -> dict[str, str]:
    """Map our names to the columns of the file. Raises DataError if a needed one is missing."""
    found: dict[str, str] = {}
    for name, columns in {**table.needed, **table.more}.items():
        column = next((column for column in columns if column in have), None)
        if column is not None:
            found[name] = column
    for name, columns in table.needed.items():
        if name not in found:
            raise DataError(
                f"{path}: no column {' or '.join(columns)}; is it a table of GraphRAG 0.3 or later?"
            )
    return found


def _refuse_other_types(path: Path, schema: pa.Schema, columns: Mapping[str, str]) -> None:
    """Raise DataError for a column of bytes, lists or objects where texts or numbers are needed.

    A text made of such a cell would be false.
    """
    for name, column in columns.items():
        kind = schema.field(column).type
        is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if is_binary or (pa.types.is_nested(kind) and name not in OF_MANY):
            raise DataError(
                f"{path}: column {column} holds {kind} in place of texts or numbers; write the"
                " table again"
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it, or write it again")
