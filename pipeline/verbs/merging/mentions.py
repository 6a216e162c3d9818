"""Count which text units name an entity, and by which names. The verb merge_graphs does it last."""

import numpy as np
import pandas as pd

from pipeline.contract.schemas import MENTIONS
from pipeline.verbs.merging.codes import encode, first_rows, pair_codes, split_pairs
from pipeline.verbs.merging.tables import NAMINGS


def count_namings_and_mentions(
    entity_records: pd.DataFrame, relationship_records: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return NAMINGS and MENTIONS, from ENTITY_RECORDS and END_RECORDS.

    ``relationship_records`` are END_RECORDS: relationships with the entities at their ends.

    A naming is a name that a text unit uses for an entity, with its count. A mention is an entity
    that a text unit names. Its ``frequency`` is the sum of the weights of the entity's records in
    that text unit, rounded, and at least 1. The ends of an orphaned relationship are no mentions.
    """
    relationships = relationship_records[relationship_records["fault"] != "orphan"]
    # One row for each use of a name: first the entities, then the sources, then the targets.
    tables_of_uses = [entity_records, relationships, relationships]
    entities = encode(
        entity_records["entity_id"],
        relationships["source_entity_id"],
        relationships["target_entity_id"],
    )
    names = encode(entity_records["name"], relationships["source"], relationships["target"])
    units = encode(*(table["text_unit_id"] for table in tables_of_uses))
    number_of_units = len(units.texts)

    # A mention is a pair of an entity and a text unit.
    mention_pair_of_use = pair_codes(entities.codes, units.codes, number_of_units)
    mention_pairs, mention_of_use = np.unique(mention_pair_of_use, return_inverse=True)
    entity_of_mention, unit_of_mention = split_pairs(mention_pairs, number_of_units)
    mention_of_record = mention_of_use[: len(entity_records)]
    mention_columns = {
        "entity_id": entities.decode(entity_of_mention).to_pandas(),
        "text_unit_id": units.decode(unit_of_mention).to_pandas(),
        "frequency": _sum_weights(entity_records, mention_of_record, len(mention_pairs)),
    }
    mentions = pd.DataFrame(mention_columns, columns=MENTIONS.columns)

    # A naming is a pair of a mention and a name.
    number_of_names = len(names.texts)
    naming_pair_of_use = pair_codes(mention_of_use, names.codes, number_of_names)
    naming_pairs, counts = np.unique(naming_pair_of_use, return_counts=True)
    mention_of_naming, name_of_naming = split_pairs(naming_pairs, number_of_names)
    mentioned = mentions[["entity_id", "text_unit_id"]].take(mention_of_naming)
    # The place of a text unit is its document, and its order there.
    places_of_tables = [table[["document_id", "unit_order"]] for table in tables_of_uses]
    place_of_use = pd.concat(places_of_tables, ignore_index=True)
    first_use_of_unit = first_rows(units.codes, number_of_units)
    place_of_unit = place_of_use.take(first_use_of_unit)
    unit_of_naming = unit_of_mention[mention_of_naming]
    place_of_naming = place_of_unit.take(unit_of_naming)
    # A frame is unpacked into its columns.
    naming_columns = {
        **mentioned.reset_index(drop=True),
        "name": names.decode(name_of_naming).to_pandas(),
        **place_of_naming.reset_index(drop=True),
        "count": counts,
    }
    namings = pd.DataFrame(naming_columns, columns=NAMINGS.columns)
    return namings, mentions


def _sum_weights(
    entity_records: pd.DataFrame, mention_of_record: np.ndarray, number_of_mentions: int
) -> np.ndarray:
    """Return one frequency for each mention: the sum of the weights of its records.

    ``mention_of_record``: the number of the mention that each record belongs to.
    """
    # A sum of floats depends on the order of its terms: they are added as the records are numbered.
    order = np.argsort(entity_records["order"].to_numpy(), kind="stable")
    weights = entity_records["weight"].to_numpy()[order]
    totals = np.bincount(mention_of_record[order], weights=weights, minlength=number_of_mentions)
    frequencies = totals.clip(min=1).round()
    return frequencies.astype(np.int64)
