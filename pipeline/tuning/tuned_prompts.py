"""The tuned prompts of a workflow, made from what a model has found out about the documents."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from pipeline.contract.prompts import Prompt
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.files import write_text
from pipeline.tuning.questions import FENCE, NO_FENCE, Example, SampleFindings, preface
from pipeline.verbs.graph_prompt import GRAPH_VERBS

EXTRACT_ROLE = "extract"
SUFFIX = ".tuned"
EXAMPLES = "Examples from such texts, of which nothing is to be reported:"


def extract_step(workflow: Workflow) -> Step | None:
    """Return the step of the workflow that extracts the graph, or None."""
    return next((step for step in workflow.steps if step.verb.name in GRAPH_VERBS), None)


def tuned_texts(
    workflow: Workflow, resources: Resources, findings: SampleFindings
) -> dict[str, str]:
    """Return the tuned texts of the workflow's prompts by their names.

    Only prompts that contain something of the documents are tuned. The prompt for extraction gets
    the examples.
    """
    texts: dict[str, str] = {}
    for step in workflow.steps:
        for role, name in step.prompts.items():
            prompt = resources.prompt(name)
            # Placeholders without a fixed value are filled from the documents.
            if prompt.fields - set(prompt.values):
                is_extraction = step.verb.name in GRAPH_VERBS and role == EXTRACT_ROLE
                examples = findings.examples if is_extraction else ()
                texts[name] = _tune(prompt, findings, examples)
    return texts


def write_prompts(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Write each text into a new file. Return the names of the new prompts by those of the old
    ones."""
    new_names = {}
    for name, text in texts.items():
        unused = (new for new in _possible_names(name) if not (folder / f"{new}.md").exists())
        new_name = next(unused)
        write_text(folder / f"{new_name}.md", text)
        new_names[name] = new_name
    return new_names


def _possible_names(name: str) -> Iterator[str]:
    """Yield the names NAME.tuned, NAME.tuned-2, NAME.tuned-3 and so on."""
    base = name.partition(SUFFIX)[0] + SUFFIX
    return chain([base], (f"{base}-{number}" for number in count(2)))


def _tune(prompt: Prompt, findings: SampleFindings, examples: Sequence[Example]) -> str:
    """Return the prompt with the preface at its beginning and with the examples.

    The examples stand before the first paragraph that contains the text.
    """
    opening = _escape(preface(findings.persona, findings.domain))
    paragraphs = prompt.text.strip().split("\n\n")
    places = (number for number, paragraph in enumerate(paragraphs) if "$text" in paragraph)
    place = next(places, len(paragraphs))
    tuned = [opening, *paragraphs[:place]]
    if examples:
        tuned.append(EXAMPLES)
        tuned += [_escape(_format_example(example)) for example in examples]
    tuned += paragraphs[place:]
    return "\n\n".join(tuned) + "\n"


def _format_example(example: Example) -> str:
    return f"{_fence(example.text)}\n{_fence(example.records)}"


def _fence(text: str) -> str:
    """Return the text in a code fence. Fences within it are replaced."""
    return f"{FENCE}\n{text.strip().replace(FENCE, NO_FENCE)}\n{FENCE}"


def _escape(text: str) -> str:
    """Return the text without placeholders: each $ is doubled."""
    return text.replace("$", "$$")
