"""Whether the rows in a store are still what was written: a row changed by hand keeps the hash beside it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from pipeline.load.diff import with_hashes
from pipeline.stores.base import Store
from pipeline.stores.lists import lengths_of


@dataclass(frozen=True)
class Expected:
    """What a table of a store should hold: of each id the row_hash beside it, and the hash of its content as the
    store gives it back."""

    row_hashes: Mapping[str, str]
    contents: Mapping[str, str]
    dimensions: int | None

    @classmethod
    def of(cls, store: Store, rows: pd.DataFrame) -> "Expected":
        """``rows`` have ``row_hash``."""
        row_hashes = dict(zip(rows["id"], rows["row_hash"], strict=True))
        return cls(row_hashes, _contents(store, rows, row_hashes), _dimensions(rows))


def altered_ids(parts: Iterable[pd.DataFrame], expected: Expected) -> set[str]:
    """Of the rows that have the row_hash they should have, those whose content is another, or that are there more
    than once. ``parts``: the rows, as the store gives them back."""
    altered: set[str] = set()
    seen: set[str] = set()
    for part in parts:
        rows = part[part["row_hash"] == part["id"].map(expected.row_hashes)]
        whole = rows[_fits(rows, expected.dimensions)]
        hashes = with_hashes(whole.drop(columns="row_hash"))["row_hash"] if len(whole) else whole["row_hash"]
        altered |= set(rows["id"]) - set(whole["id"][hashes == whole["id"].map(expected.contents)])
        altered |= set(rows["id"][rows["id"].duplicated() | rows["id"].isin(seen)])
        seen |= set(rows["id"])
    return altered


def _contents(store: Store, rows: pd.DataFrame, row_hashes: Mapping[str, str]) -> Mapping[str, str]:
    """Not the row_hashes where the store does not keep the whole of a row."""
    stored = store.as_stored(rows)
    if stored is rows:
        return row_hashes
    hashed = with_hashes(stored.drop(columns="row_hash"))
    return dict(zip(hashed["id"], hashed["row_hash"], strict=True))


def _fits(rows: pd.DataFrame, dimensions: int | None) -> pd.Series:
    """The rows whose vector has the length it should have; those of different lengths could not be hashed together."""
    if "embedding" not in rows:
        return pd.Series(True, index=rows.index)
    return pd.Series(lengths_of(rows["embedding"]) == dimensions, rows.index)


def _dimensions(rows: pd.DataFrame) -> int | None:
    if "embedding" not in rows or rows.empty:
        return None
    return int(lengths_of(rows["embedding"].iloc[:1])[0])
