"""Recompute only the groups of rows that changed since the last run.

docs/incremental.md follows three documents through these steps. A verb's law says which rows form a
group (contract/laws.py). For each sub-step (``Part``) of a step, ``outputs_of`` does this:

1. ``StepDelta.find_changed_groups`` compares the inputs with those of the last run.
2. ``StepDelta.read_groups`` reads the rows of the groups that changed.
3. The caller's ``make`` calls the verb on these rows.
4. ``StepDelta.encode_groups`` keeps those rows of the result that belong to these groups.
5. ``StepDelta.replace_groups`` puts them in place of the rows that the last run has of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pandas.api.types import is_bool_dtype

from pipeline.contract.cells import as_frame
from pipeline.contract.laws import ByParams, Law, Part, Uses
from pipeline.contract.registry import NOTHING_WRITTEN, LastTables
from pipeline.contract.schemas import STRING, TableSchema, is_text, type_name
from pipeline.engine.documents.kept_documents import KEPT, NAMING
from pipeline.engine.losses import UNENDED
from pipeline.engine.memory import release_memory
from pipeline.engine.plan import PlannedStep, differs_in_inputs_alone
from pipeline.engine.workflow import REJECTS, Step
from pipeline.errors import DataError
from pipeline.snapshots.row_hashes import MOST_BITS, group_numbers, in_one_alone, row_hashes
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.snapshots.table_rows import sort_rows
from pipeline.snapshots.tables import Snapshot

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute

Tables = Mapping[str, Snapshot]
Groups = Any
"""Names of groups, each once: an Arrow array of texts."""
Frames = Mapping[str, pd.DataFrame]
Make = Callable[[Part, Frames, "Groups | None"], Frames]
"""Calls a sub-step: (sub-step, its inputs, the groups of their rows or None for all) -> outputs."""
ASKED_BY = ("schemas", "params", "prompts", "models")
"""The components of a step that what it asks a model depends on, beside its inputs."""
ROWS_AT_ONCE = 100_000
"""Rows of one input that are read at once. Where the changed groups have more rows, they are read
and recomputed in several buckets, to bound memory."""


@dataclass(frozen=True)
class LastRun:
    """The tables of a step's last run, by the verb's names of them.

    ``inputs``: None if more than the inputs may have changed since (code, params, prompts, models),
    so that every row must be recomputed. ``retried``: whether the step runs only to try rejected
    rows of the last run again. ``alike``: the only sub-steps that may compute now what they
    computed then, of equal inputs; None for all of them. ``params``: those of then and of now,
    where they differ.
    """

    inputs: Tables | None
    outputs: Tables
    retried: bool = False
    alike: Sequence[Part] | None = None
    params: tuple[Any, Any] | None = None


def find_last_run(planned: PlannedStep, previous: Manifest, snapshots: SnapshotStore) -> LastRun:
    """Return the tables of the step's last run, without those that are missing or damaged."""
    step = planned.step
    record = previous.steps.get(step.id)
    if record is None:
        return LastRun(None, {})
    outputs = {
        name: table for name, table in record.outputs.items() if snapshots.tables.exists(table)
    }
    alike: Sequence[Part] | None = None
    params: tuple[Any, Any] | None = None
    if planned.reason == "params" and step.inputs:
        recorded = record.components["params"]
        params = step.verb.params.model_validate(recorded), step.params
        alike = _find_comparable_parts(step, params[0])
        planned = replace(planned, components={**planned.components, "params": recorded})
    elif planned.reason not in ("input", "retry"):
        return LastRun(None, outputs)
    if not differs_in_inputs_alone(planned, record, previous):
        return LastRun(None, outputs)
    inputs = {name: previous.tables[table] for name, table in step.inputs.items()}
    are_readable = all(snapshots.tables.exists(table) for table in inputs.values())
    readable_inputs = inputs if are_readable else None
    was_retried = planned.reason == "retry"
    return LastRun(readable_inputs, outputs, was_retried, alike, params)


