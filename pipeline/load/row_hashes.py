"""Hashes of rows, and comparisons by hash between the rows of a store and those it should have."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import HASHES
from pipeline.stores.base import PROPERTIES, Delta
from pipeline.stores.binary_copy import Kind, digests
from pipeline.stores.list_columns import in_arrow, is_texts, to_arrow

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

TEXT = pa.large_string()


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with ``row_hash``, a digest of all columns in the order of their names.

    PROPERTIES are left out where there are none: rows of a project without properties keep the hash
    that an earlier version of the software gave them.
    """
    kinds: dict[str, Kind] = {name: _kind_of(rows[name]) for name in sorted(rows.columns)}
    if PROPERTIES in kinds:
        kinds[PROPERTIES] = "optional"
    hashes = pd.Series(digests(rows, kinds), index=rows.index, dtype=str)
    return rows.assign(row_hash=hashes)


def diff(rows: pd.DataFrame, stored: Mapping[str, str] | pa.Table) -> Delta:
    """Compare rows with those in a store by their hashes, and return the delta between them.

    ``rows`` have ``id`` and ``row_hash``. ``stored``: a mapping from the ids in the store to their
    row_hash, or a table of both. The delta's ``before`` is None.
    """
    if isinstance(stored, Mapping):
        stored_ids = pa.array(list(stored), TEXT)
        stored_hashes = pa.array(list(stored.values()), TEXT)
    else:
        stored_ids = stored["id"].cast(TEXT).combine_chunks()
        stored_hashes = stored["row_hash"].cast(TEXT).combine_chunks()
    ids = to_arrow(rows["id"], TEXT)
    hashes = to_arrow(rows["row_hash"], TEXT)
    # The place of each row in the store, null for a row that the store does not have.
    stored_places = pc.index_in(ids, value_set=stored_ids)
    is_new = pc.is_null(stored_places).to_numpy(zero_copy_only=False)
    is_gone = np.ones(len(stored_ids), dtype=bool)
    is_gone[stored_places.drop_null().to_numpy()] = False
    gone_ids = stored_ids.filter(pa.array(is_gone))
    hash_is_equal = pc.equal(hashes, stored_hashes.take(stored_places))
    is_same = pc.fill_null(hash_is_equal, False).to_numpy(zero_copy_only=False)
    is_updated = ~is_same & ~is_new
    return Delta(
        # Where all rows are new, they are not copied.
        inserted=rows if is_new.all() else rows[is_new],
        updated=rows[is_updated],
        deleted=sorted(gone_ids.to_pylist()),
        unchanged=int(is_same.sum()),
        after=hashes_of(rows),
    )


def hashes_of(rows: pd.DataFrame) -> pa.Table:
    """Return HASHES of rows that have ``id`` and ``row_hash``."""
    columns = [to_arrow(rows[name], TEXT) for name in HASHES.names]
    return pa.table(columns, schema=HASHES)


def _kind_of(column: pd.Series) -> Kind:
    """Return how PostgreSQL would store a column; of Python objects the first one decides."""
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
"""The number of lookups into which ``in_few`` divides the rows of a table, about. Each lookup first
builds a hash table of all ids that it searches."""


@dataclass(frozen=True)
class ExpectedTable:
    """The rows that a table of a store should hold: three arrays with a place for each row.

    ``row_hashes``: the value of the column row_hash. ``contents``: the hash of the row as the store
    gives it back; it differs from row_hash where the store does not keep all of a row.
    """

    ids: pa.Array
    row_hashes: pa.Array
    contents: pa.Array

    @classmethod
    def of(cls, rows: pd.DataFrame, kept: pd.DataFrame) -> "ExpectedTable":
        """Return the table of these rows, which have ``row_hash``.

        ``kept``: the rows as the store gives them back. Pass ``rows`` itself if the store keeps
        all of it: then nothing is hashed again.
        """
        ids = to_arrow(rows["id"], TEXT)
        row_hashes = to_arrow(rows["row_hash"], TEXT)
        if kept is rows:
            return cls(ids, row_hashes, row_hashes)
        hashed = with_hashes(kept.drop(columns="row_hash"))
        contents = to_arrow(hashed["row_hash"], TEXT)
        return cls(ids, row_hashes, contents)

    @classmethod
    def joined(cls, parts: "Iterable[ExpectedTable]") -> "ExpectedTable":
        """Return the rows of all parts, in the order of the parts."""
        no_text = pa.array([], TEXT)
        empty = cls(no_text, no_text, no_text)
        # Arrow joins one array at least.
        every_part = [empty, *parts]
        return cls(
            pa.concat_arrays([part.ids for part in every_part]),
            pa.concat_arrays([part.row_hashes for part in every_part]),
            pa.concat_arrays([part.contents for part in every_part]),
        )

    @property
    def hashes(self) -> pa.Table:
        """HASHES of the rows."""
        return pa.table([self.ids, self.row_hashes], schema=HASHES)


def altered_ids(parts: Iterable[pd.DataFrame], expected: ExpectedTable) -> pa.Array:
    """Return the ids of rows whose row_hash is as expected but whose content is not.

    Ids that the store has more than once are returned as well. ``parts``: the rows of the store,
    with ``content_hash``, as ``Store.rows`` gives them.
    """
    tables = [CONTENTS.empty_table(), *map(_contents_of, parts)]
    stored = pa.concat_tables(tables).combine_chunks()
    # The place of each stored row among the expected ones, null for a row that is not expected.
    all_places = pc.index_in(stored["id"], value_set=expected.ids)
    hash_is_equal = pc.equal(stored["row_hash"], expected.row_hashes.take(all_places))
    hash_is_expected = pc.fill_null(hash_is_equal, False)
    places = all_places.filter(hash_is_expected)
    contents = stored["content_hash"].filter(hash_is_expected)
    content_is_same = pc.equal(contents, expected.contents.take(places))
    altered_places = places.filter(pc.invert(content_is_same))
    is_altered = np.zeros(len(expected.ids), bool)
    is_altered[altered_places.to_numpy()] = True
    copies = np.bincount(places.to_numpy(), minlength=len(expected.ids))
    is_repeated = copies > 1
    return expected.ids.filter(pa.array(is_altered | is_repeated))


def _contents_of(part: pd.DataFrame) -> pa.Table:
    """Return CONTENTS of rows of a store."""
    columns = [to_arrow(part[name], TEXT) for name in CONTENTS.names]
    return pa.table(columns, schema=CONTENTS)


def in_few(parts: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """Yield the same rows in about LOOKS larger parts; ``rows``: how many rows all parts have."""
    waiting: list[pd.DataFrame] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) > rows // LOOKS:
            yield pd.concat(waiting, ignore_index=True)
            waiting = []
    if waiting:
        yield pd.concat(waiting, ignore_index=True)
