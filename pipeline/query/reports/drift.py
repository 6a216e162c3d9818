"""Mode ``drift``: a first answer from the reports most like the question, then local searches for
the rest.

The answer is from all of them (DRIFT search of Microsoft GraphRAG: dynamic reasoning, flexible
traversal).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np

from pipeline.models.base import ChatReply, ChatRequest, Talk, readable
from pipeline.models.parse.report import PartialAnswer, Point, parse_partial_answer
from pipeline.query import formats
from pipeline.query.context import RESERVE, Context, Numbered, Numbers, Table
from pipeline.query.data_citations import DataCitations
from pipeline.query.local_context import mixed_citable, mixed_context
from pipeline.query.messages import (
    PreparedQuery,
    asked_twice,
    count_tokens,
    instructed,
    refuse_all_failed,
    told_failures,
)
from pipeline.query.reports.windows import (
    CheckedPoints,
    Window,
    checked_points,
    read_reports,
    reduced,
    report_context,
    window_budget,
    windows_of,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, Found, QueryResources
from pipeline.query.search.filtered import allowed
from pipeline.query.search.modes import Keywords, QuestionVectors, find_evidence, nearest_ids
from pipeline.stores.reads import GraphReads, VectorReads, VectorSearch
from pipeline.stores.records import Report

PRIMER, LOCAL = "drift_primer", "drift_local"
LAST_CALL = 1
_CHECK = readable(parse_partial_answer, "no partial answer in the reply")


@dataclass(frozen=True)
class LocalSearch:
    question: str
    context: Context

    @property
    def citable(self) -> DataCitations:
        return mixed_citable(self.context)


@dataclass
class LocalContexts:
    """Contexts as ``local`` has them with ``context: graphrag``, each within max_map_tokens."""

    request: QueryRequest
    resources: QueryResources
    numbers: Numbers
    built: list[Context] = field(default_factory=list)

    def of(self, questions: Sequence[str]) -> tuple[list[LocalSearch], tuple[str, ...]]:
        """A search for each question, without those that find nothing, from one read of the stores;
        and what is to be said of the moment. The question itself is what is searched for."""
        if not questions:
            return [], ()
        vectors = self.resources.embedding.embed(questions)
        found, notes = self.resources.read(
            allowed(self.request, lambda *stores: self._found(questions, vectors, *stores))
        )
        searches = [
            LocalSearch(question, self._context(question, one))
            for question, one in zip(questions, found, strict=True)
        ]
        shown = [search for search in searches if not search.context.empty]
        self.built.extend(search.context for search in shown)
        return shown, notes

    def merged_with(self, first: Context) -> Context:
        """All records that were shown, each once; a window for each call."""
        contexts = [first, *self.built]
        references = {entry.id: entry for context in contexts for entry in context.references}
        return Context(
            _merged([context.entities for context in contexts]),
            _merged([context.relationships for context in contexts]),
            _merged([context.chunks for context in contexts]),
            tuple(references[number] for number in sorted(references)),
            _merged([context.reports for context in contexts]),
            _merged([context.claims for context in contexts]),
            tuple(chain(first.windows, (context.text for context in self.built))),
        )

    def _found(
        self,
        questions: Sequence[str],
        embedded: np.ndarray,
        vectors: VectorReads,
        graph: GraphReads,
    ) -> list[Found]:
        searched = zip(questions, embedded, strict=True)
        n_chunks = self.request.chunk_top_k
        return [
            find_evidence(
                self._local(question),
                QuestionVectors(question, vector, vector, None),
                vectors,
                graph,
                n_chunks,
            )
            for question, vector in searched
        ]

    def _context(self, question: str, found: Found) -> Context:
        evidence, chunks = found
        tokenizer = self.resources.tokenizer
        overhead = count_tokens(
            instructed(self.request, self.resources, LOCAL, "", question), tokenizer
        )
        total = min(self.request.max_total_tokens, self.request.max_map_tokens + overhead + RESERVE)
        local = self._local(question).model_copy(update={"max_total_tokens": total})
        return mixed_context(local, evidence, chunks, tokenizer, overhead, self.numbers)

    def _local(self, question: str) -> QueryRequest:
        return self.request.model_copy(
            update={"mode": "local", "context": "graphrag", "query": question}
        )


def _merged(tables: Sequence[Table[Numbered]]) -> Table[Numbered]:
    """``dropped`` stays a count of all windows together."""
    records: dict[str, Numbered] = {}
    for record in chain.from_iterable(table.records for table in tables):
        records.setdefault(record.id, record)
    ordered = sorted(records.values(), key=lambda record: record.number)
    return Table(
        ordered, "", sum(table.tokens for table in tables), sum(table.dropped for table in tables)
    )


@dataclass
class FollowUps:
    """``question``: the one that is asked already. Questions that differ by case only are the
    same."""

    question: str
    _open: list[tuple[float, int, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._seen.add(self.question.casefold())

    def add(self, answer: PartialAnswer) -> None:
        for place, question in enumerate(answer.follow_ups):
            if question.casefold() not in self._seen:
                self._seen.add(question.casefold())
                self._open.append((-answer.score, place, question))

    def best(self, most: int) -> list[str]:
        """Taken out: those that the best answers have left open, an answer's own in its order, ties
        by text."""
        self._open.sort()
        chosen, self._open = self._open[: max(most, 0)], self._open[max(most, 0) :]
        return [question for _, _, question in chosen]


@dataclass(frozen=True)
class CallBudget:
    """How many a question may take: ``folds`` of the primer, ``searches`` by local search, each
    once more where its reply cannot be read, and the answer's; ``all`` of them."""

    folds: int
    searches: int
    all: int

    @property
    def most(self) -> int:
        return min(2 * (self.folds + self.searches) + LAST_CALL, self.all)

    def left(self, spent: int) -> int:
        return max(self.all - LAST_CALL - spent, 0)


