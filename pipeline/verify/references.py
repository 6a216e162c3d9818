"""Finds dangling references: ids of rows that do not exist, in the snapshots of a run or in the
stores. Also names rows for people."""

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
"""The number of examples that are kept."""
LONGEST = 60
"""The largest number of characters of a row's name."""
NAMES = (
    ["title"], ["entity_name"], ["display_name"], ["name"], ["src_id", "tgt_id"],
    ["source", "target"],
    ["subject", "object"], ["content"], ["text"], ["entity_id"], ["id"],
)  # fmt: skip
"""Columns that name a row, in snapshots and stores. The first entry applies whose columns a table
has."""


@dataclass(frozen=True, order=True)
class NamedRow:
    """A row as people recognise it: its name, and an id of it or in it."""

    name: str
    id: str


def name_columns(columns: Collection[str]) -> list[str]:
    """Return the columns that name the rows of a table with these columns."""
    return next(names for names in NAMES if set(names) <= set(columns))


def row_names(rows: pd.DataFrame) -> list[str]:
    """Return a name for each row: one line of up to LONGEST characters."""
    columns = [rows[column] for column in name_columns(rows.columns)]
    names: list[str] = []
    for cells in zip(*columns, strict=True):
        # A relationship, whose ends are two columns, is called "source -> target".
        name = " -> ".join(map(str, cells))
        names.append(_shorten(name))
    return names


def first_named(rows: Iterable[NamedRow]) -> tuple[NamedRow, ...]:
    """Return the first SHOWN rows by name."""
    return tuple(sorted(rows)[:SHOWN])


def _shorten(name: str) -> str:
    line = clean_name(name)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

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
    "statements": {"relationship_id": "relationships", "text_unit_id": "text_units"},
    "attributes": {
        "entity_id": "entities", "text_unit_id": "text_units", "document_id": "documents",
    },
    "near_duplicates": {"left_id": "documents", "right_id": "documents"},
    "text_unit_headers": {"id": "text_units"},
}  # fmt: skip
"""Table of snapshots -> column with an id or a list of ids -> the table that these ids refer to.

An empty text refers to nothing."""

IN_STORES = {
    "chunks": {"full_doc_id": "documents"},
    "reports": {"id": "communities", "chunk_ids": "chunks"},
    "claims": {"text_unit_id": "chunks"},
    "statements": {"relationship_id": "relationships", "text_unit_id": "chunks"},
    "attributes": {"entity_id": "entities", "text_unit_id": "chunks", "document_id": "documents"},
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
"""Table of stores -> column with an id or a list of ids -> the table that these ids refer to, by
the name that reports use."""


@dataclass(frozen=True)
class Dangling:
    """The dangling references in one column: ``count`` of them lead to no row of ``target``.

    ``where``: "snapshots" or the name of a store. ``examples``: the first dangling ids, each with
    the name of the row that refers to it.
    """

    where: str
    table: str
    column: str
    target: str
    count: int
    examples: tuple[NamedRow, ...]


@dataclass
class References:
    """Collects the dangling references of one table, whose rows may come in parts.

    ``columns``: the columns with ids, and the tables they refer to. ``ids``: the ids of the rows of
    these tables.
    """

    where: str
    table: str
    columns: Mapping[str, str]
    ids: Mapping[str, pa.Array | pa.ChunkedArray]
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[NamedRow, ...]] = field(default_factory=dict)

    def check(self, rows: pd.DataFrame) -> None:
        """Check all columns of some rows.

        Each call builds a hash table of all ids that the rows may refer to, so use few calls.
        """
        for column in self.columns:
            self.check_column(column, to_arrow(rows[column]), rows.iloc.__getitem__)

    def check_column(
        self,
        column: str,
        cells: pa.Array | pa.ChunkedArray,
        rows_at: Callable[[np.ndarray], pd.DataFrame],
    ) -> None:
        """Check the cells of one column.

        ``rows_at``: returns rows by their positions; their names are shown with the examples.
        """
        holds_lists = is_list(cells.type)
        references = pc.list_flatten(cells) if holds_lists else cells
        references = references.cast(TEXT)
        known_ids = self.ids[self.columns[column]]
        is_known = pc.is_in(references, value_set=known_ids)
        # An empty text, and null, refer to nothing.
        is_reference = pc.fill_null(pc.not_equal(references, ""), False)
        is_dangling = pc.and_(is_reference, pc.invert(is_known))
        if not pc.any(is_dangling).as_py():
            return
        # Positions are made only now: usually nothing dangles.
        if holds_lists:
            positions = pc.list_parent_indices(cells)
        else:
            positions = pa.array(np.arange(len(cells)))
        dangling = references.filter(is_dangling).to_pylist()
        referring_rows = rows_at(positions.filter(is_dangling).to_numpy())
        self.counts[column] += len(dangling)
        new_examples = map(NamedRow, row_names(referring_rows), dangling)
        earlier_examples = self.examples.get(column, ())
        self.examples[column] = first_named([*earlier_examples, *new_examples])

    def dangling(self) -> list[Dangling]:
        """Return the dangling references found so far, one entry for each column."""
        found: list[Dangling] = []
        for column, count in self.counts.items():
            of_column = Dangling(
                where=self.where,
                table=self.table,
                column=column,
                target=self.columns[column],
                count=count,
                examples=self.examples[column],
            )
            found.append(of_column)
        return found


def dangling_in_snapshots(manifest: Manifest, snapshots: SnapshotStore) -> list[Dangling]:
    """Return the dangling references in the snapshots of a manifest.

    Raises DataError when a snapshot is missing or damaged.
    """

    @cache
    def ids_of(table: str) -> pa.ChunkedArray:
        return snapshots.tables.read_arrow(manifest.tables[table], ["id"])["id"].cast(TEXT)

    found: list[Dangling] = []
    for table, columns in IN_SNAPSHOTS.items():
        snapshot = manifest.tables.get(table)
        if snapshot is None:
            continue
        ids = {target: ids_of(target) for target in sorted(set(columns.values()))}
        references = References("snapshots", table, columns, ids)
        rows_at = partial(_read_name_columns, snapshots, snapshot)
        for name in columns:
            cells = snapshots.tables.read_arrow(snapshot, [name])[name]
            references.check_column(name, cells, rows_at)
        found += references.dangling()
    return found


def _read_name_columns(
    snapshots: SnapshotStore, snapshot: Snapshot, positions: np.ndarray
) -> pd.DataFrame:
    """Read the columns that name rows, of the rows at these positions."""
    table = snapshots.tables.read_arrow(snapshot)
    names = table.select(name_columns(table.column_names))
    rows = names.take(pa.array(positions))
    return rows.to_pandas()
