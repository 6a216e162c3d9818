"""Write the rows of a query in another graph as a table of the project."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.documents.own_tables.columns import TableColumns
from pipeline.errors import UsageError
from pipeline.text.ids import digest

SUFFIX = ".jsonl"
"""The suffix of such a table: JSON Lines are written and read with bounded memory."""
_DIGITS = 8
"""Hexadecimal digits that tell the queries of a project apart."""
EXAMPLE = (
    "write one such as MATCH (a)-[r]->(b) RETURN a.name AS source, type(r) AS type,"
    " b.name AS target, properties(r) AS properties"
)


def name_table(url: str, query: str, name: str) -> str:
    """Return the file name of a table: ``name``, or else one that the query always has.

    Raises UsageError for a name that is none of a visible file in the folder.
    """
    if not name:
        return f"cypher-{digest(url, query)[:_DIGITS]}{SUFFIX}"
    if name.startswith(".") or set(name) & set("/\\"):
        raise UsageError(f"--table {name}: no name of a file; write one such as firms")
    return f"{name.removesuffix(SUFFIX)}{SUFFIX}"


def write_rows(
    path: Path, names: Sequence[str], rows: Iterable[Mapping[str, Any]], columns: TableColumns
) -> None:
    """Write rows as JSON Lines, one at a time.

    ``names`` are the columns of the query. Raises UsageError, with an example, if they name neither
    two ends nor an entity, or if there are no rows.
    """
    _check_columns(names, columns)
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False))
            stream.write("\n")
            count += 1
    if not count:
        raise UsageError(f"QUERY: it has no rows, and nothing was written; {EXAMPLE}")


def _check_columns(names: Sequence[str], columns: TableColumns) -> None:
    """Raise UsageError if no row with these columns can be used."""
    spelled = {name.casefold() for name in names}

    def has(field: str) -> bool:
        return columns.columns.get(field, field).casefold() in spelled

    if (has("source") and has("target")) or has("name"):
        return
    given = ", ".join(names) or "none"
    raise UsageError(
        f"QUERY: its columns are {given}, without 'source' and 'target', or 'name'; {EXAMPLE}"
    )
