"""What a model is asked about a sample, and the prompts that come of it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from pipeline.contract.prompts import Prompt
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.files import write_text
from pipeline.models.base import GENEROUS_REPLY, ChatReply, ChatRequest, Message, Talk
from pipeline.models.parse.graph import (
    Graph,
    Problem,
    failed,
    parse_graph_json,
    parse_records,
    unusable,
)
from pipeline.models.parse.graph_format import GRAPH_JSON_FORMAT, as_json, as_records
from pipeline.models.parse.lenient_json import one_line, plain
from pipeline.verbs.graph_prompt import JSON, RECORDS, Format
from pipeline.verbs.graph_prompt import opening as graph_prompt

ROW = "tune"
LONGEST_LINE, LONGEST_PERSONA, LONGEST_TYPE = 200, 1500, 40
FENCE, NO_FENCE = "```", "'''"
_TYPES = re.compile(r"[,;\n、，；]")
_MARK = re.compile(r"^[\s\-*•\d.)\"'`]+|[\s.\"'`]+$")


@dataclass(frozen=True)
class TunePrompts:
    """``extract``: the workflow's own, None where it has none; ``format``: of the replies that it
    asks for."""

    domain: Prompt
    language: Prompt
    persona: Prompt
    entity_types: Prompt
    extract: Prompt | None
    format: Format = RECORDS


@dataclass(frozen=True)
class Passages:
    """``texts``: of the sample, ready for a prompt; ``examples``: shorter ones, to extract from."""

    texts: tuple[str, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class TuningBrief:
    """``domain, language, entity_types`` are asked for where they are empty."""

    domain: str = ""
    language: str = ""
    entity_types: tuple[str, ...] = ()
    max_types: int = 10


@dataclass(frozen=True)
class Example:
    text: str
    records: str


@dataclass(frozen=True)
class SampleFindings:
    """``problems``: what was asked -> why there is no use in the reply."""

    domain: str
    language: str
    persona: str
    entity_types: tuple[str, ...]
    examples: tuple[Example, ...]
    problems: tuple[str, ...]


def questions(
    passages: Passages, wanted: TuningBrief, prompts: TunePrompts
) -> Talk[SampleFindings]:
    """The conversation: field and language at once, then the reader, the types, and the examples at
    once. It goes on after a reply of no use, so that a rehearsal counts what follows."""
    problems: list[str] = []
    texts = "\n---\n".join(text.replace(FENCE, NO_FENCE) for text in passages.texts)

    def told(what: str, reply: ChatReply, limit: int) -> str:
        problem = failed(reply) or unusable(reply.text) or _too_long(reply.text, limit)
        if problem:
            problems.append(f"{what}: {problem.message or problem.reason}")
        return "" if problem else plain(reply.text).strip()

    unknown = [name for name in ("domain", "language") if not getattr(wanted, name)]
    asked = [_request(getattr(prompts, name).render(texts=texts), LONGEST_LINE) for name in unknown]
    replies = (yield asked) if asked else ()
    found = {
        name: one_line(told(name, reply, LONGEST_LINE))
        for name, reply in zip(unknown, replies, strict=True)
    }
    domain, language = found.get("domain", wanted.domain), found.get("language", wanted.language)

    (reply,) = yield (_request(prompts.persona.render(domain=domain), LONGEST_PERSONA),)
    persona = one_line(told("persona", reply, LONGEST_PERSONA))
    types = wanted.entity_types
    if not types:
        asking = prompts.entity_types.render(
            persona=persona, domain=domain, texts=texts, max_types=str(wanted.max_types)
        )
        (reply,) = yield (_request(asking, LONGEST_PERSONA, _without_types),)
        types = _types(told("entity types", reply, LONGEST_PERSONA))[: wanted.max_types]
    examples = yield from _examples(
        passages.examples, preface(persona, domain), types, prompts.extract, prompts.format
    )
    return SampleFindings(domain, language, persona, types, examples, tuple(problems))


def preface(persona: str, domain: str) -> str:
    """What a tuned prompt begins with."""
    return f"{persona}\nThe texts are about: {domain}" if persona or domain else ""


def _examples(
    texts: Sequence[str], opening: str, types: Sequence[str], extract: Prompt | None, format: Format
) -> Talk[tuple[Example, ...]]:
    """Ask by the workflow's own prompt, in the format of its step; a reply of no use brings no
    example."""
    if extract is None or not texts:
        return ()
    in_json = format == JSON
    asked = [
        _with_preface(opening, graph_prompt(extract, format, text, ", ".join(types)))
        for text in texts
    ]
    form = GRAPH_JSON_FORMAT if in_json else None
    # Records repeat a text: they have at most about a token for each of its characters.
    limits = [GENEROUS_REPLY + len(text) for text in texts]
    replies = yield [
        ChatRequest(ROW, messages, form, max_tokens=limit)
        for messages, limit in zip(asked, limits, strict=True)
    ]
    parse = parse_graph_json if in_json else parse_records
    parsed = [Graph((), (), False) if failed(reply) else parse(reply.text) for reply in replies]
    write = as_json if in_json else as_records
    return tuple(
        Example(text, write((*graph.entities, *graph.relationships)))
        for text, graph in zip(texts, parsed, strict=True)
        if graph.entities
    )


def _with_preface(preface: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put the preface before the prompt, which is the last message."""
    *before, prompt = messages
    return (*before, {**prompt, "content": f"{preface}\n\n{prompt['content']}"})


