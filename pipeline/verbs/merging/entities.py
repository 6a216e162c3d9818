"""Records of entities, and the names by which text units call them, become entities."""

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import MERGED_ENTITIES, TYPE_COUNTS
from pipeline.verbs.merging.codes import (
    Codes,
    coded,
    distinct_texts,
    first_rows,
    list_column,
    paired,
    places,
    sums,
)

UNKNOWN = "UNKNOWN"
VAGUE_TYPES = ("name", "title")
"""What extract_graph_fast calls an entity that a text names without a word of what it is."""


def merge_entities(entity_records: pd.DataFrame, namings: pd.DataFrame) -> pd.DataFrame:
    """Entities (MERGED_ENTITIES) by their ids, from ENTITY_RECORDS and NAMINGS.

    An entity's name is its commonest surface form (ties: the smallest by code point), its type the
    one with the greatest weight of records, other types kept with their counts; UNKNOWN where no
    record has one. ``frequency`` is the number of text units that name it."""
    named = coded(namings["entity_id"], entity_records["entity_id"])
    units = places(namings, entity_records)
    entity, of_records = np.split(named.codes, [len(namings)])
    unit, unit_of_records = np.split(units.codes, [len(namings)])
    order = np.lexsort([entity_records["order"], unit_of_records])
    records, of_records, number = entity_records.take(order), of_records[order], len(named.texts)
    types, type = _types(of_records, records, number)
    mentioned, where = np.divmod(
        np.unique(paired(entity, unit, len(units.texts))), max(len(units.texts), 1)
    )
    return pd.DataFrame(
        {
            "id": named.texts.to_pandas(),
            "name": _commonest(entity, namings),
            "type": type,
            "types": types,
            "descriptions": distinct_texts(of_records, records["description"], number),
            "text_unit_ids": list_column(mentioned, number, units.of(where)),
            "frequency": np.bincount(mentioned, minlength=number),
        },
        columns=MERGED_ENTITIES.columns,
    )


def _commonest(entity: Codes, namings: pd.DataFrame) -> pd.Series:
    """The display name of each entity."""
    names = coded(namings["name"])
    size = len(names.texts)
    counts = sums(paired(entity, names.codes, size), namings["count"].to_numpy())
    entity, name = np.divmod(counts.index.to_numpy(dtype=np.int64), size)
    ranked = np.lexsort([name, -counts.to_numpy(), entity])
    return names.of(
        name[ranked][first_rows(entity[ranked], entity.max(initial=-1) + 1)]
    ).to_pandas()


def _types(entity: Codes, records: pd.DataFrame, number: int) -> tuple[pd.Series, pd.Series]:
    """Of each entity its types with their weights, heaviest first, ties by code point, those that
    tell nothing last; and the first of them."""
    typed = (records["type"] != "").to_numpy(dtype=bool)
    types = coded(records["type"][typed])
    size = len(types.texts)
    weights = sums(paired(entity[typed], types.codes, size), records["weight"].to_numpy()[typed])
    entity, type = np.divmod(weights.index.to_numpy(dtype=np.int64), size)
    counts = weights.round().astype("int64").to_numpy()
    vague = np.isin(types.texts.to_numpy(zero_copy_only=False), VAGUE_TYPES)[type]
    ranked = np.lexsort([type, -counts, vague, entity])
    entity, texts = entity[ranked], types.of(type[ranked])
    pairs = pa.StructArray.from_arrays(
        [texts, pa.array(counts[ranked])], fields=list(TYPE_COUNTS.value_type)
    )
    first = np.full(number, UNKNOWN, dtype=object)
    typed_ones, best = np.unique(entity, return_index=True)
    first[typed_ones] = texts.take(pa.array(best)).to_numpy(zero_copy_only=False)
    return list_column(entity, number, pairs, TYPE_COUNTS), pd.Series(first)