def prepare_drift(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """The reports most like the question, in windows; asks the model nothing.

    Raises NothingLoadedError where no reports are loaded.
    """
    clock = Clock()
    with clock.measure("retrieval"):
        reports, notes = _nearest_reports(request, resources)
    with clock.measure("context"):
        numbers = Numbers()
        reports = numbers.given_to("reports", reports)
        windows = _folds(reports, request, resources)
        context = report_context(reports, windows)
    calls = _calls(request, len(windows))
    prepared = PreparedQuery(
        request,
        Keywords(),
        context,
        tuple(
            message
            for window in windows
            for message in _primer_request(request, resources, window).messages
        ),
        clock.parts,
        "" if windows else "no_room" if len(reports) else "nothing_found",
        notes,
        calls.most,
    )
    return replace(
        prepared, inquiry=partial(_inquire, prepared, resources, windows, calls, numbers)
    )


def _calls(request: QueryRequest, folds: int) -> CallBudget:
    wanted = request.n_depth * request.drift_k_followups
    return CallBudget(folds, min(wanted, request.max_calls - LAST_CALL - folds), request.max_calls)


def _nearest_reports(
    request: QueryRequest, resources: QueryResources
) -> tuple[list[Report], tuple[str, ...]]:
    """The best first."""
    [question] = resources.embedding.embed([request.query])

    def nearest(vectors: VectorReads, graph: GraphReads) -> list[Report]:
        [ids] = nearest_ids([VectorSearch("reports", question, request.primer_reports)], vectors)
        return vectors.reports(ids)

    return read_reports(request, resources, nearest)


def _folds(
    reports: Sequence[Report], request: QueryRequest, resources: QueryResources
) -> list[Window]:
    """The reports dealt out to the folds, so that each has some of the best; of each what one
    window holds."""
    n_folds = min(request.primer_folds, request.max_calls - LAST_CALL, len(reports))
    budget = window_budget(request, resources, PRIMER)
    hands = [reports[start::n_folds] for start in range(n_folds)]
    return [
        window for hand in hands for window in windows_of(hand, budget, resources.tokenizer)[:1]
    ]


def _primer_request(
    request: QueryRequest, resources: QueryResources, window: Window
) -> ChatRequest:
    form = resources.answering_in(formats.PARTIAL_ANSWER, request.model)
    return ChatRequest(
        "primer", instructed(request, resources, PRIMER, window.text, request.query), form, _CHECK
    )


def _search_request(
    request: QueryRequest, resources: QueryResources, search: LocalSearch
) -> ChatRequest:
    asked = instructed(request, resources, LOCAL, search.context.text, search.question)
    return ChatRequest(
        "search", asked, resources.answering_in(formats.PARTIAL_ANSWER, request.model), _CHECK
    )


def _inquire(
    prepared: PreparedQuery,
    resources: QueryResources,
    windows: Sequence[Window],
    calls: CallBudget,
    numbers: Numbers,
) -> Talk[PreparedQuery]:
    request, contexts = prepared.request, LocalContexts(prepared.request, resources, numbers)
    primers = [_primer_request(request, resources, window) for window in windows]
    replies, asked = yield from asked_twice(primers, calls.left(len(primers)))
    refuse_all_failed(replies)
    found, follow_ups = [], FollowUps(request.query)
    for reply, window in zip(replies, windows, strict=True):
        found.append(_read(reply, window.citable, follow_ups))
    told, notes = list(replies), []
    for _ in range(request.n_depth):
        searches, more = contexts.of(
            follow_ups.best(min(request.drift_k_followups, calls.left(len(asked))))
        )
        notes.extend(more)
        if not searches:
            break
        requests = [_search_request(request, resources, search) for search in searches]
        replies, paid = yield from asked_twice(requests, calls.left(len(asked) + len(requests)))
        told.extend(replies)
        asked.extend(paid)
        for reply, search in zip(replies, searches, strict=True):
            found.append(_read(reply, search.citable, follow_ups))
    ready = replace(prepared, context=contexts.merged_with(prepared.context))
    return reduced(
        ready,
        resources,
        found,
        asked,
        (*told_failures(told, "partial answers"), *dict.fromkeys(notes)),
    )


def _read(reply: ChatReply, citable: DataCitations, follow_ups: FollowUps) -> CheckedPoints:
    """The partial answer; what it leaves open is added to the follow-ups."""
    partial_answer = parse_partial_answer(reply.text)
    if partial_answer is None:
        return CheckedPoints((), 0)
    follow_ups.add(partial_answer)
    return checked_points([Point(partial_answer.text, partial_answer.score)], citable)
