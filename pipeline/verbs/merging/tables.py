"""The schemas of the tables that the sub-steps of merge_graphs hand to each other.

Several of them hold a few columns of a larger table. A sub-step runs again only where the columns
change that it reads, so each sub-step reads no more than it needs.
"""

from pipeline.contract.schemas import FLOAT, INT, STRING, STRINGS, table

NAMING_RECORDS = table(
    "text_unit_id", "kind", "name", "type", "source", "target",
    text_unit_id=STRING, kind=STRING, name=STRING, type=STRING, source=STRING, target=STRING,
)  # fmt: skip
"""The columns of EXTRACTIONS that contain names."""
LISTED_RECORDS = table(
    "text_unit_id", "kind", "name", "source", "target", "description",
    text_unit_id=STRING, kind=STRING, name=STRING, source=STRING, target=STRING, description=STRING,
)  # fmt: skip
"""The columns of EXTRACTIONS that the message of a reject shows."""
BEARERS = table(
    "key", "text_unit_id", "suffix", "place", "ordinal", "born", "died",
    text_unit_id=STRING, document_id=STRING, key=STRING, suffix=STRING, place=STRING,
    ordinal=STRING, born=INT,
    died=INT, count=INT,
)  # fmt: skip
"""The facts that a text unit gives about a person whom it calls by a name.

``key`` is the match key of the name; ``count`` is how often the text unit gives these facts. The
other columns are the fields of ``resolution.namesakes.Bearer``.
"""
FULL_NAMES = table("key", "full", "text_unit_id", text_unit_id=STRING, key=STRING, full=STRING)
"""Names that begin with a shorter name, by match keys: "Charles I of Spain" (``full``) begins with
"Charles I" (``key``)."""
NAMESAKES = table(
    "key", "document_id", "text_unit_id",
    key=STRING, document_id=STRING, text_unit_id=STRING, suffix=STRING, known=STRINGS,
)  # fmt: skip
"""The suffix that tells which of several namesakes a text unit means.

The row holds for one text unit, or for a whole document if ``text_unit_id`` is empty. ``known``
has match keys of full names that this person may have and that occur in some text unit.
"""
ENTITY_RECORDS = table(
    "text_unit_id", "order",
    entity_id=STRING, name=STRING, text_unit_id=STRING, document_id=STRING, unit_order=INT,
    order=INT, type=STRING,
    description=STRING, weight=FLOAT,
)  # fmt: skip
END_RECORDS = table(
    "text_unit_id", "source", "target",
    source_entity_id=STRING, target_entity_id=STRING, source=STRING, target=STRING,
    text_unit_id=STRING,
    document_id=STRING, unit_order=INT, fault=STRING,
)  # fmt: skip
"""The columns of RELATIONSHIP_RECORDS that say which entities a text unit names."""
NAMINGS = table(
    "entity_id", "text_unit_id", "name",
    entity_id=STRING, text_unit_id=STRING, name=STRING, document_id=STRING, unit_order=INT,
    count=INT,
)  # fmt: skip
"""The names that a text unit uses for an entity, and how often.

An incremental run reads the namings of the changed entities instead of the records of their
relationships. Where a few entities take part in most relationships, those would be most records.
"""
DESCRIBED_IDS = table("entity_id", entity_id=STRING)
"""The column of ENTITY_RECORDS that says which entities are described."""
FAULTY_RECORDS = table(
    "text_unit_id", "source", "target", "description",
    source=STRING, target=STRING, text_unit_id=STRING, description=STRING, fault=STRING,
)  # fmt: skip
"""The columns of RELATIONSHIP_RECORDS that the message of a reject shows."""

ENTITY_NAMES = table("id", id=STRING, name=STRING)
"""The columns of MERGED_ENTITIES that a relationship shows of its ends."""
