"""The hash of a row, and how rows differ by it from those that a store has."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import HASHES
from pipeline.stores.base import Delta
from pipeline.stores.binary_copy import Kind, digests
from pipeline.stores.list_columns import in_arrow, is_texts, to_arrow

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``row_hash``: a digest of every column, in the order of their names."""
    kinds: dict[str, Kind] = {name: _kind(rows[name]) for name in sorted(rows.columns)}
    return rows.assign(row_hash=pd.Series(digests(rows, kinds), index=rows.index, dtype=str))


def diff(rows: pd.DataFrame, stored: Mapping[str, str] | pa.Table) -> Delta:
    """``rows`` have ``id`` and ``row_hash``; ``stored`` maps the ids in the store to their
    row_hash, or is a table of both."""
    before = _table(stored)
    ids, hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
    ids_before, hashes_before = (
        before[name].cast(TEXT).combine_chunks() for name in ("id", "row_hash")
    )
    places = pc.index_in(ids, value_set=ids_before)
    new = _flags(pc.is_null(places))
    gone = np.ones(len(ids_before), dtype=bool)
    gone[places.drop_null().to_numpy()] = False
    same = _flags(pc.fill_null(pc.equal(hashes, hashes_before.take(places)), False))
    return Delta(
        inserted=rows if new.all() else rows[new],
        updated=rows[~same & ~new],
        deleted=sorted(ids_before.filter(pa.array(gone)).to_pylist()),
        unchanged=int(same.sum()),
        after=hashes_of(rows),
    )


def hashes_of(rows: pd.DataFrame) -> pa.Table:
    """HASHES of rows that have their ``row_hash``."""
    return pa.table([to_arrow(rows[name], TEXT) for name in HASHES.names], schema=HASHES)


def _table(hashes: Mapping[str, str] | pa.Table) -> Any:
    if isinstance(hashes, pa.Table):
        return hashes
    return pa.table(
        {"id": pa.array(list(hashes), TEXT), "row_hash": pa.array(list(hashes.values()), TEXT)}
    )


def _flags(values: pa.BooleanArray) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)


def _kind(column: pd.Series) -> Kind:
    if pd.api.types.is_float_dtype(column):
        return "float8"
    if pd.api.types.is_integer_dtype(column):
        return "int8"
    if in_arrow(column):
        return "text[]" if is_texts(column) else "vector"
    present = column.dropna()
    first = present.iloc[0] if len(present) else ""
    if isinstance(first, dict):
        return "jsonb"
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return "vector"
    return "text" if isinstance(first, str) else "text[]"


CONTENTS = pa.schema([(name, TEXT) for name in ("id", "row_hash", "content_hash")])
LOOKS = 8
"""Times that a table's rows are looked up among all that are unlike; each makes a table of these
first."""


@dataclass(frozen=True)
class ExpectedTable:
    """What a table of a store should hold: of each id the row_hash beside it, and the hash of its
    content as the store gives it back. In Arrow, one place a row."""

    ids: pa.Array
    row_hashes: pa.Array
    contents: pa.Array

    @classmethod
    def of(cls, rows: pd.DataFrame, kept: pd.DataFrame) -> "ExpectedTable":
        """``rows`` have ``row_hash``; ``kept``: the same as the store gives them back, ``rows``
        itself where it keeps all as it is."""
        ids, row_hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
        if kept is rows:
            return cls(ids, row_hashes, row_hashes)
        hashed = with_hashes(kept.drop(columns="row_hash"))
        return cls(ids, row_hashes, to_arrow(hashed["row_hash"], TEXT))

    @classmethod
    def joined(cls, parts: "Iterable[ExpectedTable]") -> "ExpectedTable":
        """Of the parts of a table, in their order."""
        none = pa.array([], TEXT)
        columns = [(none,) * 3, *((part.ids, part.row_hashes, part.contents) for part in parts)]
        return cls(*map(pa.concat_arrays, zip(*columns, strict=True)))

    @property
    def hashes(self) -> pa.Table:
        """HASHES of the rows."""
        return pa.table([self.ids, self.row_hashes], schema=HASHES)


def altered_ids(parts: Iterable[pd.DataFrame], expected: ExpectedTable) -> pa.Array:
    """Of the rows that have the row_hash they should have, those whose content is another, or that
    are there more than once. ``parts``: the rows, as ``Store.rows`` gives them."""
    read = pa.concat_tables([CONTENTS.empty_table(), *map(_contents, parts)]).combine_chunks()
    places = pc.index_in(read["id"], value_set=expected.ids)
    as_said = pc.fill_null(pc.equal(read["row_hash"], expected.row_hashes.take(places)), False)
    places = places.filter(as_said)
    same = pc.equal(read["content_hash"].filter(as_said), expected.contents.take(places))
    altered = np.zeros(len(expected.ids), bool)
    altered[places.filter(pc.invert(same)).to_numpy()] = True
    times = np.bincount(places.to_numpy(), minlength=len(altered))
    return expected.ids.filter(pa.array(altered | (times > 1)))


def _contents(part: pd.DataFrame) -> pa.Table:
    return pa.table([to_arrow(part[name], TEXT) for name in CONTENTS.names], schema=CONTENTS)


def in_few(parts: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """The same rows, of which there are so many, in few parts."""
    waiting: list[pd.DataFrame] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) > rows // LOOKS:
            yield pd.concat(waiting, ignore_index=True)
            waiting = []
    if waiting:
        yield pd.concat(waiting, ignore_index=True)
