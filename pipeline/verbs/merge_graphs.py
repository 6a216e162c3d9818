"""merge_graphs: the graphs of all text units become one."""

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
    TEXT_UNITS,
)
from pipeline.verbs.merging.entities import merge_entities
from pipeline.verbs.merging.mentions import tell_mentions
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
    RELATIONSHIP_RECORDS,
)

OF_TEXT_UNITS = {"extractions": ("text_unit_id",), "text_units": ("id",)}
ENDS = ("source_entity_id", "target_entity_id")


class MergeParams(Params):
    """``orphans``: what becomes of a relationship with an end that no record describes: a stub
    entity of type UNKNOWN is made for the end, or the relationship is dropped."""

    orphans: Literal["stub", "drop"] = "stub"


def _parts(params: MergeParams) -> tuple[Part, ...]:
    drop = params.orphans == "drop"
    return (
        Part(
            find_bearers,
            inputs={"extractions": NAMING_RECORDS, "text_units": TEXT_UNITS},
            outputs={"bearers": BEARERS, "full_names": FULL_NAMES},
            law=Law(
                OF_TEXT_UNITS, row_of={"bearers": "text_unit_id", "full_names": "text_unit_id"}
            ),
        ),
        Part(
            tell_namesakes,
            inputs={"bearers": BEARERS, "full_names": FULL_NAMES},
            outputs={"namesakes": NAMESAKES},
            law=Law({"bearers": ("key",), "full_names": ("key",)}, row_of={"namesakes": "key"}),
        ),
        *(_dropping_orphans() if drop else [SETTLED]),
        Part(
            merge_entities,
            inputs={"entity_records": ENTITY_RECORDS, "namings": NAMINGS},
            outputs={"merged_entities": MERGED_ENTITIES},
            law=Law(
                {"entity_records": ("entity_id",), "namings": ("entity_id",)},
                row_of={"merged_entities": "id"},
            ),
        ),
        Part(
            merge_relationships,
            inputs={"relationship_records": RELATIONSHIP_RECORDS, "merged_entities": ENTITY_NAMES},
            outputs={"merged_relationships": MERGED_RELATIONSHIPS},
            law=Law(
                {"relationship_records": ("id",)},
                row_of={"merged_relationships": "id"},
                lookup={"merged_entities": Uses("relationship_records", ENDS)},
            ),
        ),
    )


RECORDS = {"extractions": EXTRACTIONS, "text_units": PLACES, "namesakes": NAMESAKES}
"""What becomes records of entities and relationships."""
OF_NAMESAKES = {"namesakes": Uses("text_units", ("document_id",), "document_id")}


def settle_records(
    extractions: pd.DataFrame, text_units: pd.DataFrame, namesakes: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """All that follows from the records of a text unit alone, where orphans are none."""
    entity_records, relationship_records = name_records(extractions, text_units, namesakes)
    namings, mentions = tell_mentions(entity_records, relationship_records)
    return (
        entity_records,
        relationship_records,
        namings,
        mentions,
        reject_records(extractions, relationship_records),
    )


SETTLED = Part(
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
        OF_TEXT_UNITS,
        row_of={
            "entity_records": "text_unit_id",
            "relationship_records": "text_unit_id",
            "namings": "text_unit_id",
            "mentions": "text_unit_id",
            "rejects": "row_id",
        },
        lookup=OF_NAMESAKES,
    ),
)


def _dropping_orphans() -> tuple[Part, ...]:
    """What SETTLED does in one, where what is an orphan depends on other text units."""
    return (
        Part(
            name_records,
            inputs=RECORDS,
            outputs={"entity_records": ENTITY_RECORDS, "named_relationships": RELATIONSHIP_RECORDS},
            law=Law(
                OF_TEXT_UNITS,
                row_of={"entity_records": "text_unit_id", "named_relationships": "text_unit_id"},
                lookup=OF_NAMESAKES,
            ),
        ),
        Part(
            find_orphans,
            inputs={"named_relationships": RELATIONSHIP_RECORDS, "entity_records": DESCRIBED_IDS},
            outputs={"relationship_records": RELATIONSHIP_RECORDS},
            law=Law(
                {"named_relationships": ("text_unit_id",)},
                row_of={"relationship_records": "text_unit_id"},
                lookup={"entity_records": Uses("named_relationships", ENDS, "entity_id")},
            ),
        ),
        Part(
            tell_mentions,
            inputs={"entity_records": ENTITY_RECORDS, "relationship_records": END_RECORDS},
            outputs={"namings": NAMINGS, "mentions": MENTIONS},
            law=Law(
                {"entity_records": ("text_unit_id",), "relationship_records": ("text_unit_id",)},
                row_of={"namings": "text_unit_id", "mentions": "text_unit_id"},
            ),
        ),
        Part(
            reject_records,
            inputs={"extractions": LISTED_RECORDS, "relationship_records": FAULTY_RECORDS},
            outputs={"rejects": REJECTS},
            law=Law(
                {"extractions": ("text_unit_id",), "relationship_records": ("text_unit_id",)},
                row_of={"rejects": "row_id"},
            ),
        ),
    )


@verb(
    inputs={"extractions": EXTRACTIONS, "text_units": TEXT_UNITS},
    outputs={
        "merged_entities": MERGED_ENTITIES,
        "merged_relationships": MERGED_RELATIONSHIPS,
        "mentions": MENTIONS,
        "rejects": REJECTS,
    },
    parts=_parts,
    libraries=("rapidfuzz", "regex"),
)
def merge_graphs(
    extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    params: MergeParams = MergeParams(),
    tracker: Tracker = UNTRACKED,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Entities by match key, directed relationships by their two ends, in an order the content
    fixes.

    People of one name are as many entities as the texts say (``tell_namesakes``). What they are
    made of say ``merge_entities`` and ``merge_relationships``. A relationship of an entity with
    itself is a reject, and so is a record without its kind, text unit or names; what else is
    missing counts as empty.
    """
    extractions = EXTRACTIONS.filled(extractions, "merge_graphs: table 'extractions'")
    namesakes = tell_namesakes(*find_bearers(extractions, text_units, tracker))
    entity_records, relationship_records = name_records(extractions, text_units, namesakes)
    if params.orphans == "drop":
        relationship_records = find_orphans(relationship_records, entity_records)
    namings, mentions = tell_mentions(entity_records, relationship_records)
    merged_entities = merge_entities(entity_records, namings)
    return (
        merged_entities,
        merge_relationships(relationship_records, merged_entities),
        mentions,
        reject_records(extractions, relationship_records),
    )
