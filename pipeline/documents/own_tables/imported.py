"""Take a table into the folder of a project's own tables, and say what its rows are."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from pipeline.documents.own_tables.columns import (
    AS_NAMED,
    ENTITIES,
    FILE,
    FOLDER,
    TableColumns,
    parse_columns,
    read_columns,
)
from pipeline.documents.own_tables.files import GUESSED, KINDS, read_rows
from pipeline.documents.own_tables.rows import TableRow, read_row
from pipeline.documents.records import Fault
from pipeline.errors import UsageError
from pipeline.files import temporary_folder, write_text

SHOWN = 5
"""The number of faults whose messages are shown."""
HEADER = "# The columns of tables; docs/tables-of-your-own.md says what may be written here.\n"


@dataclass
class TableImport:
    """Numbers of the rows of a table. ``faults`` counts the rows that cannot be used, by reason."""

    name: str
    relationships: int = 0
    entities: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.relationships + self.entities


def describe_table(path: Path, columns: TableColumns) -> TableImport:
    """Return what the rows of a table are. Raises UsageError for a file that is no table."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; name a table")
    if path.name.startswith("."):
        raise UsageError(f"{path}: no run reads a hidden file; give it another name")
    if path.suffix.lower() not in KINDS:
        known = ", ".join(suffix[1:] for suffix in KINDS)
        raise UsageError(f"{path}: '{path.suffix}' is no table; convert it to one of {known}")
    found = TableImport(path.name)
    for record in read_rows(path, columns.encoding):
        item = record if isinstance(record, Fault) else read_row(record, columns)
        if isinstance(item, TableRow):
            found.entities += 1 if item.name else 0
            found.relationships += 0 if item.name else 1
            continue
        if item.reason != GUESSED:
            found.faults[item.reason] += 1
        if len(found.messages) < SHOWN:
            place = f"{path.name}:{item.line}" if item.line else path.name
            found.messages.append(f"{place}: {item.message}")
    return found


def columns_of_import(
    root: Path,
    path: Path,
    columns: Mapping[str, str],
    values: Mapping[str, str],
    is_master_data: bool = False,
) -> TableColumns:
    """Return the columns of a table: those that are given, over those that tables.yaml has.

    Raises UsageError for a field that does not exist.
    """
    known = read_columns(root / FOLDER).get(path.name, AS_NAMED)
    merged = {
        **known.model_dump(),
        "columns": {**known.columns, **columns},
        "values": {**known.values, **values},
    }
    if is_master_data:
        merged["kind"] = ENTITIES
    try:
        return TableColumns.model_validate(merged)
    except ValueError as error:
        fact = str(error).splitlines()[-2].strip().removeprefix("Value error, ")
        raise UsageError(f"{path.name}: {fact.partition(' [type=')[0]}") from None


def write_table(root: Path, path: Path, columns: TableColumns) -> None:
    """Put a table into the project, in place of one of that name, and its columns into
    tables.yaml."""
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    _write_columns(folder, path.name, columns)
    target = folder / path.name
    if target.exists() and target.samefile(path):
        return
    # A copy under a hidden name is no table, should this process end before it is whole.
    unfinished = folder / f".{path.name}.part"
    try:
        shutil.copyfile(path, unfinished)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def tried_folder(root: Path, path: Path, columns: TableColumns) -> Iterator[Path]:
    """Give a folder with the project's tables and one more, to tell what a run would do."""
    with temporary_folder("graphmill-tables-") as tried:
        if (root / FOLDER).is_dir():
            shutil.copytree(root / FOLDER, tried / FOLDER)
        write_table(tried, path, columns)
        yield tried


def _write_columns(folder: Path, name: str, columns: TableColumns) -> None:
    """Write what tables.yaml says of a table; the file stays as it is if it says that already."""
    known = dict(read_columns(folder))
    place = folder / FILE
    if known.get(name, AS_NAMED) == columns:
        # The file says that the folder has tables, even if it says nothing of their columns.
        if not place.exists():
            write_text(place, HEADER)
        return
    text = place.read_text(encoding="utf-8-sig") if place.exists() else HEADER
    entry = {name: columns.model_dump(exclude_defaults=True)}
    addition = yaml.safe_dump(entry, allow_unicode=True, sort_keys=False)
    if name not in known:
        # Comments and the order of a person's own lines stay.
        changed = f"{text.rstrip()}\n{addition}"
    else:
        known[name] = columns
        entries = {name: one.model_dump(exclude_defaults=True) for name, one in known.items()}
        changed = HEADER + yaml.safe_dump(entries, allow_unicode=True, sort_keys=False)
    parse_columns(changed, str(place))
    write_text(place, changed)
