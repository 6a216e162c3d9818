"""A piece of a step worked on bucket by bucket of its groups: in bounded memory, in this process or
in others.

A task is a piece on a bucket: some names, and where its rows lie. Any process that opens the
project can do it: it writes files named by their content, and a small record that they are written,
so that no task is done twice.
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
from pipeline.snapshots.table_rows import in_order, with_hashes, with_order
from pipeline.snapshots.tables import TableFile

TASK_ROWS = 20_000
"""Rows of a piece's largest input from which on it is worked on in buckets."""
MOST_BITS = 8
"""Of the hash of a group's name those that a bucket goes by, at most: a bucket has a file open
while rows are sorted into them."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 50_000, 2**25
"""Rows, or bytes, that are sorted into buckets together."""
Files = Mapping[str, Sequence[TableFile]]
"""The files of each output of a piece."""


@dataclass(frozen=True)
class Task:
    """``part``: the place of the piece among those of its step; ``bucket``: what the hashes of its
    groups' names begin with; ``tables``: its inputs; ``rows``: what is shared with the bucket's
    rows of a keyed one, where they are not those of a bucket of the table; ``name``: of its record;
    ``means``: a fingerprint of all but these inputs that can change what comes of it."""

    name: str
    workflow: str
    step: str
    means: str
    part: int
    bucket: str
    tables: Tables
    rows: Mapping[str, str]
    number: int
    """How many rows these are."""


class Workers(Protocol):
    """Other processes that do tasks; a context, which begins with the first of them."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def do(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        """What comes of each, as soon as it is there, in any order. Raises what a task raises, and
        WorkerError where nobody can go on with them."""
        ...


@dataclass(frozen=True)
class Workplace:
    """What a process needs to do tasks. ``steps``: those that it knows, by their workflows and ids;
    ``known``: the tables that it has read whole, as other tasks need them too."""

    workflow: Callable[[str], Workflow]
    resources: Resources
    snapshots: SnapshotStore
    steps: dict[tuple[str, str], Step] = field(default_factory=dict)
    known: dict[tuple[str, str], pd.DataFrame] = field(default_factory=dict)

    def do_each(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Files]]:
        for task in tasks:
            yield task, self.do(task)

    def do(self, task: Task) -> Files:
        """The files of its outputs, which are noted too."""
        step = self._step(task)
        part = list_parts(step)[task.part]
        frames = dict(self._made(step, part, task))
        made = {
            name: self._written(step, part, name, frames.pop(name), task.bucket)
            for name in part.outputs
        }
        self.snapshots.tasks.note(task.name, made)
        return made

    def _step(self, task: Task) -> Step:
        """Raises WorkerError where it is not, or not any more, what the run began with."""
        key = task.workflow, task.step
        if key not in self.steps:
            found = next(
                (step for step in self.workflow(task.workflow).steps if step.id == task.step), None
            )
            if found is None or self._means(found) != task.means:
                raise WorkerError(
                    f"step '{task.step}': its code, its workflow, its prompts, a library of its"
                    " verb or what the environment gives it is not what the run began with; run"
                    " again"
                )
            self.steps[key] = found
        return self.steps[key]

    def _means(self, step: Step) -> str:
        return means_of(
            components(step, self.resources, {}, None, code_fingerprint(step.verb.function))
        )

    def _made(self, step: Step, part: Part, task: Task) -> Mapping[str, pd.DataFrame]:
        """Nothing comes of nothing."""
        if not task.number:
            return {name: schema.frame() for name, schema in part.outputs.items()}
        inputs = {name: self._input(part, name, task) for name in part.inputs}
        in_parts = bool(step.verb.parts)
        if in_parts:
            call = partial(part.call, roles={"params": step.params, "tracker": UNTRACKED})
            return call_verb(step, inputs, call)
        return self.resources.call(step, inputs)

    def _input(self, part: Part, name: str, task: Task) -> pd.DataFrame:
        assert part.law
        schema, table = part.inputs[name], task.tables[name]
        columns = pick_columns(schema, self.snapshots.tables.columns(table))
        if name in task.rows:
            with pa.ipc.open_stream(self.snapshots.tasks.find_shared(task.rows[name])) as stream:
                rows = stream.read_all()
            return schema.seen(
                as_frame((in_order(rows, table.order) if table.order else rows).select(columns))
            )
        if name in part.law.keyed:
            return schema.seen(
                as_frame(self.snapshots.tables.read_bucket(table, task.bucket, columns))
            )
        key = name, table.sha256
        if key not in self.known:
            self.known[key] = schema.seen(self.snapshots.tables.read(table, columns))
        return self.known[key]

    def _written(
        self, step: Step, part: Part, name: str, frame: pd.DataFrame, bucket: str
    ) -> list[TableFile]:
        """The rows of an output that are of groups of the bucket."""
        assert part.law
        schema, table = part.outputs[name], name_table(step, name)
        rows = schema.encode(frame, f"step '{step.id}': table '{table}'")
        return self.snapshots.tables.write_bucket(
            table, rows, schema.order, bucket, part.law.row_of[name]
        )


def means_of(components: Mapping[str, Any]) -> str:
    """Of a step's fingerprint all but what it reads."""
    return fingerprint({name: part for name, part in components.items() if name != "inputs"})


