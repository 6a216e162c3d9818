"""The answer to a question: the model is asked, and the citations of its reply are checked."""

import re
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from pipeline.errors import (
    BudgetError,
    ModelError,
    NoSuchModelError,
    StoreError,
    UsageError,
    counted,
)
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.models.parse.lenient_json import after_thinking
from pipeline.query.answer_json import dropped_json, evidence_json, references_json, shown_tables
from pipeline.query.citations.addresses import Addresses
from pipeline.query.citations.annotations import Annotation, Cited, Piece
from pipeline.query.citations.checker import Citations
from pipeline.query.context import Context, Reference
from pipeline.query.evidence_answer import build_evidence_answer, find_likely_sentence
from pipeline.query.messages import count_tokens
from pipeline.query.prepare import prepare
from pipeline.query.prepared import Abstention, PreparedQuery
from pipeline.query.replies import note_cut_prompt, refuse_failed
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.search.keywords import Keywords
from pipeline.query.too_long import ask_within_window

Result = TypeVar("Result")
_NO_ANSWER = re.compile(
    r"[\s*_#>`\"'“]*(?i:(?:answer|response)\s*:[\s*_]*)?"
    r"(?:(?i:[\[【(（]\s*no[\s_-]*answer\s*[\]】)）])|NO[ _-]?ANSWER(?=\s*(?:[-–—:.,;!*_]|\n|$)))"
    r"[\s*_`\"'”:.,;!–—-]*"
)
"""The beginning of a reply that finds no answer in the context: [NO ANSWER], which the prompts
answer_*.md ask for, or a variant of it."""
_DECLINING = ("noanswer", "answernoanswer", "responsenoanswer")
"""Letters of the variants of this sign; the beginning of a reply is compared with them."""
LONGEST_OPENING = 80
"""Characters of a reply after which it cannot begin with this sign any more."""
WORDS = {"nothing_found": "no_context"}
"""Abstention -> name of the prompt with its text, if the prompt has another name."""
CITED_REPORT = ["number", "id", "level", "title"]
CITES_NOTHING = (
    "the answer cites nothing of what the model was shown: it may rest on something else"
)
UNSUPPORTED = (
    "the passage does not hold the names and numbers of the sentence; read it before you rely on it"
)
ENDS = {
    "length": "the answer was cut off at the model's output limit",
    "unstated": (
        "the endpoint did not say why the answer ended (finish_reason): its end may be missing"
    ),
}
"""Finish reason -> note on an answer that ended for this reason."""


@dataclass(frozen=True)
class AnswerText:
    """The text of an answer, and the reply it was read from; None if no model was asked.

    ``abstention``: the reason why the text is no answer; "" if it is one. ``cited``: its citations.
    """

    text: str
    abstention: Abstention
    cited: Cited = field(default_factory=Cited)
    reply: ChatReply | None = None


