"""The progress of a run and its report, as people, machines and `status` read it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["completed", "completed_with_rejects", "failed", "stopped", "waiting"]
Action = Literal["reused", "ran", "failed", "waiting", "stopped", "reuse", "run", "maybe"]
"""The state of a step. ``waiting`` for a batch; ``stopped`` by its budget or by hand. The last
three are those of a plan."""

LoadCounts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Store -> table -> {inserted, updated, deleted, unchanged}."""

SUMS = (
    "calls", "throttled_calls", "cached_calls", "estimated_calls", "input_tokens", "output_tokens",
    "rejects",
    "decided", "recovered", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class StepReport:
    """The report of one step, or its plan.

    ``rows``: of each table that the step has. ``calls``: those that were answered or failed;
    ``throttled_calls``: those that the endpoint refused as too many; ``estimated_calls``: those
    whose tokens the endpoint did not report, so that we counted them. ``cost`` is None without a
    price.

    ``conversions``: how many of the files that were read were ``converted``, how many conversions
    were ``kept``, and how many files could not be converted (``not_converted``), now or at the last
    try. ``converted_bytes``: size of the files that this run converted; ``conversion_seconds``: the
    wall time of that. ``not_read``: how many files were no input, by suffix or reason.

    ``rejects``: losses; ``decided``: rows that a rule left out or remarked on; both with their
    reasons. ``recovered``: rows that were answered in halves or by repair. ``peak_mb``: peak memory
    in megabytes, if it was measured. ``waiting``: replies and vectors that a run without calls left
    to the next one. ``estimate``: a plan's (engine/bill), else None.
    """

    step: str
    verb: str
    action: Action
    reason: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    throttled_calls: int = 0
    cached_calls: int = 0
    estimated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    rejects: int = 0
    reject_reasons: Mapping[str, int] = field(default_factory=dict)
    decided: int = 0
    decided_reasons: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    not_read: Mapping[str, int] = field(default_factory=dict)
    conversions: Mapping[str, int] = field(default_factory=dict)
    converted_bytes: int = 0
    conversion_seconds: float = 0.0
    seconds: float = 0.0
    peak_mb: float | None = None
    waiting: int = 0
    estimate: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunReport:
    """The report of a run.

    ``health``: figures of the extraction (engine/extraction_check.py). ``notes``: messages on the
    stores after the load. ``documents``: how many are new, edited and gone since the run before,
    and how many there are, if the run came so far. ``began`` and ``ended``: the time by the clock,
    in ISO 8601. The run id sorts by time too, but it stays ahead after a clock that was once in the
    future. Reports of earlier versions have no ``began``. ``not_selected``: the steps that the
    options of the run left as they were.
    """

    run_id: str
    workflow: str
    outcome: Outcome
    exit_code: int
    steps: tuple[StepReport, ...] = ()
    load: LoadCounts = field(default_factory=dict)
    message: str = ""
    load_seconds: float = 0.0
    health: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    documents: Mapping[str, int] = field(default_factory=dict)
    ended: str = ""
    began: str = ""
    not_selected: tuple[str, ...] = ()

    @property
    def totals(self) -> dict[str, Any]:
        """The sums over all steps; ``cost`` is None if a step has no price."""
        totals: dict[str, Any] = {}
        for name in SUMS:
            totals[name] = sum(getattr(step, name) for step in self.steps)
        totals["seconds"] = round(totals["seconds"] + self.load_seconds, 3)
        not_read = Counter[str]()
        for step in self.steps:
            not_read += Counter(step.not_read)
        totals["not_read"] = dict(not_read)
        costs = [step.cost for step in self.steps if step.cost is not None]
        has_all_prices = len(costs) == len(self.steps)
        totals["cost"] = sum(costs) if has_all_prices else None
        return totals

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "totals": self.totals}


class Progress:
    """Receives the progress of a run. This one ignores it."""

    def run_started(self, run_id: str, workflow: str) -> None: ...

    def run_ended(self, report: RunReport) -> None: ...

    def told(self, fact: str) -> None: ...

    def step_started(self, step: str, position: int, steps: int) -> None: ...

    def step_advanced(self, step: str, done: int, expected: int) -> None: ...

    def step_finished(self, report: StepReport) -> None: ...

    def load_started(self) -> None: ...

    def load_waits(self, fact: str) -> None: ...

    def load_advanced(self, store: str, part: str, done: int, expected: int) -> None: ...

    def load_finished(self, counts: LoadCounts, seconds: float) -> None: ...
