"""Counts of which text units name an entity, and by which names."""

import numpy as np
import pandas as pd

from pipeline.contract.schemas import MENTIONS
from pipeline.verbs.merging.codes import encode, first_rows, pair_codes, split_pairs
from pipeline.verbs.merging.tables import NAMINGS


def tell_mentions(
    entity_records: pd.DataFrame, relationship_records: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return NAMINGS and MENTIONS, from ENTITY_RECORDS and END_RECORDS.

    A naming is a name that a text unit uses for an entity, with its count. A mention is an entity
    that a text unit names. Its ``frequency`` is the weight of the entity's records in that text
    unit, rounded, and at least 1. The ends of an orphaned relationship are no mentions.
    """
    links = relationship_records[relationship_records["fault"] != "orphan"]
    # One row for each use of a name: first the entities, then the sources, then the targets.
    entities = encode(
        entity_records["entity_id"], links["source_entity_id"], links["target_entity_id"]
    )
    names = encode(entity_records["name"], links["source"], links["target"])
    uses = [entity_records, links, links]
    units = encode(*(records["text_unit_id"] for records in uses))
    number_of_units = len(units.texts)

    # A mention is a pair of an entity and a text unit.
    pair_of_use = pair_codes(entities.codes, units.codes, number_of_units)
    pairs, mention_of_use = np.unique(pair_of_use, return_inverse=True)
    entity, unit = split_pairs(pairs, number_of_units)
    mention_of_record = mention_of_use[: len(entity_records)]
    mention_columns = {
        "entity_id": entities.decode(entity).to_pandas(),
        "text_unit_id": units.decode(unit).to_pandas(),
        "frequency": _sum_weights(entity_records, mention_of_record, len(pairs)),
    }
    mentions = pd.DataFrame(mention_columns, columns=MENTIONS.columns)

    # A naming is a pair of a mention and a name.
    number_of_names = len(names.texts)
    pair_of_use = pair_codes(mention_of_use, names.codes, number_of_names)
    pairs, counts = np.unique(pair_of_use, return_counts=True)
    mention, name = split_pairs(pairs, number_of_names)
    mentioned = mentions[["entity_id", "text_unit_id"]].take(mention)
    places = [records[["document_id", "unit_order"]] for records in uses]
    place_of_use = pd.concat(places, ignore_index=True)
    first_use_of_unit = first_rows(units.codes, number_of_units)
    place_of_unit = place_of_use.take(first_use_of_unit)
    place = place_of_unit.take(unit[mention])
    naming_columns = {
        **mentioned.reset_index(drop=True),
        "name": names.decode(name).to_pandas(),
        **place.reset_index(drop=True),
        "count": counts,
    }
    namings = pd.DataFrame(naming_columns, columns=NAMINGS.columns)
    return namings, mentions


def _sum_weights(entity_records: pd.DataFrame, mentions: np.ndarray, number: int) -> np.ndarray:
    """Return the frequency of each mention, 0 to ``number`` - 1: the weight of its records.

    ``mentions`` has the mention that each record belongs to.
    """
    # A sum of floats depends on the order of its terms: they are added as the records are numbered.
    order = np.argsort(entity_records["order"].to_numpy(), kind="stable")
    weights = entity_records["weight"].to_numpy()[order]
    totals = np.bincount(mentions[order], weights=weights, minlength=number)
    frequencies = totals.clip(min=1).round()
    return frequencies.astype(np.int64)
