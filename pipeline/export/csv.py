"""CSV for people: nodes.csv, edges.csv, and the texts they come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pipeline.export.exported import Exported
from pipeline.export.rows import joined, write_rows
from pipeline.export.source import GRAPH, Source

SEPARATOR = "; "
TEXT, INT, FLOAT = pa.large_string(), pa.int64(), pa.float64()


@dataclass(frozen=True)
class _File:
    """``lists``: the columns whose cells are lists, joined by SEPARATOR."""

    table: str
    columns: Mapping[str, pa.DataType]
    lists: tuple[str, ...] = ()

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: joined(frame[name], SEPARATOR) for name in self.lists})


FILES = {
    "nodes.csv": _File(
        "entities",
        {
            "id": TEXT, "name": TEXT, "type": TEXT, "description": TEXT, "frequency": INT, "degree": INT,
            "text_unit_ids": TEXT,
        },
        ("text_unit_ids",),
    ),
    "edges.csv": _File(
        "relationships",
        {
            "id": TEXT, "source": TEXT, "target": TEXT, "source_entity_id": TEXT, "target_entity_id": TEXT,
            "keywords": TEXT, "description": TEXT, "weight": FLOAT, "rank": INT, "text_unit_ids": TEXT,
        },
        ("keywords", "text_unit_ids"),
    ),
    "documents.csv": _File("documents", {"id": TEXT, "title": TEXT, "source": TEXT, "metadata": TEXT}),
    "text_units.csv": _File(
        "text_units",
        {"id": TEXT, "document_id": TEXT, "order": INT, "start": INT, "end": INT, "n_tokens": INT, "text": TEXT},
    ),
}  # fmt: skip


def write_csv(source: Source, folder: Path) -> Exported:
    """documents.csv and text_units.csv only where the workflow has such tables. Raises UsageError without a graph."""
    source.require(*GRAPH)
    files = {name: file for name, file in FILES.items() if source.has(file.table)}
    return Exported("csv", folder, {name: _write(source, folder, name, file) for name, file in files.items()})


def _write(source: Source, folder: Path, name: str, file: _File) -> int:
    frames = map(file.rows, source.batches(file.table, list(file.columns)))
    return write_rows(folder, name, pa.schema(list(file.columns.items())), frames)
