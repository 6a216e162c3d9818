"""Ask every question in every mode, with no chat model, and measure what was retrieved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.errors import StoreError, UsageError
from pipeline.evaluation.questions import (
    Gold,
    Passage,
    Question,
    Targets,
    find_gold,
    metrics,
    names,
    ranks,
)
from pipeline.evaluation.results import RESULT_COLUMNS, Evaluation, Setup, SkippedQuestion
from pipeline.query.resources import QueryResources
from pipeline.settings.query_options import QuerySettings
from pipeline.stores.base import Advanced, silent
from pipeline.stores.reads import VectorStore

QueryData = Callable[..., Mapping[str, Any]]
"""A question and the options of a request -> what was found, as ``Project.query_data`` gives it."""
MODEL_TIME = ("keywords", "rerank", "model", "total")
"""Parts of a query's timings that are a model's, not retrieval's, and their sum."""
EXCERPT = 240


@dataclass(frozen=True)
class SearchTarget:
    """What the questions are asked of. ``defaults``: what a query has by the settings."""

    query_data: QueryData
    resources: QueryResources
    vectors: VectorStore
    defaults: QuerySettings


def evaluate(
    questions: Sequence[Question], setup: Setup, searched: SearchTarget, advanced: Advanced = silent
) -> Evaluation:
    """Every question that has no unknown gold, in every mode. Raises UsageError where there is none
    such, or where a model is to be asked that there is none of, StoreError when the stores are
    loaded meanwhile.

    ``chunk_top_k`` is that of the settings, or the greatest k, where that is more.
    """
    _refuse_unconfigured(setup, searched)
    live = searched.vectors.live()
    with searched.vectors.reading() as vectors:
        rows = [(document.id, document.source, document.title) for document in vectors.documents()]
        documents = pd.DataFrame(rows, columns=["id", "source", "title"])
        targets, unknown = find_gold(questions, documents, vectors)
    known = [question for question in questions if unknown.keys().isdisjoint(question.gold)]
    left_out = [question for question in questions if not unknown.keys().isdisjoint(question.gold)]
    if not known:
        raise UsageError(
            f"eval: no question's gold is in the stores; {_first(left_out[0], unknown)}"
        )
    retrievals = _Retrievals(setup, searched, targets)
    results = pd.DataFrame(
        retrievals.rows(known, advanced),
        columns=[*RESULT_COLUMNS, *names(setup.ks, setup.budget is not None)],
    )
    if searched.vectors.live() != live:
        raise StoreError(
            "eval: the stores were loaded while the questions were asked; run it again"
        )
    return Evaluation(
        setup,
        (
            {"workflow": live.workflow, "version": live.version, "embedding": dict(live.embedding)}
            if live
            else {}
        ),
        retrievals.chunk_top_k,
        tuple(known),
        tuple(SkippedQuestion.of(question, unknown) for question in left_out),
        targets,
        results,
        documents.set_index("id").sort_index(),
        pd.DataFrame.from_dict(
            retrievals.seen, orient="index", columns=["document_id", "excerpt"]
        ).sort_index(),
        tuple(dict.fromkeys(retrievals.notes)),
    )


def _refuse_unconfigured(setup: Setup, searched: SearchTarget) -> None:
    if setup.keywords and searched.resources.chat(searched.defaults.model) is None:
        raise UsageError(
            "eval: no chat model is configured to ask for keywords; set OPENAI_API_KEY, or do"
            " without"
        )
    if setup.rerank and searched.resources.reranker is None:
        raise UsageError(
            "eval: no reranker is configured; name one in models.rerank, or do without"
        )


def _first(question: Question, unknown: Mapping[Gold, str]) -> str:
    gold = next(gold for gold in question.gold if gold in unknown)
    return f"line {question.line}: {gold.kind} '{gold.name}': {unknown[gold]}"


class _Retrievals:
    """Asks, and keeps what it has seen: chunk id -> document, excerpt."""

    def __init__(self, setup: Setup, searched: SearchTarget, targets: Targets) -> None:
        self.setup, self.searched, self.targets = setup, searched, targets
        self.chunk_top_k = max(searched.defaults.chunk_top_k, *setup.ks)
        self.seen: dict[str, tuple[str, str]] = {}
        self.notes: list[str] = []

    def rows(self, questions: Sequence[Question], advanced: Advanced) -> list[list[Any]]:
        """One for each mode and question: RESULT_COLUMNS, and the metrics."""
        rows, expected = [], len(self.setup.modes) * len(questions)
        texts = [question.text for question in questions]
        self.searched.resources.embedding.embed(texts)  # an endpoint: all in few calls
        for mode in self.setup.modes:
            self.data(questions[0], mode)  # warms up
            for question in questions:
                rows.append(self.row(question, mode))
                advanced("queries", len(rows), expected)
        return rows

    def data(self, question: Question, mode: str, **options: int) -> Mapping[str, Any]:
        """The question itself is both kinds of keywords, as in a query without a chat model."""
        itself = None if self.setup.keywords else (question.text,)
        return self.searched.query_data(
            question.text,
            mode=mode,
            chunk_top_k=self.chunk_top_k,
            hl_keywords=itself,
            ll_keywords=itself,
            enable_rerank=self.setup.rerank,
            **options,
        )

    def row(self, question: Question, mode: str) -> list[Any]:
        found = self.data(question, mode)
        met = self.ranks(question, found)
        budget = self.setup.budget
        shown = (
            None
            if budget is None
            else self.ranks(question, self.data(question, mode, max_total_tokens=budget))
        )
        self.notes.extend(found["notes"])
        self.seen |= {
            chunk["id"]: (
                chunk["document_id"],
                " ".join(chunk["content"][: 2 * EXCERPT].split())[:EXCERPT],
            )
            for chunk in found["chunks"]
            if chunk["id"] not in self.seen
        }
        tokens = found["tokens"]
        return [
            mode,
            question.id,
            question.type,
            met,
            [chunk["id"] for chunk in found["chunks"]],
            *(tokens[part] for part in ("prompt", "entities", "relationships", "chunks")),
            found["dropped"]["chunks"],
            sum(ms for part, ms in found["timings_ms"].items() if part not in MODEL_TIME),
            *metrics(met, self.setup.ks, shown).values(),
        ]

    def ranks(self, question: Question, found: Mapping[str, Any]) -> list[float]:
        """Of the question's gold, among the chunks that its prompt shows."""
        ranking = [Passage(chunk["id"], chunk["document_id"]) for chunk in found["chunks"]]
        return ranks([(gold.kind, self.targets[gold]) for gold in question.gold], ranking)
