"""What of a step a night makes anew: the groups of rows that changed since the last run, by the law
of its verb."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pandas.api.types import is_bool_dtype

from pipeline.contract.cells import as_frame
from pipeline.contract.laws import Law, Part, Uses
from pipeline.contract.registry import NOTHING_WRITTEN, LastTables
from pipeline.contract.schemas import STRING, TableSchema, is_text, type_name
from pipeline.engine.kept_documents import KEPT, NAMING
from pipeline.engine.losses import UNENDED
from pipeline.engine.memory import release_memory
from pipeline.engine.plan import PlannedStep, differs_in_inputs_alone
from pipeline.engine.workflow import REJECTS, Step
from pipeline.errors import DataError
from pipeline.snapshots.row_hashes import MOST_BITS, group_numbers, in_one_alone, row_hashes
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.snapshots.table_rows import in_order
from pipeline.snapshots.tables import Snapshot

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

Tables = Mapping[str, Snapshot]
Groups = Any
"""Names of groups, each once: an Arrow array of texts."""
Frames = Mapping[str, pd.DataFrame]
Make = Callable[[Part, Frames, "Groups | None"], Frames]
"""A piece of a step, what it reads, and of which groups that is, None for all -> its outputs."""
ROWS_AT_ONCE = 100_000
"""Of an input of a piece, which a night makes of some groups at a time where these have more."""


@dataclass(frozen=True)
class LastRun:
    """The tables of the last run, by the verb's names. ``inputs``: None where what the step makes
    now may differ in more than what they do. ``retried``: the step runs for the sake of rejects of
    the last run."""

    inputs: Tables | None
    outputs: Tables
    retried: bool = False


def last_run(planned: PlannedStep, previous: Manifest, snapshots: SnapshotStore) -> LastRun:
    """As far as it can be read."""
    step = planned.step
    record = previous.steps.get(step.id)
    if record is None:
        return LastRun(None, {})
    outputs = {name: table for name, table in record.outputs.items() if snapshots.exists(table)}
    if planned.reason not in ("input", "retry") or not differs_in_inputs_alone(
        planned, record, previous
    ):
        return LastRun(None, outputs)
    inputs = {name: previous.tables[table] for name, table in step.inputs.items()}
    there = all(map(snapshots.exists, inputs.values()))
    return LastRun(inputs if there else None, outputs, planned.reason == "retry")


def last_tables(planned: PlannedStep, previous: Manifest, snapshots: SnapshotStore) -> LastTables:
    """For a verb that asks what its step wrote in the last run."""
    step, record = planned.step, previous.steps.get(planned.step.id)
    if not step.verb.roles_of(LastTables) or record is None or planned.reason == "forced":
        return NOTHING_WRITTEN
    there = all(map(snapshots.exists, record.outputs.values()))
    if not there or not differs_in_inputs_alone(planned, record, previous):
        return NOTHING_WRITTEN
    return LastTables({name: snapshots.read(table) for name, table in record.outputs.items()})


def parts_of(step: Step) -> tuple[Part, ...]:
    """The pieces in which a step is worked on: those of its verb, or the verb itself."""
    verb = step.verb
    if verb.parts:
        return verb.parts(step.params)
    return (Part(verb.function, step.reads, step.writes, verb.law),)


@dataclass(frozen=True)
class Night:
    """What a piece of a step reads ``now``, by its names, and what it read and wrote in the last
    run. ``again``: kinds of rejects that are worked on again; None: any, but in a retry alone those
    of rows that were used whole."""

    part: Part
    now: Tables
    last: LastRun
    snapshots: SnapshotStore
    again: Collection[str] | None

    def changed(self) -> Groups | None:
        """The groups that may come out otherwise than in the last run; None where these are all."""
        law = self.part.law
        if law is None or not self._is_comparable():
            return None
        found: list[pa.ChunkedArray] = []
        for name in self.part.inputs:
            if self.now[name].sha256 == self._before(name).sha256:
                continue
            gone, new = self._difference(name, self._naming(law, name) or self._columns(name)[:1])
            if not len(gone) and not len(new):
                continue
            if name in law.keyed:
                found += [rows[column] for rows in (gone, new) for column in law.keyed[name]]
            elif name in law.lookup:
                found += self._using(law, name, gone, new)
            else:
                return None
        if REJECTS in self.part.outputs and (self.again is None or self.again):
            found.append(self._rejected(law.row_of[REJECTS]))
        return pc.unique(law.groups(distinct(found)))

    def _rejected(self, column: str) -> pa.ChunkedArray:
        """Return the rows of the last run that are to be worked on again, named by a column of the
        rejects."""
        rejects = self.snapshots.table(self.last.outputs[REJECTS], [column, "kind"])
        if self.again is not None:
            rejects = rejects.filter(
                pc.is_in(rejects["kind"], value_set=pa.array(sorted(self.again), STRING))
            )
        elif not self.last.retried:
            # A model that never writes end marks leaves such a remark on every row: to read them
            # all again each night would change nothing.
            rejects = rejects.filter(pc.not_equal(rejects["kind"], UNENDED))
        return rejects[column]

    def readings(
        self, groups: Groups | None, at_once: int | None
    ) -> Iterator[tuple[Groups | None, Frames]]:
        """What the piece reads: of its keyed inputs the rows of these groups, or all. ``at_once``:
        rows of an input beyond which it is some of the groups at a time; None for any number."""
        law = self.part.law
        keyed = law.keyed if law and groups is not None else {}
        whole = {
            name: self._frame(name, self.snapshots.table(self.now[name], self._columns(name)))
            for name in self.part.inputs
            if name not in keyed
        }
        ordered = all(self.now[name].order for name in keyed)
        if (
            at_once is None
            or law is None
            or law.until
            or groups is None
            or groups.null_count
            or not ordered
        ):
            yield groups, whole | {name: self._of_groups(name, groups) for name in keyed}
            return
        found = {
            name: self.snapshots.selected(
                self.now[name], columns, self._cells(groups, name), self._columns(name)
            )
            for name, columns in keyed.items()
        }
        bits = min(
            (max(rows.num_rows for rows in found.values()) // at_once).bit_length(), MOST_BITS
        )
        numbers = {
            name: [group_numbers(rows[column], bits) for column in keyed[name]]
            for name, rows in found.items()
        }
        of_groups = group_numbers(pa.chunked_array([groups]), bits)
        for number in range(2**bits):
            flags = {
                name: np.any([each == number for each in some], axis=0)
                for name, some in numbers.items()
            }
            rows = {
                name: in_order(found[name].filter(pa.array(flags[name])), self.now[name].order)
                for name in keyed
            }
            some = {
                name: self._frame(name, rows[name].select(self._columns(name))) for name in keyed
            }
            yield groups.filter(pa.array(of_groups == number)), whole | some

    def _of_groups(self, name: str, groups: Groups) -> pd.DataFrame:
        assert self.part.law
        naming, cells = self.part.law.keyed[name], self._cells(groups, name)
        return self._frame(
            name, self.snapshots.select(self.now[name], naming, cells, self._columns(name))
        )

    def encoded(
        self, step: Step, name: str, frame: pd.DataFrame, groups: Groups | None
    ) -> pa.Table:
        """Of what the piece made of an output the rows of these groups, or all."""
        rows = self.part.outputs[name].encode(
            frame, f"step '{step.id}': table '{table_of(step, name)}'"
        )
        law, before = self.part.law, self.last.outputs.get(name)
        if groups is None or before is None or law is None:
            return rows
        column = rows[law.row_of[name]]
        return rows.filter(
            pc.is_in(column, value_set=cells_of(groups, law, [column]).cast(column.type))
        )

    def written(self, step: Step, name: str, rows: pa.Table, groups: Groups | None) -> Snapshot:
        """An output: the rows of these groups in place of those of the last run, or all."""
        schema, table = self.part.outputs[name], table_of(step, name)
        before = self.last.outputs.get(name)
        if groups is None or before is None or self.part.law is None:
            return self.snapshots.write(table, rows, schema.order, before)
        law, column = self.part.law, self.part.law.row_of[name]
        cells = cells_of(
            groups, law, self.snapshots.table(before, [column]).columns if law.until else ()
        )
        before = self.snapshots.ordered(table, before, schema.order)
        return self.snapshots.replaced(table, before, column, cells, rows)

    def _is_comparable(self) -> bool:
        """Whether the last run's tables are there, with the columns that are read now."""
        if self.last.inputs is None or not set(self.part.outputs) <= set(self.last.outputs):
            return False
        if not all(schema.order for schema in self.part.outputs.values()):
            return False
        there = set(self.part.inputs) <= {*self.last.inputs, *self.last.outputs}
        return there and all(
            self._shape(name, self.now[name]) == self._shape(name, self._before(name))
            for name in self.part.inputs
        )

    def _shape(self, name: str, snapshot: Snapshot) -> list[tuple[str, str]]:
        """The columns of an input that the piece sees, and their types."""
        schema = self.part.inputs[name]
        fields = [
            field
            for field in self.snapshots.schema(snapshot)
            if schema.more or field.name in schema.columns
        ]
        return [(field.name, type_name(field.type)) for field in fields]

    def _before(self, name: str) -> Snapshot:
        return {**self.last.outputs, **(self.last.inputs or {})}[name]

    def _columns(self, name: str) -> list[str]:
        """Those of the input that the piece sees."""
        return columns_seen(self.part.inputs[name], self.snapshots.columns(self.now[name]))

    def _frame(self, name: str, rows: pa.Table) -> pd.DataFrame:
        return self.part.inputs[name].seen(as_frame(rows))

    def _filled(self, name: str, snapshot: Snapshot) -> pd.DataFrame:
        rows = self._frame(name, self.snapshots.table(snapshot, self._columns(name)))
        return self.part.inputs[name].filled(
            rows, f"verb '{self.part.function.__name__}': table '{name}'"
        )

    def _difference(self, name: str, naming: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """The columns ``naming`` of the rows of the last run alone and of this one alone, as far as
        the piece sees them. Where it sees whole rows, no other column is read."""
        before, now, seen = self._before(name), self.now[name], self._columns(name)
        if set(seen) == {*self.snapshots.columns(before), *self.snapshots.columns(now)}:
            return self.snapshots.difference(before, now, naming)
        gone, new = self.snapshots.difference(before, now, seen)
        gone_alone, new_alone = in_one_alone(row_hashes(gone, None), row_hashes(new, None))
        return gone.filter(pa.array(gone_alone)).select(naming), new.filter(
            pa.array(new_alone)
        ).select(naming)

    def _cells(self, groups: Groups, name: str) -> Groups:
        """What of an input's cells names the groups."""
        assert self.part.law
        law = self.part.law
        return cells_of(
            groups,
            law,
            (
                self.snapshots.table(self.now[name], list(law.keyed[name])).columns
                if law.until
                else ()
            ),
        )

    def _naming(self, law: Law, name: str) -> list[str]:
        """The columns of an input that say of which groups its rows are, or which entry of a
        dictionary one is."""
        use = law.lookup.get(name)
        return list(law.keyed.get(name, (use.key,) if isinstance(use, Uses) else ()))

    def _using(self, law: Law, name: str, gone: pa.Table, new: pa.Table) -> list[pa.ChunkedArray]:
        """The groups of rows that use entries of a dictionary that are gone or new."""
        use = law.lookup[name]
        if isinstance(use, Uses):
            keys = distinct([gone[use.key], new[use.key]])
            return self.snapshots.select(
                self.now[use.table], use.columns, keys, law.keyed[use.table]
            ).columns
        table, columns = next(iter(law.keyed.items()))
        rows = self._filled(table, self.now[table])
        touched = use(
            rows, self._filled(name, self._before(name)), self._filled(name, self.now[name])
        )
        self._check_touched(touched, len(rows), name)
        found = rows.loc[touched.to_numpy(dtype=bool), list(columns)]
        return pa.Table.from_pandas(found, preserve_index=False).columns

    def _check_touched(self, touched: Any, rows: int, name: str) -> None:
        """Raises DataError for an answer that is not a boolean for each row."""
        is_series = isinstance(touched, pd.Series)
        if (
            is_series
            and len(touched) == rows
            and is_bool_dtype(touched.dtype)
            and not touched.hasnans
        ):
            return
        answer = (
            f"a Series of {len(touched)} {touched.dtype}" if is_series else type(touched).__name__
        )
        raise DataError(
            f"verb '{self.part.function.__name__}': the function of its lookup of '{name}' returned"
            f" {answer} for {rows} rows; return a Series of booleans, one for each row"
        )


def table_of(step: Step, name: str) -> str:
    """Where an output of one of a step's pieces is kept."""
    return step.outputs.get(name, f"{step.id}.{name}")


def columns_seen(schema: TableSchema, there: Sequence[str]) -> list[str]:
    """Of a table's columns those that a piece sees which reads it by this schema."""
    return list(there) if schema.more else [column for column in schema.columns if column in there]


def whole(number: int, night: Night) -> None:
    """Make no piece in buckets."""


def outputs_of(
    step: Step,
    tables: Tables,
    last: LastRun,
    snapshots: SnapshotStore,
    make: Make,
    in_buckets: Callable[[int, Night], Mapping[str, Snapshot] | None] = whole,
    rejects_too: bool = True,
) -> dict[str, Snapshot]:
    """What a step writes, by its verb's names: what ``make`` makes of the groups that changed,
    beside what stays. ``in_buckets``: makes all anew of the piece of this number, or leaves that to
    ``make``. ``rejects_too``: a step with models works on its rejected groups again too."""
    again = None if step.models and rejects_too else _unread(step)
    now = {name: tables[table] for name, table in step.inputs.items()}
    outputs: dict[str, Snapshot] = {}
    for number, part in enumerate(parts_of(step)):
        night = Night(part, {**now, **outputs}, last, snapshots, again)
        groups = night.changed()
        if groups is not None and not len(groups):
            outputs |= {name: last.outputs[name] for name in part.outputs}
            continue
        made = in_buckets(number, night) if groups is None else None
        outputs |= _made_at_once(step, night, groups, make) if made is None else made
        release_memory()
    return outputs


def _made_at_once(
    step: Step, night: Night, groups: Groups | None, make: Make
) -> dict[str, Snapshot]:
    made = _made_of(step, night, groups, make)
    schemas = night.part.outputs
    return {
        name: night.written(step, name, schemas[name].joined(*made.pop(name)), groups)
        for name in schemas
    }


def _made_of(
    step: Step, night: Night, groups: Groups | None, make: Make
) -> dict[str, list[pa.Table]]:
    """The rows of each output: made in one go, or in several where no more comes of it than tables.
    A night may touch entities that most rows are of."""
    made: dict[str, list[pa.Table]] = {name: [] for name in night.part.outputs}
    for some, inputs in night.readings(
        groups, None if step.models or not step.verb.inputs else ROWS_AT_ONCE
    ):
        frames = make(night.part, inputs, some)
        for name, tables in made.items():
            tables.append(night.encoded(step, name, frames[name], some))
    return made


def _unread(step: Step) -> Collection[str]:
    """Kinds of rejects by which a source says what it could not read, and what is kept of it."""
    return () if step.verb.inputs else (*NAMING, KEPT)


def cells_of(groups: Groups, law: Law, columns: Sequence[pa.ChunkedArray]) -> Groups:
    """Which of the cells of these columns name one of the groups: the groups themselves, unless
    they are only the beginnings of cells."""
    if not law.until:
        return groups
    cells = distinct(columns)
    return cells.filter(pc.is_in(law.groups(cells), value_set=groups))


def distinct(columns: Sequence[pa.ChunkedArray]) -> Groups:
    """The values of several columns, each once, as texts. A missing one is "" or 0 to a verb: where
    there is the one, the other is meant too."""
    found = [pc.unique(column.cast(STRING)) for column in columns]
    values = pc.unique(pa.chunked_array(found, STRING))
    nothing = {"" if is_text(column.type) else "0" for column in columns} | {None}
    alike = pa.array(sorted(nothing, key=str), STRING)
    return (
        pc.unique(pa.chunked_array([values, alike]))
        if pc.any(pc.is_in(values, value_set=alike)).as_py()
        else values
    )
