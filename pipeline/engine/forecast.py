"""The bill before it is spent: every step worked through with what is known, and what it would ask, counted.

Verbs run as they will run, on real rows; their models answer from the cache and count the rest. Nothing is written, and
no network is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import pandas as pd

from pipeline.engine.plan import PlannedStep, Planner, tables_of
from pipeline.engine.rehearsal import Tally, rehearsed
from pipeline.engine.resources import Model, Resources
from pipeline.engine.selection import ALL, Selection
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.models.base import ChatModel
from pipeline.models.endpoint import Tokens
from pipeline.snapshots import Snapshot, SnapshotStore

Range = tuple[int, int]
CALLS_TO_TRUST = 5
"""Calls of former runs below which their mean says nothing."""
SPREAD = (0.7, 1.4)
"""How far the mean of what is to come may be from that of former calls."""
DEVIATIONS = 3
"""By how many standard deviations the sum of few replies may differ from so many times their mean."""
TOKENS_OF_INSTRUCTIONS = 400
TOKENS_OF_A_DESCRIPTION = 15
"""The least that a record of the graph takes in a reply."""
ROWS_OF_A_RECORD = 2
"""Rows of the graph that a record may add or change: its own, and that of an end which nothing describes."""
COMMUNITIES = "communities"
"""A table of which one row more in the graph may change any other."""


@dataclass(frozen=True)
class Estimate:
    """``rows`` of model work, of which ``known`` need no call. Ranges hold both ends: they differ where replies that
    are still to come decide. ``cost`` is None without a price."""

    rows: int = 0
    known: int = 0
    calls: Range = (0, 0)
    input_tokens: Range = (0, 0)
    output_tokens: Range = (0, 0)
    cost: tuple[float, float] | None = (0.0, 0.0)


@dataclass(frozen=True)
class ToCome:
    """What replies that are still to come may add to or change in a table, at most."""

    rows: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Forecast:
    planned: PlannedStep
    estimate: Estimate


def forecast(
    workflow: Workflow,
    resources: Resources,
    snapshots: SnapshotStore,
    usage: pd.DataFrame,
    selection: Selection = ALL,
) -> list[Forecast]:
    """What each step would do and cost; ``usage``: the calls of former runs, which tell how long replies are."""
    previous = snapshots.manifest(workflow.name).steps
    planner = Planner(workflow, resources, snapshots, selection, (), previous)
    stage = Stage(workflow, resources, snapshots, usage)
    return [Forecast(planned, stage.estimate(planned)) for planned in stage.planned(planner)]


@dataclass
class Stage:
    """The tables of a rehearsal: snapshots where they are certain, frames where they are not."""

    workflow: Workflow
    resources: Resources
    snapshots: SnapshotStore
    usage: pd.DataFrame

    def __post_init__(self) -> None:
        self._known: dict[str, Snapshot] = {}
        self._frames: dict[str, pd.DataFrame] = {}
        self._to_come: dict[str, ToCome] = {}

    def planned(self, planner: Planner) -> Any:
        for step in self.workflow.steps:
            planned = planner.plan(step, self._known)
            if planned.record and planned.action == "reuse":
                self._known |= tables_of(step, planned.record)
            yield planned

    def estimate(self, planned: PlannedStep) -> Estimate:
        """Rehearse the step unless it is reused, or nothing that is paid for depends on it."""
        if planned.action == "reuse" or not self._matters(planned.step):
            return Estimate()
        step, tally = planned.step, Tally(self.resources.tokenizer)
        frames = step.verb.call(self._inputs(step), self._roles(step, tally))
        for name, schema in step.writes.items():
            if name != REJECTS:
                self._frames[step.outputs[name]] = schema.encode(frames[name], step.id).to_pandas()
        expected = [self._to_come.get(table, ToCome()) for table in step.inputs.values()]
        before = ToCome(
            max((one.rows for one in expected), default=0), max((one.tokens for one in expected), default=0)
        )
        estimate = self._estimate(step, tally, before)
        self._to_come |= dict.fromkeys(step.outputs.values(), _after(step, before, estimate))
        return estimate

    def _matters(self, step: Step) -> bool:
        """Whether the step has a model, or a later one that has reads what comes of it."""
        wanted: set[str] = set()
        for later in reversed(self.workflow.steps):
            if later.models or wanted & set(later.outputs.values()):
                wanted |= set(later.inputs.values())
                if later is step:
                    return True
        return False

    def _inputs(self, step: Step) -> dict[str, pd.DataFrame]:
        return {name: self._table(table)[step.reads[name].columns] for name, table in step.inputs.items()}

    def _table(self, table: str) -> pd.DataFrame:
        if table not in self._frames:
            self._frames[table] = self.snapshots.read(self._known[table])
        return self._frames[table]

    def _roles(self, step: Step, tally: Tally) -> dict[str, Any]:
        models = self.resources.models_of(step).items()
        roles: dict[str, Any] = {
            **self.resources.prompts_of(step),
            **self.resources.tokenizers_of(step),
            **{role: rehearsed(model, tally) for role, model in models},
        }
        return roles | ({"params": step.params} if step.verb.takes_params else {})

    def _estimate(self, step: Step, tally: Tally, to_come: ToCome) -> Estimate:
        """``to_come``: what the step's rows are still to be made of."""
        models = list(self.resources.models_of(step).values())
        if not models:
            return Estimate()
        prompts = sum(
            self.resources.tokenizer.count(prompt.text) for prompt in self.resources.prompts_of(step).values()
        )
        more_calls, more_tokens = _more(step, tally, to_come, max(prompts, TOKENS_OF_INSTRUCTIONS))
        surely = 0 if to_come.rows and COMMUNITIES in step.verb.inputs else 1
        calls = (tally.calls * surely, tally.calls + more_calls)
        asked = (tally.input_tokens * surely, tally.input_tokens + more_tokens)
        said = self._replies(step, calls, asked) if self.resources.chat_names(step) else (0, 0)
        cost = _cost(models[0], asked, said, few=calls[1] if to_come.rows else calls[0])
        return Estimate(tally.rows, tally.known, calls, asked, said, cost)

    def _replies(self, step: Step, calls: Range, asked: Range) -> Range:
        """Output tokens: by the mean of former calls, else between a record and as much as was asked."""
        former = self.usage[(self.usage["step"] == step.id) & (self.usage["outcome"] == "ok")]["output_tokens"]
        if len(former) >= CALLS_TO_TRUST:
            mean, chance = float(former.mean()), DEVIATIONS * float(former.std())
            low, high = (number * mean * spread for number, spread in zip(calls, SPREAD, strict=True))
            return max(0, int(low - chance * sqrt(calls[0]))), ceil(high + chance * sqrt(calls[1]))
        return calls[0] * TOKENS_OF_A_DESCRIPTION, asked[1]


