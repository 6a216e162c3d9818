"""merge_graphs: merge the graphs of all text units into one.

The work is split into sub-steps, so that an incremental run computes only the groups of rows that
changed. docs/verbs.md lists them.
"""

from typing import Literal

import pandas as pd

from pipeline.contract.laws import Law, Part, Uses
from pipeline.contract.registry import UNTRACKED, Params, Tracker, verb
from pipeline.contract.schemas import (
    EXTRACTIONS,
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    PLACES,
    REJECTS,
    RELATIONSHIP_RECORDS,
    UNIT_TEXTS,
)
from pipeline.verbs.merging.entities import merge_entities
from pipeline.verbs.merging.mentions import count_namings_and_mentions
from pipeline.verbs.merging.namesakes import find_bearers, tell_namesakes
from pipeline.verbs.merging.records import find_orphans, name_records, reject_records
from pipeline.verbs.merging.relationships import merge_relationships
from pipeline.verbs.merging.tables import (
    BEARERS,
    DESCRIBED_IDS,
    END_RECORDS,
    ENTITY_NAMES,
    ENTITY_RECORDS,
    FAULTY_RECORDS,
    FULL_NAMES,
    LISTED_RECORDS,
    NAMESAKES,
    NAMING_RECORDS,
    NAMINGS,
)

BY_TEXT_UNIT = {"extractions": ("text_unit_id",), "text_units": ("id",)}
"""The columns that name the text unit of a row: the rows of one text unit are a group."""
ENDS = ("source_entity_id", "target_entity_id")


class MergeParams(Params):
    """``orphans`` says what happens to a relationship with an end that no record describes.

    With ``stub``, the end becomes an entity of type UNKNOWN. With ``drop``, the relationship is
    dropped, and is a reject.
    """

    orphans: Literal["stub", "drop"] = "stub"


