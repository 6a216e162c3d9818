"""Records of entities, and the ends of relationships, become entities and their mentions."""

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import MENTIONS, MERGED_ENTITIES, TYPE_COUNTS
from pipeline.verbs.merging.codes import Coded, Codes, coded, distinct_texts, list_column, paired, places, sums

UNKNOWN = "UNKNOWN"
VAGUE_TYPES = ("name", "title")
"""What extract_graph_fast calls an entity that a text names without a word of what it is."""


def merge_entities(
    entity_records: pd.DataFrame, relationship_records: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entities (MERGED_ENTITIES) by their ids, and which text units name them (MENTIONS), from ENTITY_RECORDS and
    END_RECORDS.

    An entity's name is its commonest surface form (ties: the smallest by code point), its type the one with the
    greatest weight of records, other types kept with their counts; UNKNOWN where no record has one. ``frequency`` is
    the number of text units that name it; of a mention, the weight of its records there, at least 1."""
    links = relationship_records[relationship_records["fault"] != "orphan"]
    named = coded(entity_records["entity_id"], links["source_entity_id"], links["target_entity_id"])
    names = coded(entity_records["name"], links["source"], links["target"])
    units = places(entity_records, links, links)
    order = np.lexsort([entity_records["order"], units.codes[: len(entity_records)]])
    records, entity, unit = entity_records.take(order), named.codes[order], units.codes[order]
    number, size = len(named.texts), len(units.texts)
    types, type = _types(entity, records, number)
    mentions = np.unique(paired(named.codes, units.codes, size))
    mentioned, where = np.divmod(mentions, size)
    weights = sums(paired(entity, unit, size), records["weight"].to_numpy())
    frequency = weights.reindex(mentions, fill_value=1).clip(lower=1).round().astype("int64").to_numpy()
    merged_entities = pd.DataFrame(
        {
            "id": named.texts.to_pandas(),
            "name": _commonest(named.codes, names),
            "type": type,
            "types": types,
            "descriptions": distinct_texts(entity, records["description"], number),
            "text_unit_ids": list_column(mentioned, number, units.of(where)),
            "frequency": np.bincount(mentioned, minlength=number),
        },
        columns=MERGED_ENTITIES.columns,
    )
    ids = {"entity_id": named.of(mentioned).to_pandas(), "text_unit_id": units.of(where).to_pandas()}
    return merged_entities, pd.DataFrame(ids | {"frequency": frequency}, columns=MENTIONS.columns)


def _commonest(entity: Codes, names: Coded) -> pd.Series:
    """The display name of each entity."""
    size = len(names.texts)
    pairs, counts = np.unique(paired(entity, names.codes, size), return_counts=True)
    entity, name = np.divmod(pairs, size)
    ranked = np.lexsort([name, -counts, entity])
    _, best = np.unique(entity[ranked], return_index=True)
    return names.of(name[ranked][best]).to_pandas()


def _types(entity: Codes, records: pd.DataFrame, number: int) -> tuple[pd.Series, pd.Series]:
    """Of each entity its types with their weights, heaviest first, ties by code point, those that tell nothing last;
    and the first of them."""
    typed = (records["type"] != "").to_numpy(dtype=bool)
    types = coded(records["type"][typed])
    size = len(types.texts)
    weights = sums(paired(entity[typed], types.codes, size), records["weight"].to_numpy()[typed])
    entity, type = np.divmod(weights.index.to_numpy(dtype=np.int64), size)
    counts = weights.round().astype("int64").to_numpy()
    vague = np.isin(types.texts.to_numpy(zero_copy_only=False), VAGUE_TYPES)[type]
    ranked = np.lexsort([type, -counts, vague, entity])
    entity, texts = entity[ranked], types.of(type[ranked])
    pairs = pa.StructArray.from_arrays([texts, pa.array(counts[ranked])], fields=list(TYPE_COUNTS.value_type))
    first = np.full(number, UNKNOWN, dtype=object)
    typed_ones, best = np.unique(entity, return_index=True)
    first[typed_ones] = texts.take(pa.array(best)).to_numpy(zero_copy_only=False)
    return list_column(entity, number, pairs, TYPE_COUNTS), pd.Series(first)
