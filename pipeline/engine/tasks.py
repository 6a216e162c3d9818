"""Recomputation of a sub-step bucket by bucket of its groups: in bounded memory, in this process or
in others.

A task is a sub-step on one bucket: names, and where the bucket's rows are. Any process that opens
the project can do it. It writes files named by their content, and a small note that they are
written, so that no task is done twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame
from pipeline.contract.conversion import Converter
from pipeline.contract.fingerprint import code_fingerprint, fingerprint
from pipeline.contract.laws import Part
from pipeline.contract.registry import UNTRACKED
from pipeline.engine.changed_groups import StepDelta, Tables, list_parts, name_table, pick_columns
from pipeline.engine.plan import components
from pipeline.engine.resources import Resources
from pipeline.engine.verb_errors import call_verb
from pipeline.engine.workflow import Step, Workflow
from pipeline.errors import WorkerError
from pipeline.files import temporary_file
from pipeline.snapshots.folder import UNFINISHED
from pipeline.snapshots.row_hashes import all_hashes, group_numbers
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.snapshots.table_rows import add_hash_column, add_sort_columns, sort_rows
from pipeline.snapshots.tables import TableFile

TASK_ROWS = 20_000
"""The number of rows of a sub-step's largest input from which on it is divided into buckets."""
MOST_BITS = 8
"""The most bits of a group's hash that number its bucket. While rows are sorted into buckets, each
bucket has an open file."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 50_000, 2**25
"""The rows, or bytes, that are sorted into buckets at once."""
Files = Mapping[str, Sequence[TableFile]]
"""The files of each output of a sub-step."""


@dataclass(frozen=True)
class Task:
    """A sub-step on one bucket of groups.

    ``name``: that of its note. ``means``: a fingerprint of everything except these inputs that can
    change its result. ``part``: the position of the sub-step among those of its step. ``bucket``:
    the first bits of the hashes of its groups' names, as "0" and "1". ``tables``: its inputs.
    ``rows``: keyed input -> the shared file with the bucket's rows, where they are not those of a
    bucket of the table.
    """

    name: str
    workflow: str
    step: str
    means: str
    part: int
    bucket: str
    tables: Tables
    rows: Mapping[str, str]
    number: int
    """The number of rows of the bucket."""


class Workers(Protocol):
    """Other processes that do tasks, as a context; they start with the first task."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def do(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        """Yield each task with its files as soon as it is done, in any order.

        Raises what a task raises, and WorkerError where no process can continue.
        """
        ...


@dataclass(frozen=True)
class Workplace:
    """The workflows, resources and snapshots with which a process does tasks.

    ``steps``: those that were read, by workflow and id. ``known``: tables that were read whole,
    since other tasks need them too.
    """

    workflow: Callable[[str], Workflow]
    resources: Resources
    snapshots: SnapshotStore
    steps: dict[tuple[str, str], Step] = field(default_factory=dict)
    known: dict[tuple[str, str, tuple[str, ...]], pd.DataFrame] = field(default_factory=dict)

    def do_each(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        for task in tasks:
            yield task, self.do(task)

    def do(self, task: Task) -> Files:
        """Do a task, note that it is done, and return the files of its outputs."""
        step = self._step(task)
        part = list_parts(step)[task.part]
        frames = dict(self._call_verb(step, part, task))
        written = {}
        for name in part.outputs:
            # ``pop`` frees each frame as soon as it is written.
            written[name] = self._write_output(step, part, name, frames.pop(name), task.bucket)
        self.snapshots.tasks.note(task.name, written)
        return written

    def _step(self, task: Task) -> Step:
        """Return the step of a task. Raises WorkerError where it is not, or no longer, what the run
        began with."""
        key = task.workflow, task.step
        if key not in self.steps:
            steps = self.workflow(task.workflow).steps
            found = next((step for step in steps if step.id == task.step), None)
            if found is None or self._means(found) != task.means:
                raise WorkerError(
                    f"step '{task.step}': its code, its workflow, its prompts, a library of its"
                    " verb or what the environment gives it is not what the run began with; run"
                    " again"
                )
            self.steps[key] = found
        return self.steps[key]

    def _means(self, step: Step) -> str:
        code = code_fingerprint(step.verb.function)
        return means_of(components(step, self.resources, {}, None, code))

    def _call_verb(self, step: Step, part: Part, task: Task) -> Mapping[str, pd.DataFrame]:
        """Return the outputs of the sub-step for the task's rows; empty ones without a call if
        there are no rows."""
        if not task.number:
            return {name: schema.frame() for name, schema in part.outputs.items()}
        inputs = {name: self._input(part, name, task) for name in part.inputs}
        if not step.verb.parts:
            return self.resources.call(step, inputs)
        call = partial(part.call, roles={"params": step.params, "tracker": UNTRACKED})
        return call_verb(step, inputs, call)

    def _input(self, part: Part, name: str, task: Task) -> pd.DataFrame:
        """Return an input of a task: the bucket's rows of a keyed one, otherwise the whole
        table."""
        assert part.law
        schema, table = part.inputs[name], task.tables[name]
        columns = pick_columns(schema, self.snapshots.tables.columns(table))
        if name in task.rows:
            shared = self.snapshots.tasks.find_shared(task.rows[name])
            with pa.ipc.open_stream(shared) as stream:
                rows = stream.read_all()
            if table.order:
                rows = sort_rows(rows, table.order)
            return schema.seen(as_frame(rows.select(columns)))
        if name in part.law.keyed:
            rows = self.snapshots.tables.read_bucket(table, task.bucket, columns)
            return schema.seen(as_frame(rows))
        # Two sub-steps may read different columns of one table.
        key = name, table.sha256, tuple(columns)
        if key not in self.known:
            self.known[key] = schema.seen(self.snapshots.tables.read(table, columns))
        return self.known[key]

    def _write_output(
        self, step: Step, part: Part, name: str, frame: pd.DataFrame, bucket: str
    ) -> list[TableFile]:
        """Write the rows of an output whose groups are in the bucket, and return the files."""
        assert part.law
        schema, table = part.outputs[name], name_table(step, name)
        rows = schema.encode(frame, f"step '{step.id}': table '{table}'")
        return self.snapshots.tables.write_bucket(
            table, rows, schema.order, bucket, part.law.row_of[name]
        )


def means_of(components: Mapping[str, Any]) -> str:
    """Return a fingerprint of everything that can change a step's result except its inputs."""
    return fingerprint({name: part for name, part in components.items() if name != "inputs"})