def _after(step: Step, before: ToCome, estimate: Estimate) -> ToCome:
    """What is to come of a step's own tables."""
    if not step.verb.roles_of(ChatModel):
        return before
    said = estimate.output_tokens[1]
    if COMMUNITIES in step.verb.inputs:
        return ToCome(estimate.calls[1], said)
    records = ceil(said / TOKENS_OF_A_DESCRIPTION) if step.verb.rowwise else 0
    return ToCome(before.rows + ROWS_OF_A_RECORD * records, before.tokens + said)


def _more(step: Step, tally: Tally, to_come: ToCome, instructions: int) -> Range:
    """Calls and tokens beyond those counted: what the model is asked again for, and rows that replies to come add to or
    change. ``instructions``: tokens of a prompt without what it is about."""
    if not tally.paid:
        return 0, 0
    gleanings = getattr(step.params, "gleanings", 0)
    calls, replies = tally.calls * gleanings, gleanings * (gleanings + 1) // 2  # each gleaning repeats what was said
    tokens = tally.input_tokens * (gleanings + replies) + tally.calls * replies * TOKENS_OF_INSTRUCTIONS
    more_rounds = getattr(step.params, "rounds", 1) - 1
    calls, tokens = calls + tally.calls * more_rounds, tokens + tally.input_tokens * more_rounds
    if not to_come.tokens:
        return calls, tokens
    more_tokens = 3 * to_come.tokens + tally.known_tokens
    if step.verb.roles_of(ChatModel):
        limit = getattr(step.params, "max_tokens", None)
        added = ceil(2 * to_come.tokens / limit) if limit else to_come.rows
        return calls + added + tally.known, tokens + more_tokens + added * instructions
    return ceil((to_come.rows + tally.known) / max(1, tally.batch_size)), more_tokens


def _cost(model: Model, asked: Range, said: Range, few: int) -> tuple[float, float] | None:
    """A step in batches may pay the full price in the end: for few calls (``few``: how many surely are the first), and
    for what failed in a batch."""
    full = getattr(model, "full_cost", getattr(model, "cost", _free))
    low = full if few < getattr(model, "least", 0) else getattr(model, "cost", _free)
    ends = low(Tokens(asked[0], said[0])), full(Tokens(asked[1], said[1]))
    return None if None in ends else ends


def _free(tokens: Tokens) -> float:
    return 0.0


def totals(forecasts: list[Forecast]) -> Mapping[str, Any]:
    """Sums over all steps; ``cost`` is None where a model that would be called has no price."""
    estimates = [entry.estimate for entry in forecasts]
    costs = [estimate.cost for estimate in estimates]

    def both(name: str) -> list[int]:
        return [sum(getattr(estimate, name)[end] for estimate in estimates) for end in (0, 1)]

    return {
        "rows": sum(estimate.rows for estimate in estimates),
        "known": sum(estimate.known for estimate in estimates),
        "calls": both("calls"),
        "input_tokens": both("input_tokens"),
        "output_tokens": both("output_tokens"),
        "cost": None if None in costs else [sum(cost[end] for cost in costs if cost) for end in (0, 1)],
    }
