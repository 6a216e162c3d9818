"""Batches that earlier runs have sent and that their step does not go on with: it asks directly now, or nothing."""

from pipeline.engine.plan import PlannedStep
from pipeline.engine.resources import Resources
from pipeline.models.base import Listener


def settle_batches(planned: PlannedStep, resources: Resources, listener: Listener) -> None:
    """Keep the replies that have come, as the step's; a batch that no step will ever ask for is cancelled."""
    step = planned.step
    goes_on = planned.action != "reuse" and step.execution == "batch"
    if resources.settle_batches and not goes_on:
        for name in resources.chat_names(step):
            resources.settle_batches(name, listener)