def works_in_buckets(step: Step, resources: Resources) -> bool:
    """Check that any process can compute any bucket of the step from its tables alone."""
    verb = step.verb
    reads_more = verb.stamp or not verb.inputs or verb.roles_of(Converter)
    if reads_more:
        return False
    models = resources.models_of(step).values()
    # A model says so of itself if it makes no calls and uses no cache.
    return all(getattr(model, "follows_from_texts", False) for model in models)


@dataclass(frozen=True)
class InBuckets:
    """Recomputes sub-steps of a step in buckets.

    ``components``: those of the step's fingerprint. ``do``: does tasks and yields each with its
    files, in any order. ``expect`` and ``finished``: receive numbers of rows, as progress.
    ``task_rows``: in place of TASK_ROWS.
    """

    workflow: str
    step: Step
    components: Mapping[str, Any]
    snapshots: SnapshotStore
    do: Callable[[Sequence[Task]], Iterator[tuple[Task, Files]]]
    expect: Callable[[int], None]
    finished: Callable[[int], None]
    task_rows: int | None = None

    def outputs(self, number: int, delta: StepDelta) -> dict[str, Snapshot] | None:
        """Return the outputs of the sub-step of this number.

        Returns None if it has no law, or too few rows for more than one bucket.
        """
        part = delta.part
        bits = _bits_of_buckets(delta, self.task_rows or TASK_ROWS)
        if not bits:
            return None
        tables = {name: delta.now[name] for name in part.inputs}
        names = self._names_of_tasks(number, tables, bits)
        done = self.snapshots.tasks.read_notes(list(names))
        written: list[Files] = list(done.values())
        means = means_of(self.components)
        tasks = []
        for name, bucket in names.items():
            if name in done:
                continue
            task = Task(
                name=name,
                workflow=self.workflow,
                step=self.step.id,
                means=means,
                part=number,
                bucket=bucket,
                tables=tables,
                rows={},
                number=0,
            )
            tasks.append(task)
        with ExitStack() as stack:
            if tasks:
                # Outputs of earlier sub-steps are in no record yet, so nothing else keeps them.
                self.snapshots.tables.keep(tables.values())
                tasks = self._with_rows(delta, tasks, bits, stack)
            self.expect(sum(task.number for task in tasks))
            for task, files in self.do(tasks):
                written.append(files)
                self.finished(task.number)
        outputs = {}
        for name in part.outputs:
            files_of_output = [file for files in written for file in files[name]]
            outputs[name] = self._join_buckets(delta, name, files_of_output)
        return outputs

    def _names_of_tasks(self, number: int, tables: Tables, bits: int) -> dict[str, str]:
        """Return the names of the sub-step's tasks -> their buckets.

        A name holds a digest of everything that can change the task's result, so that a note of a
        killed run is found by the next one.
        """
        inputs = {name: table.sha256 for name, table in tables.items()}
        step = fingerprint(self.components)
        digest = fingerprint({"step": step, "part": number, "inputs": inputs})
        buckets = [f"{bucket:0{bits}b}" for bucket in range(2**bits)]
        return {f"{digest}-{bucket}": bucket for bucket in buckets}

    def _with_rows(
        self, delta: StepDelta, tasks: Sequence[Task], bits: int, stack: ExitStack
    ) -> list[Task]:
        """Return the tasks with the number of their rows, and where the rows are.

        Rows of an input that is not stored by these buckets are sorted into files that are shared
        until the stack ends.
        """
        assert delta.part.law
        found = list(tasks)
        for name, columns in delta.part.law.keyed.items():
            table = delta.now[name]
            is_stored_in_buckets = len(columns) == 1 and self.snapshots.tables.can_read_buckets(
                table, columns[0], bits
            )
            if is_stored_in_buckets:
                counts = self.snapshots.tables.count_by_bucket(table, bits)
            else:
                by_file = {f"{task.name}-{name}.rows": task for task in found}
                counts = self._share_rows(delta, name, columns, by_file, bits, stack)
                found = [
                    replace(task, rows={**task.rows, name: file}) for file, task in by_file.items()
                ]
            counted_tasks = []
            for task in found:
                # The bucket is written in binary digits.
                rows_of_input = int(counts[int(task.bucket, 2)])
                counted_tasks.append(replace(task, number=task.number + rows_of_input))
            found = counted_tasks
        return found

    def _share_rows(
        self,
        delta: StepDelta,
        name: str,
        naming: Sequence[str],
        tasks: Mapping[str, Task],
        bits: int,
        stack: ExitStack,
    ) -> np.ndarray:
        """Share the rows of an input, one file for each task, and return the number of rows in each
        bucket.

        ``tasks``: the name of a task's file -> the task. ``naming``: the columns that name a row's
        groups.
        """
        table = delta.now[name]
        seen = pick_columns(delta.part.inputs[name], self.snapshots.tables.columns(table))
        with ExitStack() as writing:
            files: dict[str, Path] = {}
            file_of_bucket: dict[int, Path] = {}
            for shared_name, task in tasks.items():
                unfinished = temporary_file(self.snapshots.root / UNFINISHED)
                file = writing.enter_context(unfinished)
                files[shared_name] = file
                file_of_bucket[int(task.bucket, 2)] = file
            counts = _sorted_into(file_of_bucket, self.snapshots, table, seen, naming, bits)
            stack.callback(self.snapshots.tasks.withdraw, list(files))
            self.snapshots.tasks.share(files)
        return counts

    def _join_buckets(self, delta: StepDelta, name: str, files: Sequence[TableFile]) -> Snapshot:
        """Return the table of an output whose rows are in these files of all buckets."""
        schema, before = delta.part.outputs[name], delta.last.outputs.get(name)
        table = name_table(self.step, name)
        if not files:
            return self.snapshots.tables.write(
                table, schema.arrow.empty_table(), schema.order, before
            )
        return self.snapshots.tables.join_files(table, files, schema.arrow, schema.order, before)