def works_in_buckets(step: Step, resources: Resources) -> bool:
    """Whether any process can make the step, of any bucket, from its tables alone."""
    verb, models = step.verb, resources.models_of(step).values()
    reads_more = verb.stamp or not verb.inputs or verb.roles_of(Converter)
    return not reads_more and all(getattr(model, "follows_from_texts", False) for model in models)


@dataclass(frozen=True)
class InBuckets:
    """Makes pieces of a step anew. ``components``: of the step's fingerprint; ``do``: does tasks,
    and tells of each what it made and of how many rows, in any order; ``task_rows``: in place of
    TASK_ROWS."""

    workflow: str
    step: Step
    components: Mapping[str, Any]
    snapshots: SnapshotStore
    do: Callable[[Sequence[Task]], Iterator[tuple[Task, Files]]]
    expect: Callable[[int], None]
    finished: Callable[[int], None]
    task_rows: int | None = None

    def outputs(self, number: int, delta: StepDelta) -> dict[str, Snapshot] | None:
        """Those of the piece of this number; None where it has no law, or too few rows for more
        than one bucket."""
        part, bits = delta.part, _bits(delta, self.task_rows or TASK_ROWS)
        if not bits:
            return None
        names = [f"{bucket:0{bits}b}" for bucket in range(2**bits)]
        inputs = {name: delta.now[name].sha256 for name in part.inputs}
        digest = fingerprint(
            {"step": fingerprint(self.components), "part": number, "inputs": inputs}
        )
        done = self.snapshots.tasks.read_notes([f"{digest}-{bucket}" for bucket in names])
        made: list[Files] = list(done.values())
        with ExitStack() as stack:
            tables, means = (
                {name: delta.now[name] for name in part.inputs},
                means_of(self.components),
            )
            tasks = [
                Task(
                    f"{digest}-{bucket}",
                    self.workflow,
                    self.step.id,
                    means,
                    number,
                    bucket,
                    tables,
                    {},
                    0,
                )
                for bucket in names
                if f"{digest}-{bucket}" not in done
            ]
            if tasks:
                self.snapshots.tables.keep(
                    tables.values()
                )  # some were made between records, by this process
                tasks = self._with_rows(delta, tasks, bits, stack)
            self.expect(sum(task.number for task in tasks))
            for task, written in self.do(tasks):
                made.append(written)
                self.finished(task.number)
        return {
            name: self._joined(delta, name, [file for files in made for file in files[name]])
            for name in part.outputs
        }

    def _with_rows(
        self, delta: StepDelta, tasks: Sequence[Task], bits: int, stack: ExitStack
    ) -> list[Task]:
        """The tasks with their rows, where need be in files that are shared until the stack
        ends."""
        assert delta.part.law
        found = list(tasks)
        for name, columns in delta.part.law.keyed.items():
            if len(columns) == 1 and self.snapshots.tables.has_buckets_of(
                delta.now[name], columns[0], bits
            ):
                counts = self.snapshots.tables.count_by_bucket(delta.now[name], bits)
                found = [
                    replace(task, number=task.number + int(counts[int(task.bucket, 2)]))
                    for task in found
                ]
                continue
            shared = [f"{task.name}-{name}.rows" for task in tasks]
            counts = self._shared(
                delta, name, columns, dict(zip(shared, tasks, strict=True)), bits, stack
            )
            found = [
                replace(
                    task,
                    rows={**task.rows, name: rows},
                    number=task.number + int(counts[int(task.bucket, 2)]),
                )
                for task, rows in zip(found, shared, strict=True)
            ]
        return found

    def _shared(
        self,
        delta: StepDelta,
        name: str,
        naming: Sequence[str],
        tasks: Mapping[str, Task],
        bits: int,
        stack: ExitStack,
    ) -> np.ndarray:
        """How many rows of an input are in each bucket, after those of the tasks were shared by
        these names."""
        seen = pick_columns(delta.part.inputs[name], self.snapshots.tables.columns(delta.now[name]))
        with ExitStack() as writing:
            files = {
                of: writing.enter_context(temporary_file(self.snapshots.root / UNFINISHED))
                for of in tasks
            }
            buckets = {int(task.bucket, 2): files[of] for of, task in tasks.items()}
            counts = _sorted_into(buckets, self.snapshots, delta.now[name], seen, naming, bits)
            stack.callback(self.snapshots.tasks.withdraw, list(files))
            self.snapshots.tasks.share(files)
        return counts

    def _joined(self, delta: StepDelta, name: str, files: Sequence[TableFile]) -> Snapshot:
        schema, before = delta.part.outputs[name], delta.last.outputs.get(name)
        table = name_table(self.step, name)
        if not files:
            return self.snapshots.tables.write(
                table, schema.arrow.empty_table(), schema.order, before
            )
        return self.snapshots.tables.join_files(table, files, schema.arrow, schema.order, before)


