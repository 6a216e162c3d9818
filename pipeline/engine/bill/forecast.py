"""The bill of a run before it begins: every step that may cost something is computed from what is
known.

Verbs run as they will run, on real rows, but only on the groups that have changed. Their models
answer from the cache and count the rest. Where a verb needs replies that are still to come, it does
not run: its calls are bounded by what the last run made of the rows that changed or vanished, and
by what earlier runs took. Nothing is written except to a temporary folder and to the list of files'
hashes; no network is used.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.cells import as_frame
from pipeline.contract.laws import Part
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.bill import expected_calls as bill
from pipeline.engine.bill.counting_models import RehearsedChat, Tally
from pipeline.engine.bill.descriptions import (
    Descriptions,
    descriptions_to_come,
    reading_in_words,
    reading_of,
)
from pipeline.engine.bill.duration import (
    conversion_in_words,
    pictures_in_words,
    seconds_of_calls,
    sum_of_seconds,
    time_in_words,
)
from pipeline.engine.bill.expected_calls import (
    COMMUNITIES,
    NOTHING_ASKED,
    Bounds,
    CallRange,
    Estimate,
    Expectation,
    PastCalls,
    PendingReplies,
    Seconds,
)
from pipeline.engine.changed_groups import Groups, find_last_run, outputs_of, read_last_tables
from pipeline.engine.documents.deletions import (
    DOCUMENTS,
    DocumentChanges,
    changes_between,
    find_documents_before,
    not_converted,
    not_described,
)
from pipeline.engine.documents.kept_documents import with_kept
from pipeline.engine.losses import refuse_nothing
from pipeline.engine.plan import PlannedStep, Planner, tables_of
from pipeline.engine.resources import Model, Resources
from pipeline.engine.run_options import ALL, NO_ROWS, Rows, Selection, rows_to_ask_again
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.files import temporary_folder
from pipeline.models.base import ChatModel
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute

TOKENS_OF_INSTRUCTIONS = 400
UNITS = "text_unit_ids"
TEXT_UNITS = "text_units"
SpeedOf = Callable[[Model], float | None]


def unmeasured(model: Model) -> None:
    """Return None: the speed of the model is not known."""


@dataclass(frozen=True)
class Forecast:
    """The forecast of one step.

    ``documents``: how they changed since the last run, for the step that writes them; None if that
    is unknown, or nothing changed. ``to_convert``: the number of files that the step would convert;
    what they contain, and what that would cost, is unknown. ``bytes_to_convert``: their size.
    ``to_describe``: the number of pictures that it would ask a model about; what the descriptions
    contain is unknown. ``seconds``: the least and the most that its model calls take; None if no
    earlier run measured it. ``descriptions``: those of these pictures. ``reading``: what the step
    would ask about descriptions that are to come, which ``estimate`` does not have.
    """

    planned: PlannedStep
    estimate: Estimate
    documents: DocumentChanges | None = None
    to_convert: int = 0
    bytes_to_convert: int = 0
    to_describe: int = 0
    seconds: Seconds | None = (0.0, 0.0)
    descriptions: Descriptions | None = None
    reading: Estimate | None = None


def forecast(
    workflow: Workflow,
    resources: Resources,
    snapshots: SnapshotStore,
    usage: pd.DataFrame,
    selection: Selection = ALL,
    again: Rows = NO_ROWS,
    unended: Rows = NO_ROWS,
    speed_of: SpeedOf = unmeasured,
) -> list[Forecast]:
    """Return what each step would do and cost.

    ``usage``: the calls of earlier runs, which tell how long replies are. ``again``, ``unended``:
    the rows that a retry asks for (RunOptions). ``speed_of``: returns the tokens of replies in a
    second that doctor measured of a model, or None.
    """
    previous = snapshots.manifest(workflow.name)
    planner = Planner(workflow, resources, snapshots, selection, again, previous.steps)
    with temporary_folder("graphmill-plan-") as folder:
        tried = SnapshotStore(folder, beneath=snapshots)
        forecaster = Forecaster(
            planner, tried, previous, PastCalls(usage), again, unended, speed_of
        )
        return list(forecaster.forecasts())


@dataclass
class Forecaster:
    """Forecasts the steps in their order.

    Each table is one of three: a certain snapshot; a tried snapshot, which lacks what depends on
    pending replies; or only pending replies. ``snapshots``: the store in which tables of the last
    run can be read and tried ones written. ``again``, ``unended``: the rows that a retry asks for.
    """

    planner: Planner
    snapshots: SnapshotStore
    previous: Manifest
    former: PastCalls
    again: Rows = field(default_factory=dict)
    unended: Rows = field(default_factory=dict)
    speed_of: SpeedOf = unmeasured

    def __post_init__(self) -> None:
        self.workflow, self.resources = self.planner.workflow, self.planner.resources
        self._known: dict[str, Snapshot] = {}
        self._tried: dict[str, Snapshot] = {}
        self._to_come: dict[str, PendingReplies] = {}
        self._to_convert: dict[str, frozenset[str]] = {}
        self._to_describe: dict[str, frozenset[str]] = {}
        self._bytes_to_convert: dict[str, int] = {}
        # A step of a view finds in the cache what a step before it has asked for.
        self._embedded: set[int] = set()
        self._descriptions: Descriptions | None = None

    def forecasts(self) -> Iterator[Forecast]:
        for step in self.workflow.steps:
            planned = self.planner.plan(step, self._known)
            if planned.record and planned.action == "reuse":
                self._known |= tables_of(step, planned.record)
                yield Forecast(planned, Estimate())
                continue
            estimate = self._estimate(planned) if step.id in self._needed else Estimate()
            to_convert = self._to_convert.get(step.id, frozenset())
            to_describe = self._to_describe.get(step.id, frozenset())
            descriptions = None
            if to_describe:
                descriptions = descriptions_to_come(step, estimate, self.former)
                self._descriptions = descriptions
            yield Forecast(
                planned=planned,
                estimate=estimate,
                documents=self._documents(step),
                to_convert=len(to_convert),
                bytes_to_convert=self._bytes_to_convert.get(step.id, 0),
                to_describe=len(to_describe),
                seconds=self._seconds(step, estimate),
                descriptions=descriptions,
                reading=self._reading(step),
            )

    @cached_property
    def _needed(self) -> set[str]:
        """The steps that make the documents, ask a model that costs money, or make what such a step
        reads."""
        steps: set[str] = set()
        needed_tables = {DOCUMENTS}
        # Backwards, so that the readers of a table are known before the step that writes it.
        for step in reversed(self.workflow.steps):
            writes_needed_table = not needed_tables.isdisjoint(step.outputs.values())
            if self.resources.asks_elsewhere(step) or writes_needed_table:
                steps.add(step.id)
                needed_tables |= set(step.inputs.values())
        return steps

    def _seconds(self, step: Step, estimate: Estimate) -> Seconds | None:
        """Return the least and the most seconds of the step's model calls; None if not known."""
        if not estimate.calls[1]:
            return 0.0, 0.0
        model = next(iter(self.resources.models_of(step).values()))
        return seconds_of_calls(step.id, model, estimate, self.former.usage, self.speed_of(model))

    def _documents(self, step: Step) -> DocumentChanges | None:
        """Return how the documents changed, for the step that writes them; else None."""
        if step.outputs.get(DOCUMENTS) != DOCUMENTS or DOCUMENTS not in self._tried:
            return None
        before = find_documents_before(self.workflow, self.planner.snapshots)
        if before is not None and not self.snapshots.tables.exists(before):
            before = None
        # Files whose present content is not in the documents, of all steps.
        to_read: set[str] = set()
        for files in [*self._to_convert.values(), *self._to_describe.values()]:
            to_read |= files
        return changes_between(self.snapshots, before, self._tried[DOCUMENTS], to_read)

    def _estimate(self, planned: PlannedStep) -> Estimate:
        """Return the estimate of a step, and note what later steps need of its tables."""
        step = planned.step
        to_come = self._coming(step)
        is_paid = self.resources.asks_elsewhere(step)
        has_inputs = set(step.inputs.values()) <= set(self._at_hand)
        written = [table for name, table in step.outputs.items() if name != REJECTS]
        ran_before = all(self._table_before(table) for table in written)
        # A free step that waits for replies is not called if the last run has its tables.
        is_of_use = to_come is None or is_paid or not ran_before
        tally = None
        if has_inputs and is_of_use:
            tally = self._rehearse(planned)
        elif is_paid:
            tally = self._count_changed_rows(step, to_come)
        estimate = self._bounds(step, tally, to_come) if is_paid else Estimate()
        after = self._after(step, tally, to_come, estimate)
        if after:
            self._to_come |= dict.fromkeys(step.outputs.values(), after)
        return estimate

    def _coming(self, step: Step) -> PendingReplies | None:
        """Return the pending replies that an input of the step depends on, the longest of
        several."""
        found = [self._to_come[table] for table in step.inputs.values() if table in self._to_come]
        return max(found, key=lambda pending: pending.said.most, default=None)

    @property
    def _at_hand(self) -> dict[str, Snapshot]:
        """The certain and the tried tables; a certain one counts where there are both."""
        return {**self._tried, **self._known}

    def _rehearse(self, planned: PlannedStep) -> Tally:
        """Run the step's verb with what is known and keep its outputs as tried; return what it
        would ask."""
        step = planned.step
        tables = self._at_hand
        repeats = rows_to_ask_again(step.id, self.again, self.unended)
        tally = Tally(self.resources.tokenizer, repeats=repeats, embedded=self._embedded)
        rowwise = step.verb.rowwise
        # The number of rows in each call of the verb; no call adds none.
        rows_called = [0]

        def make(
            part: Part, inputs: Mapping[str, pd.DataFrame], groups: Groups | None
        ) -> Mapping[str, pd.DataFrame]:
            rows_called.append(len(inputs[rowwise]) if rowwise else 0)
            return self._call_verb(planned, part, inputs, groups, tally)

        last = find_last_run(planned, self.previous, self.snapshots)
        outputs = outputs_of(step, tables, last, self.snapshots, make)
        self._bytes_to_convert[step.id] = tally.bytes_to_convert
        if step.id not in self._to_convert and step.id not in self._to_describe:
            refuse_nothing(step, outputs, self._rejects(outputs))
        for name, table in outputs.items():
            # Tables that only sub-steps of the step read are not named by the workflow.
            if name in step.writes:
                self._tried[step.outputs[name]] = table
        if rowwise:
            # Rows that were not read again need no call.
            kept = tables[step.inputs[rowwise]].rows - rows_called[-1]
            tally.rows += kept
            tally.known += kept
        return tally

    def _call_verb(
        self,
        planned: PlannedStep,
        part: Part,
        inputs: Mapping[str, pd.DataFrame],
        groups: Groups | None,
        tally: Tally,
    ) -> Mapping[str, pd.DataFrame]:
        """Return the outputs of the step for these inputs, with what is known."""
        step = planned.step
        last = read_last_tables(planned, self.previous, self.snapshots)
        frames = self.resources.call(step, inputs, tally.rehearsed, last=last, part=part)
        to_convert = not_converted(frames)
        if to_convert:
            self._to_convert[step.id] = to_convert
        to_describe = frozenset() if step.inputs else not_described(frames)
        if to_describe:
            self._to_describe[step.id] = to_describe
        return with_kept(
            step, frames, self.previous, self.planner.snapshots, law=part.law, groups=groups
        )

    def _rejects(self, outputs: Mapping[str, Snapshot]) -> pd.DataFrame:
        if REJECTS not in outputs:
            return REJECTS_SCHEMA.frame()
        return self.snapshots.tables.read(outputs[REJECTS])

    def _count_changed_rows(self, step: Step, to_come: PendingReplies | None) -> Tally:
        """Count what the step would ask about rows of the last run to which text units that are
        gone contributed.

        Nothing is counted for a step whose inputs do not name text units.
        """
        tally = Tally(self.resources.tokenizer)
        before: dict[str, Snapshot] = {}
        for name, table in step.inputs.items():
            snapshot = self._table_before(table)
            if snapshot is not None:
                before[name] = snapshot
        is_readable = len(before) == len(step.inputs)
        names_units = all(UNITS in step.reads[name].columns for name in step.inputs)
        is_of_graph = COMMUNITIES not in step.inputs
        if to_come and to_come.gone and is_readable and names_units and is_of_graph:
            inputs = {}
            for name, snapshot in before.items():
                columns = step.reads[name].columns
                inputs[name] = self._touched(snapshot, columns, to_come.gone)
            self.resources.call(step, inputs, tally.rehearsed)
        for model in self.resources.models_of(step).values():
            tally.batch_size = getattr(model, "batch_size", 1)
        return tally

    def _table_before(self, table: str) -> Snapshot | None:
        """Return a table of the last run; None if it had none, or the table is gone."""
        snapshot = self.previous.tables.get(table)
        is_there = snapshot is not None and self.snapshots.tables.exists(snapshot)
        return snapshot if is_there else None

    def _bounds(self, step: Step, tally: Tally | None, to_come: PendingReplies | None) -> Estimate:
        """Return the estimate of a step with a model that costs money."""
        tally = tally or Tally(self.resources.tokenizer)
        asked = self._asked(step, tally, to_come)
        model = next(iter(self.resources.models_of(step).values()))
        follows_from_guess = to_come is not None and to_come.guessed
        return bill.estimate(step, model, tally, asked, self.former, follows_from_guess)

    def _asked(self, step: Step, tally: Tally, to_come: PendingReplies | None) -> CallRange:
        """Return the calls that were counted, and those that may follow from pending replies."""
        if to_come is None:
            trial = self._trial(step) if tally.rows else NOTHING_ASKED
            return bill.surely(step, tally, self.former).with_more(trial)
        instructions = self._instructions(step)
        if COMMUNITIES in step.verb.inputs:
            table = step.inputs[COMMUNITIES]
            at_hand = table not in self._to_come
            before = None if at_hand else self._table_before(table)
            rows = before.rows if before else 0
            return bill.of_reports(step, tally, at_hand, rows, to_come, instructions, self.former)
        if step.verb.roles_of(ChatModel):
            return bill.of_summaries(step, tally, to_come, instructions, self.former)
        table = step.inputs[step.verb.rowwise or next(iter(step.inputs))]
        before = self._table_before(table) if to_come.rows else None
        return bill.of_texts(step, tally, before.rows if before else 0, to_come, self.former)

    def _reading(self, step: Step) -> Estimate | None:
        """Return what the step would ask about descriptions of pictures that are to come; None if
        there are none, or it asks no chat model about text units."""
        table = step.inputs.get(step.verb.rowwise or "")
        asks_about_units = step.verb.rowwise == TEXT_UNITS and step.verb.roles_of(ChatModel)
        is_paid = asks_about_units and self.resources.asks_elsewhere(step)
        if self._descriptions is None or not is_paid:
            return None
        sizes = [
            getattr(writer.params, "size", None)
            for writer in self.workflow.steps
            if table in writer.outputs.values()
        ]
        model = next(iter(self.resources.models_of(step).values()))
        return reading_of(
            step, model, self._descriptions, next(iter(sizes), None), self._instructions(step),
            self.resources.tokenizer, self.former,
        )  # fmt: skip

    def _instructions(self, step: Step) -> int:
        """Return the tokens of the step's prompts."""
        tokens_of_prompts = 0
        for prompt in self.resources.prompts_of(step).values():
            tokens_of_prompts += self.resources.tokenizer.count(prompt.text)
        return max(tokens_of_prompts, TOKENS_OF_INSTRUCTIONS)

    def _trial(self, step: Step) -> CallRange:
        """Return the calls that decide in which format the step's chat model replies: the second
        may be spared."""
        if self.resources.format_trial is None or not step.format_undecided:
            return NOTHING_ASKED
        tally = Tally(self.resources.tokenizer)
        for name in self.resources.chat_names(step):
            chat = RehearsedChat(self.resources.chat(name), tally)
            chat.converse([self.resources.format_trial(step)])
        fewest = min(tally.calls, 1)
        tokens_of_one = tally.input_tokens // max(tally.calls, 1)
        calls = Bounds(fewest, fewest, tally.calls)
        tokens = Bounds(fewest * tokens_of_one, tokens_of_one, tally.input_tokens)
        return CallRange(calls, tokens)

    def _after(
        self, step: Step, tally: Tally | None, to_come: PendingReplies | None, estimate: Estimate
    ) -> PendingReplies | None:
        """Return the pending replies that the step's own tables depend on."""
        if not step.verb.roles_of(ChatModel) or not estimate.calls[1]:
            return to_come
        if not step.inputs:
            # Only the descriptions of new pictures are to come: all other documents are known, and
            # so are the calls about them.
            return to_come
        said = Expectation(estimate.expected.output_tokens, estimate.output_tokens[1])
        if COMMUNITIES in step.verb.inputs:
            reports = Expectation(estimate.expected.calls, estimate.calls[1])
            return PendingReplies(step.id, 0, 0, frozenset(), said, reports)
        if to_come:
            more = Expectation(to_come.said.expected + said.expected, to_come.said.most + said.most)
            return replace(to_come, said=more, guessed=to_come.guessed or estimate.guessed)
        usual_tokens, least_tokens = bill.TOKENS_OF_A_ROW
        made = Expectation(said.expected / usual_tokens, said.expected / least_tokens)
        return PendingReplies(
            step=step.id,
            replies=estimate.calls[0],
            rows=tally.rows if tally else 0,
            gone=self._gone(step),
            said=said,
            made=made,
            guessed=estimate.guessed,
        )

    def _gone(self, step: Step) -> frozenset[str]:
        """Return the ids of the rows that a rowwise step read in the last run and no longer
        reads."""
        table = step.inputs.get(step.verb.rowwise or "")
        before = self._table_before(table) if table else None
        if table is None or before is None:
            return frozenset()
        old, new = self.snapshots.tables.difference(before, self._at_hand[table], ["id"])
        return frozenset(old["id"].to_pylist()) - frozenset(new["id"].to_pylist())

    def _touched(
        self, snapshot: Snapshot, columns: Sequence[str], units: frozenset[str]
    ) -> pd.DataFrame:
        """Return the rows to which any of these text units contributed."""
        known = self.snapshots.tables.read_arrow(snapshot, ["id", UNITS])
        lists = known[UNITS].combine_chunks()
        wanted = pa.array(sorted(units), lists.type.value_type)
        is_wanted = pc.is_in(lists.flatten(), wanted)
        # The number of the row for each text unit of its list.
        row_of_unit = pc.list_parent_indices(lists)
        rows = pc.unique(row_of_unit.filter(is_wanted))
        ids = known["id"].take(rows).combine_chunks()
        return as_frame(self.snapshots.tables.select(snapshot, ["id"], ids, columns))


