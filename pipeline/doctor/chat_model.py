"""Examines a chat model: its key and address, and by a few real calls how long a prompt it reads,
in which formats it answers, and how fast."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pipeline.doctor.chat_probe import (
    COUNTING_QUESTION,
    SMALLEST_WINDOW,
    Needs,
    Probe,
    canary,
    context_length,
    files_with_extraction,
    measure_read_extent,
    needs_of,
    remembers,
    spoken,
    workflows_with,
)
from pipeline.doctor.concurrency import examine_concurrency, reply_speed
from pipeline.doctor.finding import Finding, Verdict, guarded
from pipeline.engine.workflow import Workflow
from pipeline.errors import counted
from pipeline.models.base import ChatReply, Tokens
from pipeline.models.cache.replies import NO_CACHE
from pipeline.models.endpoint.client import Endpoint
from pipeline.models.endpoint.function import is_function
from pipeline.models.measured import ROOM_FOR_A_REPLY, Measured, MeasuredModels
from pipeline.models.parse.graph_format import BOUNDED_GRAPH_JSON_FORMAT, GRAPH_JSON_FORMAT
from pipeline.runs.adapters import chat_model
from pipeline.runs.services import Services
from pipeline.settings.schema import SHIPPED_MODEL, ChatSettings
from pipeline.verbs.format_trial import found, parsed_in
from pipeline.verbs.graph_prompt import AUTO, JSON, RECORDS, Format

MUCH_HIDDEN = 0.5
PASSING = ("server_error", "timeout")
"""Reasons of transient failures, which say nothing about the model."""


@dataclass(frozen=True)
class LongCall:
    """A call that needs consent.

    ``name`` is the model's in settings.yaml; ``cost`` is that of its prompt, None without a
    price.
    """

    name: str
    tokens: int
    cost: float | None

    def __str__(self) -> str:
        price = "no price is set" if self.cost is None else f"about {self.cost:.4f}"
        return (
            f"chat model '{self.name}': a prompt of about {self.tokens:,} tokens shows how much it"
            f" reads ({price})"
        )


Consent = Callable[[LongCall], bool]


@dataclass(frozen=True)
class Measuring:
    """The limits of an examination.

    ``consent`` is called before a prompt is sent that is longer than those of indexing. If ``long``
    is true, a limit that the server does not tell is searched for. ``models`` keeps the results.
    """

    consent: Consent
    long: bool
    models: MeasuredModels


def examine_chat(
    project: Services, name: str, workflows: Sequence[Workflow], measuring: Measuring
) -> Iterator[Finding]:
    """Yield the findings on a chat model; stop at the first failure that makes the rest
    pointless."""
    settings, resources = project.settings, project.resources
    chat = settings.models.chat[name]
    if not chat.configured:
        users = ", ".join(workflows_with(name, workflows)) or "no workflow"
        fact = f"no base_url and no api_key; needed by: {users}"
        action = (
            "set OPENAI_API_KEY or OPENAI_BASE_URL in .env, which api_key and base_url in"
            " settings.yaml name, or use 'graphmill run fast', which needs neither"
        )
        yield Finding("chat", name, "warning", fact, action)
        return
    model = chat_model(settings, name, NO_CACHE, root=project.root)
    model.preflight()
    # This does not prove that the key is accepted: many gateways list their models to anybody. The
    # calls below show that.
    fact = "is there" if chat.needs_no_address else "has a server that answers"
    yield Finding("chat", name, "ok", f"{model.model} {fact} ({model.endpoint.shown})")
    yield from guarded(
        "chat", f"{name} num_ctx", lambda: examine_window(name, model.window, model.endpoint)
    )
    yield from examine_price(name, chat)
    needs = needs_of(name, workflows, resources, settings.query)
    checkup = Checkup(
        name, needs, Probe(model, resources.tokenizer), measuring, model.endpoint.digest,
        lambda tokens: model.cost(Tokens(tokens, 0)), chat.timeout, project.root,
    )  # fmt: skip
    yield from guarded("chat", name, checkup.findings)
    heard = checkup.probe.heard
    if checkup.probe.answered:
        examine = partial(examine_concurrency, name, model, heard)
        yield from guarded("chat", f"{name} concurrency", examine)
        measuring.models.note(model.endpoint.digest, speed=reply_speed(heard.usages))
    yield from heard.findings("chat", name, is_function(model))
    yield from checkup.bill()


def examine_window(name: str, window: int | None, endpoint: Endpoint) -> Iterator[Finding]:
    """Compare the window that settings give a model with the model's own, if the server tells
    it."""
    own = endpoint.context_length()
    if window is None or own is None:
        return
    if own < window:
        fact = f"num_ctx is {window:,}, but the model itself reads only {own:,} tokens"
        yield Finding("chat", f"{name} num_ctx", "warning", fact, f"set num_ctx to {own} or less")
    else:
        fact = (
            f"num_ctx is {window:,} tokens, prompt and reply together; the model itself reads up to"
            f" {own:,}"
        )
        yield Finding("chat", f"{name} num_ctx", "ok", fact)


def examine_price(name: str, chat: ChatSettings) -> Iterator[Finding]:
    """Warn of a price in settings.yaml that an earlier version wrote for another model."""
    if chat.has_price_of_another_model:
        fact = (
            f"the price in settings.yaml is that of {SHIPPED_MODEL} at OpenAI, and the model is"
            f" '{chat.model}'"
        )
        action = (
            "set price to what this model costs, {input: 0, output: 0} for one on your own machine"
        )
        yield Finding("chat", f"{name} price", "warning", fact, action)


SHOWN: Mapping[Format, str] = {RECORDS: "in records", JSON: "as JSON"}


@dataclass(frozen=True)
class Tried:
    """The reply to an extraction of the planted fact in one format."""

    format: Format
    reply: ChatReply

    @property
    def works(self) -> bool:
        """True if the reply names the planted fact."""
        return self.reply.reason is None and found(parsed_in(self.format, self.reply.text))


@dataclass(frozen=True)
class Checkup:
    """The examination of one chat model.

    ``name`` is the model's in settings.yaml, ``digest`` identifies it with its address. ``timeout``
    is in seconds per call, as settings say; ``root`` is the project's folder.
    """

    name: str
    needs: Needs
    probe: Probe
    measuring: Measuring
    digest: str
    cost: Callable[[int], float | None]
    timeout: float
    root: Path

    def findings(self) -> Iterator[Finding]:
        """Try both formats, first the one that workflows use, and measure the context with one that
        works."""
        order: tuple[Format, Format] = (RECORDS, JSON)
        if set(self.needs.formats) == {JSON}:
            order = (JSON, RECORDS)
        first = self._tried(order[0])
        json_is_refused = first.format == JSON and first.reply.reason == "bad_request"
        if first.reply.reason and not json_is_refused:
            fact = f"{first.reply.reason}: {first.reply.message}"
            action = "correct what the message names"
            if first.reply.reason in PASSING:
                action = "wait until the server answers, then look again"
            yield self._failed("extraction", fact, action)
            return
        tried: dict[Format, Tried] = {one.format: one for one in (first, self._tried(order[1]))}
        yield from self.extraction(tried)
        working: list[Format] = [format for format in order if tried[format].works]
        if working:
            context = partial(self.context, working[0])
            yield from guarded("chat", f"{self.name} context", context)
        yield from self.json(tried[JSON])
        yield from guarded("chat", f"{self.name} streaming", self.streaming)
        yield from self.thinking()
        yield from self.speed()

    def _tried(self, format: Format, tokens: int = 0) -> Tried:
        """Ask for the planted fact in this format, with a prompt of about so many tokens."""
        messages = canary(self.needs, format, tokens, self.probe.tokenizer)
        schemas = (GRAPH_JSON_FORMAT, BOUNDED_GRAPH_JSON_FORMAT) if format == JSON else (None, None)
        return Tried(format, self.probe.ask(messages, *schemas))

    def extraction(self, tried: Mapping[Format, Tried]) -> Iterator[Finding]:
        """Check the formats that workflows use; of ``auto``, either will do."""
        formats: tuple[Format, Format] = (RECORDS, JSON)
        wanted: list[Format] = [format for format in formats if format in self.needs.formats]
        working: list[Format] = [format for format in formats if tried[format].works]
        if not wanted:
            wanted = working[:1] if AUTO in self.needs.formats and working else [RECORDS]
        broken: Format | None = next((format for format in wanted if format not in working), None)
        if broken is None:
            yield self._ok(
                "extraction",
                f"finds a planted fact {' and '.join(SHOWN[format] for format in wanted)}",
            )
            return
        reply = tried[broken].reply
        said = reply.message if reply.reason else spoken(reply)
        missed = f"a planted fact of one sentence is not found {SHOWN[broken]}"
        if working:
            files = ", ".join(files_with_extraction(self.root, self.needs.formats.get(broken, ())))
            action = (
                f"set format: {working[0]} in extract_graph's args{f' of {files}' if files else ''}"
            )
            yield self._failed(
                "extraction", f"{missed}, but it is {SHOWN[working[0]]}: {said}", action
            )
        elif reply.finish_reason == "length":
            action = (
                "raise or remove max_tokens if it is set; a model that still does not end is of no"
                " use here"
            )
            yield self._failed("extraction", f"the reply was cut off: {said}", action)
        else:
            action = (
                "take a model that follows instructions better, or mend prompts/extract_graph.md"
            )
            yield self._failed("extraction", f"{missed}: {said}", action)

    def context(self, format: Format) -> Iterator[Finding]:
        """Report how long a prompt the model reads.

        It is asked for an extraction as long as indexing needs, and for a code word from the first
        line of the longest prompt: records come out well even where only the instructions before
        them are cut.
        """
        needed = self.needs.extraction
        long = self._tried(format, needed)
        reply, reads = long.reply, long.works
        if reply.reason not in (None, "too_long"):
            yield self._failed(
                "context",
                f"{needed:,} tokens: {reply.reason}: {reply.message}",
                "check the server",
            )
            return
        tried = self.needs.longest if self._longest_may_be_tried() else needed
        seen = measure_read_extent(self.probe, tried)
        if seen.whole:
            whole = self._read_whole(tried)
            yield whole if reads else self._misses(needed, reply)
        elif seen.window:
            yield self._too_short(seen.window, tried)
        elif not remembers(self.probe, SMALLEST_WINDOW):
            yield self._long_enough(needed) if reads else self._loses(needed, reply)
        elif tried == needed or not remembers(self.probe, needed):
            yield self._too_short(context_length(self.probe, SMALLEST_WINDOW, needed), needed)
        elif self.measuring.long:
            yield self._too_short(context_length(self.probe, needed, tried), tried)
        else:
            yield self._cut_somewhere(needed, tried)

    @property
    def _known_results(self) -> Measured:
        return self.measuring.models.of(self.digest)

    def _longest_may_be_tried(self) -> bool:
        longest = self.needs.longest
        if longest <= self.needs.extraction:
            return False
        if not self.measuring.long and self._known_results.tried >= longest:
            return False
        return self.measuring.consent(LongCall(self.name, longest, self.cost(longest)))

    def _measured(self, window: int | None, tried: int) -> None:
        today = datetime.now(UTC).date().isoformat()
        self.measuring.models.note(
            self.digest, window=window, tried=tried, measured=today, source="doctor"
        )

    def _read_whole(self, tried: int) -> Finding:
        """Return the finding on a prompt that was read as a whole, and keep the result.

        Earlier measurements with longer prompts stay valid, unless this prompt was longer than a
        window that was found then.
        """
        known = self._known_results
        if tried >= known.tried or (known.window or tried) < tried:
            self._measured(None, tried)
        elif known.window:
            return self._window_of(known.window, known.tried, f", as measured on {known.measured}")
        return self._long_enough(max(tried, self._known_results.tried))

    def _long_enough(self, tried: int) -> Finding:
        fact = f"prompts of {tried:,} tokens are read from their start"
        if self.needs.longest <= tried:
            return self._ok("context", fact)
        fact = f"{fact}; queries and summaries may need {self.needs.longest:,}, which was not tried"
        return self._finding(
            "context", "warning", fact, "'graphmill doctor --long' tries it, by one call"
        )

    def _cut_somewhere(self, read: int, tried: int) -> Finding:
        self._measured(read, tried)
        fact = (
            f"prompts of {read:,} tokens are read, of {tried:,} the start is lost; questions are"
            " kept within those"
        )
        return self._finding(
            "context", "warning", fact, "'graphmill doctor --long' searches for the limit"
        )

    def _misses(self, needed: int, reply: ChatReply) -> Finding:
        fact = (
            f"the server reads {needed:,} tokens, but the model misses a fact at their start:"
            f" {spoken(reply)}"
        )
        return self._finding(
            "context", "warning", fact, "take a larger model, or a smaller size in chunk_documents"
        )

    def _loses(self, needed: int, reply: ChatReply) -> Finding:
        fact = (
            f"a fact at the start of {needed:,} tokens is lost ({reply.message or spoken(reply)})"
        )
        return self._failed(
            "context", f"{fact}; the model cannot be asked how much it sees", _longer(needed)
        )

    def _too_short(self, window: int, tried: int) -> Finding:
        self._measured(window, tried)
        return self._window_of(window, tried)

    def _window_of(self, window: int, tried: int, when: str = "") -> Finding:
        """Return the finding on a window, which is given in our tokens and shown in the server's
        own."""
        verdict: Verdict = "failed" if window < self.needs.extraction else "warning"
        refused = any(call.reply.reason == "too_long" for call in self.probe.calls)
        lost = "it refuses those" if refused else "their start is lost"
        fact = (
            f"the server's context is about {round(window * self.probe.scale):,} tokens{when},"
            f" prompts have up to {tried:,}: {lost}; questions are kept within it"
        )
        spare = (
            "" if verdict == "failed" else ", or lower query.max_total_tokens and max_input_tokens"
        )
        return self._finding("context", verdict, fact, _longer(tried) + spare)

    def json(self, tried: Tried) -> Iterator[Finding]:
        """Report whether replies follow a JSON schema, and keep that for questions."""
        reply, follows = tried.reply, tried.works
        if reply.reason not in PASSING:
            self.measuring.models.note(self.digest, json_schema=follows)
        if follows:
            yield self._ok("JSON", "replies follow a JSON schema (response_format)")
            return
        fact = f"no JSON by response_format ({reply.message or spoken(reply)})"
        if self.needs.json:
            yield self._failed("JSON", fact, "set format: records in extract_graph's args")
        else:
            yield self._finding(
                "JSON",
                "warning",
                fact,
                "leave format: records, the default, in extract_graph's args",
            )

    def streaming(self) -> Iterator[Finding]:
        """Report whether answers come in pieces. Questions are answered either way."""
        pieces = self.probe.ask_streamed(COUNTING_QUESTION)
        if pieces > 1:
            yield self._ok("streaming", "answers come in pieces")
        else:
            yield self._ok(
                "streaming", "the endpoint does not stream: an answer is shown when it is whole"
            )

    def thinking(self) -> Iterator[Finding]:
        calls, action = len(self.probe.answered), (
            "turn it off if you can: reasoning_effort: none or minimal, or "
            "extra_body: {chat_template_kwargs: {enable_thinking: false}}"
        )  # fmt: skip
        if self.probe.thinking:
            some = f"{self.probe.thinking} of {counted(calls, 'reply', 'replies')}"
            fact = f"{some} with <think> tags, which are paid for and dropped"
            yield self._finding("thinking", "warning", fact, action)
        elif self.probe.hidden_share > MUCH_HIDDEN:
            fact = (
                f"{self.probe.hidden_share:.0%} of the output tokens are not in the replies: the"
                " model thinks"
            )
            yield self._finding("thinking", "warning", fact, action)
        else:
            yield self._ok("thinking", "none seen")

    def speed(self) -> Iterator[Finding]:
        calls = self.probe.answered
        longest = max(calls, key=self.probe.output_tokens)
        slowest = max(call.seconds for call in calls)
        rate = self.probe.output_tokens(longest) / max(longest.seconds, 1e-6)
        mean = sum(call.seconds for call in calls) / len(calls)
        fact = (
            f"{rate:,.0f} output tokens a second, {mean:.2g} s a call, {slowest:.2g} s the slowest"
        )
        if slowest > self.timeout / 2:
            action = (
                f"raise models.chat.{self.name}.timeout ({self.timeout:g} s): longer texts take"
                " longer"
            )
            yield self._finding("speed", "warning", fact, action)
        else:
            yield self._ok("speed", fact)

    def bill(self) -> Iterator[Finding]:
        """Report every call that was sent, retries and failures included."""
        calls = self.probe.heard.usages
        read = sum(call.input_tokens for call in calls)
        written = sum(call.output_tokens for call in calls)
        fact = f"this examination made {counted(len(calls), 'call')}, {read:,} + {written:,} tokens"
        yield self._ok("bill", fact)

    def _ok(self, what: str, fact: str) -> Finding:
        return self._finding(what, "ok", fact, "")

    def _failed(self, what: str, fact: str, action: str) -> Finding:
        return self._finding(what, "failed", fact, action)

    def _finding(self, what: str, verdict: Verdict, fact: str, action: str) -> Finding:
        return Finding("chat", f"{self.name} {what}", verdict, fact, action)


def _longer(wanted: int) -> str:
    """Return the advice to enlarge the window to the next power of two that holds prompt and
    reply."""
    size = 1 << (wanted + ROOM_FOR_A_REPLY - 1).bit_length()
    return (
        f"give the server a context of {size:,}: Ollama num_ctx {size} (in settings.yaml with"
        f" provider: ollama, else OLLAMA_CONTEXT_LENGTH), vLLM --max-model-len {size}, llama.cpp -c"
        f" {size}"
    )
