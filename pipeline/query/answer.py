"""A question's way through the query stage: keywords, evidence, context, prompt, answer."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.errors import ModelError, UsageError
from pipeline.models.base import ChatModel, ChatRequest, EmbeddingModel, Tokenizer
from pipeline.prompts import Placeholders, Prompt
from pipeline.query.context import Context, Reference, build_context, ranked_chunks
from pipeline.query.evidence import Evidence
from pipeline.query.evidence_text import evidence_text
from pipeline.query.keywords import Keywords, find_keywords
from pipeline.query.request import QueryRequest
from pipeline.query.retrieve import embed_question, retrieve
from pipeline.stores.base import CHUNK_COLUMNS, GraphStore, VectorStore

PLACEHOLDERS = Placeholders(("context",), ("response_type", "user_prompt"))
EMPTY = Keywords((), ())


Found = tuple[Evidence, pd.DataFrame]
"""Evidence, and the chunks to show."""

Read = Callable[[Callable[[VectorStore, GraphStore], Found]], tuple[Found, tuple[str, ...]]]
"""Does all reads of a query at one moment of the stores; and what is to be said of the moment."""


@dataclass(frozen=True)
class QueryStage:
    """What it takes to answer. ``chat`` is None where no chat model is configured."""

    read: Read
    embedding: EmbeddingModel
    chat: ChatModel | None
    tokenizer: Tokenizer
    prompt: Callable[[str], Prompt]


@dataclass(frozen=True)
class Prepared:
    """Everything before the model is asked."""

    request: QueryRequest
    keywords: Keywords
    context: Context
    prompt: str
    timings: dict[str, float]
    abstained: bool = False
    notes: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[dict[str, str], ...]:
        system = ({"role": "system", "content": self.prompt},) if self.prompt else ()
        return (*system, {"role": "user", "content": self.request.query})


@dataclass(frozen=True)
class Answer:
    """``removed_citations``: references the model cited that it was not shown. ``notes``: what those who run the stores
    should know of them."""

    request: QueryRequest
    text: str
    keywords: Keywords
    context: Context
    abstained: bool
    tokens: dict[str, int]
    timings_ms: dict[str, float]
    removed_citations: int = 0
    notes: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.context.references

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.request.mode,
            "question": self.request.query,
            "keywords": {"high": list(self.keywords.high), "low": list(self.keywords.low)},
            "answer": self.text,
            "abstained": self.abstained,
            **evidence_json(self.context),
            "tokens": self.tokens,
            "timings_ms": self.timings_ms,
            "dropped": {
                "entities": self.context.entities.dropped,
                "relationships": self.context.relationships.dropped,
                "chunks": self.context.chunks.dropped,
            },
            "removed_citations": self.removed_citations,
            "notes": list(self.notes),
        }


@dataclass
class Clock:
    """Milliseconds per named part."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.parts[part] = round((time.perf_counter() - started) * 1000, 2)


def prepare(request: QueryRequest, stage: QueryStage) -> Prepared:
    """Find the evidence and build the prompt. Makes one model call at most, for the keywords."""
    clock = Clock()
    with clock.measure("keywords"):
        needs_keywords = request.mode not in ("naive", "graph", "bypass")
        keywords = find_keywords(request, stage.chat, stage.prompt("extract_keywords")) if needs_keywords else EMPTY
    with clock.measure("retrieval"):
        (evidence, chunks), notes = _find(request, keywords, stage)
    with clock.measure("context"):
        template = stage.prompt("answer_chunks" if request.mode == "naive" else "answer_graph")
        empty_prompt = _render(template, request, "")
        overhead = stage.tokenizer.count(empty_prompt) + stage.tokenizer.count(request.query)
        context = build_context(request, evidence, chunks, stage.tokenizer, overhead)
    bypass = request.mode == "bypass"
    prompt = "" if bypass else _render(template, request, context.text)
    abstained = context.empty and not bypass
    return Prepared(request, keywords, context, prompt, clock.parts, abstained, notes)


def answer(request: QueryRequest, stage: QueryStage) -> Answer:
    """Raises UsageError for ``bypass`` without a chat model, ModelError where the model gives no answer."""
    started = time.perf_counter()
    prepared = prepare(request, stage)
    clock = Clock(prepared.timings)
    with clock.measure("model"):
        text, fixed = fixed_answer(prepared, stage), True
        if text is None:
            text, fixed = _ask(prepared, stage.chat), False
    text, removed = (text, 0) if fixed else check_citations(text, prepared.context)
    return finished(prepared, stage, text, started, removed)


