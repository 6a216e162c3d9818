"""Whether the rows in a store are still what was written: a row changed by hand keeps the hash beside it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.load.diff import with_hashes
from pipeline.stores.base import Store
from pipeline.stores.lists import to_arrow

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()
LOOKS = 8
"""Times that a table's rows are looked up among all that it should have; each makes a table of these first."""


@dataclass(frozen=True)
class Expected:
    """What a table of a store should hold: of each id the row_hash beside it, and the hash of its content as the
    store gives it back. In Arrow, one place a row."""

    ids: pa.Array
    row_hashes: pa.Array
    contents: pa.Array

    @classmethod
    def of(cls, store: Store, rows: pd.DataFrame) -> "Expected":
        """``rows`` have ``row_hash``."""
        ids, row_hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
        stored = store.as_stored(rows)
        if stored is rows:
            return cls(ids, row_hashes, row_hashes)
        hashed = with_hashes(stored.drop(columns="row_hash"))
        return cls(ids, row_hashes, to_arrow(hashed["row_hash"], TEXT))


def altered_ids(parts: Iterable[pd.DataFrame], expected: Expected) -> pa.Array:
    """Of the rows that have the row_hash they should have, those whose content is another, or that are there more
    than once. ``parts``: the rows, as ``Store.rows`` gives them; each costs as much as there are rows expected."""
    altered = np.zeros(len(expected.ids), bool)
    times = np.zeros(len(expected.ids), np.int64)
    for part in parts:
        places = pc.index_in(to_arrow(part["id"], TEXT), value_set=expected.ids)
        said = pc.equal(to_arrow(part["row_hash"], TEXT), expected.row_hashes.take(places))
        as_said = pc.fill_null(said, False)
        places = places.filter(as_said)
        same = pc.equal(to_arrow(part["content_hash"], TEXT).filter(as_said), expected.contents.take(places))
        altered[places.filter(pc.invert(same)).to_numpy()] = True
        times += np.bincount(places.to_numpy(), minlength=len(times))
    return expected.ids.filter(pa.array(altered | (times > 1)))


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
