"""Compare a table of a store with what the snapshots say of it, and each row with the hash beside
it."""

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

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

Kind = Literal["missing", "extra", "differing", "altered"]
"""Not in the store; only there; there with another row_hash; with the right row_hash beside another
content."""


@dataclass(frozen=True)
class Difference:
    """``rows`` of one kind, and the first of them by name."""

    kind: Kind
    rows: int
    examples: tuple[NamedRow, ...]


@dataclass(frozen=True)
class TableCheck:
    """A table of a store: rows it should have, rows it has, and how they differ."""

    store: str
    table: str
    expected: int
    stored: int
    differences: tuple[Difference, ...]


def check_state(store: Store, table: str, wanted: DesiredRows, state: TableState) -> TableCheck:
    """Of a table that is as its load left it, and is to stay so."""
    return TableCheck(store.name, reported_name(table), wanted.count(table), state.rows, ())


def check_hashes(store: Store, table: str, wanted: DesiredRows, stored: pa.Table) -> TableCheck:
    """By the hashes beside the rows, ``stored``, alone. A row that only the store has keeps no
    name."""
    hashes = wanted.hashes(table)
    ids = _compared(hashes["id"], hashes["row_hash"], stored)
    unlike = pa.chunked_array(
        [piece for kind in ids if kind != "extra" for piece in _pieces(ids[kind])], TEXT
    )
    names = _names(wanted.some(table, unlike.combine_chunks()), ids) if len(unlike) else {}
    return _check(store, table, len(hashes), len(stored), ids, names)


def check_rows(
    store: Store,
    table: str,
    wanted: DesiredRows,
    stored: pa.Table,
    references: References,
    told: Callable[[int, int], None],
) -> TableCheck:
    """By the rows themselves, read and hashed anew; ``references`` is shown them all, and ``told``
    hears how many are done, of how many."""
    told(0, len(stored))
    rows, expected = _expected(store, table, wanted, references.columns)
    ids = _compared(expected.ids, expected.row_hashes, stored)
    parts = _counted(store.rows(table, []), len(stored), told)
    altered = altered_ids(parts, expected)
    ids["altered"] = altered.filter(pc.invert(pc.is_in(altered, value_set=ids["differing"])))
    # What is as it should be refers to what the snapshots' row refers to: no list of it is read out
    # of the store.
    unlike = pa.concat_arrays([found.cast(TEXT) for kind in ids for found in _pieces(ids[kind])])
    references.look(
        rows[pc.invert(pc.is_in(expected.ids, value_set=unlike)).to_numpy(zero_copy_only=False)]
    )
    names = _names(rows, ids)
    if len(unlike) > len(ids["missing"]):
        columns = list(dict.fromkeys([*references.columns, *name_columns(rows.columns)]))
        names = {
            **_seen(
                in_few(store.rows(table, columns), len(stored)), unlike, ids["extra"], references
            ),
            **names,
        }
    return _check(store, table, len(rows), len(stored), ids, names)


def _expected(
    store: Store, table: str, wanted: DesiredRows, references: Collection[str]
) -> tuple[pd.DataFrame, ExpectedTable]:
    """Of every row its id, what names it and what refers to others; and what should be in the
    store. Texts and vectors are held of one part at a time."""
    rows: list[pd.DataFrame] = []
    expected: list[ExpectedTable] = []
    for part in chain(
        [wanted.some(table, NO_IDS)], wanted.parts(table)
    ):  # columns are there without any row
        kept = store.as_stored(part)
        expected.append(ExpectedTable.of(part, kept))
        rows.append(kept[list(dict.fromkeys(["id", *references, *name_columns(part.columns)]))])
    return pd.concat(rows, ignore_index=True), ExpectedTable.joined(expected)


def _compared(ids: Any, row_hashes: Any, stored: pa.Table) -> dict[Kind, Any]:
    """Ids by how they differ. ``ids`` and ``row_hashes``: of the rows that there should be."""
    places = pc.index_in(stored["id"], value_set=ids)
    is_extra = pc.is_null(places)
    known = stored.filter(pc.invert(is_extra))
    places = places.drop_null()
    present = np.zeros(len(ids), bool)
    present[places.to_numpy()] = True
    differs = pc.not_equal(known["row_hash"], row_hashes.take(places))
    return {
        "missing": ids.filter(pa.array(~present)),
        "extra": stored["id"].filter(is_extra),
        "differing": known["id"].filter(differs),
    }


def _counted(
    parts: Iterable[pd.DataFrame], rows: int, told: Callable[[int, int], None]
) -> Iterator[pd.DataFrame]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        told(done, rows)


def _seen(
    parts: Iterable[pd.DataFrame], unlike: Any, extra: Any, references: References
) -> dict[str, str]:
    """The names of the extra rows; the dangling ids of all that are unlike what they should be are
    noted."""
    names: dict[str, str] = {}
    for part in parts:
        ids = to_arrow(part["id"], TEXT)
        references.look(part[pc.is_in(ids, value_set=unlike).to_numpy(zero_copy_only=False)])
        strange = part[pc.is_in(ids, value_set=extra).to_numpy(zero_copy_only=False)]
        names.update(zip(strange["id"], row_names(strange), strict=True))
    return names


def _pieces(found: Any) -> list[Any]:
    return found.chunks if isinstance(found, pa.ChunkedArray) else [found]


def _names(rows: pd.DataFrame, ids: dict[Kind, Any]) -> dict[str, str]:
    differing = [id for found in ids.values() for id in found.to_pylist()]
    named = rows[rows["id"].isin(differing)] if differing else rows[:0]
    return dict(zip(named["id"], row_names(named), strict=True))


def _check(
    store: Store,
    table: str,
    expected: int,
    stored: int,
    ids: dict[Kind, Any],
    names: dict[str, str],
) -> TableCheck:
    differences = tuple(
        Difference(
            kind,
            len(found),
            first_named(NamedRow(names.get(id, ""), id) for id in found.to_pylist()),
        )
        for kind, found in ids.items()
        if len(found)
    )
    return TableCheck(store.name, reported_name(table), expected, stored, differences)
