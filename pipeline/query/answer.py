"""The answer to a question: what the model says of the evidence, its citations checked."""

import math
import re
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
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
from pipeline.query.addresses import Addresses
from pipeline.query.annotations import Annotation, Cited, Piece
from pipeline.query.citations import Citations
from pipeline.query.context import Context, Reference, page_of, without_pages
from pipeline.query.marks import inert
from pipeline.query.messages import (
    Abstention,
    PreparedQuery,
    count_tokens,
    refuse_failed,
    told_unread,
)
from pipeline.query.prepare import prepare
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.search.modes import Keywords
from pipeline.query.too_long import ask_within_window
from pipeline.stores.records import Passage, Relationship

Result = TypeVar("Result")
_NO_ANSWER = re.compile(
    r"[\s*_#>`\"'“]*(?i:(?:answer|response)\s*:[\s*_]*)?"
    r"(?:(?i:[\[【(（]\s*no[\s_-]*answer\s*[\]】)）])|NO[ _-]?ANSWER(?=\s*(?:[-–—:.,;!*_]|\n|$)))"
    r"[\s*_`\"'”:.,;!–—-]*"
)
"""How a model begins that finds no answer in the context, as [NO ANSWER] (prompts/answer_*.md) or
much like it."""
_DECLINING = ("noanswer", "answernoanswer", "responsenoanswer")
LONGEST_OPENING = 80
WORDS = {"nothing_found": "no_context"}
"""Reason for an abstention -> the prompt that has its words, where that is not called so."""
CITED_REPORT = ["number", "id", "level", "title"]
OF_REFERENCE = ("title", "tokens")
"""Of a text unit what is told beside its reference, or is of no use there."""
NOTICE = "No chat model is configured: this is the evidence itself, not an answer."
PASSAGES, FACTS, PASSAGE_LENGTH = 5, 10, 700
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
"""Finish reason -> what is to be said of an answer that ended so."""


@dataclass(frozen=True)
class AnswerText:
    """What is said to a question. ``reply``: what the model was paid for it; None where it was not
    asked."""

    text: str
    abstention: Abstention
    cited: Cited = field(default_factory=Cited)
    reply: ChatReply | None = None


@dataclass(frozen=True)
class Answer:
    """``abstention``: why there is no answer; "" where there is one. ``annotations``: the citations
    in the text, each with its place there, in Unicode code points. ``cited``: the references that
    it rests on, in the order of the text; ``cited_report_numbers``: reports likewise;
    ``removed_citations``: those of what the model was not shown. ``cites_nothing``: a model wrote
    the answer and cited nothing of what it was shown. ``tokens``: of the prompt and its parts;
    ``usage``: as the endpoint counted them; ``most_calls``: how many the question could have taken.
    ``cost``: of all calls that were made for it, by the settings' prices; None where a model has
    none. ``question_id``: by which usage knows it. ``loaded``: the workflow and version of the load
    that was read. ``notes``: what those who ask, or run the stores, should know."""

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
        """How many of the annotations cite a passage without the names and numbers of the
        sentence."""
        return sum(not annotation.supported for annotation in self.annotations)

    def to_json(self, evidence: bool = True) -> dict[str, Any]:
        """``evidence``: with all that was shown, not only what the answer leads to."""
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
        }

    def data_json(self) -> dict[str, Any]:
        """Return what was found, of a question that no model has answered."""
        return {name: value for name, value in self.to_json().items() if name != "answer"}

    def sources_json(self) -> dict[str, Any]:
        """The references, and the reports that the answer cites, by number and title."""
        reports = {"reports": self.cited_reports} if self.request.with_reports else {}
        return {**references_json(self.context, self.request), **reports}

    @property
    def cited_reports(self) -> list[dict[str, Any]]:
        cited = [
            report
            for report in self.context.reports.records
            if report.number in self.cited_report_numbers
        ]
        return [{name: getattr(report, name) for name in CITED_REPORT} for report in cited]


