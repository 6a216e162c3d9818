"""Merging of the records of entities, and of the names that text units use, into entities."""

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import MERGED_ENTITIES, TYPE_COUNTS
from pipeline.verbs.merging.codes import (
    Codes,
    build_lists,
    encode,
    encode_text_units,
    first_rows,
    list_distinct_texts,
    pair_codes,
    split_pairs,
    sum_by_group,
)

UNKNOWN = "UNKNOWN"
VAGUE_TYPES = ("name", "title")
"""The types that extract_graph_fast gives to an entity if the text only names it."""


def merge_entities(entity_records: pd.DataFrame, namings: pd.DataFrame) -> pd.DataFrame:
    """Return the entities (MERGED_ENTITIES), sorted by id, from ENTITY_RECORDS and NAMINGS.

    The name of an entity is its most frequent surface form; of equally frequent ones it is the
    smallest by code point. Its type is the one whose records have the greatest weight, and
    ``types`` lists all types with their weights. The type is UNKNOWN if no record has one.
    ``frequency`` is the number of text units that name the entity.
    """
    ids = encode(namings["entity_id"], entity_records["entity_id"])
    units = encode_text_units(namings, entity_records)
    number = len(ids.texts)
    naming_entity, record_entity = np.split(ids.codes, [len(namings)])
    naming_unit, record_unit = np.split(units.codes, [len(namings)])

    reading_order = np.lexsort([entity_records["order"], record_unit])
    records = entity_records.take(reading_order)
    record_entity = record_entity[reading_order]
    types, first_type = _rank_types(record_entity, records, number)

    descriptions = list_distinct_texts(record_entity, records["description"], number)

    # An entity has several namings in a text unit, but the text unit counts once.
    number_of_units = len(units.texts)
    pairs = np.unique(pair_codes(naming_entity, naming_unit, number_of_units))
    entity, unit = split_pairs(pairs, number_of_units)
    unit_ids = units.decode(unit)
    columns = {
        "id": ids.texts.to_pandas(),
        "name": _choose_names(naming_entity, namings),
        "type": first_type,
        "types": types,
        "descriptions": descriptions,
        "text_unit_ids": build_lists(entity, number, unit_ids),
        "frequency": np.bincount(entity, minlength=number),
    }
    return pd.DataFrame(columns, columns=MERGED_ENTITIES.columns)


def _choose_names(entities: Codes, namings: pd.DataFrame) -> pd.Series:
    """Return the most frequent name of each entity; ``entities`` has the code of each naming's."""
    names = encode(namings["name"])
    size = len(names.texts)
    pairs = pair_codes(entities, names.codes, size)
    counts = sum_by_group(pairs, namings["count"].to_numpy())
    distinct_pairs = counts.index.to_numpy(dtype=np.int64)
    entity, name = split_pairs(distinct_pairs, size)
    best_first = np.lexsort([name, -counts.to_numpy(), entity])
    entity = entity[best_first]
    name = name[best_first]
    number = entity.max(initial=-1) + 1
    best_names = name[first_rows(entity, number)]
    return names.decode(best_names).to_pandas()


def _rank_types(entities: Codes, records: pd.DataFrame, number: int) -> tuple[pd.Series, pd.Series]:
    """Return the types of each entity with their rounded weights, and the first type of each.

    The order is: vague types last, then the greatest weight first, then by code point.
    ``entities`` has the code of each record's entity, which is less than ``number``.
    """
    has_type = (records["type"] != "").to_numpy(dtype=bool)
    types = encode(records["type"][has_type])
    size = len(types.texts)
    pairs = pair_codes(entities[has_type], types.codes, size)
    weights_of_records = records["weight"].to_numpy()[has_type]
    weights = sum_by_group(pairs, weights_of_records)
    distinct_pairs = weights.index.to_numpy(dtype=np.int64)
    entity, type = split_pairs(distinct_pairs, size)
    counts = weights.round().astype("int64").to_numpy()
    distinct_types = types.texts.to_numpy(zero_copy_only=False)
    is_vague_type = np.isin(distinct_types, VAGUE_TYPES)
    is_vague = is_vague_type[type]

    # lexsort sorts by its last key first. Codes sort as their texts do.
    best_first = np.lexsort([type, -counts, is_vague, entity])
    entity = entity[best_first]
    counts = counts[best_first]
    texts = types.decode(type[best_first])
    fields = list(TYPE_COUNTS.value_type)
    types_with_counts = pa.StructArray.from_arrays([texts, pa.array(counts)], fields=fields)
    type_lists = build_lists(entity, number, types_with_counts, TYPE_COUNTS)

    first_types = np.full(number, UNKNOWN, dtype=object)
    entities_with_type, first = np.unique(entity, return_index=True)
    best_texts = texts.take(pa.array(first))
    first_types[entities_with_type] = best_texts.to_numpy(zero_copy_only=False)
    return type_lists, pd.Series(first_types)
