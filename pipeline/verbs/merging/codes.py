"""Text columns encoded as integers, and lists built from groups of rows.

Integers are grouped and sorted many times as fast as texts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import STRING, STRINGS

# pyarrow.compute creates its functions when it is imported, so type checkers do not see them.
pc: Any = pyarrow.compute
Codes = np.ndarray


@dataclass(frozen=True)
class EncodedTexts:
    """Rows of texts as integers.

    ``codes`` holds one integer per row. ``texts`` holds the distinct texts in code point order; a
    code is the position of its text there.
    """

    codes: Codes
    texts: pa.Array

    def decode(self, codes: Codes) -> pa.Array:
        """Return the text of each of these codes."""
        return self.texts.take(pa.array(codes))


def encode(*columns: pd.Series) -> EncodedTexts:
    """Encode the rows of text columns, one column after the other.

    Equal texts get equal codes, whichever column they are in. Codes sort as the texts do by code
    point.
    """
    arrays = [one_array(column, STRING) for column in columns]
    dictionary = pa.concat_arrays(arrays).dictionary_encode()
    # Arrow numbers the texts as they appear: these numbers become positions in the sorted texts.
    order = pc.sort_indices(dictionary.dictionary)
    sorted_positions = _inverse(order.to_numpy())
    codes = sorted_positions[dictionary.indices.to_numpy()]
    return EncodedTexts(codes, dictionary.dictionary.take(order))


def one_array(column: pd.Series, type: pa.DataType) -> pa.Array:
    """Return the column as one Arrow array of this type, without chunks."""
    cells = pa.array(column, type, from_pandas=True)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def first_words(lists: pa.Array) -> np.ndarray:
    """Return the first text of each list, "" where a list has none."""
    # A missing list counts as an empty one.
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    is_filled = lengths > 0
    # Behind the texts of all lists before it, a list has its first text.
    starts = np.cumsum(lengths) - lengths
    texts = lists.flatten().take(pa.array(starts[is_filled]))
    words = np.full(len(lists), "", dtype=object)
    words[is_filled] = pc.fill_null(texts, "").to_numpy(zero_copy_only=False)
    return words


def encode_text_units(records: pd.DataFrame, *others: pd.DataFrame) -> EncodedTexts:
    """Encode the ``text_unit_id`` of records so that codes sort in reading order.

    Reading order is by ``document_id``, then by ``unit_order``, the position in the document. Rows
    of ``others`` follow those of ``records`` in the codes. They need no columns but
    ``text_unit_id``: every text unit that they name must occur in ``records``, too.
    """
    unit_columns = [rows["text_unit_id"] for rows in (records, *others)]
    units = encode(*unit_columns)
    # Every text unit occurs in `records`, whose rows come first, so these rows are all in it.
    first = first_rows(units.codes, len(units.texts))
    documents = encode(records["document_id"].take(first)).codes
    positions = records["unit_order"].to_numpy()[first]
    # lexsort is stable: text units of one place keep the order of their ids.
    reading_order = np.lexsort([positions, documents])
    ranks = _inverse(reading_order)
    return EncodedTexts(ranks[units.codes], units.decode(reading_order))


def _inverse(permutation: np.ndarray) -> np.ndarray:
    """Return for each of the numbers 0, 1, ... its position in the permutation."""
    positions = np.empty(len(permutation), dtype=np.int64)
    positions[permutation] = np.arange(len(permutation))
    return positions


def first_rows(codes: Codes, number: int) -> np.ndarray:
    """Return the first row of each of the codes 0 to ``number`` - 1. Each of them must occur."""
    first = np.empty(number, np.int64)
    rows = np.arange(len(codes))
    # The rows are written from last to first, so that the first one of each code is kept.
    first[codes[::-1]] = rows[::-1]
    return first


def pair_codes(groups: Codes, values: Codes, size: int) -> Codes:
    """Return one integer for each pair of a group and a value, as ``split_pairs`` takes it apart.

    The integers sort by group, then by value. Every value must be less than ``size``.
    """
    return groups * size + values


def split_pairs(pairs: Codes, size: int) -> tuple[Codes, Codes]:
    """Return the groups and the values of what ``pair_codes`` made with the same ``size``."""
    # Without any value the size is 0, and there is no pair: nothing may be divided by 0 even then.
    return np.divmod(pairs, max(size, 1))


def first_occurrences(groups: Codes, values: Codes) -> np.ndarray:
    """Return the rows in which a value occurs for the first time in its group.

    They come group by group, and within a group in the order of the rows.
    """
    size = values.max(initial=0) + 1
    pairs = pair_codes(groups, values, size)
    _, rows = np.unique(pairs, return_index=True)
    # lexsort sorts by its last key first: by group, then by row.
    order = np.lexsort([rows, groups[rows]])
    return rows[order]


def sum_by_group(groups: Codes, amounts: np.ndarray) -> pd.Series:
    """Return the sum of the amounts of each group, indexed by group.

    The amounts of a group are added in the order of the rows. So the sum of a group is the same to
    the last bit if its rows are given alone.
    """
    present, positions = np.unique(groups, return_inverse=True)
    totals = np.bincount(positions, weights=amounts, minlength=len(present))
    return pd.Series(totals, index=present)


def build_lists(
    groups: Codes, number: int, items: pa.Array, type: pa.DataType = STRINGS
) -> pd.Series:
    """Return a column with the list of items of each of the groups 0 to ``number`` - 1.

    The items must come group by group. No Python list is made for them.
    """
    lengths = np.bincount(groups, minlength=number)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), items, type=type)
    return pd.Series(lists, dtype=pd.ArrowDtype(type))


def list_distinct_texts(groups: Codes, texts: pd.Series, number: int) -> pd.Series:
    """Return a column with the distinct texts of each of the groups 0 to ``number`` - 1.

    They are in the order of the rows. Empty texts are left out.
    """
    is_filled = (texts != "").to_numpy(dtype=bool)
    groups = groups[is_filled]
    encoded = encode(texts[is_filled])
    rows = first_occurrences(groups, encoded.codes)
    distinct_texts = encoded.decode(encoded.codes[rows])
    return build_lists(groups[rows], number, distinct_texts)
