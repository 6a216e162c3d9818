"""Records of relationships become relationships: one for its two ends and its direction."""

import numpy as np
import pandas as pd

from pipeline.contract.schemas import CO_OCCURS, MERGED_RELATIONSHIPS, STRINGS
from pipeline.verbs.merging.codes import (
    Codes,
    coded,
    distinct_texts,
    firsts,
    list_column,
    paired,
    pc,
    places,
    sums,
    whole_array,
)


def merge_relationships(
    relationship_records: pd.DataFrame, merged_entities: pd.DataFrame
) -> pd.DataFrame:
    """Relationships (MERGED_RELATIONSHIPS) by their ids, from RELATIONSHIP_RECORDS; their ends have
    the names of ENTITY_NAMES.

    Weights add up; keywords are the union in order of frequency. A record with a fault is none."""
    sound = relationship_records[relationship_records["fault"] == ""]
    units = places(sound)
    order = np.lexsort([sound["order"], units.codes])
    records, where = sound.take(order), units.codes[order]
    ids = coded(records["id"])
    number = len(ids.texts)
    _, first = np.unique(ids.codes, return_index=True)
    ends = records[["source_entity_id", "target_entity_id"]].take(first).reset_index(drop=True)
    names = dict(zip(merged_entities["id"].tolist(), merged_entities["name"].tolist(), strict=True))
    said = firsts(ids.codes, where)
    return pd.DataFrame(
        {
            "id": ids.texts.to_pandas(),
            "source": ends["source_entity_id"].map(names),
            "target": ends["target_entity_id"].map(names),
            **ends,
            "descriptions": distinct_texts(ids.codes, records["description"], number),
            "keywords": _keywords(ids.codes, records["keywords"], number),
            "weight": sums(ids.codes, records["weight"].to_numpy()).to_numpy(),
            "text_unit_ids": list_column(ids.codes[said], number, units.of(where[said])),
        },
        columns=MERGED_RELATIONSHIPS.columns,
    )


def _keywords(relationship: Codes, keywords: pd.Series, number: int) -> pd.Series:
    """The most frequent first, then in order of appearance; those that are stated before CO_OCCURS,
    the others behind it."""
    lists = whole_array(keywords, STRINGS)
    row, words = pc.list_parent_indices(lists).to_numpy(), lists.flatten()
    there = words.is_valid().to_numpy(zero_copy_only=False)
    row, word = row[there], coded(words.drop_null().to_pandas())
    co_occurs = pc.equal(word.texts, CO_OCCURS).to_numpy(zero_copy_only=False)[word.codes]
    size = len(word.texts)
    pairs, first, pair, counts = np.unique(
        paired(relationship[row], word.codes, size),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    of, text = np.divmod(pairs, size)
    stated = np.bincount(pair[_before(co_occurs, row)], minlength=len(pairs)) > 0
    rank = np.where(stated, 0, np.where(co_occurs[first], 1, 2))
    ranked = np.lexsort([first, -counts, rank, of])
    return list_column(of[ranked], number, word.of(text[ranked]))


def _before(found: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Which items of lists stand before any that is ``found``; ``row``: which list an item is
    of."""
    so_far = np.cumsum(found)
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    earlier = np.repeat(so_far[starts] - found[starts], np.diff(np.append(starts, len(row))))
    return so_far == earlier
