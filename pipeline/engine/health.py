"""What the tables of a run say of its extraction."""

from collections.abc import Mapping

import pandas as pd

from pipeline.errors import DataError
from pipeline.snapshots import Snapshot, SnapshotStore

COLUMNS = {
    "text_units": ["id"],
    "extractions": ["text_unit_id", "kind", "grounded"],
    "merged_entities": ["id", "types", "descriptions"],
    "merged_relationships": ["source_entity_id", "target_entity_id"],
    "rejects": ["row_id", "kind"],
}


def health(tables: Mapping[str, Snapshot], snapshots: SnapshotStore) -> dict[str, float]:
    """Counts, as far as the workflow writes the tables they need: ``text_units``, those ``without_entities``,
    ``entities_per_unit``, ``ungrounded`` (names that do not stand in their text), ``orphan_relationships`` (with an end
    that no record describes).

    Raises DataError when nothing was extracted from any text unit that was not rejected.
    """
    if not {"text_units", "extractions"} <= set(tables):
        return {}
    read = {name: snapshots.columns(tables[name], columns) for name, columns in COLUMNS.items() if name in tables}
    units, found = read["text_units"], read["extractions"]
    entities = found[found["kind"] == "entity"]
    _refuse_all_empty(units, found, read["rejects"])
    counts = {
        "text_units": len(units),
        "without_entities": len(units) - entities["text_unit_id"].nunique(),
        "entities_per_unit": round(len(entities) / max(len(units), 1), 2),
        "ungrounded": int((~entities["grounded"].astype(bool)).sum()),
    }
    if "merged_entities" in read:
        counts["orphan_relationships"] = _orphans(read["merged_entities"], read["merged_relationships"])
    return counts


def _refuse_all_empty(units: pd.DataFrame, found: pd.DataFrame, rejects: pd.DataFrame) -> None:
    rejected = rejects.loc[rejects["kind"] == "row", "row_id"]
    answered = (~units["id"].isin(rejected)).sum()
    if answered and found.empty:
        raise DataError(
            f"extraction: not one entity in {answered:,} text units; look at the model and its context length with "
            "'graphmill doctor'; the stores are left as they are"
        )


def _orphans(entities: pd.DataFrame, relationships: pd.DataFrame) -> int:
    unknown = (entities["types"].map(len) == 0) & (entities["descriptions"].map(len) == 0)
    stubs = entities.loc[unknown, "id"]
    ends = relationships["source_entity_id"].isin(stubs) | relationships["target_entity_id"].isin(stubs)
    return int(ends.sum())