def answer(request: QueryRequest, resources: QueryResources) -> Answer:
    """Answer the question; a prompt that the model refuses as too long is made shorter, once.

    Raises UsageError for ``bypass`` without a chat model, ModelError where the model gives no
    answer.
    """
    started = time.perf_counter()

    def ask(request: QueryRequest, notes: tuple[str, ...]) -> Answer:
        prepared = prepare(request, resources)
        prepared = inquired(replace(prepared, notes=(*notes, *prepared.notes)), resources)
        with Clock(prepared.timings).measure("model"):
            said = fixed_answer(prepared, resources) or whole_answer(prepared, resources)
        return finished(prepared, resources, said, started)

    return ask_within_window(request, resources, ask)


def inquired(prepared: PreparedQuery, resources: QueryResources) -> PreparedQuery:
    """Ready for the last call: those before it are made, if there is to be an answer of a model.

    Raises ModelError where they bring nothing.
    """
    request = prepared.request
    unasked = request.only_need_context or request.only_need_prompt or prepared.abstention
    chat = None if unasked or prepared.inquiry is None else resources.chat(request.model)
    if chat is None or prepared.inquiry is None:
        return prepared
    with Clock(prepared.timings).measure("inquiry"):
        return chat.converse([prepared.inquiry()])[0]


def fixed_answer(prepared: PreparedQuery, resources: QueryResources) -> AnswerText | None:
    """What is said where no model is to be asked: the context, the prompt, the evidence, or that
    nothing was found."""
    request = prepared.request
    if request.only_need_context:
        return AnswerText(prepared.context.text, prepared.abstention)
    if request.only_need_prompt:
        return AnswerText(
            "\n\n".join(message["content"] for message in prepared.messages), prepared.abstention
        )
    if prepared.abstention:
        return AnswerText(said_of(prepared.abstention, resources), prepared.abstention)
    if resources.chat(request.model):
        return None
    if request.mode == "bypass":
        raise UsageError(
            "query: mode bypass asks the chat model alone, and none is configured; set"
            " OPENAI_API_KEY"
        )
    return evidence_answer(prepared.context)


def said_of(abstention: Abstention, resources: QueryResources) -> str:
    return resources.prompt(WORDS.get(abstention, abstention)).render().strip()


def read_answer(
    pieces: Iterator[str], prepared: PreparedQuery, resources: QueryResources
) -> Generator[Piece, None, tuple[Abstention, Cited]]:
    """Yield the answer as it is to be shown, in pieces with their citations.

    Return why it is none, if so, and what it cites. Without a search there is nothing that could be
    cited, and the text stays as it is. Thinking is never shown.
    """
    pieces = after_thinking(pieces)
    if prepared.request.mode == "bypass":
        yield from map(Piece, pieces)
        return "", Cited()
    opening = _opening(pieces)
    declined = _NO_ANSWER.match(opening)
    text = opening[declined.end() :] if declined else opening
    if declined and not text:
        yield Piece(said_of("not_in_context", resources))
        return "not_in_context", Cited()
    check = Citations(prepared.context.references, prepared.citable, _known_addresses(prepared))
    cited = yield from check.stream(chain([text], pieces))
    return "not_in_context" if declined else "", cited


def _known_addresses(prepared: PreparedQuery) -> Addresses:
    request = prepared.request
    said = (turn.content for turn in request.conversation_history)
    return Addresses.of(
        prepared.context.text, request.query, request.user_prompt, request.system_prompt, *said
    )


def whole(pieces: Generator[Piece, None, Result]) -> tuple[str, Result]:
    """The text of all that the generator yields, and what it returns."""
    text = ""
    while True:
        try:
            text += next(pieces).text
        except StopIteration as end:
            return text, end.value


def finished(
    prepared: PreparedQuery, resources: QueryResources, said: AnswerText, started: float
) -> Answer:
    context, untraced = traced(prepared, resources, said)
    prompt = count_tokens(prepared.messages, resources.tokenizer)
    cites_nothing = _cites_nothing(prepared, said)
    notes = (*prepared.notes, *told_unread(prompt, said.reply), *_notes(said), *untraced)
    return Answer(
        prepared.request,
        said.text,
        prepared.keywords,
        context,
        said.abstention,
        tokens={
            "prompt": prompt,
            **{name: getattr(context, name).tokens for name in shown_tables(prepared.request)},
        },
        usage=usage_of(*prepared.replies, said.reply),
        timings_ms={**prepared.timings, "total": round((time.perf_counter() - started) * 1000, 2)},
        cited=cited_references(context, said.cited),
        removed_citations=prepared.removed_citations + said.cited.removed,
        annotations=tuple(said.cited.annotations),
        cited_report_numbers=tuple(said.cited.reports),
        cites_nothing=cites_nothing,
        notes=(*notes, CITES_NOTHING) if cites_nothing else notes,
        most_calls=prepared.most_calls,
        question_id=resources.account.question,
        cost=resources.account.cost,
        loaded=resources.account.loaded,
    )


