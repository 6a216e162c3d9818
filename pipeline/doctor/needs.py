"""What the workflows ask of a chat model: how long their prompts get, in which form they want the replies."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.models.base import ChatModel
from pipeline.prompts import Prompt
from pipeline.query_options import QueryOptions

EXTRACT_GRAPH = "extract_graph"
"""The verb whose request is tried, and its prompt's usual name."""
LEAST_CONTEXT = 4000
GLEANING_TOKENS = 1000
"""About what a reply adds to a conversation that goes on."""


@dataclass(frozen=True)
class Needs:
    """Tokens of the longest prompt of an extraction, and of all; ``json``: a workflow needs JSON replies."""

    extract: Prompt
    entity_types: str
    extraction: int
    longest: int
    json: bool


def needs_of(model: str, workflows: Sequence[Workflow], resources: Resources, query: QueryOptions) -> Needs:
    """Raises SettingsError when the project has no prompt for extraction."""
    own = _uses(model, workflows)
    extractions = [(workflow, step) for workflow, step in own if "extract" in step.prompts]
    args = [step.params.model_dump() for _, step in own]
    graphs = [step for _, step in extractions if step.verb.name == EXTRACT_GRAPH]
    extract = resources.prompt(graphs[0].prompts["extract"] if graphs else EXTRACT_GRAPH)
    types = graphs[0].params.model_dump().get("entity_types", ()) if graphs else ()
    prompts = [resources.prompt(step.prompts["extract"]) for _, step in extractions]
    instructions = max((resources.tokenizer.count(prompt.text) for prompt in prompts), default=0)
    extraction = max([LEAST_CONTEXT, *(_unit_tokens(w) + instructions + _gleaned(s) for w, s in extractions)])
    summary = max((arg.get("max_input_tokens", 0) for arg in args), default=0)
    return Needs(
        extract=extract,
        entity_types=", ".join(types) or "person, organization, location",
        extraction=extraction,
        longest=max(extraction, summary, query.max_total_tokens),
        json=any(arg.get("format") == "json" or arg.get("structured") for arg in args),
    )


def workflows_with(model: str, workflows: Sequence[Workflow]) -> list[str]:
    """Names of the workflows that use the chat model."""
    return sorted({workflow.name for workflow, _ in _uses(model, workflows)})


def _uses(model: str, workflows: Sequence[Workflow]) -> list[tuple[Workflow, Step]]:
    return [(workflow, step) for workflow in workflows for step in workflow.steps if model in _chat_models(step)]


def _chat_models(step: Step) -> set[str]:
    return {name for role, name in step.models.items() if step.verb.roles[role] is ChatModel}


def _unit_tokens(workflow: Workflow) -> int:
    return max((step.params.model_dump().get("size", 0) for step in workflow.steps), default=0)


def _gleaned(step: Step) -> int:
    return GLEANING_TOKENS * step.params.model_dump().get("gleanings", 0)
