"""Calls to a chat model under examination: what workflows need of it, timed calls, and the longest
prompt that it reads."""

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
from pipeline.verbs.graph_prompt import GRAPH_VERBS, RECORDS, Format, opening

EXTRACT_PROMPT = "extract_graph"
"""The usual name of the prompt whose request is tried."""
LEAST_CONTEXT = 4000
GLEANING_TOKENS = 1000
"""Roughly the tokens that a reply adds to a conversation that goes on."""


@dataclass(frozen=True)
class Needs:
    """The requirements that workflows have of a chat model.

    - ``extraction`` is the number of tokens of the longest prompt of an extraction, ``longest``
      that of any prompt.
    - ``json`` is true if a workflow needs replies in JSON.
    - ``formats`` maps each format to the workflows whose extract_graph asks for it, in the order in
      which they are tried. If it is empty the default format is tried, and no workflow is
      mentioned. A format that is not decided yet is ``auto``.
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
    """Return what the workflows and questions need of a chat model.

    Raises SettingsError if the project has no prompt for extraction.
    """
    own = _steps_with(model, workflows)
    args = [step.params.model_dump() for _, step in own]
    extractions = [(workflow, step) for workflow, step in own if "extract" in step.prompts]
    graphs = [each for each in extractions if each[1].verb.name in GRAPH_VERBS]
    prompt, types = EXTRACT_PROMPT, ()
    if graphs:
        _, first = graphs[0]
        prompt = first.prompts["extract"]
        types = first.params.model_dump().get("entity_types", ())
    prompts = [resources.prompt(step.prompts["extract"]) for _, step in extractions]
    instructions = max((resources.tokenizer.count(each.text) for each in prompts), default=0)
    extraction = LEAST_CONTEXT
    for workflow, step in extractions:
        tokens = _unit_tokens(workflow) + instructions + _gleaned(step)
        extraction = max(extraction, tokens)
    summary = max((arg.get("max_input_tokens", 0) for arg in args), default=0)
    return Needs(
        extract=resources.prompt(prompt),
        entity_types=", ".join(types) or "person, organization, location",
        extraction=extraction,
        longest=max(extraction, summary, query.max_total_tokens),
        json=any(arg.get("format") == "json" or arg.get("structured") for arg in args),
        formats=_workflows_by_format(graphs),
    )


def _workflows_by_format(
    extractions: Sequence[tuple[Workflow, Step]],
) -> dict[Format, tuple[str, ...]]:
    """Return format -> names of the workflows that extract in it."""
    found: dict[Format, tuple[str, ...]] = {}
    for workflow, step in extractions:
        format: Format = getattr(step.params, "format", RECORDS)
        found[format] = tuple(sorted({*found.get(format, ()), workflow.name}))
    return found


def files_with_extraction(root: Path, workflows: Sequence[str]) -> list[str]:
    """Return the files of these workflows that name a verb of GRAPH_VERBS themselves.

    A file that extends another one only inherits its steps.
    """
    found: list[str] = []
    for name in workflows:
        file = f"workflows/{name}.yaml"
        text = (root / file).read_text(encoding="utf-8")
        if any(f"verb: {name}" in text for name in GRAPH_VERBS):
            found.append(file)
    return found


def workflows_with(model: str, workflows: Sequence[Workflow]) -> list[str]:
    """Return the names of the workflows that use the chat model, sorted."""
    return sorted({workflow.name for workflow, _ in _steps_with(model, workflows)})


def _steps_with(model: str, workflows: Sequence[Workflow]) -> list[tuple[Workflow, Step]]:
    found: list[tuple[Workflow, Step]] = []
    for workflow in workflows:
        found += [(workflow, step) for step in workflow.steps if model in _chat_models(step)]
    return found


def _chat_models(step: Step) -> set[str]:
    return {name for role, name in step.models.items() if step.verb.roles[role] is ChatModel}


def _unit_tokens(workflow: Workflow) -> int:
    return max((step.params.model_dump().get("size", 0) for step in workflow.steps), default=0)


def _gleaned(step: Step) -> int:
    return GLEANING_TOKENS * step.params.model_dump().get("gleanings", 0)


THINKING = re.compile(r"<\s?/?\s?(?:think|thinking|thought|reasoning)\s?>", re.IGNORECASE)


@dataclass(frozen=True)
class Call:
    """A call that was made.

    ``sent`` counts the tokens of its prompt with our tokenizer. ``reported`` is true if the
    endpoint reported token counts itself.
    """

    reply: ChatReply
    seconds: float
    sent: int
    reported: bool = True


@dataclass
class Probe:
    """Makes calls to a chat model and remembers them."""

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
        """Return the number of chunks in which the answer came. Raises ModelError if the call
        fails."""
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
        """The number of the server's tokens for one of ours.

        The window is measured with prompts of plain text, so the longest of them that was read as a
        whole gives the scale. Before there is one, the first answered call does, although
        instructions for an extraction differ from plain text by up to a tenth. It is 1.0 if the
        ratio is implausible: some servers do not count cached tokens.
        """
        whole = [call for call in self.read_whole if call.reported]
        answered = [call for call in self.answered if call.reported]
        if whole:
            measured = max(whole, key=lambda call: call.sent)
        elif answered:
            measured = answered[0]
        else:
            return 1.0
        scale = measured.reply.input_tokens / measured.sent
        return scale if 0.7 < scale < 2 else 1.0

    @property
    def thinking(self) -> int:
        """The number of replies with thinking tags."""
        return sum(bool(THINKING.search(call.reply.text)) for call in self.answered)

    @property
    def hidden_share(self) -> float:
        """The share of the tokens billed as output that the texts of the replies do not show."""
        billed = shown = 0
        for call in self.answered:
            billed += call.reply.output_tokens
            shown += self.tokenizer.count(call.reply.text)
        if billed == 0:
            return 0.0
        # Our tokenizer may count more than the server's.
        return max(0.0, 1 - shown / billed)

    def output_tokens(self, call: Call) -> int:
        """Return the output tokens of a call as the server counts them, or else as our tokenizer
        does."""
        return call.reply.output_tokens or self.tokenizer.count(call.reply.text)


def spoken(reply: ChatReply) -> str:
    """Return the words of a reply in one short line for messages."""
    text = " ".join(without_thinking(reply.text).split())
    if len(text) > 100:
        return f"{text[:100]}..."
    return text or "nothing"


COUNTING_QUESTION: Message = {
    "role": "user",
    "content": "Count from one to thirty, in words and in one line.",
}
"""A question whose answer is long enough to come in many chunks if the endpoint streams."""


def canary(needs: Needs, format: Format, tokens: int, tokenizer: Tokenizer) -> tuple[Message, ...]:
    """Return the project's own request to extract in this format, with about so many tokens.

    It contains the planted fact, whatever the number of tokens.
    """
    request_about = partial(opening, needs.extract, format, entity_types=needs.entity_types)
    tokens_without_filler = 0
    for message in request_about(text=FACT):
        tokens_without_filler += tokenizer.count(message["content"])
    log = filler(tokens - tokens_without_filler, tokenizer)
    text = f"{FACT}\n\n{log}"
    # There may be no room for the log.
    return request_about(text=text.strip())


def filler(tokens: int, tokenizer: Tokenizer) -> str:
    """Return a log of the weather in which nobody is named, of at most so many tokens."""
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


SMALLEST_WINDOW = 256
CLOSE_ENOUGH = 1.1
CLEARLY_LESS = 0.9


@dataclass(frozen=True)
class ReadExtent:
    """The part of a prompt that the model has read.

    ``whole`` is true if it has read the first line. Otherwise ``window`` is the number of our
    tokens that it reads, if the server tells that by its token counts or by its refusal.
    """

    whole: bool
    window: int | None = None


def measure_read_extent(probe: Probe, tokens: int) -> ReadExtent:
    """Return how much the model reads of a prompt of so many tokens, by one call.

    Raises ModelError if the call fails for another reason than the prompt's length.
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
        return ReadExtent(True)
    if reply.reason:
        read = limits_in(reply.message).window or 0
    elif probe.calls[-1].reported:
        read = reply.input_tokens
    else:
        # Our own count of the prompt does not show how much of it was read.
        read = 0
    window = round(read / probe.scale)
    is_plausible = SMALLEST_WINDOW <= window < CLEARLY_LESS * tokens
    return ReadExtent(False, window if is_plausible else None)


def remembers(probe: Probe, tokens: int) -> bool:
    """Return whether the model can repeat the first line of a prompt of so many tokens.

    Raises the errors of ``measure_read_extent``.
    """
    return measure_read_extent(probe, tokens).whole


def context_length(probe: Probe, good: int, bad: int) -> int:
    """Search for the context length between ``good`` tokens, which were remembered, and ``bad``
    ones.

    The result is right within about 5 %.
    """
    while bad > good * CLOSE_ENOUGH:
        middle = round(math.sqrt(good * bad))
        if remembers(probe, middle):
            good = middle
        else:
            bad = middle
    return round(math.sqrt(good * bad))


def _recall(word: str, tokens: int, tokenizer: Tokenizer) -> Message:
    """Return a prompt that asks for the code word in its first line.

    The word comes first, so that no two prompts begin alike and a server's prefix cache cannot
    help.
    """
    start = f"{word} is the code word. Keep it in mind: you are asked for it at the end.\n\n"
    end = (
        "\n\nWhich code word stands in the first line of this message? Answer with it and nothing"
        " else."
    )
    between = filler(tokens - tokenizer.count(start + end), tokenizer)
    return {"role": "user", "content": start + between + end}
