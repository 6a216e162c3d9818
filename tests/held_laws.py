"""The law of a verb or of a part of one (pipeline/contract/laws.py), held by who knows nothing of
the engine: over a split of the groups, and over a night that changes rows and keeps what the law
says is as it was."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.laws import Law, Part, Uses
from pipeline.contract.registry import UNTRACKED, Params, Verb
from pipeline.contract.schemas import TableSchema

Frames = Mapping[str, pd.DataFrame]
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Lawful:
    """A function of tables that has a law; ``call`` gives its outputs as snapshots hold them."""

    name: str
    law: Law
    inputs: Mapping[str, TableSchema]
    call: Callable[[Frames], dict[str, pa.Table]]


def of_verb(verb: Verb, read: Mapping[str, TableSchema], roles: Mapping[str, Any]) -> Lawful:
    """``read``: the schemas of the tables that it is given."""
    assert verb.law

    def call(tables: Frames) -> dict[str, pa.Table]:
        frames = verb.call(tables, roles)
        written = verb.written(read, roles.get("params", Params()))
        return {
            name: schema.encode(frames[name], f"{verb.name}: {name}")
            for name, schema in written.items()
        }

    return Lawful(verb.name, verb.law, read, call)


def chained(
    verb: Verb, tables: Frames, roles: Mapping[str, Any]
) -> Iterator[tuple[Part, dict[str, pd.DataFrame], dict[str, pa.Table]]]:
    """Each part of the verb with the tables that it reads, those of the verb and what earlier parts
    have made of them, and with what it makes."""
    assert verb.parts
    params, there = roles.get("params", Params()), dict(tables)
    for part in verb.parts(params):
        read = {name: schema.seen(there[name]) for name, schema in part.inputs.items()}
        made = _made(part, read, roles)
        yield part, read, made
        there |= {name: table.to_pandas() for name, table in made.items()}


def of_part(part: Part, roles: Mapping[str, Any]) -> Lawful:
    assert part.law
    return Lawful(
        part.function.__name__, part.law, part.inputs, lambda tables: _made(part, tables, roles)
    )


def _made(part: Part, tables: Frames, roles: Mapping[str, Any]) -> dict[str, pa.Table]:
    frames = part.call(tables, {"params": Params(), **roles, "tracker": UNTRACKED})
    return {name: schema.encode(frames[name], name) for name, schema in part.outputs.items()}


def hold_split(one: Lawful, tables: Frames, groups: Collection[Any]) -> None:
    """Of the rows of these groups alone comes, of these groups, what comes of all rows: to the bit
    of a float."""
    whole, part = one.call(tables), one.call(rows_of(one.law, tables, groups))
    for output, column in one.law.row_of.items():
        told = f"{one.name}: {output} of {sorted(map(str, groups))}"
        assert _rows(one.law, part[output], column, groups) == _rows(
            one.law, whole[output], column, groups
        ), told


def hold_night(one: Lawful, before: Frames, now: Frames) -> None:
    """What is kept of the night before, and made anew of the groups that changed, is what comes of
    all rows."""
    groups = changed_groups(one, before, now)
    if groups is None:
        return
    kept, part, whole = one.call(before), one.call(rows_of(one.law, now, groups)), one.call(now)
    for output, column in one.law.row_of.items():
        as_they_were = _rows(one.law, kept[output], column, groups, others=True)
        made = as_they_were + _rows(one.law, part[output], column, groups)
        assert sorted(made) == sorted(map(repr, whole[output].to_pylist())), f"{one.name}: {output}"


def rows_of(law: Law, tables: Frames, groups: Collection[Any]) -> dict[str, pd.DataFrame]:
    """Of the keyed inputs the rows that are of these groups, the others whole."""

    def of_groups(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        if name not in law.keyed:
            return frame
        named = frame[list(law.keyed[name])].map(lambda cell: group_of(law, cell))
        return frame[named.isin(list(groups)).any(axis=1)].reset_index(drop=True)

    return {name: of_groups(name, frame) for name, frame in tables.items()}


def group_of(law: Law, cell: Any) -> Any:
    """The group that a cell names: itself, or its beginning."""
    ends = [cell.index(end) for end in law.until if end in cell]
    return cell[: min(ends)] if ends else cell


def groups_of(law: Law, tables: Frames) -> list[Any]:
    """All that the rows are of, in an order of their own."""
    found = {group for name in law.keyed for group in _named(law, name, tables[name])}
    return sorted(found, key=repr)


def _named(law: Law, input: str, rows: pd.DataFrame) -> Any:
    """The groups that the rows of a keyed input are of, each once."""
    cells = np.concatenate([rows[name].to_numpy(dtype=object) for name in law.keyed[input]])
    return pd.unique(np.array([group_of(law, cell) for cell in cells], dtype=object))


def changed_groups(one: Lawful, before: Frames, now: Frames) -> set[Any] | None:
    """None where an input that is read whole has changed."""
    groups: set[Any] = set()
    for name, schema in one.inputs.items():
        gone, new = _difference(schema, before[name], now[name])
        if gone.empty and new.empty:
            continue
        if name in one.law.keyed:
            for rows in (gone, new):
                groups |= set(_named(one.law, name, rows))
        elif name in one.law.lookup:
            groups |= _groups_that_use(one, name, before, now, (gone, new))
        else:
            return None
    return groups


def _groups_that_use(
    one: Lawful,
    dictionary: str,
    before: Frames,
    now: Frames,
    differing: tuple[pd.DataFrame, pd.DataFrame],
) -> set[Any]:
    law, use = one.law, one.law.lookup[dictionary]
    if isinstance(use, Uses):
        table, entries = use.table, [entry for rows in differing for entry in rows[use.key]]
        touched = now[table][list(use.columns)].isin(entries).any(axis=1)
    else:
        table = next(iter(law.keyed))
        filled = [
            one.inputs[name].filled(tables[name], name)
            for name, tables in ((table, now), (dictionary, before), (dictionary, now))
        ]
        touched = use(*filled)
    return set(_named(law, table, now[table][touched.to_numpy(dtype=bool)]))


def _difference(
    schema: TableSchema, before: pd.DataFrame, now: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the one and not of the other."""
    then, rows = (
        [repr(row) for row in schema.encode(some, "").to_pylist()] for some in (before, now)
    )
    ordered, ordered_now = (schema.encode(some, "").to_pandas() for some in (before, now))
    gone, new = (
        ordered[~pd.Series(then, dtype=object).isin(rows)],
        ordered_now[~pd.Series(rows, dtype=object).isin(then)],
    )
    return gone.reset_index(drop=True), new.reset_index(drop=True)


def _rows(
    law: Law, table: pa.Table, column: str, groups: Collection[Any], others: bool = False
) -> list[str]:
    """Those of the groups, or of all others, as texts: repr tells floats apart to the bit, and 0.0
    from -0.0."""
    wanted = set(groups)
    return [
        repr(row)
        for row in table.to_pylist()
        if (group_of(law, row[column]) in wanted) is not others
    ]