@dataclass(frozen=True)
class Answer:
    """The answer to a question, with its evidence, citations and costs.

    ``abstention``: the reason why there is no answer; "" if there is one. ``annotations``: the
    citations in the text, with their places in Unicode code points. ``cited``: the cited
    references, in the order of the text. ``cited_report_numbers``: the cited reports.
    ``removed_citations``: number of citations of something that the model was not shown.
    ``cites_nothing``: a model wrote the answer without citing anything it was shown.

    ``tokens``: tokens of the prompt and its sections. ``usage``: tokens as the endpoint counted
    them. ``most_calls``: most calls that the question could have taken. ``cost``: price of all
    calls by the settings; None if a model has no price. ``question_id``: its id in usage records.
    ``loaded``: workflow and version of the load that was read. ``notes``: messages for the caller
    and for the operator of the stores.
    """

    request: QueryRequest
    text: str
    keywords: Keywords
    context: Context
    abstention: Abstention
    tokens: dict[str, int]
    usage: dict[str, int]
    timings_ms: dict[str, float]
    cited: tuple[Reference, ...] = ()
    removed_citations: int = 0
    annotations: tuple[Annotation, ...] = ()
    cited_report_numbers: tuple[int, ...] = ()
    cites_nothing: bool = False
    notes: tuple[str, ...] = ()
    most_calls: int = 1
    question_id: str = ""
    cost: float | None = None
    loaded: str = ""

    @property
    def abstained(self) -> bool:
        return bool(self.abstention)

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.context.references if self.request.include_references else ()

    @property
    def unsupported_citations(self) -> int:
        """Number of citations whose passage lacks the names and numbers of the sentence."""
        return sum(not annotation.supported for annotation in self.annotations)

    def to_json(self, evidence: bool = True) -> dict[str, Any]:
        """Return the answer as JSON; with ``evidence``, all records that the model was shown.

        Without it, only the references and the cited reports are included.
        """
        return {
            "mode": self.request.mode,
            "question": self.request.query,
            "keywords": {"high": list(self.keywords.high), "low": list(self.keywords.low)},
            "answer": self.text,
            "abstained": self.abstained,
            "reason": self.abstention,
            **(evidence_json(self.context, self.request) if evidence else self.sources_json()),
            "annotations": [annotation.to_json() for annotation in self.annotations],
            "cited": [entry.id for entry in self.cited],
            "tokens": self.tokens,
            "usage": self.usage,
            "cost": self.cost,
            "question_id": self.question_id,
            "most_calls": self.most_calls,
            "timings_ms": self.timings_ms,
            "dropped": dropped_json(self.context, self.request),
            "removed_citations": self.removed_citations,
            "unsupported_citations": self.unsupported_citations,
            "cites_nothing": self.cites_nothing,
            "notes": list(self.notes),
            **(self._likely_json() if evidence and self.request.only_need_context else {}),
        }

    def data_json(self) -> dict[str, Any]:
        """Return the JSON without the text, for a question that no model has answered."""
        data = {name: value for name, value in self.to_json().items() if name != "answer"}
        return {**data, **self._likely_json()}

    def _likely_json(self) -> dict[str, Any]:
        """Return the sentence that is most likely to answer, by its name; empty if there is none.

        It names a reference, so it is left out with the references.
        """
        request = self.request
        references = self.context.references
        best = find_likely_sentence(self.context, references, request.query, request.prefer)
        if best is None or not self.request.include_references:
            return {}
        return {"most_likely": {"text": best[0], "number": best[1]}}

    def sources_json(self) -> dict[str, Any]:
        """Return the references, and number, id, level and title of the cited reports."""
        sources = references_json(self.context, self.request)
        if self.request.with_reports:
            sources["reports"] = self.cited_reports
        return sources

    @property
    def cited_reports(self) -> list[dict[str, Any]]:
        cited = [
            report
            for report in self.context.reports.records
            if report.number in self.cited_report_numbers
        ]
        return [{name: getattr(report, name) for name in CITED_REPORT} for report in cited]


def answer(request: QueryRequest, resources: QueryResources) -> Answer:
    """Answer the question; shorten the prompt once if the model refuses it as too long.

    Raises UsageError for mode ``bypass`` without a chat model, ModelError if the model fails.
    """
    started = time.perf_counter()

    def ask(request: QueryRequest, notes: tuple[str, ...]) -> Answer:
        prepared = prepare(request, resources)
        prepared = replace(prepared, notes=(*notes, *prepared.notes))
        prepared = make_inquiry(prepared, resources)
        with Clock(prepared.timings).measure("model"):
            said = build_fixed_answer(prepared, resources) or ask_for_answer(prepared, resources)
        return finish_answer(prepared, resources, said, started)

    return ask_within_window(request, resources, ask)


def make_inquiry(prepared: PreparedQuery, resources: QueryResources) -> PreparedQuery:
    """Make the calls before the last one, and return the question ready for the last one.

    The question is returned unchanged if no model is to answer it. Raises ModelError if all calls
    fail.
    """
    request = prepared.request
    needs_no_model = request.only_need_context or request.only_need_prompt or prepared.abstention
    if needs_no_model or prepared.inquiry is None:
        return prepared
    chat = resources.chat(request.model)
    if chat is None:
        return prepared
    with Clock(prepared.timings).measure("inquiry"):
        return chat.converse([prepared.inquiry()])[0]


