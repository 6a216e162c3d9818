"""list_statements: list the facts that text units state of the ends of each relationship.

A relationship unites all that is said of its two ends in one direction. Its statements keep apart
what it unites: each has the text unit that it comes from, and a type of its own.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contract.laws import Law, Part, Uses
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    CO_OCCURS,
    RELATIONSHIP_RECORDS,
    STATEMENTS,
    STRING,
    STRINGS,
    table,
)
from pipeline.ontology.property_values import parse_attributes
from pipeline.text.ids import statement_id
from pipeline.verbs.merging.codes import one_array, pc
from pipeline.verbs.merging.merged_entities import groups_of_merged

NO_ATTRIBUTES = "{}"
STATING_RECORDS = replace(
    table(
        "text_unit_id", "id",
        id=STRING, text_unit_id=STRING, description=STRING, keywords=STRINGS, fault=STRING,
        attributes=STRING,
    ),
    optional=("attributes",),
)  # fmt: skip
"""The columns of RELATIONSHIP_RECORDS that statements are made of.

The order of records is not among them: a record that only changes its place states the same.
"""
RECORD_ENDS = table(
    "text_unit_id", "id",
    text_unit_id=STRING, id=STRING, source_entity_id=STRING, target_entity_id=STRING, fault=STRING,
)  # fmt: skip
"""The columns of RELATIONSHIP_RECORDS that say between which entities a record was merged."""
RELATIONSHIP_IDS = table("id", id=STRING)
"""The column of relationships that says which ones the graph has."""
LINKS = table("id", id=STRING, source_entity_id=STRING, target_entity_id=STRING)
"""The columns of relationships that say which entities they lead between."""
DECISIONS = table("left_id", "right_id", left_id=STRING, right_id=STRING, decision=STRING)
"""The columns of RESOLUTIONS that say which entities became one."""
MOVED = table("id", id=STRING, resolved_id=STRING)
"""Relationships as they were merged, and what they became when names were resolved."""


@verb(
    inputs={"relationship_records": STATING_RECORDS, "relationships": RELATIONSHIP_IDS},
    outputs={"statements": STATEMENTS},
    keyed={"relationship_records": ("id",), "relationships": ("id",)},
    row_of={"statements": "relationship_id"},
)
def list_statements(
    relationship_records: pd.DataFrame, relationships: pd.DataFrame
) -> pd.DataFrame:
    """Return a statement for each record that states something of the ends of a relationship.

    ``type`` is the record's first keyword, or empty if it has none. A record whose first keyword is
    CO_OCCURS states nothing. Left out are records with a fault, and those of relationships that
    ``relationships`` does not have, as after prune_graph. ``valid_from`` and ``valid_to`` are
    empty. ``attributes`` are the record's own; an empty JSON object where it has none. After
    resolve_entities use ``list_resolved_statements``.
    """
    is_sound = relationship_records["fault"] == ""
    is_kept = relationship_records["id"].isin(relationships["id"])
    return _make_statements(relationship_records[is_sound & is_kept])


def find_moved(
    relationship_records: pd.DataFrame, relationships: pd.DataFrame, resolutions: pd.DataFrame
) -> pd.DataFrame:
    """Return MOVED: the relationships of records that resolve_entities gave another id.

    ``relationship_records`` are RECORD_ENDS; ``relationships`` are those of the resolved graph.
    """
    component_of: dict[Any, str] = {}
    for members in groups_of_merged(resolutions):
        component_of |= dict.fromkeys(members, min(members))

    # One entity of a component is left, so at most one relationship leads from one to another.
    resolved_ids: dict[Any, str] = {}
    cells: Any = relationships[LINKS.columns].itertuples(index=False, name=None)
    for id, source, target in cells:
        ends = component_of.get(source, source), component_of.get(target, target)
        resolved_ids[ends] = id
    sound = relationship_records[relationship_records["fault"] == ""].drop_duplicates("id")
    rows: list[Any] = []
    cells = sound[LINKS.columns].itertuples(index=False, name=None)
    for id, source, target in cells:
        ends = component_of.get(source, source), component_of.get(target, target)
        resolved_id: Any = resolved_ids.get(ends, id)
        if resolved_id != id:
            rows.append((id, resolved_id))
    return MOVED.frame(rows)


def list_moved_statements(
    relationship_records: pd.DataFrame, relationships: pd.DataFrame, moved: pd.DataFrame
) -> pd.DataFrame:
    """Return the statements of records whose relationship is there, or has become another one."""
    new_ids = dict(zip(moved["id"], moved["resolved_id"], strict=True))
    ids = relationship_records["id"]
    records = relationship_records.assign(id=ids.map(new_ids).where(ids.isin(new_ids), ids))
    return list_statements(records, relationships)


def _list_resolving_parts(params: Params) -> tuple[Part, ...]:
    """Return the sub-steps of list_resolved_statements.

    The second one works on text units, not on relationships: a resolved relationship has records of
    several merged ones, and equal statements of one text unit are numbered together.
    """
    moved = Part(
        find_moved,
        {
            "relationship_records": RECORD_ENDS,
            "relationships": LINKS,
            "resolutions": DECISIONS,
        },
        {"moved": MOVED},
        None,
    )
    statements = Part(
        list_moved_statements,
        {
            "relationship_records": STATING_RECORDS,
            "relationships": RELATIONSHIP_IDS,
            "moved": MOVED,
        },
        {"statements": STATEMENTS},
        Law(
            {"relationship_records": ("text_unit_id",)},
            row_of={"statements": "text_unit_id"},
            lookup={
                "relationships": Uses("relationship_records", ("id",)),
                "moved": Uses("relationship_records", ("id",)),
            },
        ),
    )
    return moved, statements


@verb(
    inputs={
        "relationship_records": RELATIONSHIP_RECORDS,
        "relationships": LINKS,
        "resolutions": DECISIONS,
    },
    outputs={"statements": STATEMENTS},
    parts=_list_resolving_parts,
)
def list_resolved_statements(
    relationship_records: pd.DataFrame, relationships: pd.DataFrame, resolutions: pd.DataFrame
) -> pd.DataFrame:
    """Return what list_statements returns, for a graph whose names were resolved.

    The records are those of the graph before. Their statements belong to the relationships that
    theirs became by ``resolutions``, a table of resolve_entities.
    """
    moved = find_moved(relationship_records, relationships, resolutions)
    return list_moved_statements(relationship_records, relationships, moved)


def _make_statements(records: pd.DataFrame) -> pd.DataFrame:
    """Return the statements of records; those that state nothing are left out."""
    types = _first_keywords(records["keywords"])
    states_something = types != CO_OCCURS
    stating = records[states_something]
    rows = pd.DataFrame(
        {
            "relationship_id": stating["id"].to_numpy(),
            "text_unit_id": stating["text_unit_id"].to_numpy(),
            "type": types[states_something],
            "description": stating["description"].to_numpy(),
            "attributes": _read_attributes(stating),
        },
        dtype=object,
    )
    # Which of several equal statements has which number must not depend on the order of records.
    if (rows["attributes"] != NO_ATTRIBUTES).any():
        rows = rows.sort_values("attributes", kind="stable", ignore_index=True)
    # Equal statements differ in their number alone, so the order of records changes no row.
    stated = ["relationship_id", "text_unit_id", "type", "description"]
    ordinals = rows.groupby(stated, sort=False).cumcount()
    cells = zip(*(rows[column] for column in stated), ordinals, strict=True)
    ids = [statement_id(*row) for row in cells]
    statements = rows.assign(id=ids, valid_from="", valid_to="")
    return STATEMENTS.frame(statements[STATEMENTS.columns])


def _read_attributes(records: pd.DataFrame) -> np.ndarray:
    """Return the JSON objects of records; without one it is NO_ATTRIBUTES."""
    if "attributes" not in records.columns:
        return np.full(len(records), NO_ATTRIBUTES, dtype=object)
    cells = records["attributes"].fillna("")
    objects = {cell: cell if parse_attributes(cell) else NO_ATTRIBUTES for cell in cells.unique()}
    return cells.map(objects).to_numpy(dtype=object)


def _first_keywords(keywords: pd.Series) -> np.ndarray:
    """Return the first keyword of each list that is not empty, or "" if the list has none."""
    lists = one_array(keywords, STRINGS)
    items = lists.flatten()
    # An empty keyword says no more than a missing one.
    is_filled = pc.fill_null(pc.not_equal(items, ""), False)
    rows = pc.list_parent_indices(lists).filter(is_filled).to_numpy()
    filled = items.filter(is_filled)
    found, first = np.unique(rows, return_index=True)
    types = np.full(len(keywords), "", dtype=object)
    types[found] = filled.take(first).to_pylist()
    return types