def fixed_answer(prepared: Prepared, stage: QueryStage) -> str | None:
    """The answer where no model is to be asked: the context, the prompt, the evidence, or that nothing was found."""
    request = prepared.request
    if request.only_need_context:
        return prepared.context.text
    if request.only_need_prompt:
        return "\n\n".join(message["content"] for message in prepared.messages)
    if prepared.abstained:
        return stage.prompt("no_context").render().strip()
    if stage.chat is None and request.mode == "bypass":
        raise UsageError("query: mode bypass asks the chat model alone, and none is configured; set OPENAI_API_KEY")
    return evidence_text(prepared.context) if stage.chat is None else None


def finished(prepared: Prepared, stage: QueryStage, text: str, started: float, removed: int) -> Answer:
    context = prepared.context
    return Answer(
        prepared.request,
        text,
        prepared.keywords,
        context,
        prepared.abstained,
        tokens={
            "prompt": sum(stage.tokenizer.count(message["content"]) for message in prepared.messages),
            "entities": context.entities.tokens,
            "relationships": context.relationships.tokens,
            "chunks": context.chunks.tokens,
        },
        timings_ms={**prepared.timings, "total": round((time.perf_counter() - started) * 1000, 2)},
        removed_citations=removed,
        notes=prepared.notes,
    )


def check_citations(text: str, context: Context) -> tuple[str, int]:
    """The text without citations of references it was not shown, and how many those were."""
    shown = {str(reference.id) for reference in context.references}
    if not shown:
        return text, 0
    cited = [number for citation in _CITATION.findall(text) for number in _NUMBER.findall(citation)]
    checked = _CITATION.sub(lambda match: _with_shown(match[0], shown), text)
    return checked, sum(number not in shown for number in cited)


def evidence_json(context: Context) -> dict[str, Any]:
    """The structured part of an answer; NaN and arrays as JSON has them."""
    chunks = context.chunks.records.drop(columns=["title", "tokens", "metadata"], errors="ignore")
    return {
        "entities": _records(context.entities.records),
        "relationships": _records(context.relationships.records),
        "chunks": _records(chunks),
        "references": [
            {"id": entry.id, "document_id": entry.document_id, "source": entry.source} for entry in context.references
        ],
    }


_CITATION = re.compile(r"(?: |(?<!\w))\[\d+(?:, ?\d+)*\]")
_NUMBER = re.compile(r"\d+")


def _with_shown(citation: str, shown: set[str]) -> str:
    """``[1]`` or ``[1, 2]`` with the numbers that were shown; nothing, not even the space before, without any."""
    numbers = _NUMBER.findall(citation)
    kept = [number for number in numbers if number in shown]
    if kept == numbers:
        return citation
    return f"{citation.partition('[')[0]}[{', '.join(kept)}]" if kept else ""


def _find(request: QueryRequest, keywords: Keywords, stage: QueryStage) -> tuple[Found, tuple[str, ...]]:
    if request.mode == "bypass":
        return (Evidence(), pd.DataFrame(columns=CHUNK_COLUMNS)), ()
    question = embed_question(request, keywords, stage.embedding)

    def find(vectors: VectorStore, graph: GraphStore) -> Found:
        evidence = retrieve(request, question, vectors, graph, stage.embedding)
        return evidence, vectors.chunks(ranked_chunks(evidence, request.chunk_top_k), question.question)

    return stage.read(find)


def _render(template: Prompt, request: QueryRequest, context: str) -> str:
    template.check(PLACEHOLDERS)
    return template.render(context=context, response_type=request.response_type, user_prompt=request.user_prompt)


def _ask(prepared: Prepared, chat: ChatModel | None) -> str:
    assert chat is not None
    reply = chat.complete([ChatRequest("answer", prepared.messages)])[0]
    if reply.reason:
        raise ModelError(f"query: the chat model gave no answer ({reply.reason}: {reply.message}); ask again")
    return reply.text


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    lists = [column for column in ("text_unit_ids", "keywords") if column in frame]
    plain = frame.assign(**{column: frame[column].map(list) for column in lists})
    rows = plain.astype(object).where(plain.notna(), None).to_dict("records") if len(plain) else []
    return [{str(name): value for name, value in row.items()} for row in rows]