def build_fixed_answer(prepared: PreparedQuery, resources: QueryResources) -> AnswerText | None:
    """Return the text of an answer without a model; None if a model is to be asked.

    It is the context, the prompt, the message of an abstention or, without a model, the evidence.
    """
    request = prepared.request
    if request.only_need_context:
        note = f"\nNote: {prepared.absence}.\n" if prepared.absence else ""
        return AnswerText(prepared.context.text + note, prepared.abstention)
    if request.only_need_prompt:
        prompt = "\n\n".join(message["content"] for message in prepared.messages)
        return AnswerText(prompt, prepared.abstention)
    if prepared.abstention:
        return AnswerText(render_abstention(prepared.abstention, resources), prepared.abstention)
    if resources.chat(request.model):
        return None
    if request.mode == "bypass":
        raise UsageError(
            "query: mode bypass asks the chat model alone, and none is configured; set"
            " OPENAI_API_KEY"
        )
    text, cited = build_evidence_answer(prepared.context, request.query, request.prefer)
    return AnswerText(text, "", cited)


def render_abstention(abstention: Abstention, resources: QueryResources) -> str:
    return resources.prompt(WORDS.get(abstention, abstention)).render().strip()


def read_answer(
    pieces: Iterator[str], prepared: PreparedQuery, resources: QueryResources
) -> Generator[Piece, None, tuple[Abstention, Cited]]:
    """Yield the reply in its final form, piece by piece, each piece with its citations.

    Return the reason if it is no answer, otherwise "", and all it cites. The model's thinking is
    left out. In mode ``bypass`` nothing can be cited, and the text stays as it is.
    """
    pieces = after_thinking(pieces)
    if prepared.request.mode == "bypass":
        yield from map(Piece, pieces)
        return "", Cited()
    opening = _read_opening(pieces)
    declined = _NO_ANSWER.match(opening)
    text = opening[declined.end() :] if declined else opening
    if declined and not text:
        yield Piece(render_abstention("not_in_context", resources))
        return "not_in_context", Cited()
    check = Citations(prepared.context.references, prepared.citable, _known_addresses(prepared))
    cited = yield from check.stream(chain([text], pieces))
    return "not_in_context" if declined else "", cited


def _known_addresses(prepared: PreparedQuery) -> Addresses:
    """Return the addresses in the context, the request and its conversation."""
    request = prepared.request
    turns = [turn.content for turn in request.conversation_history]
    return Addresses.of(
        prepared.context.text, request.query, request.user_prompt, request.system_prompt, *turns
    )


def join_pieces(pieces: Generator[Piece, None, Result]) -> tuple[str, Result]:
    """Return the text of all pieces together, and the return value of the generator."""
    text = ""
    while True:
        try:
            text += next(pieces).text
        except StopIteration as end:
            return text, end.value


def finish_answer(
    prepared: PreparedQuery, resources: QueryResources, said: AnswerText, started: float
) -> Answer:
    """Return the answer with its references, notes, tokens, timings and costs.

    ``started`` is the value of the performance counter, in seconds, when the question began.
    """
    context, trace_notes = _trace_reports(prepared, resources, said)
    prompt_tokens = count_tokens(prepared.messages, resources.tokenizer)
    tokens = {"prompt": prompt_tokens}
    for name in shown_tables(prepared.request):
        tokens[name] = getattr(context, name).tokens
    notes = [
        *prepared.notes,
        *note_cut_prompt(prompt_tokens, said.reply),
        *_answer_notes(said),
        *trace_notes,
    ]
    cites_nothing = _cites_nothing(prepared, said)
    if cites_nothing:
        notes.append(CITES_NOTHING)
    total_ms = round((time.perf_counter() - started) * 1000, 2)
    return Answer(
        prepared.request,
        said.text,
        prepared.keywords,
        context,
        said.abstention,
        tokens,
        usage=sum_usage(*prepared.replies, said.reply),
        timings_ms={**prepared.timings, "total": total_ms},
        cited=list_cited_references(context, said.cited),
        removed_citations=prepared.removed_citations + said.cited.removed,
        annotations=tuple(said.cited.annotations),
        cited_report_numbers=tuple(said.cited.reports),
        cites_nothing=cites_nothing,
        notes=tuple(notes),
        most_calls=prepared.most_calls,
        question_id=resources.account.question,
        cost=resources.account.cost,
        loaded=resources.account.loaded,
    )


def ask_for_answer(prepared: PreparedQuery, resources: QueryResources) -> AnswerText:
    """Ask the model for the answer without streaming. Raises ModelError if it fails."""
    chat = resources.chat(prepared.request.model)
    assert chat is not None
    reply = chat.complete([build_answer_request(prepared)])[0]
    return read_reply(reply, prepared, resources)


