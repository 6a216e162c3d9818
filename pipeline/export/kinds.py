"""The kinds of export by their names, and the export of CSV files for people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import ATTRIBUTES
from pipeline.errors import UsageError
from pipeline.export.graph import SEPARATOR, write_graphml
from pipeline.export.graphrag_parquet import write_graphrag_parquet
from pipeline.export.memberships import memberships
from pipeline.export.neo4j_admin import write_neo4j_admin
from pipeline.export.source import (
    GRAPH,
    ExportReport,
    ExportSource,
    check_folder,
    joined,
    write_rows,
)

TEXT, INT, FLOAT = pa.large_string(), pa.int64(), pa.float64()


@dataclass(frozen=True)
class _File:
    """A CSV file: the table and the columns that it is made of.

    ``lists``: the columns whose cells are lists, which become one text joined by SEPARATOR.
    """

    table: str
    columns: Mapping[str, pa.DataType]
    lists: tuple[str, ...] = ()

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows of the table as rows of the file."""
        return frame.assign(**{name: joined(frame[name], SEPARATOR) for name in self.lists})


NODES = "nodes.csv"
FILES = {
    NODES: _File(
        "entities",
        {
            "id": TEXT, "name": TEXT, "type": TEXT, "description": TEXT, "frequency": INT,
            "degree": INT,
            "text_unit_ids": TEXT,
        },
        ("text_unit_ids",),
    ),
    "edges.csv": _File(
        "relationships",
        {
            "id": TEXT, "source": TEXT, "target": TEXT, "source_entity_id": TEXT,
            "target_entity_id": TEXT,
            "keywords": TEXT, "description": TEXT, "weight": FLOAT, "rank": INT,
            "text_unit_ids": TEXT,
        },
        ("keywords", "text_unit_ids"),
    ),
    "communities.csv": _File(
        "communities", {"id": TEXT, "level": INT, "parent": TEXT, "title": TEXT, "size": INT},
    ),
    "documents.csv": _File("documents", {"id": TEXT, "title": TEXT, "source": TEXT,
        "metadata": TEXT}),
    "text_units.csv": _File(
        "text_units",
        {"id": TEXT, "document_id": TEXT, "order": INT, "start": INT, "end": INT, "n_tokens": INT,
            "text": TEXT},
    ),
    "statements.csv": _File(
        "statements",
        {"id": TEXT, "relationship_id": TEXT, "text_unit_id": TEXT, "type": TEXT,
            "description": TEXT, "valid_from": TEXT, "valid_to": TEXT, "attributes": TEXT},
    ),
    "attributes.csv": _File("attributes", dict.fromkeys(ATTRIBUTES.columns, TEXT)),
}  # fmt: skip
_MEMBERSHIP_TYPES = {"level": INT, "x": FLOAT, "y": FLOAT}


def write_csv(source: ExportSource, folder: Path) -> ExportReport:
    """Write nodes.csv and edges.csv, and the other FILES whose tables the workflow makes.

    Raises UsageError if the workflow makes no graph.
    """
    source.require(*GRAPH)
    rows_of: dict[str, int] = {}
    for name, file in FILES.items():
        if source.has(file.table):
            rows_of[name] = _write_file(source, folder, name, file)
    return ExportReport("csv", folder, rows_of)


def _write_file(source: ExportSource, folder: Path, name: str, file: _File) -> int:
    """Write one of the FILES; return the number of its rows. Nodes get their memberships."""
    columns = dict(file.columns)
    frames = map(file.rows, source.batches(file.table, list(file.columns)))
    if name == NODES:
        beside = memberships(source)
        for column in beside.columns:
            columns[column] = _MEMBERSHIP_TYPES.get(column, TEXT)
        frames = (rows.join(beside, on="id") for rows in frames)
    return write_rows(folder, name, pa.schema(list(columns.items())), frames)


KINDS: Mapping[str, Callable[[ExportSource, Path], ExportReport]] = {
    "graphml": write_graphml,
    "csv": write_csv,
    "neo4j-admin": write_neo4j_admin,
    "parquet": write_graphrag_parquet,
}


def export(kind: str, source: ExportSource, folder: Path, force: bool = False) -> ExportReport:
    """Write the source's tables into the folder, which is created if it does not exist.

    ``kind``: one of KINDS. Raises UsageError for an unknown kind, for missing tables, and for a
    folder that cannot be written to or, unless ``force``, is not empty. Raises DataError when a
    snapshot is damaged.
    """
    if kind not in KINDS:
        raise UsageError(f"export: no kind '{kind}'; have: {', '.join(KINDS)}")
    try:
        check_folder(folder, force)
        return KINDS[kind](source, folder)
    except OSError as error:
        raise UsageError(
            f"export: {folder}: {error.strerror or error}; name a folder you may write to"
        ) from error
