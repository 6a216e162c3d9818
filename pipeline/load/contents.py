"""Whether the rows in a store are still what was written: a row changed by hand keeps the hash beside it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.load.diff import with_hashes
from pipeline.stores.lists import to_arrow

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()
CONTENTS = pa.schema([(name, TEXT) for name in ("id", "row_hash", "content_hash")])
LOOKS = 8
"""Times that a table's rows are looked up among all that are unlike; each makes a table of these first."""


@dataclass(frozen=True)
class Expected:
    """What a table of a store should hold: of each id the row_hash beside it, and the hash of its content as the
    store gives it back. In Arrow, one place a row."""

    ids: pa.Array
    row_hashes: pa.Array
    contents: pa.Array

    @classmethod
    def of(cls, rows: pd.DataFrame, kept: pd.DataFrame) -> "Expected":
        """``rows`` have ``row_hash``, and need not have the vectors in it; ``kept``: the same as the store gives them
        back, which is ``rows`` itself where it keeps all as it is."""
        ids, row_hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
        if kept is rows:
            return cls(ids, row_hashes, row_hashes)
        hashed = with_hashes(kept.drop(columns="row_hash"))
        return cls(ids, row_hashes, to_arrow(hashed["row_hash"], TEXT))


def altered_ids(parts: Iterable[pd.DataFrame], expected: Expected) -> pa.Array:
    """Of the rows that have the row_hash they should have, those whose content is another, or that are there more
    than once. ``parts``: the rows, as ``Store.rows`` gives them."""
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
