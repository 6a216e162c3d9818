"""Tuned prompts: the workflow's own with what was found about the corpus, as new files beside them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.files import publish_file, temporary_file
from pipeline.prompts import Prompt
from pipeline.tuning.ask import FENCE, NO_FENCE, Example, Findings, preface

EXTRACT_VERB, EXTRACT_ROLE = "extract_graph", "extract"
SUFFIX = ".tuned"
EXAMPLES = "Examples from such texts, of which nothing is to be reported:"


def extract_step(workflow: Workflow) -> Step | None:
    return next((step for step in workflow.steps if step.verb.name == EXTRACT_VERB), None)


def tuned_texts(workflow: Workflow, resources: Resources, findings: Findings) -> dict[str, str]:
    """Name of a prompt that the workflow sends with something of the documents in it -> the text that it becomes."""
    texts: dict[str, str] = {}
    for step in workflow.steps:
        for role, name in step.prompts.items():
            prompt = resources.prompt(name)
            if prompt.fields - set(prompt.values):
                wants_examples = step.verb.name == EXTRACT_VERB and role == EXTRACT_ROLE
                texts[name] = _tuned(prompt, findings, findings.examples if wants_examples else ())
    return texts


def write_prompts(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Write each text into a file of its own that was not there before; returns prompt -> the new prompt's name."""
    names = {}
    for name, text in texts.items():
        names[name] = next(new for new in _names(name) if not (folder / f"{new}.md").exists())
        with temporary_file(folder) as temporary:
            temporary.write_text(text, encoding="utf-8")
            publish_file(temporary, folder / f"{names[name]}.md")
    return names


def _names(name: str) -> Iterator[str]:
    base = name.partition(SUFFIX)[0] + SUFFIX
    return chain([base], (f"{base}-{number}" for number in count(2)))


def _tuned(prompt: Prompt, findings: Findings, examples: Sequence[Example]) -> str:
    """The opening in front, the examples before the paragraph that brings the text."""
    opening = _escaped(preface(findings.persona, findings.domain))
    paragraphs = prompt.text.strip().split("\n\n")
    place = next((number for number, one in enumerate(paragraphs) if "$text" in one), len(paragraphs))
    shown = [_escaped(_shown(example)) for example in examples]
    between = ["\n\n".join([EXAMPLES, *shown])] if shown else []
    return "\n\n".join([opening, *paragraphs[:place], *between, *paragraphs[place:]]) + "\n"


def _shown(example: Example) -> str:
    return "\n".join(_fenced(part) for part in (example.text, example.records))


def _fenced(text: str) -> str:
    return f"{FENCE}\n{text.strip().replace(FENCE, NO_FENCE)}\n{FENCE}"


def _escaped(text: str) -> str:
    return text.replace("$", "$$")