def settle_records(
    extractions: pd.DataFrame, text_units: pd.DataFrame, namesakes: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return entity records, relationship records, namings, mentions and rejects, in this order.

    All of them depend on the records of their own text unit alone, provided that orphans are kept.
    """
    entity_records, relationship_records = name_records(extractions, text_units, namesakes)
    namings, mentions = count_namings_and_mentions(entity_records, relationship_records)
    rejects = reject_records(extractions, relationship_records)
    return entity_records, relationship_records, namings, mentions, rejects


# The sub-steps follow, each with its law: which groups of rows it can compute by themselves.

BEARERS_PART = Part(
    find_bearers,
    inputs={"extractions": NAMING_RECORDS, "text_units": UNIT_TEXTS},
    outputs={"bearers": BEARERS, "full_names": FULL_NAMES},
    law=Law(BY_TEXT_UNIT, row_of={"bearers": "text_unit_id", "full_names": "text_unit_id"}),
)
NAMESAKES_PART = Part(
    tell_namesakes,
    inputs={"bearers": BEARERS, "full_names": FULL_NAMES},
    outputs={"namesakes": NAMESAKES},
    law=Law({"bearers": ("key",), "full_names": ("key",)}, row_of={"namesakes": "key"}),
)

RECORDS = {"extractions": EXTRACTIONS, "text_units": PLACES, "namesakes": NAMESAKES}
"""The tables from which the records of entities and relationships are made."""
NAMESAKES_OF_DOCUMENT = {"namesakes": Uses("text_units", ("document_id",), "document_id")}
"""A text unit uses the namesakes of its document."""
SETTLED_PART = Part(
    settle_records,
    inputs=RECORDS,
    outputs={
        "entity_records": ENTITY_RECORDS,
        "relationship_records": RELATIONSHIP_RECORDS,
        "namings": NAMINGS,
        "mentions": MENTIONS,
        "rejects": REJECTS,
    },
    law=Law(
        BY_TEXT_UNIT,
        row_of={
            "entity_records": "text_unit_id",
            "relationship_records": "text_unit_id",
            "namings": "text_unit_id",
            "mentions": "text_unit_id",
            "rejects": "row_id",
        },
        lookup=NAMESAKES_OF_DOCUMENT,
    ),
)
"""The sub-step that makes all records, if orphans are kept."""

# If orphans are dropped, four sub-steps replace the last one. A relationship is an orphan depending
# on the records of other text units, so orphans are found in a sub-step with a law of its own.

NAMED_PART = Part(
    name_records,
    inputs=RECORDS,
    outputs={"entity_records": ENTITY_RECORDS, "named_relationships": RELATIONSHIP_RECORDS},
    law=Law(
        BY_TEXT_UNIT,
        row_of={"entity_records": "text_unit_id", "named_relationships": "text_unit_id"},
        lookup=NAMESAKES_OF_DOCUMENT,
    ),
)
ORPHANS_PART = Part(
    find_orphans,
    inputs={"named_relationships": RELATIONSHIP_RECORDS, "entity_records": DESCRIBED_IDS},
    outputs={"relationship_records": RELATIONSHIP_RECORDS},
    law=Law(
        {"named_relationships": ("text_unit_id",)},
        row_of={"relationship_records": "text_unit_id"},
        lookup={"entity_records": Uses("named_relationships", ENDS, "entity_id")},
    ),
)
MENTIONS_PART = Part(
    count_namings_and_mentions,
    inputs={"entity_records": ENTITY_RECORDS, "relationship_records": END_RECORDS},
    outputs={"namings": NAMINGS, "mentions": MENTIONS},
    law=Law(
        {"entity_records": ("text_unit_id",), "relationship_records": ("text_unit_id",)},
        row_of={"namings": "text_unit_id", "mentions": "text_unit_id"},
    ),
)
REJECTS_PART = Part(
    reject_records,
    inputs={"extractions": LISTED_RECORDS, "relationship_records": FAULTY_RECORDS},
    outputs={"rejects": REJECTS},
    law=Law(
        {"extractions": ("text_unit_id",), "relationship_records": ("text_unit_id",)},
        row_of={"rejects": "row_id"},
    ),
)

ENTITIES_PART = Part(
    merge_entities,
    inputs={"entity_records": ENTITY_RECORDS, "namings": NAMINGS},
    outputs={"merged_entities": MERGED_ENTITIES},
    law=Law(
        {"entity_records": ("entity_id",), "namings": ("entity_id",)},
        row_of={"merged_entities": "id"},
    ),
)
RELATIONSHIPS_PART = Part(
    merge_relationships,
    inputs={"relationship_records": RELATIONSHIP_RECORDS, "merged_entities": ENTITY_NAMES},
    outputs={"merged_relationships": MERGED_RELATIONSHIPS},
    law=Law(
        {"relationship_records": ("id",)},
        row_of={"merged_relationships": "id"},
        lookup={"merged_entities": Uses("relationship_records", ENDS)},
    ),
)


def _list_merge_parts(params: MergeParams) -> tuple[Part, ...]:
    """Return the sub-steps of merge_graphs, in the order in which they run."""
    if params.orphans == "drop":
        record_parts = (NAMED_PART, ORPHANS_PART, MENTIONS_PART, REJECTS_PART)
    else:
        record_parts = (SETTLED_PART,)
    return BEARERS_PART, NAMESAKES_PART, *record_parts, ENTITIES_PART, RELATIONSHIPS_PART


@verb(
    inputs={"extractions": EXTRACTIONS, "text_units": UNIT_TEXTS},
    outputs={
        "merged_entities": MERGED_ENTITIES,
        "merged_relationships": MERGED_RELATIONSHIPS,
        "mentions": MENTIONS,
        "relationship_records": RELATIONSHIP_RECORDS,
        "rejects": REJECTS,
    },
    parts=_list_merge_parts,
    libraries=("rapidfuzz", "regex"),
)
def merge_graphs(
    extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    params: MergeParams = MergeParams(),
    tracker: Tracker = UNTRACKED,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Merge the graphs of all text units into one.

    Records of names with the same match key become one entity; records with the same source and
    target become one directed relationship. The order of the rows follows from their content.
    People of the same name stay separate entities where the texts tell them apart
    (``tell_namesakes``). ``merge_entities`` and ``merge_relationships`` describe the columns. A
    relationship of an entity with itself is a reject, and so is a record that lacks its kind, text
    unit or names. Other missing cells count as empty. ``relationship_records`` says which record
    became which relationship.
    """
    extractions = EXTRACTIONS.filled(extractions, "merge_graphs: table 'extractions'")
    bearers, full_names = find_bearers(extractions, text_units, tracker)
    namesakes = tell_namesakes(bearers, full_names)
    entity_records, relationship_records = name_records(extractions, text_units, namesakes)
    if params.orphans == "drop":
        relationship_records = find_orphans(relationship_records, entity_records)
    namings, mentions = count_namings_and_mentions(entity_records, relationship_records)
    merged_entities = merge_entities(entity_records, namings)
    merged_relationships = merge_relationships(relationship_records, merged_entities)
    rejects = reject_records(extractions, relationship_records)
    return merged_entities, merged_relationships, mentions, relationship_records, rejects
