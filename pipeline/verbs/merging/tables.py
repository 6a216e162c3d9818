"""The tables between the parts of merge_graphs."""

from pipeline.contract.schemas import FLOAT, INT, STRING, STRINGS, table

NAMING_RECORDS = table(
    "text_unit_id", "kind", "name", "type", "source", "target",
    text_unit_id=STRING, kind=STRING, name=STRING, type=STRING, source=STRING, target=STRING,
)  # fmt: skip
"""What of EXTRACTIONS names somebody."""
LISTED_RECORDS = table(
    "text_unit_id", "kind", "name", "source", "target", "description",
    text_unit_id=STRING, kind=STRING, name=STRING, source=STRING, target=STRING, description=STRING,
)  # fmt: skip
"""What of EXTRACTIONS a reject says."""
BEARERS = table(
    "key", "text_unit_id", "suffix", "place", "ordinal", "born", "died",
    text_unit_id=STRING, document_id=STRING, key=STRING, suffix=STRING, place=STRING,
    ordinal=STRING, born=INT,
    died=INT, count=INT,
)  # fmt: skip
"""What a text unit says of one whom it calls by a name (``key``: its match key), and how often."""
FULL_NAMES = table("key", "full", "text_unit_id", text_unit_id=STRING, key=STRING, full=STRING)
"""Match keys of names that are known and begin with a shorter one (``key``): of Charles I of Spain:
Charles I."""
NAMESAKES = table(
    "key", "document_id", "text_unit_id",
    key=STRING, document_id=STRING, text_unit_id=STRING, suffix=STRING, known=STRINGS,
)  # fmt: skip
"""What stands behind a name, where that means several, in a text unit, or in a whole document where
none is named. ``known``: the match keys of full names which that may be, and which some text unit
has."""
ENTITY_RECORDS = table(
    "text_unit_id", "order",
    entity_id=STRING, name=STRING, text_unit_id=STRING, document_id=STRING, unit_order=INT,
    order=INT, type=STRING,
    description=STRING, weight=FLOAT,
)  # fmt: skip
RELATIONSHIP_RECORDS = table(
    "text_unit_id", "order",
    id=STRING, source_entity_id=STRING, target_entity_id=STRING, source=STRING, target=STRING,
    text_unit_id=STRING,
    document_id=STRING, unit_order=INT, order=INT, description=STRING, keywords=STRINGS,
    weight=FLOAT, fault=STRING,
)  # fmt: skip
"""``fault``: the reason why there is no relationship of it, else nothing. A self_loop still names
its entity, an orphan names none."""
END_RECORDS = table(
    "text_unit_id", "source", "target",
    source_entity_id=STRING, target_entity_id=STRING, source=STRING, target=STRING,
    text_unit_id=STRING,
    document_id=STRING, unit_order=INT, fault=STRING,
)  # fmt: skip
"""What of RELATIONSHIP_RECORDS says whom a text unit names."""
NAMINGS = table(
    "entity_id", "text_unit_id", "name",
    entity_id=STRING, text_unit_id=STRING, name=STRING, document_id=STRING, unit_order=INT,
    count=INT,
)  # fmt: skip
"""By which names a text unit calls an entity, and how often. A night reads those of the entities
that it names, and leaves alone the records of their relationships, which are most of all where a
few entities are in most of them."""
DESCRIBED_IDS = table("entity_id", entity_id=STRING)
"""What of ENTITY_RECORDS says which entities are described."""
FAULTY_RECORDS = table(
    "text_unit_id", "source", "target", "description",
    source=STRING, target=STRING, text_unit_id=STRING, description=STRING, fault=STRING,
)  # fmt: skip
"""What of RELATIONSHIP_RECORDS a reject says."""

ENTITY_NAMES = table("id", id=STRING, name=STRING)
"""What of MERGED_ENTITIES a relationship shows of its ends."""