def totals(forecasts: list[Forecast]) -> Mapping[str, Any]:
    """Return sums over all steps. ``cost`` is None where a model that would be called has no price;
    ``seconds`` is None where no earlier run measured a step that makes calls."""
    estimates = [entry.estimate for entry in forecasts]
    amounts = [estimate.expected for estimate in estimates]
    expected_costs = [amount.cost for amount in amounts if amount.cost is not None]
    has_all_prices = len(expected_costs) == len(amounts)
    expected = {
        "calls": sum(amount.calls for amount in amounts),
        "input_tokens": sum(amount.input_tokens for amount in amounts),
        "output_tokens": sum(amount.output_tokens for amount in amounts),
        "cost": sum(expected_costs) if has_all_prices else None,
    }
    return {
        "rows": sum(estimate.rows for estimate in estimates),
        "known": sum(estimate.known for estimate in estimates),
        "calls": _sum_ends(estimate.calls for estimate in estimates),
        "input_tokens": _sum_ends(estimate.input_tokens for estimate in estimates),
        "output_tokens": _sum_ends(estimate.output_tokens for estimate in estimates),
        "cost": _sum_costs(estimate.cost for estimate in estimates),
        "expected": expected,
        "guessed": any(estimate.guessed for estimate in estimates),
        "seconds": sum_of_seconds(entry.seconds for entry in forecasts),
    }