def _find_comparable_parts(step: Step, params_then: Any) -> list[Part]:
    """Return the sub-steps of which other params leave some groups as they were.

    They read no params, or their law says which rows the params affect. The step had them with its
    params of then, too.
    """
    parts_then = list_parts(replace(step, params=params_then))
    comparable: list[Part] = []
    for part in list_parts(step):
        law_names_rows = part.law is not None and part.law.by_params is not None
        is_comparable = law_names_rows or not part.reads_params()
        if is_comparable and part in parts_then:
            comparable.append(part)
    return comparable


def read_last_tables(
    planned: PlannedStep, previous: Manifest, snapshots: SnapshotStore
) -> LastTables:
    """Return what the step wrote in its last run, for a verb with the role ``LastTables``.

    It is empty for other verbs, for a forced step, after a change of schemas, params, prompts or
    models, and where a table is missing or damaged. A change of code leaves it: an upgrade must not
    pay again for what was to stand.
    """
    step = planned.step
    record = previous.steps.get(step.id)
    if record is None or planned.reason == "forced" or not step.verb.roles_of(LastTables):
        return NOTHING_WRITTEN
    now = planned.components
    then = record.components
    if any(now[name] != then.get(name) for name in ASKED_BY):
        return NOTHING_WRITTEN
    if not all(snapshots.tables.exists(table) for table in record.outputs.values()):
        return NOTHING_WRITTEN
    tables = {name: snapshots.tables.read(table) for name, table in record.outputs.items()}
    return LastTables(tables)


def list_parts(step: Step) -> tuple[Part, ...]:
    """Return the sub-steps of a step in their order: those of its verb, or the verb as one."""
    verb = step.verb
    if verb.parts:
        return verb.parts(step.params)
    return (Part(verb.function, step.reads, step.writes, verb.law),)