def _bits(delta: StepDelta, task_rows: int) -> int:
    """Of the hashes of groups' names those that its buckets go by; none for a piece that is worked
    on whole."""
    law = delta.part.law
    if law is None or not all(schema.order for schema in delta.part.outputs.values()):
        return 0
    rows = max(delta.now[name].rows for name in law.keyed)
    return min((rows // task_rows).bit_length(), MOST_BITS)


def _sorted_into(
    buckets: Mapping[int, Path],
    snapshots: SnapshotStore,
    snapshot: Snapshot,
    columns: Sequence[str],
    naming: Sequence[str],
    bits: int,
) -> np.ndarray:
    """Write each bucket's rows to its file, with what puts them in the order of the table, and say
    how many these are. A row is in the bucket of every group that one of its columns ``naming``
    names."""
    counts = np.zeros(2**bits, np.int64)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    needed = with_order(snapshot.order, columns) if snapshot.order else list(columns)
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for rows in _together(snapshots.tables.read_unordered(snapshot, needed)):
            numbers = np.stack([group_numbers(rows[name], bits) for name in naming])
            for bucket, part in _by_bucket(rows, numbers, list(buckets)):
                if bucket not in writers:
                    writer = pa.ipc.new_stream(buckets[bucket], part.schema, options=options)
                    writers[bucket] = stack.enter_context(writer)
                writers[bucket].write_table(part)
                counts[bucket] += part.num_rows
        nothing = with_hashes(
            snapshots.tables.schema(snapshot).empty_table(), all_hashes([])
        ).select(needed)
        for bucket in set(buckets) - set(writers):
            stack.enter_context(pa.ipc.new_stream(buckets[bucket], nothing.schema))
    return counts


def _by_bucket(
    rows: pa.Table, numbers: np.ndarray, wanted: Sequence[int]
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket that is wanted, in their order. ``numbers``: of the buckets that each
    is in, a line for each column; all are taken at once, for to go through them for each of many
    buckets takes longer."""
    numbered = np.unique(numbers.astype(np.int64) * len(rows) + np.arange(len(rows)))
    found, places = np.divmod(numbered[np.isin(numbered // len(rows), wanted)], len(rows))
    taken, ends = (
        rows.combine_chunks().take(pa.array(places)),
        np.flatnonzero(np.diff(found, append=-1)) + 1,
    )
    for start, end in pairwise([0, *ends.tolist()]):
        yield int(found[start]), taken.slice(start, end - start)


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Some batches at a time."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if (
            sum(map(len, waiting)) >= ROWS_AT_ONCE
            or sum(some.nbytes for some in waiting) >= BYTES_AT_ONCE
        ):
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
