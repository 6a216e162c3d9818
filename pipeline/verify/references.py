"""Ids that lead nowhere: in the snapshots of a run, and in what the stores hold; and what people
call a row."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import is_list
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore
from pipeline.stores.list_columns import to_arrow
from pipeline.text.ids import clean_name

SHOWN = 10
LONGEST = 60
NAMES = (
    ["title"], ["entity_name"], ["display_name"], ["name"], ["src_id", "tgt_id"],
    ["source", "target"],
    ["subject", "object"], ["content"], ["text"], ["entity_id"], ["id"],
)  # fmt: skip
"""Columns that name a row, in snapshots and stores; the first that a table has."""


@dataclass(frozen=True, order=True)
class NamedRow:
    name: str
    id: str


def name_columns(columns: Collection[str]) -> list[str]:
    """Which of a table's columns name its rows."""
    return next(names for names in NAMES if set(names) <= set(columns))


def row_names(rows: pd.DataFrame) -> list[str]:
    """A short line for each row."""
    cells = zip(*(rows[column] for column in name_columns(rows.columns)), strict=True)
    return [_line(" -> ".join(str(cell) for cell in row)) for row in cells]


def first_named(rows: Iterable[NamedRow]) -> tuple[NamedRow, ...]:
    """The first few by name."""
    return tuple(sorted(rows)[:SHOWN])


def _line(name: str) -> str:
    line = clean_name(name)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()

IN_SNAPSHOTS = {
    "text_units": {"document_id": "documents"},
    "mentions": {"entity_id": "entities", "text_unit_id": "text_units"},
    "entities": {"text_unit_ids": "text_units"},
    "relationships": {
        "source_entity_id": "entities", "target_entity_id": "entities",
        "text_unit_ids": "text_units",
    },
    "communities": {
        "parent": "communities", "children": "communities", "entity_ids": "entities",
        "relationship_ids": "relationships", "text_unit_ids": "text_units",
    },
    "nodes": {"entity_id": "entities", "community_id": "communities"},
    "community_reports": {"id": "communities", "parent": "communities",
        "text_unit_ids": "text_units"},
    "covariates": {"text_unit_id": "text_units"},
}  # fmt: skip
"""Table -> column, of an id or a list of ids -> the table these are in. An empty text refers to
nothing."""

IN_STORES = {
    "chunks": {"full_doc_id": "documents"},
    "reports": {"id": "communities", "chunk_ids": "chunks"},
    "claims": {"text_unit_id": "chunks"},
    "sources": {"chunk_ids": "chunks"},
    "edges": {"source_entity_id": "nodes", "target_entity_id": "nodes"},
    "sourced_nodes": {"source_id": "chunks"},
    "sourced_edges": {
        "source_entity_id": "nodes",
        "target_entity_id": "nodes",
        "source_id": "chunks",
    },
    "communities": {"parent": "communities", "entity_ids": "nodes"},
}
"""As IN_SNAPSHOTS, of the stores' tables; those that they lead to as people call them."""


@dataclass(frozen=True)
class Dangling:
    """``count`` ids in the column lead to no row of the table ``target``; ``where``: "snapshots" or
    a store. ``examples``: the first of them, with the name of the row that has the id."""

    where: str
    table: str
    column: str
    target: str
    count: int
    examples: tuple[NamedRow, ...]


@dataclass
class References:
    """Collects the dangling ids of one table, which may come in parts. ``ids``: of the tables they
    lead to."""

    where: str
    table: str
    columns: Mapping[str, str]
    ids: Mapping[str, pa.Array | pa.ChunkedArray]
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[NamedRow, ...]] = field(default_factory=dict)

    def look(self, part: pd.DataFrame) -> None:
        """Each part costs as much as there are ids that it may lead to."""
        for column in self.columns:
            self.look_at(column, to_arrow(part[column]), part.iloc.__getitem__)

    def look_at(
        self,
        column: str,
        cells: pa.Array | pa.ChunkedArray,
        rows: Callable[[np.ndarray], pd.DataFrame],
    ) -> None:
        """``rows``: what is named of those at some places."""
        nested = is_list(cells.type)
        ids = (pc.list_flatten(cells) if nested else cells).cast(TEXT)
        known = pc.is_in(ids, value_set=self.ids[self.columns[column]])
        lost = pc.and_(pc.fill_null(pc.not_equal(ids, ""), False), pc.invert(known))
        if not pc.any(lost).as_py():
            return
        places = pc.list_parent_indices(cells) if nested else pa.array(np.arange(len(cells)))
        found = ids.filter(lost).to_pylist()
        names = row_names(rows(places.filter(lost).to_numpy()))
        self.counts[column] += len(found)
        self.examples[column] = first_named(
            [*self.examples.get(column, ()), *map(NamedRow, names, found)]
        )

    def dangling(self) -> list[Dangling]:
        return [
            Dangling(
                self.where, self.table, column, self.columns[column], count, self.examples[column]
            )
            for column, count in self.counts.items()
        ]


def dangling_in_snapshots(manifest: Manifest, snapshots: SnapshotStore) -> list[Dangling]:
    """Raises DataError when a snapshot is gone or damaged."""

    @cache
    def ids_of(table: str) -> pa.ChunkedArray:
        return snapshots.tables.read_arrow(manifest.tables[table], ["id"])["id"].cast(TEXT)

    found: list[Dangling] = []
    for table, columns in IN_SNAPSHOTS.items():
        if table in manifest.tables:
            ids = {target: ids_of(target) for target in sorted(set(columns.values()))}
            references = References("snapshots", table, columns, ids)
            for name in columns:
                cells = snapshots.tables.read_arrow(manifest.tables[table], [name])[name]
                references.look_at(
                    name, cells, partial(_named_rows, snapshots, manifest.tables[table])
                )
            found += references.dangling()
    return found


def _named_rows(snapshots: SnapshotStore, snapshot: Snapshot, places: np.ndarray) -> pd.DataFrame:
    rows = snapshots.tables.read_arrow(snapshot)
    return rows.select(name_columns(rows.column_names)).take(pa.array(places)).to_pandas()