def whole_answer(prepared: PreparedQuery, resources: QueryResources) -> AnswerText:
    """Ask the model for the answer, by a call that is not streamed. Raises ModelError where it
    gives none."""
    chat = resources.chat(prepared.request.model)
    assert chat is not None
    reply = chat.complete([ChatRequest("answer", prepared.messages, check=any_text)])[0]
    refuse_failed(reply, count_tokens(prepared.messages, resources.tokenizer))
    text, (abstention, cited) = whole(read_answer(iter([reply.text]), prepared, resources))
    return AnswerText(text, abstention, cited, reply)


def traced(
    prepared: PreparedQuery, resources: QueryResources, said: AnswerText
) -> tuple[Context, tuple[str, ...]]:
    """The context, with the passages that reports which the answer cites rest on; and what is to be
    said of that: an answer that was paid for is not lost where the stores fail after it."""
    context = prepared.context
    if not said.cited.reports or not prepared.request.include_references:
        return context, ()
    from pipeline.query.reports.sources import with_sources

    try:
        return with_sources(context, said.text, said.cited.reports, prepared.request, resources), ()
    except (BudgetError, ModelError, NoSuchModelError, StoreError) as error:
        return context, (f"the passages that the reports rest on were not found ({error})",)


def cited_references(context: Context, cited: Cited) -> tuple[Reference, ...]:
    """Those that the answer cites, in its order, then those that the reports it cites rest on."""
    known = {entry.id: entry for entry in context.references}
    by_report = [
        entry.id
        for number in cited.reports
        for entry in context.references
        if number in entry.reports
    ]
    return tuple(
        known[number] for number in dict.fromkeys([*cited.sources, *by_report]) if number in known
    )


def any_text(text: str) -> str | None:
    """Nothing is wrong with any text; but where there is a check, one that is cut off is not served
    again."""
    return None


def _notes(said: AnswerText) -> tuple[str, ...]:
    ended = said.reply.finish_reason if said.reply else "stop"
    strange = counted(said.cited.addresses, "address", "addresses")
    unsupported = sum(not annotation.supported for annotation in said.cited.annotations)
    return (
        *([ENDS[ended]] if ended in ENDS else []),
        *(
            [f"{strange} that nothing shown holds: taken out of the answer"]
            if said.cited.addresses
            else []
        ),
        *(
            [f"{counted(unsupported, 'citation')} without support: {UNSUPPORTED}"]
            if unsupported
            else []
        ),
    )


def _cites_nothing(prepared: PreparedQuery, said: AnswerText) -> bool:
    """Whether a model's answer is without any source, though it was shown some and asked for
    them."""
    context, request = prepared.context, prepared.request
    asked = said.reply is not None and not said.abstention and not request.system_prompt
    shown = bool(context.references) or len(context.reports.records) > 0
    return asked and shown and not said.cited.sources and not said.cited.records


def _opening(pieces: Iterator[str]) -> str:
    """What comes first, long enough to tell whether it is the sign of no answer."""
    opening = ""
    while _may_decline(opening) and (piece := next(pieces, None)) is not None:
        opening = (opening + piece).lstrip()
    return opening


def _may_decline(opening: str) -> bool:
    said = re.sub(r"[\W_]+", "", opening).casefold()
    return len(opening) < LONGEST_OPENING and any(sign.startswith(said) for sign in _DECLINING)


def usage_of(*replies: ChatReply | None) -> dict[str, int]:
    """Tokens as the endpoint counted them, for calls that were made now."""
    made = [reply for reply in replies if reply is not None and not reply.cached]
    return {
        "calls": len(made),
        "input_tokens": sum(reply.input_tokens for reply in made),
        "output_tokens": sum(reply.output_tokens for reply in made),
    }


def shown_tables(request: QueryRequest) -> tuple[str, ...]:
    """Names of the context's tables that a request has."""
    plain = ("entities", "relationships", "chunks")
    return ("reports", *plain, "claims") if request.with_reports else plain