@dataclass(frozen=True)
class StepDelta:
    """A sub-step: the tables that it reads in this run (``now``) beside those of its last run.

    Tables have the sub-step's names. ``again``: the kinds of rejects whose groups are recomputed
    although their rows did not change; None stands for all kinds (see ``_groups_to_retry``).
    """

    part: Part
    now: Tables
    last: LastRun
    snapshots: SnapshotStore
    again: Collection[str] | None

    def find_changed_groups(self) -> Groups | None:
        """Return the groups whose output may differ from the last run, or None for all groups.

        None is the answer for a sub-step without a law, for one whose last run cannot be compared,
        and where an input changed that the law does not speak of.
        """
        law = self.part.law
        if law is None or not self._is_comparable():
            return None
        names: list[pa.ChunkedArray] = []
        if self.last.params is not None and law.by_params is not None:
            touched = self._groups_by_params(law, law.by_params, self.last.params)
            if touched is None:
                return None
            names += touched
        for name in self.part.inputs:
            if self.now[name].sha256 == self._last_input(name).sha256:
                continue
            columns = self._naming_columns(law, name) or self._columns_read(name)[:1]
            gone, new = self._compare_input(name, columns)
            if not len(gone) and not len(new):
                continue
            if name in law.keyed:
                # A row that went away changes its group as much as one that came.
                for column in law.keyed[name]:
                    names += [gone[column], new[column]]
            elif name in law.lookup:
                names += self._groups_using(law, name, gone, new)
            else:
                return None
        if REJECTS in self.part.outputs and (self.again is None or self.again):
            names.append(self._groups_to_retry(law.row_of[REJECTS]))
        return pc.unique(law.groups(collect_names(names)))

    def _groups_to_retry(self, column: str) -> pa.ChunkedArray:
        """Return the names of the groups whose rejects of the last run are to be tried again.

        ``column`` of the rejects names the group.
        """
        rejects = self.snapshots.tables.read_arrow(self.last.outputs[REJECTS], [column, "kind"])
        if self.again is not None:
            kinds = pa.array(sorted(self.again), STRING)
            rejects = rejects.filter(pc.is_in(rejects["kind"], value_set=kinds))
        elif not self.last.retried:
            # A reply without an end mark was used whole. A model that never writes end marks
            # leaves such a remark on every row: to ask for them in each run would change nothing.
            rejects = rejects.filter(pc.not_equal(rejects["kind"], UNENDED))
        return rejects[column]

    def read_groups(
        self, groups: Groups | None, rows_at_once: int | None
    ) -> Iterator[tuple[Groups | None, Frames]]:
        """Yield some of the groups with the inputs that the verb needs for them, until all are out.

        Of keyed inputs only the rows of these groups are read, other inputs whole. ``groups``: None
        for all rows. ``rows_at_once``: the size of an input above which the groups are divided into
        buckets; None to yield once.
        """
        law = self.part.law
        keyed = law.keyed if law is not None and groups is not None else {}
        read_whole = [name for name in self.part.inputs if name not in keyed]
        whole = {name: self._read_whole(name) for name in read_whole}
        if groups is None or rows_at_once is None or not self._is_divisible(groups):
            rows = {name: self._read_rows_of(name, groups) for name in keyed}
            yield groups, whole | rows
            return
        for groups_of_bucket, rows in self._read_in_buckets(groups, rows_at_once):
            yield groups_of_bucket, whole | rows

    def _is_divisible(self, groups: Groups) -> bool:
        """Check that the groups can be told apart by hashes of their names."""
        law = self.part.law
        if law is None or law.until or groups.null_count:
            return False
        return all(self.now[name].order for name in law.keyed)

    def _read_in_buckets(
        self, groups: Groups, rows_at_once: int
    ) -> Iterator[tuple[Groups, dict[str, pd.DataFrame]]]:
        """Yield the groups of each bucket with their rows of the keyed inputs.

        A group's bucket is given by the first bits of the hash of its name.
        """
        assert self.part.law
        keyed = self.part.law.keyed
        rows_of_inputs: dict[str, pa.Table] = {}
        for name, columns in keyed.items():
            cells = self._cells_of_input(groups, name)
            rows_of_inputs[name] = self.snapshots.tables.select_unordered(
                self.now[name], columns, cells, self._columns_read(name)
            )
        largest = max(rows.num_rows for rows in rows_of_inputs.values())
        # Each further bit halves the buckets.
        bits = min((largest // rows_at_once).bit_length(), MOST_BITS)
        # One array per naming column: a row is in the bucket of every group that it names.
        buckets_of_rows: dict[str, list[np.ndarray]] = {}
        for name, rows in rows_of_inputs.items():
            buckets_of_rows[name] = [group_numbers(rows[column], bits) for column in keyed[name]]
        bucket_of_groups = group_numbers(pa.chunked_array([groups]), bits)
        for bucket in range(2**bits):
            frames: dict[str, pd.DataFrame] = {}
            for name, rows in rows_of_inputs.items():
                is_here = np.zeros(rows.num_rows, bool)
                for bucket_of_rows in buckets_of_rows[name]:
                    is_here |= bucket_of_rows == bucket
                rows_here = sort_rows(rows.filter(pa.array(is_here)), self.now[name].order)
                columns_read = rows_here.select(self._columns_read(name))
                frames[name] = self._as_frame(name, columns_read)
            groups_here = groups.filter(pa.array(bucket_of_groups == bucket))
            yield groups_here, frames

    def _read_whole(self, name: str) -> pd.DataFrame:
        rows = self.snapshots.tables.read_arrow(self.now[name], self._columns_read(name))
        return self._as_frame(name, rows)

    def _read_rows_of(self, name: str, groups: Groups) -> pd.DataFrame:
        """Return the rows of a keyed input that belong to these groups."""
        assert self.part.law
        columns = self.part.law.keyed[name]
        cells = self._cells_of_input(groups, name)
        rows = self.snapshots.tables.select(
            self.now[name], columns, cells, self._columns_read(name)
        )
        return self._as_frame(name, rows)

    def encode_groups(
        self, step: Step, name: str, frame: pd.DataFrame, groups: Groups | None
    ) -> pa.Table:
        """Return an output of the verb as an Arrow table with the rows of these groups only.

        The verb may have returned rows of other groups too: rows that name several groups were read
        for one of them. ``groups``: None keeps all rows. Raises DataError where ``frame`` does not
        fit the output's schema.
        """
        where = f"step '{step.id}': table '{name_table(step, name)}'"
        rows = self.part.outputs[name].encode(frame, where)
        law, before = self.part.law, self.last.outputs.get(name)
        if groups is None or before is None or law is None:
            return rows
        column = rows[law.row_of[name]]
        cells = find_cells(groups, law, [column]).cast(column.type)
        return rows.filter(pc.is_in(column, value_set=cells))

    def replace_groups(
        self, step: Step, name: str, rows: pa.Table, groups: Groups | None
    ) -> Snapshot:
        """Return the output's new table: the last run's, with ``rows`` in place of these groups.

        ``groups``: None to make the table of ``rows`` alone.
        """
        schema, table = self.part.outputs[name], name_table(step, name)
        before = self.last.outputs.get(name)
        law = self.part.law
        if groups is None or before is None or law is None:
            return self.snapshots.tables.write(table, rows, schema.order, before)
        column = law.row_of[name]
        earlier_cells: Sequence[pa.ChunkedArray] = ()
        if law.until:
            earlier_cells = self.snapshots.tables.read_arrow(before, [column]).columns
        cells = find_cells(groups, law, earlier_cells)
        before = self.snapshots.tables.ensure_order(table, before, schema.order)
        return self.snapshots.tables.replace_rows(table, before, column, cells, rows)

    def _is_comparable(self) -> bool:
        """Check that the last run's tables exist and have the columns that are read now."""
        if self.last.alike is not None and self.part not in self.last.alike:
            return False
        if self.last.inputs is None or not set(self.part.outputs) <= set(self.last.outputs):
            return False
        # Rows of a table without an order have no place to which a new row could belong.
        if not all(schema.order for schema in self.part.outputs.values()):
            return False
        tables_of_then = {*self.last.inputs, *self.last.outputs}
        if not set(self.part.inputs) <= tables_of_then:
            return False
        for name in self.part.inputs:
            types_now = self._column_types(name, self.now[name])
            types_then = self._column_types(name, self._last_input(name))
            if types_now != types_then:
                return False
        return True

    def _column_types(self, name: str, snapshot: Snapshot) -> list[tuple[str, str]]:
        """Return name and type of the columns of an input that the sub-step reads."""
        schema = self.part.inputs[name]
        types: list[tuple[str, str]] = []
        for column in self.snapshots.tables.schema(snapshot):
            is_read = schema.more or column.name in schema.columns
            if is_read:
                types.append((column.name, type_name(column.type)))
        return types

    def _last_input(self, name: str) -> Snapshot:
        """Return an input as the last run read it: an input of the step, or an earlier output."""
        inputs = self.last.inputs or {}
        return inputs[name] if name in inputs else self.last.outputs[name]

    def _columns_read(self, name: str) -> list[str]:
        """Return the columns of an input that the sub-step reads."""
        columns = self.snapshots.tables.columns(self.now[name])
        return pick_columns(self.part.inputs[name], columns)

    def _as_frame(self, name: str, rows: pa.Table) -> pd.DataFrame:
        return self.part.inputs[name].seen(as_frame(rows))

    def _read_filled(
        self, name: str, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return a version of an input as a verb sees it: missing cells are filled.

        ``columns``: the only ones to return; None for all columns of the sub-step's schema.
        """
        schema = self.part.inputs[name]
        if columns is not None:
            schema = schema.only(columns)
        stored = pick_columns(schema, self.snapshots.tables.columns(snapshot))
        rows = schema.seen(as_frame(self.snapshots.tables.read_arrow(snapshot, stored)))
        where = f"verb '{self.part.function.__name__}': table '{name}'"
        return schema.filled(rows, where)

    def _compare_input(self, name: str, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Return these columns of the rows that only the last run has, and that only this one has.

        An edited row is in both. Only the columns that the sub-step reads are compared.
        """
        before, now = self._last_input(name), self.now[name]
        tables = self.snapshots.tables
        read = self._columns_read(name)
        all_columns = {*tables.columns(before), *tables.columns(now)}
        if set(read) == all_columns:
            # Stored hashes of whole rows decide; no other column is read from the files.
            return tables.difference(before, now, columns)
        gone, new = tables.difference(before, now, read)
        # These rows differ in some column, but perhaps not in one that the sub-step reads.
        is_gone, is_new = in_one_alone(row_hashes(gone, None), row_hashes(new, None))
        gone = gone.filter(pa.array(is_gone))
        new = new.filter(pa.array(is_new))
        return gone.select(columns), new.select(columns)

    def _cells_of_input(self, groups: Groups, name: str) -> Groups:
        """Return the values in an input's naming columns that name one of the groups."""
        law = self.part.law
        assert law
        if not law.until:
            return groups
        naming = self.snapshots.tables.read_arrow(self.now[name], list(law.keyed[name])).columns
        return find_cells(groups, law, naming)

    def _naming_columns(self, law: Law, name: str) -> list[str]:
        """Return the columns of an input that name a row's groups, or the key of a lookup's entry.

        The list is empty for an input that is compared as a whole.
        """
        if name in law.keyed:
            return list(law.keyed[name])
        use = law.lookup.get(name)
        return [use.key] if isinstance(use, Uses) else []

    def _groups_using(
        self, law: Law, name: str, gone: pa.Table, new: pa.Table
    ) -> list[pa.ChunkedArray]:
        """Return the names of the groups with rows that use changed entries of a lookup input.

        ``gone`` and ``new``: the entries that only the last run has, and that only this one has.
        Raises DataError where a verb's own function does not return a boolean for each row.
        """
        use = law.lookup[name]
        if isinstance(use, Uses):
            keys = collect_names([gone[use.key], new[use.key]])
            naming = law.keyed[use.table]
            return self.snapshots.tables.select(
                self.now[use.table], use.columns, keys, naming
            ).columns
        table, columns = next(iter(law.keyed.items()))
        rows = self._read_filled(table, self.now[table])
        entries_before = self._read_filled(name, self._last_input(name))
        entries_now = self._read_filled(name, self.now[name])
        touched = use(rows, entries_before, entries_now)
        self._check_touched(touched, len(rows), f"its lookup of '{name}'")
        return _columns_of_touched(rows, touched, columns)

    def _groups_by_params(
        self, law: Law, by_params: ByParams, params: tuple[Any, Any]
    ) -> list[pa.ChunkedArray] | None:
        """Return the names of the groups with rows that the change of params affects.

        None stands for all groups. It is the answer for most groups too: together with the others
        they are recomputed in buckets, which is faster than to look for their rows.
        """
        table, naming = next(iter(law.keyed.items()))
        columns = list(dict.fromkeys([*naming, *by_params.columns]))
        rows = self._read_filled(table, self.now[table], columns)
        touched = by_params.touches(rows, *params)
        self._check_touched(touched, len(rows), "by_params")
        names = _columns_of_touched(rows, touched, naming)
        every_row = pd.Series(True, rows.index)
        all_names = _columns_of_touched(rows, every_row, naming)
        affected, groups = len(collect_names(names)), len(collect_names(all_names))
        are_most = affected > groups / 2
        return None if are_most else names

    def _check_touched(self, touched: Any, rows: int, asked: str) -> None:
        """Raise DataError unless a function of the law has answered with a boolean for each row.

        ``asked``: what the function belongs to, in the message.
        """
        if isinstance(touched, pd.Series):
            is_complete = len(touched) == rows and not touched.hasnans
            if is_complete and is_bool_dtype(touched.dtype):
                return
            answer = f"a Series of {len(touched)} {touched.dtype}"
        else:
            answer = type(touched).__name__
        raise DataError(
            f"verb '{self.part.function.__name__}': the function of {asked} returned"
            f" {answer} for {rows} rows; return a Series of booleans, one for each row"
        )


def _columns_of_touched(
    rows: pd.DataFrame, touched: "pd.Series[bool]", columns: Sequence[str]
) -> list[pa.ChunkedArray]:
    """Return these columns of the rows that are touched."""
    found = rows.loc[touched.to_numpy(dtype=bool), list(columns)]
    return pa.Table.from_pandas(found, preserve_index=False).columns


MakeInBuckets = Callable[[int, StepDelta], Mapping[str, Snapshot] | None]
"""Recomputes all groups of the sub-step of this number in buckets (engine/tasks.py) -> its outputs;
None if the sub-step must be computed at once."""


def outputs_of(
    step: Step,
    tables: Tables,
    last: LastRun,
    snapshots: SnapshotStore,
    make: Make,
    in_buckets: MakeInBuckets | None = None,
    rejects_too: bool = True,
) -> dict[str, Snapshot]:
    """Compute a step's outputs, by the verb's names: recompute what changed, keep the rest.

    ``tables``: the inputs, by the workflow's names. ``make``: calls the verb on the rows of some
    groups. ``in_buckets``: how a sub-step is recomputed of which every group changed; None for
    ``make``. ``rejects_too``: whether a step with models tries rejected rows again.

    Raises DataError where an output does not fit its schema, and what ``make`` raises.
    """
    # None stands for all kinds of rejects.
    again = None if step.models and rejects_too else _kinds_to_retry(step)
    now = {name: tables[table] for name, table in step.inputs.items()}
    outputs: dict[str, Snapshot] = {}
    for number, part in enumerate(list_parts(step)):
        delta = StepDelta(part, {**now, **outputs}, last, snapshots, again)
        groups = delta.find_changed_groups()
        is_unchanged = groups is not None and not len(groups)
        if is_unchanged:
            outputs |= {name: last.outputs[name] for name in part.outputs}
            continue
        written = None
        if groups is None and in_buckets is not None:
            written = in_buckets(number, delta)
        if written is None:
            written = _recompute(step, delta, groups, make)
        outputs |= written
        release_memory()
    return outputs


def _recompute(
    step: Step, delta: StepDelta, groups: Groups | None, make: Make
) -> dict[str, Snapshot]:
    """Call the verb on the rows of these groups and write its outputs."""
    chunks = _call_for_groups(step, delta, groups, make)
    written = {}
    for name, schema in delta.part.outputs.items():
        # ``pop``, and no name for the joined rows: an output is not held after it is written.
        written[name] = delta.replace_groups(step, name, schema.joined(*chunks.pop(name)), groups)
    return written


def _call_for_groups(
    step: Step, delta: StepDelta, groups: Groups | None, make: Make
) -> dict[str, list[pa.Table]]:
    """Return the rows of each output for these groups, one table for each call of the verb.

    A step with models, or a source, is called once, whatever the number of rows.
    """
    is_called_once = step.models or not step.verb.inputs
    rows_at_once = None if is_called_once else ROWS_AT_ONCE
    chunks: dict[str, list[pa.Table]] = {name: [] for name in delta.part.outputs}
    for some, inputs in delta.read_groups(groups, rows_at_once):
        frames = make(delta.part, inputs, some)
        for name, tables in chunks.items():
            tables.append(delta.encode_groups(step, name, frames[name], some))
    return chunks


def name_table(step: Step, name: str) -> str:
    """Return the name under which an output of a sub-step is stored.

    Tables that only sub-steps of one step read are not named by the workflow: ``<step>.<name>``.
    """
    return step.outputs.get(name, f"{step.id}.{name}")


def pick_columns(schema: TableSchema, available: Sequence[str]) -> list[str]:
    """Return which of the available columns a sub-step reads through this schema."""
    if schema.more:
        return list(available)
    return [column for column in schema.columns if column in available]


def _kinds_to_retry(step: Step) -> Collection[str]:
    """Return the kinds of rejects by which a source tells what it could not read or has kept."""
    return () if step.verb.inputs else (*NAMING, KEPT)


def find_cells(groups: Groups, law: Law, columns: Sequence[pa.ChunkedArray]) -> Groups:
    """Return the values in these columns that name one of the groups.

    They are the groups themselves, unless a group's name is only the beginning of a cell
    (``Law.until``).
    """
    if not law.until:
        return groups
    cells = collect_names(columns)
    return cells.filter(pc.is_in(law.groups(cells), value_set=groups))


def collect_names(columns: Sequence[pa.ChunkedArray]) -> Groups:
    """Return the values of several columns as texts, each once.

    A verb sees a missing cell as "" or 0, so null and that value name the same group. If one of
    them occurs, all are returned.
    """
    texts = [pc.unique(column.cast(STRING)) for column in columns]
    values = pc.unique(pa.chunked_array(texts, STRING))
    fillings = {"" if is_text(column.type) else "0" for column in columns}
    names_of_missing = pa.array([*sorted(fillings), None], STRING)
    names_missing_cell = pc.any(pc.is_in(values, value_set=names_of_missing)).as_py()
    if not names_missing_cell:
        return values
    return pc.unique(pa.chunked_array([values, names_of_missing]))
