"""A chat model under examination: what workflows ask of it, timed calls, and how long a prompt may
get."""

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from pipeline.contract.prompts import Prompt
from pipeline.doctor.token_counts import RecordedCalls
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.errors import ModelError
from pipeline.models.base import (
    GENEROUS_REPLY,
    ChatModel,
    ChatReply,
    ChatRequest,
    Message,
    Tokenizer,
)
from pipeline.models.no_answer import limits_in
from pipeline.models.parse.lenient_json import without_thinking
from pipeline.settings.query_options import QueryOptions
from pipeline.verbs.format_trial import FACT
from pipeline.verbs.graph_prompt import RECORDS, Format, opening

EXTRACT_GRAPH = "extract_graph"
"""The verb whose request is tried, and its prompt's usual name."""
LEAST_CONTEXT = 4000
GLEANING_TOKENS = 1000
"""About what a reply adds to a conversation that goes on."""


@dataclass(frozen=True)
class Needs:
    """Tokens of the longest prompt of an extraction, and of all; ``json``: a workflow needs JSON
    replies.

    ``formats``: format -> the workflows whose extract_graph asks for it, in the order in which they
    are tried; without any the default is tried, and nothing is said of workflows. A format that is
    still to be decided is ``auto``.
    """

    extract: Prompt
    entity_types: str
    extraction: int
    longest: int
    json: bool
    formats: Mapping[Format, tuple[str, ...]] = field(default_factory=dict)


def needs_of(
    model: str, workflows: Sequence[Workflow], resources: Resources, query: QueryOptions
) -> Needs:
    """Raises SettingsError when the project has no prompt for extraction."""
    own = _uses(model, workflows)
    extractions = [(workflow, step) for workflow, step in own if "extract" in step.prompts]
    args = [step.params.model_dump() for _, step in own]
    graphs = [step for _, step in extractions if step.verb.name == EXTRACT_GRAPH]
    extract = resources.prompt(graphs[0].prompts["extract"] if graphs else EXTRACT_GRAPH)
    types = graphs[0].params.model_dump().get("entity_types", ()) if graphs else ()
    prompts = [resources.prompt(step.prompts["extract"]) for _, step in extractions]
    instructions = max((resources.tokenizer.count(prompt.text) for prompt in prompts), default=0)
    extraction = max(
        [LEAST_CONTEXT, *(_unit_tokens(w) + instructions + _gleaned(s) for w, s in extractions)]
    )
    summary = max((arg.get("max_input_tokens", 0) for arg in args), default=0)
    return Needs(
        extract=extract,
        entity_types=", ".join(types) or "person, organization, location",
        extraction=extraction,
        longest=max(extraction, summary, query.max_total_tokens),
        json=any(arg.get("format") == "json" or arg.get("structured") for arg in args),
        formats=_formats(
            [(workflow, step) for workflow, step in extractions if step.verb.name == EXTRACT_GRAPH]
        ),
    )


def _formats(extractions: Sequence[tuple[Workflow, Step]]) -> dict[Format, tuple[str, ...]]:
    """Return format -> names of the workflows that extract in it."""
    found: dict[Format, tuple[str, ...]] = {}
    for workflow, step in extractions:
        format: Format = getattr(step.params, "format", RECORDS)
        found[format] = tuple(sorted({*found.get(format, ()), workflow.name}))
    return found


def files_with_extraction(root: Path, workflows: Sequence[str]) -> list[str]:
    """Return the files, of these workflows, that name extract_graph: one that extends another only
    takes its steps."""
    files = [f"workflows/{name}.yaml" for name in workflows]
    return [
        file
        for file in files
        if f"verb: {EXTRACT_GRAPH}" in (root / file).read_text(encoding="utf-8")
    ]


def workflows_with(model: str, workflows: Sequence[Workflow]) -> list[str]:
    """Names of the workflows that use the chat model."""
    return sorted({workflow.name for workflow, _ in _uses(model, workflows)})