def evidence_json(context: Context, request: QueryRequest) -> dict[str, Any]:
    """Entities, relationships and text units as they were shown, and references to these; reports
    and claims where the request has them."""
    return {
        **{
            name: [_record(row) for row in getattr(context, name).records]
            for name in shown_tables(request)
        },
        "chunks": [_with_page(chunk) for chunk in context.chunks.records],
        **references_json(context, request),
    }


def references_json(context: Context, request: QueryRequest) -> dict[str, Any]:
    listed = context.references if request.include_references else ()
    return {
        "references": [reference_json(entry, request.include_chunk_content) for entry in listed]
    }


def dropped_json(context: Context, request: QueryRequest) -> dict[str, int]:
    """How many records the budgets had no room for."""
    return {name: getattr(context, name).dropped for name in shown_tables(request)}


def reference_json(entry: Reference, with_content: bool) -> dict[str, Any]:
    return {
        "id": entry.id,
        "chunk_id": entry.chunk_id,
        "document_id": entry.document_id,
        "source": entry.source,
        "title": entry.title,
        "metadata": without_pages(entry.metadata),
        "start": entry.start,
        "end": entry.end,
        **({"page": entry.page} if entry.page else {}),
        **({"reports": list(entry.reports)} if entry.reports else {}),
        **({"content": entry.content} if with_content else {}),
    }


def _with_page(chunk: Passage) -> dict[str, Any]:
    """A text unit with the page it begins on, if its document has pages."""
    page = page_of(chunk.metadata, chunk.start)
    told = {name: value for name, value in _record(chunk).items() if name not in OF_REFERENCE}
    shown = {**told, "metadata": without_pages(chunk.metadata)}
    return shown | {"page": page} if page else shown


def _record(record: Any) -> dict[str, Any]:
    """What a record says, without what a context of its kind does not give it."""
    told = ((name, getattr(record, name), default) for name, default in _defaults(type(record)))
    return {name: _plain(value) for name, value, default in told if value != default}


@cache
def _defaults(kind: type) -> list[tuple[str, Any]]:
    return [(field.name, field.default) for field in fields(kind)]


def _plain(value: Any) -> Any:
    """A number that is none as null, sequences as lists."""
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def evidence_answer(context: Context) -> AnswerText:
    """The notice in its first line, then the best passages and facts, each with its source. All of
    it: --only-need-context, --json."""
    shown = context.references[:PASSAGES]
    numbers = {entry.chunk_id: entry.id for entry in context.references}
    passages = [f"[{entry.id}] {_clipped(entry.content)}" for entry in shown]
    links = context.relationships.records[:FACTS]
    sources = [
        next((numbers[unit] for unit in link.text_unit_ids if unit in numbers), 0) for link in links
    ]
    facts = [_fact(link, number) for link, number in zip(links, sources, strict=True)]
    reports = context.reports.records[:PASSAGES]
    told = [
        f"Report {report.number}: {inert(report.title)}. {_clipped(report.summary)}"
        for report in reports
    ]
    parts = [NOTICE, *told, *passages, *(["Facts:\n" + "\n".join(facts)] if facts else [])]
    text = "\n\n".join(parts)
    # What stores hold is inert here, so each number in brackets is one of this function's own. It
    # needs no comparison: a passage is its own source, and a fact names the text units that it is
    # from.
    marks = re.finditer(r"\[(\d{1,9})\]", text)
    annotations = [
        Annotation(mark.start(), mark.end(), int(mark[1]), supported=True) for mark in marks
    ]
    cited = dict.fromkeys(annotation.number for annotation in annotations)
    return AnswerText(text, "", Cited(sources=list(cited), annotations=annotations))


def _fact(link: Relationship, number: int) -> str:
    """``number``: of the passage that says it; 0 where that is not shown."""
    ends = f"{inert(link.source)} -> {inert(link.target)}"
    mark = f" [{number}]" if number else ""
    return f"- {ends}: {_clipped(link.description)}{mark}"


def _clipped(text: str) -> str:
    flat = inert(" ".join(text.split()))
    return flat if len(flat) <= PASSAGE_LENGTH else f"{flat[:PASSAGE_LENGTH].rstrip()} ..."
