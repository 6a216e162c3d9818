"""Which steps of a workflow a run may touch: the others are taken as the last run left them."""

from dataclasses import dataclass

from pipeline.engine.workflow import Workflow
from pipeline.errors import UsageError


@dataclass(frozen=True)
class Selection:
    """``start``: the first step to look at; ``only``: the only ones; ``skip``: those to leave; ``force``: those that
    run though nothing has changed."""

    start: str | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    force: tuple[str, ...] = ()

    def check(self, workflow: Workflow) -> None:
        """Raises UsageError for a step that the workflow does not have."""
        steps = [step.id for step in workflow.steps]
        named = [*filter(None, [self.start]), *self.only, *self.skip, *self.force]
        for name in named:
            if name not in steps:
                raise UsageError(f"workflow '{workflow.name}': no step '{name}'; have: {', '.join(steps)}")

    def leaves(self, step: str, workflow: Workflow) -> bool:
        """Whether the step is taken as it is."""
        steps = [one.id for one in workflow.steps]
        before = self.start is not None and steps.index(step) < steps.index(self.start)
        return before or step in self.skip or bool(self.only and step not in self.only)


ALL = Selection()
