"""The chat model that describes pictures, put into the steps that load documents.

It is in no workflow file: ``input.pictures.model`` names it for each workflow of a project. Without
this setting no step asks it, and pictures are files of a kind that is not read.
"""

from collections.abc import Collection
from dataclasses import replace

from pipeline.engine.workflow import LOADER, Step, Workflow
from pipeline.errors import SettingsError

PROMPT = "describe_pictures"
SETTING = "settings.yaml: input.pictures.model"


def with_pictures(workflow: Workflow, model: str, models: Collection[str]) -> Workflow:
    """Return the workflow whose loading steps ask this chat model about pictures.

    ``model``: "" leaves it as it is. ``models``: the names that models.chat has. A step that names
    a chat model itself keeps it. Raises SettingsError for a name that is not among them.
    """
    if not model:
        return workflow
    if model not in models:
        have = ", ".join(sorted(models))
        raise SettingsError(f"{SETTING}: no model '{model}' in models.chat; have: {have}")
    return replace(workflow, steps=tuple(_asking(step, model) for step in workflow.steps))


def _asking(step: Step, model: str) -> Step:
    if step.verb.name != LOADER or step.models:
        return step
    return replace(step, prompts={"describe": PROMPT}, models={"chat": model})
