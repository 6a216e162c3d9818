"""A run under way, and the report of it, however it ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipeline.engine.options import RunOptions
from pipeline.engine.report import LoadCounts, Outcome, RunReport
from pipeline.engine.runner import Runner
from pipeline.engine.workflow import Workflow
from pipeline.errors import (
    ABOVE_MAX_REJECTS,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    BudgetError,
    GraphmillError,
    Terminated,
    WaitingError,
    in_words,
)


@dataclass
class RunState:
    """``reject_ratio``, ``unread_ratio`` and ``health`` as the index stage found them, ``load`` and ``store_notes`` as
    the load stage did. Above ``max_reject_ratio`` a run that has indexed does not load."""

    run_id: str
    workflow: Workflow
    runner: Runner
    options: RunOptions
    max_reject_ratio: float
    reject_ratio: float = 0.0
    unread_ratio: float = 0.0
    health: Mapping[str, float] = field(default_factory=dict)
    load: LoadCounts | None = None
    load_seconds: float = 0.0
    store_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        unread = (
            f"{self.unread_ratio:.0%} of the input could not be read; what could be is used: see 'graphmill rejects "
            f"{self.workflow.name}'"
        )
        told = [unread] if self.unread_ratio > self.max_reject_ratio and not self.above_max_rejects else []
        return (*self.runner.notes, *told, *self.store_notes)

    @property
    def above_max_rejects(self) -> bool:
        """Too many rows were rejected, or, whatever the setting, all."""
        return self.reject_ratio > self.max_reject_ratio or self.reject_ratio == 1

    def report(self, outcome: Outcome, exit_code: int, message: str = "") -> RunReport:
        return RunReport(
            self.run_id,
            self.workflow.name,
            outcome,
            exit_code,
            tuple(self.runner.reports),
            self.load or {},
            message,
            self.load_seconds,
            self.health,
            self.notes,
            self.runner.documents,
            f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        )

    def broken_off(self, error: BaseException) -> RunReport:
        if isinstance(error, KeyboardInterrupt):
            code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
            return self.report("stopped", code, "interrupted")
        code = error.exit_code if isinstance(error, GraphmillError) else FAILED
        return self.report(_outcome(error), code, in_words(error))

    def completed(self) -> RunReport:
        if not any(step.rejects for step in self.runner.reports):
            return self.report("completed", 0)
        if not self.above_max_rejects:
            return self.report("completed_with_rejects", 0)
        name = self.workflow.name
        message = (
            f"{self.reject_ratio:.0%} of a step's rows rejected; the stores are left as they were; see 'graphmill "
            f"rejects {name}', mend the cause, then 'graphmill retry {name}'; 'graphmill load {name}' loads what "
            "there is"
        )
        return self.report("completed_with_rejects", ABOVE_MAX_REJECTS, message)


def _outcome(error: BaseException) -> Outcome:
    if isinstance(error, WaitingError):
        return "waiting"
    return "stopped" if isinstance(error, BudgetError) else "failed"