def _bits_of_buckets(delta: StepDelta, task_rows: int) -> int:
    """Return the number of hash bits that number the buckets; 0 for a sub-step that is computed at
    once."""
    law = delta.part.law
    if law is None or not all(schema.order for schema in delta.part.outputs.values()):
        return 0
    rows_of_largest = max(delta.now[name].rows for name in law.keyed)
    # Each further bit halves the buckets, so this many bits leave less than ``task_rows`` in each.
    needed_bits = (rows_of_largest // task_rows).bit_length()
    return min(needed_bits, MOST_BITS)


def _sorted_into(
    buckets: Mapping[int, Path],
    snapshots: SnapshotStore,
    snapshot: Snapshot,
    columns: Sequence[str],
    naming: Sequence[str],
    bits: int,
) -> np.ndarray:
    """Write each bucket's rows to its file, and return the number of rows in each.

    The file has what is needed to sort the rows as in the table. ``naming``: a row is in the bucket
    of every group that one of these columns names.
    """
    counts = np.zeros(2**bits, np.int64)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    needed = add_sort_columns(snapshot.order, columns) if snapshot.order else list(columns)
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for rows in _join_batches(snapshots.tables.read_unordered(snapshot, needed)):
            numbers = np.stack([group_numbers(rows[name], bits) for name in naming])
            for bucket, part in _by_bucket(rows, numbers, list(buckets)):
                if bucket not in writers:
                    writer = pa.ipc.new_stream(buckets[bucket], part.schema, options=options)
                    writers[bucket] = stack.enter_context(writer)
                writers[bucket].write_table(part)
                counts[bucket] += part.num_rows
        no_rows = add_hash_column(snapshots.tables.schema(snapshot).empty_table(), all_hashes([]))
        nothing = no_rows.select(needed)
        # A bucket without rows has a file too, since its task reads one.
        for bucket in set(buckets) - set(writers):
            stack.enter_context(pa.ipc.new_stream(buckets[bucket], nothing.schema))
    return counts


def _by_bucket(
    rows: pa.Table, numbers: np.ndarray, wanted: Sequence[int]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield each wanted bucket with its rows, in their order.

    ``numbers``: the buckets of each row, one line for each naming column. All rows are taken at
    once: passing over them again for each of many buckets takes longer.
    """
    count = len(rows)
    # One number for each pair of bucket and row: sorted, they are in the order of the buckets, and
    # a row that two of its columns put into one bucket is there once.
    bucket_row_pairs = numbers.astype(np.int64) * count + np.arange(count)
    distinct_pairs = np.unique(bucket_row_pairs)
    buckets, places = np.divmod(distinct_pairs, count)
    is_wanted = np.isin(buckets, wanted)
    buckets, places = buckets[is_wanted], places[is_wanted]
    sorted_rows = rows.combine_chunks().take(pa.array(places))
    # A bucket's rows end where the next number differs; -1, which is no bucket, ends the last one.
    is_last_of_bucket = np.diff(buckets, append=-1) != 0
    ends = np.flatnonzero(is_last_of_bucket) + 1
    for start, end in pairwise([0, *ends.tolist()]):
        yield int(buckets[start]), sorted_rows.slice(start, end - start)


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches joined to tables of about ROWS_AT_ONCE rows or BYTES_AT_ONCE bytes."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        rows = sum(map(len, waiting))
        size = sum(some.nbytes for some in waiting)
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