def build_answer_request(prepared: PreparedQuery) -> ChatRequest:
    """Return the request for the answer."""
    return ChatRequest("answer", prepared.messages, check=any_text)


def read_reply(reply: ChatReply, prepared: PreparedQuery, resources: QueryResources) -> AnswerText:
    """Return the answer in a reply. Raises ModelError if the call failed."""
    tokens_sent = count_tokens(prepared.messages, resources.tokenizer)
    refuse_failed(reply, tokens_sent)
    # The whole reply is a stream of one piece.
    pieces = read_answer(iter([reply.text]), prepared, resources)
    text, (abstention, cited) = join_pieces(pieces)
    return AnswerText(text, abstention, cited, reply)


def _trace_reports(
    prepared: PreparedQuery, resources: QueryResources, said: AnswerText
) -> tuple[Context, tuple[str, ...]]:
    """Return the context with references to the sources of the cited reports, and notes.

    If the search for them fails, a note says so: an answer that was paid for must not be lost.
    """
    context = prepared.context
    if not said.cited.reports or not prepared.request.include_references:
        return context, ()
    from pipeline.query.reports.sources import add_report_sources

    try:
        with_sources = add_report_sources(
            context, said.text, said.cited.reports, prepared.request, resources
        )
    except (BudgetError, ModelError, NoSuchModelError, StoreError) as error:
        return context, (f"the passages that the reports rest on were not found ({error})",)
    return with_sources, ()


def list_cited_references(context: Context, cited: Cited) -> tuple[Reference, ...]:
    """Return the cited references in the order of the text, then the sources of cited reports."""
    by_id = {entry.id: entry for entry in context.references}
    numbers = dict.fromkeys(cited.sources)
    for report in cited.reports:
        sources = [entry.id for entry in context.references if report in entry.reports]
        numbers |= dict.fromkeys(sources)
    return tuple(by_id[number] for number in numbers if number in by_id)


def any_text(text: str) -> str | None:
    """Accept any text as a reply.

    A request with a check has an effect of its own: a reply that was cut off is not served again
    from the cache.
    """
    return None


def _answer_notes(said: AnswerText) -> tuple[str, ...]:
    """Return notes on the end of the answer, removed addresses and unsupported citations."""
    notes: list[str] = []
    ended = said.reply.finish_reason if said.reply else "stop"
    if ended in ENDS:
        notes.append(ENDS[ended])
    if said.cited.addresses:
        addresses = counted(said.cited.addresses, "address", "addresses")
        notes.append(f"{addresses} that nothing shown holds: taken out of the answer")
    unsupported = sum(not annotation.supported for annotation in said.cited.annotations)
    if unsupported:
        notes.append(f"{counted(unsupported, 'citation')} without support: {UNSUPPORTED}")
    return tuple(notes)


def _cites_nothing(prepared: PreparedQuery, said: AnswerText) -> bool:
    """Return whether a model's answer cites nothing, though it was shown sources to cite.

    A request with a system prompt of its own does not ask for citations.
    """
    is_answer_of_model = said.reply is not None and not said.abstention
    if not is_answer_of_model or prepared.request.system_prompt:
        return False
    context = prepared.context
    has_sources = bool(context.references) or len(context.reports.records) > 0
    cites_something = bool(said.cited.sources or said.cited.records)
    return has_sources and not cites_something


def _read_opening(pieces: Iterator[str]) -> str:
    """Read pieces until it is clear whether the reply begins with the sign of no answer."""
    opening = ""
    while _may_decline(opening):
        piece = next(pieces, None)
        if piece is None:
            break
        opening = (opening + piece).lstrip()
    return opening


def _may_decline(opening: str) -> bool:
    """Return whether a reply that begins so may yet turn out to be the sign of no answer."""
    if len(opening) >= LONGEST_OPENING:
        return False
    letters = re.sub(r"[\W_]+", "", opening).casefold()
    return any(sign.startswith(letters) for sign in _DECLINING)


def sum_usage(*replies: ChatReply | None) -> dict[str, int]:
    """Return calls and tokens, as the endpoint counted them; cached replies do not count."""
    made = [reply for reply in replies if reply is not None and not reply.cached]
    return {
        "calls": len(made),
        "input_tokens": sum(reply.input_tokens for reply in made),
        "output_tokens": sum(reply.output_tokens for reply in made),
    }
