"""The options of a run: the steps that it is limited to, its limits, and the rows to ask again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.engine.workflow import Workflow
from pipeline.errors import UsageError
from pipeline.models.base import RowsToAskAgain


@dataclass(frozen=True)
class Selection:
    """The steps that a run is limited to.

    ``start``: the first step to plan. ``only``: the only ones. ``skip``: those taken as they are.
    ``force``: those that run although nothing has changed.
    """

    start: str | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    force: tuple[str, ...] = ()

    def check(self, workflow: Workflow) -> None:
        """Raise UsageError for a step that the workflow does not have."""
        steps = [step.id for step in workflow.steps]
        named = [*filter(None, [self.start]), *self.only, *self.skip, *self.force]
        for name in named:
            if name not in steps:
                raise UsageError(
                    f"workflow '{workflow.name}': no step '{name}'; have: {', '.join(steps)}"
                )

    def leaves(self, step: str, workflow: Workflow) -> bool:
        """Check that the step is taken as it is."""
        if step in self.skip:
            return True
        if self.only and step not in self.only:
            return True
        steps = [one.id for one in workflow.steps]
        if self.start not in steps:
            # A run with an unknown first step is refused, and is reported all the same.
            return False
        return steps.index(step) < steps.index(self.start)


ALL = Selection()


Rows = Mapping[str, frozenset[str]]
"""Step -> ids of its rows."""
NO_ROWS: Rows = {}


def rows_to_ask_again(step: str, again: Rows, unended: Rows) -> RowsToAskAgain | None:
    """Return the rows of a step whose bad replies are asked for again, or None."""
    rows = again.get(step)
    if not rows:
        return None
    return RowsToAskAgain(rows, unended.get(step, frozenset()))


@dataclass(frozen=True)
class RunOptions:
    """The options of a run.

    ``max_cost`` (in the price table's currency) and ``max_tokens`` stop a run with exit code 5.
    ``allow_deletes`` lifts ``max_delete_ratio``, ``allow_deletes_of`` does so for the documents of
    these inputs alone; "." is the input folder. ``memory_profile`` records each step's peak.
    ``again``: rows to be asked for once more; ``unended``: those of them whose good replies without
    an end mark are asked for again too. ``manifest``: the run whose tables are loaded, by default
    the newest. ``reconvert``: files are converted again that have a conversion. ``without_calls``:
    no endpoint is asked; what would be asked waits for the next run. ``full``,
    ``replace``, ``re_embed`` and ``take_over``: see load/loader.py's LoadOptions.
    """

    selection: Selection = ALL
    max_cost: float | None = None
    max_tokens: int | None = None
    allow_deletes: bool = False
    memory_profile: bool = False
    again: Rows = field(default_factory=dict)
    unended: Rows = field(default_factory=dict)
    manifest: str | None = None
    full: bool = False
    reconvert: bool = False
    without_calls: bool = False
    replace: bool = False
    re_embed: bool = False
    take_over: tuple[str, ...] = ()
    allow_deletes_of: tuple[str, ...] = ()
