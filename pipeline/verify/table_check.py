"""Compares a table of a store with the rows that the snapshots say, by counts, by hashes, or by the
contents of rows."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.load.desired_rows import NO_IDS, DesiredRows
from pipeline.load.one_store import reported_name
from pipeline.load.row_hashes import TEXT, ExpectedTable, altered_ids, in_few
from pipeline.stores.base import Store, TableState
from pipeline.stores.list_columns import to_arrow
from pipeline.verify.references import NamedRow, References, first_named, name_columns, row_names

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

Kind = Literal["missing", "extra", "differing", "altered"]
"""A kind of difference.

A missing row is not in the store. An extra row is in the store only. A differing row has another
row_hash in the store. An altered row has the right row_hash there, but other contents."""

Ids = dict[Kind, Any]
"""The ids of rows by kind of difference, as Arrow arrays with or without chunks."""


@dataclass(frozen=True)
class Difference:
    """The number of rows with one kind of difference, and the first of them by name."""

    kind: Kind
    rows: int
    examples: tuple[NamedRow, ...]


@dataclass(frozen=True)
class TableCheck:
    """The check of a table: the number of rows it should have, of rows it has, and differences."""

    store: str
    table: str
    expected: int
    stored: int
    differences: tuple[Difference, ...]


def check_state(store: Store, table: str, wanted: DesiredRows, state: TableState) -> TableCheck:
    """Return the check of a table that is unchanged since the load of the same rows."""
    return TableCheck(store.name, reported_name(table), wanted.count(table), state.rows, ())


def check_hashes(store: Store, table: str, wanted: DesiredRows, stored: pa.Table) -> TableCheck:
    """Compare a table by the hashes beside the rows alone.

    ``stored``: HASHES of the store. Rows that only the store has are not read, so they have no
    name.
    """
    hashes = wanted.hashes(table)
    ids = _compare_hashes(hashes["id"], hashes["row_hash"], stored)
    # Extra rows are not in the snapshots.
    in_snapshots = [found for kind, found in ids.items() if kind != "extra"]
    unlike = _join_arrays(in_snapshots)
    names: dict[str, str] = {}
    if len(unlike):
        unlike_rows = wanted.some(table, unlike.combine_chunks())
        names = _name_rows(unlike_rows, ids)
    return _make_check(store, table, len(hashes), len(stored), ids, names)


def check_rows(
    store: Store,
    table: str,
    wanted: DesiredRows,
    stored: pa.Table,
    references: References,
    report: Callable[[int, int], None],
) -> TableCheck:
    """Compare a table by the contents of all rows, which are read and hashed again.

    ``stored``: HASHES of the store. ``references``: collects the dangling references of the store's
    rows. ``report``: called with the number of rows done and of all rows.
    """
    report(0, len(stored))
    rows, expected = _expect_rows(store, table, wanted, references.columns)
    ids = _compare_hashes(expected.ids, expected.row_hashes, stored)
    stored_parts = _report_rows(store.rows(table, []), len(stored), report)
    altered = altered_ids(stored_parts, expected)
    # A row with another row_hash has other contents, too. It counts once, as differing.
    is_differing = pc.is_in(altered, value_set=ids["differing"])
    ids["altered"] = altered.filter(pc.invert(is_differing))
    # A row that is as expected has the references of its row in the snapshots. Only the references
    # of other rows are read from the store.
    unlike = _join_arrays(list(ids.values())).combine_chunks()
    is_unlike = pc.is_in(expected.ids, value_set=unlike).to_numpy(zero_copy_only=False)
    references.check(rows[~is_unlike])
    names = _name_rows(rows, ids)
    has_unlike_in_store = len(unlike) > len(ids["missing"])
    if has_unlike_in_store:
        # A column may both have a reference and name the row.
        columns = list(dict.fromkeys([*references.columns, *name_columns(rows.columns)]))
        stored_rows = in_few(store.rows(table, columns), len(stored))
        names_of_extra = _check_unlike_rows(stored_rows, unlike, ids["extra"], references)
        names = {**names_of_extra, **names}
    return _make_check(store, table, len(rows), len(stored), ids, names)


def _expect_rows(
    store: Store, table: str, wanted: DesiredRows, references: Collection[str]
) -> tuple[pd.DataFrame, ExpectedTable]:
    """Return the rows that the store should have, and their hashes.

    The rows have their id, the columns that name them, and those of ``references``. Texts and
    vectors are in memory for some thousands of rows at a time.
    """
    rows: list[pd.DataFrame] = []
    expected: list[ExpectedTable] = []
    # The part without rows comes first, so that there are columns even if there is no row.
    without_rows = wanted.some(table, NO_IDS)
    for part in chain([without_rows], wanted.parts(table)):
        as_stored = store.as_stored(part)
        expected.append(ExpectedTable.of(part, as_stored))
        columns = dict.fromkeys(["id", *references, *name_columns(part.columns)])
        rows.append(as_stored[list(columns)])
    all_rows = pd.concat(rows, ignore_index=True)
    return all_rows, ExpectedTable.joined(expected)


def _compare_hashes(ids: Any, row_hashes: Any, stored: pa.Table) -> Ids:
    """Return the ids that are missing, extra or differing in the store.

    ``ids`` and ``row_hashes``: those of the rows that the store should have.
    """
    # The place of each stored row among the rows that should be there; null for an extra one.
    place_or_null = pc.index_in(stored["id"], value_set=ids)
    is_extra = pc.is_null(place_or_null)
    expected_rows = stored.filter(pc.invert(is_extra))
    places = place_or_null.drop_null()
    is_present = np.zeros(len(ids), bool)
    is_present[places.to_numpy()] = True
    expected_hashes = row_hashes.take(places)
    differs = pc.not_equal(expected_rows["row_hash"], expected_hashes)
    return {
        "missing": ids.filter(pa.array(~is_present)),
        "extra": stored["id"].filter(is_extra),
        "differing": expected_rows["id"].filter(differs),
    }


def _report_rows(
    parts: Iterable[pd.DataFrame], rows: int, report: Callable[[int, int], None]
) -> Iterator[pd.DataFrame]:
    """Yield the parts, and report after each how many of all ``rows`` are done."""
    done = 0
    for part in parts:
        yield part
        done += len(part)
        report(done, rows)


def _check_unlike_rows(
    parts: Iterable[pd.DataFrame], unlike: Any, extra: Any, references: References
) -> dict[str, str]:
    """Check the references of the rows ``unlike``, and return the names of the rows ``extra``."""
    names: dict[str, str] = {}
    for part in parts:
        ids = to_arrow(part["id"], TEXT)
        is_unlike = pc.is_in(ids, value_set=unlike).to_numpy(zero_copy_only=False)
        is_extra = pc.is_in(ids, value_set=extra).to_numpy(zero_copy_only=False)
        references.check(part[is_unlike])
        extra_rows = part[is_extra]
        names.update(zip(extra_rows["id"], row_names(extra_rows), strict=True))
    return names


def _join_arrays(arrays: Iterable[Any]) -> pa.ChunkedArray:
    """Join arrays of texts, with or without chunks, without copying them."""
    chunks: list[pa.Array] = []
    for array in arrays:
        chunks += array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    texts = [chunk.cast(TEXT) for chunk in chunks]
    return pa.chunked_array(texts, TEXT)


def _name_rows(rows: pd.DataFrame, ids: Ids) -> dict[str, str]:
    """Return the names of the rows that differ, by id."""
    differing: list[str] = []
    for of_kind in ids.values():
        differing += of_kind.to_pylist()
    if not differing:
        return {}
    differing_rows = rows[rows["id"].isin(differing)]
    names = row_names(differing_rows)
    return dict(zip(differing_rows["id"], names, strict=True))


def _make_check(
    store: Store, table: str, expected: int, stored: int, ids: Ids, names: dict[str, str]
) -> TableCheck:
    differences: list[Difference] = []
    for kind, of_kind in ids.items():
        if len(of_kind):
            rows = [NamedRow(names.get(id, ""), id) for id in of_kind.to_pylist()]
            differences.append(Difference(kind, len(rows), first_named(rows)))
    return TableCheck(store.name, reported_name(table), expected, stored, tuple(differences))
