"""Merging of the records of relationships: one relationship for each pair of ends and direction."""

import numpy as np
import pandas as pd

from pipeline.contract.schemas import CO_OCCURS, MERGED_RELATIONSHIPS, STRINGS
from pipeline.verbs.merging.codes import (
    Codes,
    build_lists,
    encode,
    encode_text_units,
    first_occurrences,
    list_distinct_texts,
    one_array,
    pair_codes,
    pc,
    split_pairs,
    sum_by_group,
)


def merge_relationships(
    relationship_records: pd.DataFrame, merged_entities: pd.DataFrame
) -> pd.DataFrame:
    """Return the relationships (MERGED_RELATIONSHIPS), sorted by id, from RELATIONSHIP_RECORDS.

    The names of their ends come from ``merged_entities`` (ENTITY_NAMES). Weights are added;
    keywords are united, the most frequent first. Records with a fault are left out.
    """
    sound = relationship_records[relationship_records["fault"] == ""]
    units = encode_text_units(sound)
    reading_order = np.lexsort([sound["order"], units.codes])
    records = sound.take(reading_order)
    unit = units.codes[reading_order]

    ids = encode(records["id"])
    number = len(ids.texts)
    _, first = np.unique(ids.codes, return_index=True)
    ends = records[["source_entity_id", "target_entity_id"]].take(first)
    ends = ends.reset_index(drop=True)
    entity_ids = merged_entities["id"].tolist()
    entity_names = merged_entities["name"].tolist()
    names = dict(zip(entity_ids, entity_names, strict=True))

    # The text units of a relationship, each once and in reading order.
    first_in_unit = first_occurrences(ids.codes, unit)
    unit_ids = units.decode(unit[first_in_unit])
    text_unit_ids = build_lists(ids.codes[first_in_unit], number, unit_ids)
    descriptions = list_distinct_texts(ids.codes, records["description"], number)
    keywords = _merge_keywords(ids.codes, records["keywords"], number)
    weights = sum_by_group(ids.codes, records["weight"].to_numpy())
    columns = {
        "id": ids.texts.to_pandas(),
        "source": ends["source_entity_id"].map(names),
        "target": ends["target_entity_id"].map(names),
        **ends,
        "descriptions": descriptions,
        "keywords": keywords,
        "weight": weights.to_numpy(),
        "text_unit_ids": text_unit_ids,
    }
    return pd.DataFrame(columns, columns=MERGED_RELATIONSHIPS.columns)


def _merge_keywords(relationships: Codes, keywords: pd.Series, number: int) -> pd.Series:
    """Return a column with the distinct keywords of each relationship, 0 to ``number`` - 1.

    In a record's list, the keywords before CO_OCCURS are what the text states; those behind it
    merely occur in the sentences that both ends share. Stated keywords come first, then CO_OCCURS,
    then the others; within these, the most frequent first, then in order of appearance.
    ``relationships`` has the code of each record's relationship.
    """
    lists = one_array(keywords, STRINGS)
    items = lists.flatten()
    is_filled = items.is_valid().to_numpy(zero_copy_only=False)
    row_of_item = pc.list_parent_indices(lists).to_numpy()
    row = row_of_item[is_filled]
    words = encode(items.drop_null().to_pandas())
    # Compared once for each distinct word.
    is_word_mark = pc.equal(words.texts, CO_OCCURS).to_numpy(zero_copy_only=False)
    is_mark = is_word_mark[words.codes]

    size = len(words.texts)
    relationship_and_word = pair_codes(relationships[row], words.codes, size)
    pairs, first, pair_of_item, counts = np.unique(
        relationship_and_word, return_index=True, return_inverse=True, return_counts=True
    )
    relationship, word = split_pairs(pairs, size)
    stated_items = _stand_before(is_mark, row)
    # A keyword is stated if one of the records states it.
    n_statements = np.bincount(pair_of_item[stated_items], minlength=len(pairs))
    # Stated keywords have rank 0, CO_OCCURS has rank 1, the others rank 2.
    unstated_rank = np.where(is_mark[first], 1, 2)
    rank = np.where(n_statements > 0, 0, unstated_rank)
    # lexsort sorts by its last key first.
    best_first = np.lexsort([first, -counts, rank, relationship])
    texts = words.decode(word[best_first])
    return build_lists(relationship[best_first], number, texts)


def _stand_before(marks: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return for each item of some lists whether no mark stands before it in its list.

    ``marks`` says which items are marks; a mark itself does not count as standing before one.
    ``row`` has the number of each item's list; the items come list by list.
    """
    # The number of marks in all lists up to each item, itself included.
    marks_so_far = np.cumsum(marks)
    # A list begins where the number of the list changes, and ends where the next one begins.
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    lengths = np.diff(np.append(starts, len(row)))
    marks_before_list = marks_so_far[starts] - marks[starts]
    # Up to such an item, there are no more marks than before its list.
    marks_before_list_of_item = np.repeat(marks_before_list, lengths)
    return marks_so_far == marks_before_list_of_item