def _sum_ends(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the sum of the least, and that of the most."""
    least = most = 0
    for low, high in ranges:
        least += low
        most += high
    return [least, most]


def _sum_costs(costs: Iterable[tuple[float, float] | None]) -> list[float] | None:
    """Return the sum of the lowest costs, and that of the highest; None if one has no price."""
    known: list[tuple[float, float]] = []
    for cost in costs:
        if cost is None:
            return None
        known.append(cost)
    return [sum(lowest for lowest, _ in known), sum(highest for _, highest in known)]


def times_in_words(
    workflow: str, forecasts: Sequence[Forecast], reports: Iterable[Mapping[str, Any]]
) -> tuple[str, str]:
    """Return a sentence about the conversions of a run and its pictures, and one about its model
    calls; "" where there are none.

    ``forecasts``: those of the steps of ``workflow``. ``reports``: of earlier runs, the newest
    first.
    """
    files = sum(entry.to_convert for entry in forecasts)
    size = sum(entry.bytes_to_convert for entry in forecasts)
    pictures = sum(entry.to_describe for entry in forecasts)
    describing = [entry.planned.step.id for entry in forecasts if entry.to_describe]
    seconds_of_steps = {entry.planned.step.id: entry.seconds for entry in forecasts}
    sentences = [
        conversion_in_words(files, size, reports),
        pictures_in_words(pictures, workflow, describing, _reading_in_words(forecasts)),
    ]
    of_documents = "; ".join(sentence for sentence in sentences if sentence)
    return of_documents, time_in_words(seconds_of_steps)


def _reading_in_words(forecasts: Sequence[Forecast]) -> str:
    descriptions = next((entry.descriptions for entry in forecasts if entry.descriptions), None)
    readings = [(entry.planned.step.id, entry.reading) for entry in forecasts if entry.reading]
    return reading_in_words(descriptions, readings) if descriptions else ""
