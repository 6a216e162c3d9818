"""Mode ``drift``: a first answer from reports, then local searches for what it leaves open.

The reports are those most similar to the question. The last answer is made from all partial
answers (DRIFT search of Microsoft GraphRAG: dynamic reasoning, flexible traversal).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from pipeline.models.base import ChatReply, ChatRequest, Talk, readable
from pipeline.models.parse.report import PartialAnswer, Point, parse_partial_answer
from pipeline.query import formats
from pipeline.query.context import RESERVE, Context, Numbered, Numbers, Reference, Table
from pipeline.query.data_citations import DataCitations
from pipeline.query.messages import build_call_messages, count_tokens
from pipeline.query.mixed_context import build_mixed_context, list_citable
from pipeline.query.prepared import Abstention, Messages, PreparedQuery
from pipeline.query.replies import ask_twice, note_failures, refuse_all_failed
from pipeline.query.reports.windows import (
    CheckedPoints,
    Window,
    build_report_context,
    check_points,
    compute_window_budget,
    pack_windows,
    prepare_reduction,
    read_reports,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.search.evidence import EvidenceAndUnits
from pipeline.query.search.filtered import restrict_to_where
from pipeline.query.search.keywords import Keywords
from pipeline.query.search.modes import QuestionVectors, find_evidence, find_nearest_ids
from pipeline.stores.reads import GraphReads, VectorReads, VectorSearch
from pipeline.stores.records import Attribute, Report

PRIMER, LOCAL = "drift_primer", "drift_local"
LAST_CALL = 1
_CHECK = readable(parse_partial_answer, "no partial answer in the reply")


@dataclass(frozen=True)
class LocalSearch:
    """A follow-up question and the context that a local search has found for it."""

    question: str
    context: Context

    @property
    def citable(self) -> DataCitations:
        return list_citable(self.context)


@dataclass
class LocalContexts:
    """The contexts of local searches, each within max_map_tokens.

    They are built as in mode ``local`` with ``context: graphrag``. ``numbers`` are shared by all
    contexts of the question; ``built`` collects the contexts.
    """

    request: QueryRequest
    resources: QueryResources
    numbers: Numbers
    built: list[Context] = field(default_factory=list)

    def search(self, questions: Sequence[str]) -> tuple[list[LocalSearch], tuple[str, ...]]:
        """Search for each question; return those that found something, and notes on the stores.

        The stores are read once. The question itself is searched for, without keywords.
        """
        if not questions:
            return [], ()
        embedded = self.resources.embedding.embed(questions)

        def find(vectors: VectorReads, graph: GraphReads) -> list[EvidenceAndUnits]:
            return self._find_all(questions, embedded, vectors, graph)

        found, notes = self.resources.read(restrict_to_where(self.request, find))
        searches: list[LocalSearch] = []
        for question, found_for_it in zip(questions, found, strict=True):
            context = self._build_context(question, found_for_it)
            if not context.empty:
                searches.append(LocalSearch(question, context))
                self.built.append(context)
        return searches, notes

    def merged_with(self, first: Context) -> Context:
        """Return all records of ``first`` and the built contexts, each once, a window per call."""
        contexts = [first, *self.built]
        references: dict[int, Reference] = {}
        # A dictionary keeps each value once, in order.
        attributes: dict[Attribute, None] = {}
        for context in contexts:
            references |= {entry.id: entry for entry in context.references}
            attributes |= dict.fromkeys(context.attributes)
        windows_of_searches = [context.text for context in self.built]
        return Context(
            entities=_merge_tables([context.entities for context in contexts]),
            relationships=_merge_tables([context.relationships for context in contexts]),
            chunks=_merge_tables([context.chunks for context in contexts]),
            references=tuple(references[number] for number in sorted(references)),
            reports=_merge_tables([context.reports for context in contexts]),
            claims=_merge_tables([context.claims for context in contexts]),
            windows=(*first.windows, *windows_of_searches),
            attributes=list(attributes),
        )

    def _find_all(
        self,
        questions: Sequence[str],
        embedded: np.ndarray,
        vectors: VectorReads,
        graph: GraphReads,
    ) -> list[EvidenceAndUnits]:
        """Return the evidence and text units for each question."""
        n_chunks = self.request.chunk_top_k
        found: list[EvidenceAndUnits] = []
        for question, vector in zip(questions, embedded, strict=True):
            request = self._as_local(question)
            searched = QuestionVectors(question, vector, low=vector, high=None)
            found.append(find_evidence(request, searched, vectors, graph, n_chunks))
        return found

    def _build_context(self, question: str, found: EvidenceAndUnits) -> Context:
        evidence, chunks = found
        tokenizer = self.resources.tokenizer
        without_evidence = build_call_messages(self.request, self.resources, LOCAL, "", question)
        overhead = count_tokens(without_evidence, tokenizer)
        # So much that max_map_tokens are left for the evidence.
        needed = self.request.max_map_tokens + overhead + RESERVE
        total = min(self.request.max_total_tokens, needed)
        local = self._as_local(question).model_copy(update={"max_total_tokens": total})
        return build_mixed_context(local, evidence, chunks, tokenizer, overhead, self.numbers)

    def _as_local(self, question: str) -> QueryRequest:
        """Return the request for a local search for this question."""
        changes = {"mode": "local", "context": "graphrag", "query": question}
        return self.request.model_copy(update=changes)


def _merge_tables(tables: Sequence[Table[Numbered]]) -> Table[Numbered]:
    """Return one table with each record once, by number; tokens and ``dropped`` are sums."""
    records: dict[str, Numbered] = {}
    tokens = 0
    dropped = 0
    for table in tables:
        for record in table.records:
            records.setdefault(record.id, record)
        tokens += table.tokens
        dropped += table.dropped
    by_number = sorted(records.values(), key=lambda record: record.number)
    return Table(by_number, "", tokens, dropped)


@dataclass
class FollowUps:
    """Follow-up questions that partial answers leave open, each once.

    ``question`` is the one asked already. Questions that differ only in case are the same.
    """

    question: str
    _open: list[tuple[float, int, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._seen.add(self.question.casefold())

    def add(self, answer: PartialAnswer) -> None:
        """Add the new follow-up questions of a partial answer."""
        for place, question in enumerate(answer.follow_ups):
            if question.casefold() not in self._seen:
                self._seen.add(question.casefold())
                self._open.append((-answer.score, place, question))

    def best(self, most: int) -> list[str]:
        """Remove and return at most ``most`` questions, those of the best answers first.

        The questions are sorted by their answer's score, their place in the answer and their text.
        """
        self._open.sort()
        n_chosen = max(most, 0)
        chosen = self._open[:n_chosen]
        self._open = self._open[n_chosen:]
        return [question for _, _, question in chosen]


@dataclass(frozen=True)
class CallBudget:
    """The calls that a question may take.

    ``folds``: calls of the primer. ``searches``: calls after local searches. ``all``: limit on all
    calls. Each call may be repeated once, and the last call makes the answer.
    """

    folds: int
    searches: int
    all: int

    @property
    def most(self) -> int:
        """The most calls that can be made."""
        return min(2 * (self.folds + self.searches) + LAST_CALL, self.all)

    def left(self, spent: int) -> int:
        """Return the calls left before the last one, after ``spent`` calls."""
        return max(self.all - LAST_CALL - spent, 0)


def prepare_drift(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """Return the question with the most similar reports in windows, one call of the primer each.

    The model is not asked yet. Raises NothingLoadedError if no reports are loaded.
    """
    clock = Clock()
    with clock.measure("retrieval"):
        reports, notes = _nearest_reports(request, resources)
    with clock.measure("context"):
        numbers = Numbers()
        reports = numbers.number_records("reports", reports)
        windows = _fold_windows(reports, request, resources)
        context = build_report_context(reports, windows)
    calls = _call_budget(request, len(windows))
    if windows:
        abstention: Abstention = ""
    else:
        abstention = "no_room" if len(reports) else "nothing_found"
    prepared = PreparedQuery(
        request,
        Keywords(),
        context,
        _primer_messages(request, resources, windows),
        clock.parts,
        abstention,
        notes,
        calls.most,
    )
    inquire = partial(_inquire, prepared, resources, windows, calls, numbers)
    return replace(prepared, inquiry=inquire)


def _primer_messages(
    request: QueryRequest, resources: QueryResources, windows: Sequence[Window]
) -> Messages:
    """Return the messages of all calls of the primer."""
    all_messages: Messages = ()
    for window in windows:
        all_messages += _primer_request(request, resources, window).messages
    return all_messages


def _call_budget(request: QueryRequest, folds: int) -> CallBudget:
    wanted = request.n_depth * request.drift_k_followups
    possible = request.max_calls - LAST_CALL - folds
    return CallBudget(folds, min(wanted, possible), request.max_calls)


def _nearest_reports(
    request: QueryRequest, resources: QueryResources
) -> tuple[list[Report], tuple[str, ...]]:
    """Return the reports most similar to the question, best first, and notes on the stores."""
    [question] = resources.embedding.embed([request.query])

    def nearest(vectors: VectorReads, graph: GraphReads) -> list[Report]:
        [ids] = find_nearest_ids(
            [VectorSearch("reports", question, request.primer_reports)], vectors
        )
        return vectors.reports(ids)

    return read_reports(request, resources, nearest)


def _fold_windows(
    reports: Sequence[Report], request: QueryRequest, resources: QueryResources
) -> list[Window]:
    """Deal the reports out to the folds and return the first window of each fold.

    So each fold has some of the best reports.
    """
    n_folds = min(request.primer_folds, request.max_calls - LAST_CALL, len(reports))
    budget = compute_window_budget(request, resources, PRIMER)
    windows: list[Window] = []
    for start in range(n_folds):
        fold = reports[start::n_folds]
        windows += pack_windows(fold, budget, resources.tokenizer)[:1]
    return windows


def _primer_request(
    request: QueryRequest, resources: QueryResources, window: Window
) -> ChatRequest:
    asked = build_call_messages(request, resources, PRIMER, window.text, request.query)
    form = resources.answering_in(formats.PARTIAL_ANSWER, request.model)
    return ChatRequest("primer", asked, form, _CHECK)


def _search_request(
    request: QueryRequest, resources: QueryResources, search: LocalSearch
) -> ChatRequest:
    asked = build_call_messages(request, resources, LOCAL, search.context.text, search.question)
    form = resources.answering_in(formats.PARTIAL_ANSWER, request.model)
    return ChatRequest("search", asked, form, _CHECK)


def _inquire(
    prepared: PreparedQuery,
    resources: QueryResources,
    windows: Sequence[Window],
    calls: CallBudget,
    numbers: Numbers,
) -> Talk[PreparedQuery]:
    """Ask the primer, then search for follow-ups in ``n_depth`` rounds at most.

    Return the question ready for the call for the answer.
    """
    request = prepared.request
    contexts = LocalContexts(request, resources, numbers)
    follow_ups = FollowUps(request.query)
    found: list[CheckedPoints] = []

    primers = [_primer_request(request, resources, window) for window in windows]
    replies, paid = yield from ask_twice(primers, calls.left(len(primers)))
    refuse_all_failed(replies)
    for reply, window in zip(replies, windows, strict=True):
        found.append(_read_partial_answer(reply, window.citable, follow_ups))

    all_replies, all_paid = list(replies), list(paid)
    store_notes: list[str] = []
    for _ in range(request.n_depth):
        most = min(request.drift_k_followups, calls.left(len(all_paid)))
        searches, notes = contexts.search(follow_ups.best(most))
        store_notes.extend(notes)
        if not searches:
            break
        requests = [_search_request(request, resources, search) for search in searches]
        calls_left = calls.left(len(all_paid) + len(requests))
        replies, paid = yield from ask_twice(requests, calls_left)
        all_replies.extend(replies)
        all_paid.extend(paid)
        for reply, search in zip(replies, searches, strict=True):
            found.append(_read_partial_answer(reply, search.citable, follow_ups))

    ready = replace(prepared, context=contexts.merged_with(prepared.context))
    notes = (*note_failures(all_replies, "partial answers"), *dict.fromkeys(store_notes))
    return prepare_reduction(ready, resources, found, all_paid, notes)


def _read_partial_answer(
    reply: ChatReply, citable: DataCitations, follow_ups: FollowUps
) -> CheckedPoints:
    """Return the partial answer as a point, and add its follow-up questions to ``follow_ups``."""
    partial_answer = parse_partial_answer(reply.text)
    if partial_answer is None:
        return CheckedPoints((), 0)
    follow_ups.add(partial_answer)
    point = Point(partial_answer.text, partial_answer.score)
    return check_points([point], citable)