def _request(
    prompt: str, limit: int, also: Callable[[str], str | None] | None = None
) -> ChatRequest:
    def check(reply: str) -> str | None:
        problem = unusable(reply) or _too_long(reply, limit)
        return problem.message if problem else also(reply) if also else None

    return ChatRequest(
        ROW, ({"role": "user", "content": prompt},), check=check, max_tokens=GENEROUS_REPLY
    )


def _too_long(reply: str, limit: int) -> Problem | None:
    said = len(one_line(plain(reply)))
    return (
        Problem("parse", "", f"{said} characters where at most {limit} make sense")
        if said > limit
        else None
    )


def _without_types(reply: str) -> str | None:
    return None if _types(plain(reply)) else "no list of types"


def _types(reply: str) -> tuple[str, ...]:
    """The items of a list, in lower case, each once; what is too long for a type is left out."""
    items = (_MARK.sub("", part).lower() for part in _TYPES.split(reply))
    return tuple(dict.fromkeys(item for item in items if 1 < len(item) <= LONGEST_TYPE))


EXTRACT_VERB, EXTRACT_ROLE = "extract_graph", "extract"
SUFFIX = ".tuned"
EXAMPLES = "Examples from such texts, of which nothing is to be reported:"


def extract_step(workflow: Workflow) -> Step | None:
    return next((step for step in workflow.steps if step.verb.name == EXTRACT_VERB), None)


def tuned_texts(
    workflow: Workflow, resources: Resources, findings: SampleFindings
) -> dict[str, str]:
    """Name of a prompt that the workflow sends with something of the documents in it -> the text
    that it becomes."""
    texts: dict[str, str] = {}
    for step in workflow.steps:
        for role, name in step.prompts.items():
            prompt = resources.prompt(name)
            if prompt.fields - set(prompt.values):
                wants_examples = step.verb.name == EXTRACT_VERB and role == EXTRACT_ROLE
                texts[name] = _tuned(prompt, findings, findings.examples if wants_examples else ())
    return texts


def write_prompts(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Write each text into a file of its own that was not there before; returns prompt -> the new
    prompt's name."""
    names = {}
    for name, text in texts.items():
        names[name] = next(new for new in _names(name) if not (folder / f"{new}.md").exists())
        write_text(folder / f"{names[name]}.md", text)
    return names


def _names(name: str) -> Iterator[str]:
    base = name.partition(SUFFIX)[0] + SUFFIX
    return chain([base], (f"{base}-{number}" for number in count(2)))


def _tuned(prompt: Prompt, findings: SampleFindings, examples: Sequence[Example]) -> str:
    """The opening in front, the examples before the paragraph that brings the text."""
    opening = _escaped(preface(findings.persona, findings.domain))
    paragraphs = prompt.text.strip().split("\n\n")
    place = next(
        (number for number, one in enumerate(paragraphs) if "$text" in one), len(paragraphs)
    )
    shown = [_escaped(_shown(example)) for example in examples]
    between = ["\n\n".join([EXAMPLES, *shown])] if shown else []
    return "\n\n".join([opening, *paragraphs[:place], *between, *paragraphs[place:]]) + "\n"


def _shown(example: Example) -> str:
    return "\n".join(_fenced(part) for part in (example.text, example.records))


def _fenced(text: str) -> str:
    return f"{FENCE}\n{text.strip().replace(FENCE, NO_FENCE)}\n{FENCE}"


def _escaped(text: str) -> str:
    return text.replace("$", "$$")
