"""Columns of texts as numbers, which are grouped and sorted many times as fast, and lists made of
groups."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import STRING, STRINGS

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them
Codes = np.ndarray


@dataclass(frozen=True)
class Coded:
    """``codes``: of each row the number of its text; ``texts``: of each number, in order."""

    codes: Codes
    texts: pa.Array

    def of(self, codes: Codes) -> pa.Array:
        return self.texts.take(pa.array(codes))


def coded(*columns: pd.Series) -> Coded:
    """The rows of the columns, one column after the other; texts are in the order of code
    points."""
    whole = pa.concat_arrays(
        [whole_array(column, STRING) for column in columns]
    ).dictionary_encode()
    order = pc.sort_indices(whole.dictionary)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    return Coded(ranks[whole.indices.to_numpy()], whole.dictionary.take(order))


def whole_array(column: pd.Series, type: pa.DataType) -> pa.Array:
    """The column in Arrow, in one piece."""
    cells = pa.array(column, type, from_pandas=True)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def places(records: pd.DataFrame, *others: pd.DataFrame) -> Coded:
    """Of each record its text unit, in reading order: by document, then as they stand in it.
    ``others``: records of text units that ``records`` have too, which alone say where these
    stand."""
    units = coded(records["text_unit_id"], *(rows["text_unit_id"] for rows in others))
    first = first_rows(units.codes, len(units.texts))
    documents, orders = (
        coded(records["document_id"].take(first)).codes,
        records["unit_order"].to_numpy()[first],
    )
    ranked = np.lexsort([orders, documents])  # those alike stay as their ids are
    ranks = np.empty(len(ranked), np.int64)
    ranks[ranked] = np.arange(len(ranked))
    return Coded(ranks[units.codes], units.of(ranked))


def first_rows(codes: Codes, number: int) -> np.ndarray:
    """Where each of the codes 0, 1, ... stands first; all of them do."""
    rows = np.empty(number, np.int64)
    rows[codes[::-1]] = np.arange(len(codes))[::-1]
    return rows


def paired(groups: Codes, values: Codes, size: int) -> Codes:
    """A number for each two, in the order of the groups, then of the values, which are less than
    ``size``."""
    return groups * size + values


def firsts(groups: Codes, values: Codes) -> np.ndarray:
    """Where a value stands first in its group: group by group, in the order of the rows."""
    _, rows = np.unique(paired(groups, values, values.max(initial=0) + 1), return_index=True)
    return rows[np.lexsort([rows, groups[rows]])]


def sums(groups: Codes, amounts: np.ndarray) -> pd.Series:
    """The sum of each group's amounts, by group. They are added in the order of the rows, so that a
    group alone has the same sum to the last bit."""
    there, places = np.unique(groups, return_inverse=True)
    return pd.Series(np.bincount(places, weights=amounts, minlength=len(there)), index=there)


def list_column(
    groups: Codes, number: int, items: pa.Array, type: pa.DataType = STRINGS
) -> pd.Series:
    """Of each of the groups 0, 1, ... its items, which stand group by group, without a Python list
    for each."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=number))])
    return pd.Series(
        pa.LargeListArray.from_arrays(pa.array(ends), items, type=type), dtype=pd.ArrowDtype(type)
    )


def distinct_texts(groups: Codes, texts: pd.Series, number: int) -> pd.Series:
    """Of each of the groups 0, 1, ... its texts, each once, in the order of the rows; an empty one
    says nothing."""
    said = (texts != "").to_numpy(dtype=bool)
    groups, told = groups[said], coded(texts[said])
    rows = firsts(groups, told.codes)
    return list_column(groups[rows], number, told.of(told.codes[rows]))
