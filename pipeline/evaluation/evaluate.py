"""Evaluation of retrieval: every question is asked in every mode, without a chat model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.errors import StoreError, UsageError, counted
from pipeline.evaluation.questions import (
    Gold,
    Kind,
    Passage,
    Question,
    Targets,
    compute_metrics,
    find_gold,
    metric_names,
    rank_gold,
)
from pipeline.evaluation.results import RESULT_COLUMNS, Evaluation, Setup, SkippedQuestion
from pipeline.query.resources import QueryResources
from pipeline.settings.query_options import QuerySettings
from pipeline.stores.base import Advanced, Live, silent
from pipeline.stores.reads import VectorStore

QueryData = Callable[..., Mapping[str, Any]]
"""A function that takes a question and options of a request, such as ``Project.query_data``."""
MODEL_TIME = ("keywords", "rerank", "model", "total")
"""Timings of a query that are no retrieval: those of models, and the total."""
EXCERPT = 240
"""Characters of a passage that are kept for the page."""
TABLES = ("prompt", "entities", "relationships", "chunks")
"""Tokens of a query in the order of TOKEN_COLUMNS."""


@dataclass(frozen=True)
class SearchTarget:
    """The project that is evaluated; ``defaults`` are the query options of its settings."""

    query_data: QueryData
    resources: QueryResources
    vectors: VectorStore
    defaults: QuerySettings


def evaluate(
    questions: Sequence[Question], setup: Setup, searched: SearchTarget, advanced: Advanced = silent
) -> Evaluation:
    """Ask every question without unknown gold in every mode, and return the results.

    ``chunk_top_k`` is that of the settings, or the greatest k if that is larger. Raises UsageError
    if all questions have unknown gold, or if a model that the setup needs is not configured;
    StoreError if the stores are loaded meanwhile.
    """
    _refuse_unconfigured(setup, searched)
    answerable = [question for question in questions if question.answerable]
    if not answerable:
        raise UsageError("eval: no question is answerable; --answers measures refusals")
    live = searched.vectors.live()
    found = look_up_gold(answerable, searched.vectors)
    retrievals = _Retrievals(setup, searched, found.targets)
    columns = [*RESULT_COLUMNS, *metric_names(setup.ks, setup.budget is not None)]
    results = pd.DataFrame(retrievals.rows(found.known, advanced), columns=columns)
    refuse_new_load(live, searched.vectors)
    passages = pd.DataFrame.from_dict(
        retrievals.seen, orient="index", columns=["document_id", "excerpt"]
    )
    notes = list(retrievals.notes)
    n_unanswerable = len(questions) - len(answerable)
    if n_unanswerable:
        not_asked = counted(n_unanswerable, "question")
        notes.append(f"{not_asked} not answerable: nothing to find, so in no figure")
    return Evaluation(
        setup=setup,
        stores=describe_load(live),
        chunk_top_k=retrievals.chunk_top_k,
        questions=found.known,
        left_out=found.left_out,
        targets=found.targets,
        results=results,
        documents=found.documents,
        passages=passages.sort_index(),
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True)
class GoldInStores:
    """The gold of some questions as the stores have it.

    ``known``: questions all of whose gold is in the stores. ``left_out``: the other questions.
    ``documents``: source and title by id.
    """

    known: tuple[Question, ...]
    left_out: tuple[SkippedQuestion, ...]
    targets: Targets
    documents: pd.DataFrame


def look_up_gold(questions: Sequence[Question], store: VectorStore) -> GoldInStores:
    """Return the gold of the questions. Raises UsageError if all questions have unknown gold."""
    with store.reading() as vectors:
        names = [(document.id, document.source, document.title) for document in vectors.documents()]
        documents = pd.DataFrame(names, columns=["id", "source", "title"])
        targets, unknown = find_gold(questions, documents, vectors)
    known: list[Question] = []
    left_out: list[Question] = []
    for question in questions:
        if any(gold in unknown for gold in question.gold):
            left_out.append(question)
        else:
            known.append(question)
    if not known:
        fact = _describe_unknown(left_out[0], unknown)
        raise UsageError(f"eval: no question's gold is in the stores; {fact}")
    skipped = tuple(SkippedQuestion.of(question, unknown) for question in left_out)
    return GoldInStores(tuple(known), skipped, targets, documents.set_index("id").sort_index())


def refuse_new_load(live: Live | None, store: VectorStore) -> None:
    """Raise StoreError if the stores show another load than ``live``."""
    if store.live() != live:
        raise StoreError(
            "eval: the stores were loaded while the questions were asked; run it again"
        )


def describe_load(live: Live | None) -> dict[str, Any]:
    """Return workflow, version and embedding model of a load as JSON."""
    if live is None:
        return {}
    return {
        "workflow": live.workflow,
        "version": live.version,
        "embedding": dict(live.embedding),
    }


def _refuse_unconfigured(setup: Setup, searched: SearchTarget) -> None:
    """Raise UsageError if the setup needs a model that is not configured."""
    if setup.keywords and searched.resources.chat(searched.defaults.model) is None:
        raise UsageError(
            "eval: no chat model is configured to ask for keywords; set OPENAI_API_KEY, or do"
            " without"
        )
    if setup.rerank and searched.resources.reranker is None:
        raise UsageError(
            "eval: no reranker is configured; name one in models.rerank, or do without"
        )


def _describe_unknown(question: Question, unknown: Mapping[Gold, str]) -> str:
    """Return the first unknown gold of the question with its line and the reason."""
    first_unknown = next(gold for gold in question.gold if gold in unknown)
    reason = unknown[first_unknown]
    return f"line {question.line}: {first_unknown.kind} '{first_unknown.name}': {reason}"


class _Retrievals:
    """A series of queries for one evaluation.

    ``seen`` collects chunk id -> (document id, excerpt), ``notes`` the notes of all queries.
    """

    def __init__(self, setup: Setup, searched: SearchTarget, targets: Targets) -> None:
        self.setup = setup
        self.searched = searched
        self.targets = targets
        self.chunk_top_k = max(searched.defaults.chunk_top_k, *setup.ks)
        self.seen: dict[str, tuple[str, str]] = {}
        self.notes: list[str] = []

    def rows(self, questions: Sequence[Question], advanced: Advanced) -> list[list[Any]]:
        """Return a row for each mode and question: RESULT_COLUMNS, then the metrics."""
        rows: list[list[Any]] = []
        expected = len(self.setup.modes) * len(questions)
        # An endpoint embeds all questions in few calls; the queries then find the vectors cached.
        self.searched.resources.embedding.embed([question.text for question in questions])
        for mode in self.setup.modes:
            # The first query of a mode is asked once more before, so that its time counts warm.
            self.query(questions[0], mode)
            for question in questions:
                rows.append(self.row(question, mode))
                advanced("queries", len(rows), expected)
        return rows

    def query(self, question: Question, mode: str, **options: int) -> Mapping[str, Any]:
        """Return what a mode finds.

        Unless the setup asks the chat model for keywords, the question itself is both kinds of
        keywords, as in a query without a chat model.
        """
        keywords = None if self.setup.keywords else (question.text,)
        return self.searched.query_data(
            question.text,
            mode=mode,
            chunk_top_k=self.chunk_top_k,
            hl_keywords=keywords,
            ll_keywords=keywords,
            enable_rerank=self.setup.rerank,
            **options,
        )

    def row(self, question: Question, mode: str) -> list[Any]:
        """Ask a question in a mode; return its row of results."""
        found = self.query(question, mode)
        gold_ranks = self.gold_ranks(question, found)
        ranks_in_budget = None
        if self.setup.budget is not None:
            within_budget = self.query(question, mode, max_total_tokens=self.setup.budget)
            ranks_in_budget = self.gold_ranks(question, within_budget)
        self.notes.extend(found["notes"])
        chunk_ids: list[str] = []
        for chunk in found["chunks"]:
            id = chunk["id"]
            chunk_ids.append(id)
            if id not in self.seen:
                excerpt = _make_excerpt(chunk["content"])
                self.seen[id] = (chunk["document_id"], excerpt)
        timings = found["timings_ms"]
        latency_ms = sum(ms for part, ms in timings.items() if part not in MODEL_TIME)
        values = compute_metrics(gold_ranks, self.setup.ks, ranks_in_budget)
        return [
            mode,
            question.id,
            question.type,
            gold_ranks,
            chunk_ids,
            *(found["tokens"][table] for table in TABLES),
            found["dropped"]["chunks"],
            latency_ms,
            *values.values(),
        ]

    def gold_ranks(self, question: Question, found: Mapping[str, Any]) -> list[float]:
        """Return the ranks of the question's gold among the chunks that were found."""
        ranking = [Passage(chunk["id"], chunk["document_id"]) for chunk in found["chunks"]]
        gold_ids: list[tuple[Kind, frozenset[str]]] = [
            (gold.kind, self.targets[gold]) for gold in question.gold
        ]
        return rank_gold(gold_ids, ranking)


def _make_excerpt(content: str) -> str:
    """Return the beginning of a passage on one line."""
    # White space, which is dropped here, may be half of the text.
    words = content[: 2 * EXCERPT].split()
    return " ".join(words)[:EXCERPT]
