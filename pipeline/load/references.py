"""Ids that lead nowhere: in the snapshots of a run, and in what the stores hold."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd

from pipeline.load.naming import Named, first_named, row_names
from pipeline.snapshots import Manifest, SnapshotStore

IN_SNAPSHOTS = {
    "text_units": {"document_id": "documents"},
    "mentions": {"entity_id": "entities", "text_unit_id": "text_units"},
    "entities": {"text_unit_ids": "text_units"},
    "relationships": {
        "source_entity_id": "entities", "target_entity_id": "entities", "text_unit_ids": "text_units",
    },
    "communities": {
        "parent": "communities", "children": "communities", "entity_ids": "entities",
        "relationship_ids": "relationships", "text_unit_ids": "text_units",
    },
    "nodes": {"entity_id": "entities", "community_id": "communities"},
    "community_reports": {"id": "communities", "parent": "communities", "text_unit_ids": "text_units"},
    "covariates": {"text_unit_id": "text_units"},
}  # fmt: skip
"""Table -> column, of an id or a list of ids -> the table these are in. An empty text refers to nothing."""

IN_STORES = {
    "chunks": {"full_doc_id": "documents"},
    "reports": {"id": "communities", "chunk_ids": "chunks"},
    "claims": {"text_unit_id": "chunks"},
    "nodes": {"source_id": "chunks"},
    "edges": {"source_entity_id": "nodes", "target_entity_id": "nodes", "source_id": "chunks"},
    "communities": {"parent": "communities", "entity_ids": "nodes"},
}


@dataclass(frozen=True)
class Dangling:
    """``count`` ids in the column lead to no row of the table ``target``; ``where``: "snapshots" or a store.
    ``examples``: the first of them, with the name of the row that has the id."""

    where: str
    table: str
    column: str
    target: str
    count: int
    examples: tuple[Named, ...]


@dataclass
class References:
    """Collects the dangling ids of one table, which may come in parts. ``ids``: of the tables they lead to."""

    where: str
    table: str
    columns: Mapping[str, str]
    ids: Mapping[str, Collection[str]]
    found: dict[str, list[Named]] = field(default_factory=dict)

    def look(self, part: pd.DataFrame) -> None:
        rows = part.reset_index(drop=True)
        for column, target in self.columns.items():
            ids = rows[column].explode()
            lost = ids[ids.notna() & (ids != "") & ~ids.isin(self.ids[target])]
            names = row_names(rows.loc[lost.index])
            self.found.setdefault(column, []).extend(map(Named, names, lost))

    def dangling(self) -> list[Dangling]:
        return [
            Dangling(self.where, self.table, column, self.columns[column], len(rows), first_named(rows))
            for column, rows in self.found.items()
            if rows
        ]


def dangling_in_snapshots(manifest: Manifest, snapshots: SnapshotStore) -> list[Dangling]:
    """Raises DataError when a snapshot is gone or damaged."""
    found = []
    for table, columns in IN_SNAPSHOTS.items():
        if table in manifest.tables:
            ids = {target: _ids(manifest, snapshots, target) for target in sorted(set(columns.values()))}
            references = References("snapshots", table, columns, ids)
            references.look(snapshots.read(manifest.tables[table]))
            found += references.dangling()
    return found


def _ids(manifest: Manifest, snapshots: SnapshotStore, table: str) -> Collection[str]:
    return snapshots.columns(manifest.tables[table], ["id"])["id"].tolist()
