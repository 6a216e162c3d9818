"""What the tables of a run say of its extraction."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.contract.schemas import NAMING, TITLE_FROM
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.workflow import REJECTS
from pipeline.errors import DataError
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.text.ids import match_key

COLUMNS = {
    "documents": ["id", "title", TITLE_FROM],
    "text_units": ["id", "document_id"],
    "extractions": ["text_unit_id", "kind", "name", "grounded"],
    "merged_entities": ["id", "types", "descriptions"],
    "merged_relationships": ["source_entity_id", "target_entity_id"],
    "rejects": ["reason"],
}
MOST_FORMS = 3
"""Entities that the title of a document may be: itself, without its brackets, and what stands in them."""
MANY_WITHOUT_NAMES = 0.5
"""Of the text units those in which nothing was found, from which on a run says so."""


def health(tables: Mapping[str, Snapshot], snapshots: SnapshotStore) -> dict[str, float]:
    """Counts, as far as the workflow writes the tables they need: ``text_units``, those ``without_entities``, those
    of whose text no entity is but the title of their document (``only_title``), ``entities_per_unit``, ``ungrounded``
    (records with a name that does not stand in their text), ``orphan_relationships`` (with an end that no record
    describes). What was dropped for it is counted too."""
    if not {"text_units", "extractions"} <= set(tables):
        return {}
    read = {name: _some_of(tables[name], COLUMNS[name], snapshots) for name in COLUMNS if name in tables}
    units, found = read["text_units"], read["extractions"]
    entities = found[found["kind"] == "entity"]
    dropped = read["rejects"]["reason"].value_counts()
    counts = {
        "text_units": len(units),
        "without_entities": len(units) - entities["text_unit_id"].nunique(),
        "only_title": _only_title(read.get("documents"), units, entities),
        "entities_per_unit": round(len(entities) / max(len(units), 1), 2),
        "ungrounded": int((~found["grounded"].astype(bool)).sum() + dropped.get("ungrounded", 0)),
    }
    if "merged_entities" in read:
        stubs = _orphans(read["merged_entities"], read["merged_relationships"])
        counts["orphan_relationships"] = int(stubs + dropped.get("orphan", 0))
    return counts


def _some_of(snapshot: Snapshot, columns: Sequence[str], snapshots: SnapshotStore) -> pd.DataFrame:
    """Of these columns those that the table has: one of an earlier version may lack some."""
    there = snapshots.columns(snapshot)
    return snapshots.read(snapshot, [column for column in columns if column in there])


def why_nothing_found(health: Mapping[str, float]) -> str | None:
    """A word on a text of which next to nothing was found, for a run's notes."""
    units, empty = health.get("text_units", 0), health.get("without_entities", 0) + health.get("only_title", 0)
    if not units or empty < MANY_WITHOUT_NAMES * units:
        return None
    return (
        f"extraction: in {empty:,.0f} of {units:,.0f} text units nothing was found but the title of their document; "
        "of scripts without capital letters 'extract_graph_fast' reads little but what a text repeats: a chat model "
        "reads them ('index')"
    )


def refuse_all_empty(
    inputs: Mapping[str, pd.DataFrame], outputs: Mapping[str, Snapshot], snapshots: SnapshotStore
) -> None:
    """Of a step that asks a model. Raises DataError when it has written extractions, and there is none of any text unit
    that was not rejected: an answer to each, and not a word of use in them."""
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


def _only_title(documents: pd.DataFrame | None, units: pd.DataFrame, entities: pd.DataFrame) -> int:
    """Text units whose entities are all named as the title, or a part of it as "Lamp" of "Lamp (film)", is."""
    if documents is None:
        return 0
    named = entities[["text_unit_id", "name"]].drop_duplicates()
    counts = named["text_unit_id"].value_counts()
    few = named[named["text_unit_id"].isin(counts.index[counts <= MOST_FORMS])]
    found = documents[TITLE_FROM].fillna("") if TITLE_FROM in documents else pd.Series("", documents.index)
    titles = documents["title"].where(found.isin(NAMING), "").set_axis(documents["id"])
    of_unit = units.set_index("id")["document_id"].map(titles).fillna("")
    keys = {title: match_key(title) for title in of_unit.unique()}
    is_title = [
        match_key(name) in keys.get(of_unit.get(unit), "") for unit, name in few.itertuples(index=False, name=None)
    ]
    return int(few.assign(is_title=is_title).groupby("text_unit_id")["is_title"].all().sum())


def _orphans(entities: pd.DataFrame, relationships: pd.DataFrame) -> int:
    unknown = (entities["types"].map(len) == 0) & (entities["descriptions"].map(len) == 0)
    stubs = entities.loc[unknown, "id"]
    ends = relationships["source_entity_id"].isin(stubs) | relationships["target_entity_id"].isin(stubs)
    return int(ends.sum())
