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

    A row of NAMINGS is a name by which a text unit means an entity, with its count there. The name
    of an entity is its most frequent surface form; of equally frequent ones it is the smallest by
    code point. Its type is the one whose records have the greatest weight, but a type of
    VAGUE_TYPES only if there is no other one. ``types`` lists all types with their weights. The
    type is UNKNOWN if no record has one. ``frequency`` is the number of text units that name the
    entity.
    """
    n_namings = len(namings)
    ids = encode(namings["entity_id"], entity_records["entity_id"])
    units = encode_text_units(namings, entity_records)
    n_entities = len(ids.texts)
    # The codes of both tables are in one array, those of the namings first.
    entity_of_naming, entity_of_record = ids.codes[:n_namings], ids.codes[n_namings:]
    unit_of_naming, unit_of_record = units.codes[:n_namings], units.codes[n_namings:]

    # lexsort sorts by its last key first: by text unit, then by the order within it.
    reading_order = np.lexsort([entity_records["order"], unit_of_record])
    records = entity_records.take(reading_order)
    entity_of_record = entity_of_record[reading_order]
    types, first_type = _rank_types(entity_of_record, records, n_entities)

    descriptions = list_distinct_texts(entity_of_record, records["description"], n_entities)

    # An entity has several namings in a text unit, but the text unit counts once.
    n_units = len(units.texts)
    pairs = np.unique(pair_codes(entity_of_naming, unit_of_naming, n_units))
    entity_codes, unit_codes = split_pairs(pairs, n_units)
    unit_ids = units.decode(unit_codes)
    columns = {
        "id": ids.texts.to_pandas(),
        "name": _choose_names(entity_of_naming, namings, n_entities),
        "type": first_type,
        "types": types,
        "descriptions": descriptions,
        "text_unit_ids": build_lists(entity_codes, n_entities, unit_ids),
        "frequency": np.bincount(entity_codes, minlength=n_entities),
    }
    return pd.DataFrame(columns, columns=MERGED_ENTITIES.columns)


def _choose_names(entity_of_naming: Codes, namings: pd.DataFrame, n_entities: int) -> pd.Series:
    """Return the most frequent name of each entity; each of them has a naming.

    ``entity_of_naming`` has the entity code of each naming.
    """
    names = encode(namings["name"])
    n_names = len(names.texts)
    pairs = pair_codes(entity_of_naming, names.codes, n_names)
    counts = sum_by_group(pairs, namings["count"].to_numpy())
    distinct_pairs = counts.index.to_numpy(dtype=np.int64)
    entity_codes, name_codes = split_pairs(distinct_pairs, n_names)
    # By entity, then the most frequent name first, then by code point: codes sort as texts do.
    best_first = np.lexsort([name_codes, -counts.to_numpy(), entity_codes])
    entity_codes = entity_codes[best_first]
    name_codes = name_codes[best_first]
    best_names = name_codes[first_rows(entity_codes, n_entities)]
    return names.decode(best_names).to_pandas()


def _rank_types(
    entity_of_record: Codes, records: pd.DataFrame, n_entities: int
) -> tuple[pd.Series, pd.Series]:
    """Return the types of each entity with their rounded weights, and the first type of each.

    The order is: vague types last, then the greatest weight first, then by code point.
    ``entity_of_record`` has the entity code of each record.
    """
    has_type = (records["type"] != "").to_numpy(dtype=bool)
    types = encode(records["type"][has_type])
    n_types = len(types.texts)
    pairs = pair_codes(entity_of_record[has_type], types.codes, n_types)
    weights_of_records = records["weight"].to_numpy()[has_type]
    weights = sum_by_group(pairs, weights_of_records)
    distinct_pairs = weights.index.to_numpy(dtype=np.int64)
    entity_codes, type_codes = split_pairs(distinct_pairs, n_types)
    rounded_weights = weights.round().astype("int64").to_numpy()
    distinct_types = types.texts.to_numpy(zero_copy_only=False)
    is_vague_type = np.isin(distinct_types, VAGUE_TYPES)
    is_vague = is_vague_type[type_codes]

    # By entity, then in the order of the docstring; the last key of lexsort comes first.
    best_first = np.lexsort([type_codes, -rounded_weights, is_vague, entity_codes])
    entity_codes = entity_codes[best_first]
    rounded_weights = rounded_weights[best_first]
    texts = types.decode(type_codes[best_first])
    fields = list(TYPE_COUNTS.value_type)
    types_with_weights = pa.StructArray.from_arrays(
        [texts, pa.array(rounded_weights)], fields=fields
    )
    type_lists = build_lists(entity_codes, n_entities, types_with_weights, TYPE_COUNTS)

    first_types = np.full(n_entities, UNKNOWN, dtype=object)
    entities_with_type, first = np.unique(entity_codes, return_index=True)
    best_texts = texts.take(pa.array(first))
    first_types[entities_with_type] = best_texts.to_numpy(zero_copy_only=False)
    return type_lists, pd.Series(first_types)
