"""What the tables of a run say of its extraction."""

from collections.abc import Mapping

import pandas as pd

from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.workflow import REJECTS
from pipeline.errors import DataError
from pipeline.snapshots.store import Snapshot, SnapshotStore

COLUMNS = {
    "text_units": ["id"],
    "extractions": ["text_unit_id", "kind", "grounded"],
    "merged_entities": ["id", "types", "descriptions"],
    "merged_relationships": ["source_entity_id", "target_entity_id"],
    "rejects": ["reason"],
}


def health(tables: Mapping[str, Snapshot], snapshots: SnapshotStore) -> dict[str, float]:
    """Counts, as far as the workflow writes the tables they need: ``text_units``, those ``without_entities``,
    ``entities_per_unit``, ``ungrounded`` (records with a name that does not stand in their text),
    ``orphan_relationships`` (with an end that no record describes). What was dropped for it is counted too."""
    if not {"text_units", "extractions"} <= set(tables):
        return {}
    read = {name: snapshots.read(tables[name], columns) for name, columns in COLUMNS.items() if name in tables}
    units, found = read["text_units"], read["extractions"]
    entities = found[found["kind"] == "entity"]
    dropped = read["rejects"]["reason"].value_counts()
    counts = {
        "text_units": len(units),
        "without_entities": len(units) - entities["text_unit_id"].nunique(),
        "entities_per_unit": round(len(entities) / max(len(units), 1), 2),
        "ungrounded": int((~found["grounded"].astype(bool)).sum() + dropped.get("ungrounded", 0)),
    }
    if "merged_entities" in read:
        stubs = _orphans(read["merged_entities"], read["merged_relationships"])
        counts["orphan_relationships"] = int(stubs + dropped.get("orphan", 0))
    return counts


def refuse_all_empty(
    inputs: Mapping[str, pd.DataFrame], outputs: Mapping[str, Snapshot], snapshots: SnapshotStore
) -> None:
    """Raises DataError when a step has written extractions, and there is none of any text unit that was not rejected:
    an answer to each, and not a word of use in them."""
    if "text_units" not in inputs or "extractions" not in outputs or outputs["extractions"].rows:
        return
    units = inputs["text_units"]["id"]
    rejects = snapshots.read(outputs[REJECTS], ["row_id", "kind"]) if REJECTS in outputs else REJECTS_SCHEMA.frame()
    answered = (~units.isin(rejects.loc[rejects["kind"] == "row", "row_id"])).sum()
    if answered:
        raise DataError(
            f"extraction: not one entity in {answered:,} text units; look at the model and its context length with "
            "'graphmill doctor'; the stores are left as they are, and the next run asks again"
        )


def _orphans(entities: pd.DataFrame, relationships: pd.DataFrame) -> int:
    unknown = (entities["types"].map(len) == 0) & (entities["descriptions"].map(len) == 0)
    stubs = entities.loc[unknown, "id"]
    ends = relationships["source_entity_id"].isin(stubs) | relationships["target_entity_id"].isin(stubs)
    return int(ends.sum())
