"""The questions that tuning asks a model about a sample of the documents."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.contract.prompts import Prompt
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
"""Row id of the requests."""
LONGEST_LINE, LONGEST_PERSONA, LONGEST_TYPE = 200, 1500, 40
"""Longest useful replies in characters: one line, a description of the reader, and one entity
type."""
FENCE, NO_FENCE = "```", "'''"
_TYPES = re.compile(r"[,;\n、，；]")
_MARK = re.compile(r"^[\s\-*•\d.)\"'`]+|[\s.\"'`]+$")


@dataclass(frozen=True)
class TunePrompts:
    """Prompts of the tuning.

    ``extract``: the workflow's own prompt for extraction, or None if it has none. ``format``: the
    format of the replies that it requests.
    """

    domain: Prompt
    language: Prompt
    persona: Prompt
    entity_types: Prompt
    extract: Prompt | None
    format: Format = RECORDS


@dataclass(frozen=True)
class Passages:
    """Texts of the sample. ``texts`` are complete; ``examples`` are shorter, to extract records
    from."""

    texts: tuple[str, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class TuningBrief:
    """User's own answers. ``domain``, ``language`` and ``entity_types`` are requested from the
    model if they are empty."""

    domain: str = ""
    language: str = ""
    entity_types: tuple[str, ...] = ()
    max_types: int = 10


@dataclass(frozen=True)
class Example:
    """A text and the records that the model extracted from it."""

    text: str
    records: str


@dataclass(frozen=True)
class SampleFindings:
    """Answers about the sample. ``problems`` name the answers that cannot be used, with the
    reasons."""

    domain: str
    language: str
    persona: str
    entity_types: tuple[str, ...]
    examples: tuple[Example, ...]
    problems: tuple[str, ...]


def questions(
    passages: Passages, wanted: TuningBrief, prompts: TunePrompts
) -> Talk[SampleFindings]:
    """Ask about the sample, and return the findings.

    Domain and language are requested at once, then the persona of a reader, the entity types, and
    all examples at once. The conversation continues after an unusable reply, so that a rehearsal
    counts all requests.
    """
    problems: list[str] = []
    texts = "\n---\n".join(text.replace(FENCE, NO_FENCE) for text in passages.texts)

    def answer_of(reply: ChatReply, subject: str, limit: int) -> str:
        """Return the text of the reply, or "" after noting the problem of an unusable one."""
        problem = failed(reply) or unusable(reply.text) or _too_long(reply.text, limit)
        if problem:
            problems.append(f"{subject}: {problem.message or problem.reason}")
            return ""
        return plain(reply.text).strip()

    unknown = [name for name in ("domain", "language") if not getattr(wanted, name)]
    asked = [_request(getattr(prompts, name).render(texts=texts), LONGEST_LINE) for name in unknown]
    replies = (yield asked) if asked else ()
    found = {
        name: one_line(answer_of(reply, name, LONGEST_LINE))
        for name, reply in zip(unknown, replies, strict=True)
    }
    domain = found.get("domain", wanted.domain)
    language = found.get("language", wanted.language)

    (reply,) = yield (_request(prompts.persona.render(domain=domain), LONGEST_PERSONA),)
    persona = one_line(answer_of(reply, "persona", LONGEST_PERSONA))

    types = wanted.entity_types
    if not types:
        prompt = prompts.entity_types.render(
            persona=persona, domain=domain, texts=texts, max_types=str(wanted.max_types)
        )
        (reply,) = yield (_request(prompt, LONGEST_PERSONA, _complain_without_types),)
        types = _split_types(answer_of(reply, "entity types", LONGEST_PERSONA))
        types = types[: wanted.max_types]

    examples = yield from _request_examples(
        passages.examples, preface(persona, domain), types, prompts.extract, prompts.format
    )
    return SampleFindings(domain, language, persona, types, examples, tuple(problems))


def preface(persona: str, domain: str) -> str:
    """Return the beginning of a tuned prompt."""
    return f"{persona}\nThe texts are about: {domain}" if persona or domain else ""


def _request_examples(
    texts: Sequence[str], opening: str, types: Sequence[str], extract: Prompt | None, format: Format
) -> Talk[tuple[Example, ...]]:
    """Extract records from each text by the workflow's own prompt, in the format of its step.

    A text whose reply has no entity gives no example.
    """
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
    examples = []
    for text, graph in zip(texts, parsed, strict=True):
        if graph.entities:
            records = write((*graph.entities, *graph.relationships))
            examples.append(Example(text, records))
    return tuple(examples)


def _with_preface(preface: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with the preface before the prompt, which is the last message."""
    *before, prompt = messages
    return (*before, {**prompt, "content": f"{preface}\n\n{prompt['content']}"})


def _request(
    prompt: str, limit: int, also: Callable[[str], str | None] | None = None
) -> ChatRequest:
    """Return a request for a reply of up to ``limit`` characters that passes the check ``also``."""

    def check(reply: str) -> str | None:
        problem = unusable(reply) or _too_long(reply, limit)
        if problem:
            return problem.message
        return also(reply) if also else None

    return ChatRequest(
        ROW, ({"role": "user", "content": prompt},), check=check, max_tokens=GENEROUS_REPLY
    )


def _too_long(reply: str, limit: int) -> Problem | None:
    """Return the problem of a reply with more than ``limit`` characters, or None."""
    length = len(one_line(plain(reply)))
    if length <= limit:
        return None
    return Problem("parse", "", f"{length} characters where at most {limit} make sense")


def _complain_without_types(reply: str) -> str | None:
    return None if _split_types(plain(reply)) else "no list of types"


def _split_types(reply: str) -> tuple[str, ...]:
    """Return the items of a list in lower case, each once.

    Items that are too long for a type are left out, and so are single Latin letters. In a script
    such as Chinese, a single character can be a type.
    """
    # A dict keeps each type once, in its order.
    types: dict[str, None] = {}
    for part in _TYPES.split(reply):
        item = _MARK.sub("", part).lower()
        if len(item) <= LONGEST_TYPE and not _is_too_short(item):
            types[item] = None
    return tuple(types)


def _is_too_short(item: str) -> bool:
    return not item or (len(item) == 1 and item.isascii())