def _uses(model: str, workflows: Sequence[Workflow]) -> list[tuple[Workflow, Step]]:
    return [
        (workflow, step)
        for workflow in workflows
        for step in workflow.steps
        if model in _chat_models(step)
    ]


def _chat_models(step: Step) -> set[str]:
    return {name for role, name in step.models.items() if step.verb.roles[role] is ChatModel}


def _unit_tokens(workflow: Workflow) -> int:
    return max((step.params.model_dump().get("size", 0) for step in workflow.steps), default=0)


def _gleaned(step: Step) -> int:
    return GLEANING_TOKENS * step.params.model_dump().get("gleanings", 0)


THINKING = re.compile(r"<\s?/?\s?(?:think|thinking|thought|reasoning)\s?>", re.IGNORECASE)


@dataclass(frozen=True)
class Call:
    """``sent``: tokens of its prompt, as we count them; ``reported``: the endpoint counted the
    tokens itself."""

    reply: ChatReply
    seconds: float
    sent: int
    reported: bool = True


@dataclass
class Probe:
    chat: ChatModel
    tokenizer: Tokenizer
    calls: list[Call] = field(default_factory=list)
    heard: RecordedCalls = field(default_factory=RecordedCalls)
    read_whole: list[Call] = field(default_factory=list)
    """Calls whose prompt was read from its first line."""

    def ask(
        self,
        messages: Sequence[Message],
        response_format: Mapping[str, Any] | None = None,
        bounded_format: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """Make one call; the formats are those of a ChatRequest."""
        row = f"doctor-{len(self.calls)}"
        request = ChatRequest(
            row,
            tuple(messages),
            response_format,
            bounded_format=bounded_format,
            max_tokens=GENEROUS_REPLY,
        )
        started = time.perf_counter()
        [reply] = self.chat.complete([request], self.heard)
        seconds = time.perf_counter() - started
        sent = sum(self.tokenizer.count(message["content"]) for message in messages)
        self.calls.append(Call(reply, seconds, sent, self.heard.last_is_reported))
        return reply

    def ask_streamed(self, message: Message) -> int:
        """Return in how many pieces the answer came. Raises ModelError when the call fails."""
        request = ChatRequest(f"doctor-{len(self.calls)}", (message,), max_tokens=GENEROUS_REPLY)
        started = time.perf_counter()
        stream = self.chat.stream(request, self.heard)
        pieces = 0
        while True:
            try:
                next(stream)
            except StopIteration as end:
                reply: ChatReply = end.value
                break
            pieces += 1
        seconds = time.perf_counter() - started
        sent = self.tokenizer.count(message["content"])
        self.calls.append(Call(reply, seconds, sent, self.heard.last_is_reported))
        return pieces

    @property
    def answered(self) -> list[Call]:
        return [call for call in self.calls if call.reply.reason is None]

    @property
    def scale(self) -> float:
        """The server's tokens for one of ours.

        The window is measured with prompts of plain text, so the longest of them that was read
        whole tells the scale. Instructions for an extraction, as JSON above all, differ from such
        text by up to a tenth: the first prompt serves only until a longer one was read. A server
        that leaves out what it had seen before tells nothing.
        """
        whole = [call for call in self.read_whole if call.reported]
        if whole:
            told = max(whole, key=lambda call: call.sent)
        else:
            told = next((call for call in self.answered if call.reported), None)
        scale = told.reply.input_tokens / told.sent if told else 1.0
        return scale if 0.7 < scale < 2 else 1.0

    @property
    def thinking(self) -> int:
        """How many replies carry thinking tags."""
        return sum(bool(THINKING.search(call.reply.text)) for call in self.answered)

    @property
    def hidden_share(self) -> float:
        """Of the tokens billed as output, those that the replies' texts do not show."""
        billed = sum(call.reply.output_tokens for call in self.answered)
        shown = sum(self.tokenizer.count(call.reply.text) for call in self.answered)
        return max(0.0, 1 - shown / billed) if billed else 0.0

    def output_tokens(self, call: Call) -> int:
        """As the server counts, or, where it does not, as we do."""
        return call.reply.output_tokens or self.tokenizer.count(call.reply.text)


def spoken(reply: ChatReply) -> str:
    """The reply's words in one line, short, for people."""
    text = " ".join(without_thinking(reply.text).split())
    return text[:100] + ("..." if len(text) > 100 else "") or "nothing"


COUNT: Message = {"role": "user", "content": "Count from one to thirty, in words and in one line."}
"""Its answer is long enough to come in many pieces, where the endpoint streams."""


def canary(needs: Needs, format: Format, tokens: int, tokenizer: Tokenizer) -> tuple[Message, ...]:
    """Return the project's own request to extract in this format, about so many tokens long.

    It has at least the planted fact.
    """
    asked = partial(opening, needs.extract, format, entity_types=needs.entity_types)
    bare = sum(tokenizer.count(message["content"]) for message in asked(text=FACT))
    return asked(text=f"{FACT}\n\n{filler(tokens - bare, tokenizer)}".strip())


def filler(tokens: int, tokenizer: Tokenizer) -> str:
    """A log of the weather in which nobody is named, of at most so many tokens."""
    kept: list[str] = []
    for line in _log():
        tokens -= tokenizer.count(line + "\n")
        if tokens < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _log() -> Iterator[str]:
    skies = ("grey", "clear", "hazy", "bright", "overcast")
    winds = ("light", "steady", "fresh", "uneven")
    day = 0
    while True:
        day += 1
        yield (
            f"On day {day} the sky was {skies[day % 5]}, the wind was {winds[day % 4]} and the"
            f" water stood at {40 + day * 7 % 23} centimetres."
        )


SMALLEST = 256
CLOSE_ENOUGH = 1.1
CLEARLY_LESS = 0.9


@dataclass(frozen=True)
class Sight:
    """Of one prompt. ``whole``: the model has seen its first line; ``window``: else how many tokens
    it reads, as we count them, where the server says so, by what it has counted or by its
    refusal."""

    whole: bool
    window: int | None = None


def sight(probe: Probe, tokens: int) -> Sight:
    """What the model sees of a prompt of so many tokens, by one call.

    Raises ModelError when the call fails for another reason than the prompt's length.
    """
    word = f"Zelmar-{crc32(str(tokens).encode()) % 9000 + 1000}"
    reply = probe.ask([_recall(word, tokens, probe.tokenizer)])
    if reply.reason not in (None, "too_long"):
        raise ModelError(
            f"a prompt of {tokens:,} tokens brought no reply ({reply.reason}: {reply.message}); try"
            " again"
        )
    if word.casefold() in reply.text.casefold():
        probe.read_whole.append(probe.calls[-1])
        return Sight(True)
    counted = (
        reply.input_tokens if probe.calls[-1].reported else 0
    )  # our own count says nothing of what was read
    told = (limits_in(reply.message).window or 0) if reply.reason else counted
    window = round(told / probe.scale)
    return Sight(False, window if SMALLEST <= window < CLEARLY_LESS * tokens else None)


def remembers(probe: Probe, tokens: int) -> bool:
    """Whether the model can repeat the first line of a prompt of so many tokens. Raises as
    ``sight``."""
    return sight(probe, tokens).whole


def context_length(probe: Probe, good: int, bad: int) -> int:
    """Within about 5 %: ``good`` tokens were remembered, ``bad`` were not."""
    while bad > good * CLOSE_ENOUGH:
        middle = round(math.sqrt(good * bad))
        good, bad = (middle, bad) if remembers(probe, middle) else (good, middle)
    return round(math.sqrt(good * bad))


def _recall(word: str, tokens: int, tokenizer: Tokenizer) -> Message:
    """The word comes first: no two prompts begin alike, and a server's cache of prefixes cannot
    help."""
    start = f"{word} is the code word. Keep it in mind: you are asked for it at the end.\n\n"
    end = (
        "\n\nWhich code word stands in the first line of this message? Answer with it and nothing"
        " else."
    )
    return {
        "role": "user",
        "content": start + filler(tokens - tokenizer.count(start + end), tokenizer) + end,
    }
