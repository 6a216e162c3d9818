"""Mode ``drift``: a first answer from the reports most like the question, then local searches for what it leaves open,
then an answer from all (DRIFT search of Microsoft GraphRAG: dynamic reasoning and inference, flexible traversal)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from pipeline.models.base import ChatReply, ChatRequest, Talk
from pipeline.models.parse_inquiry import Point, parse_partial_answer
from pipeline.query.clock import Clock
from pipeline.query.data_citations import DataCitations
from pipeline.query.drift_local import LOCAL, LocalContexts, LocalSearch
from pipeline.query.follow_ups import FollowUps
from pipeline.query.keywords import Keywords
from pipeline.query.messages import instructed
from pipeline.query.numbers import Numbers
from pipeline.query.points import Checked, checked_points, reduced
from pipeline.query.prepared import Prepared
from pipeline.query.replies import refuse_all_failed, told_failures
from pipeline.query.report_context import read_reports, report_context, window_budget
from pipeline.query.report_windows import Window, windows_of
from pipeline.query.request import QueryRequest
from pipeline.query.stage import QueryStage
from pipeline.stores.base import GraphReads, VectorReads

PRIMER = "drift_primer"
LAST_CALL = 1


@dataclass(frozen=True)
class Calls:
    """How many a question may take: ``folds`` of the primer, ``searches`` by local search, and the answer's."""

    folds: int
    searches: int

    @property
    def most(self) -> int:
        return self.folds + self.searches + LAST_CALL


def prepare_drift(request: QueryRequest, stage: QueryStage) -> Prepared:
    """The reports most like the question, in windows; asks the model nothing.

    Raises NothingLoadedError where no reports are loaded.
    """
    clock = Clock()
    with clock.measure("retrieval"):
        reports, notes = _nearest_reports(request, stage)
    with clock.measure("context"):
        numbers = Numbers()
        reports = reports.assign(number=numbers.of("reports", reports["id"].tolist()))
        windows = _folds(reports, request, stage)
        context = report_context(reports, windows)
    calls = _calls(request, len(windows))
    prepared = Prepared(
        request,
        Keywords(),
        context,
        tuple(message for window in windows for message in _primer_request(request, stage, window).messages),
        clock.parts,
        "" if windows else "no_room" if len(reports) else "nothing_found",
        notes,
        calls.most,
    )
    return replace(prepared, inquiry=partial(_inquire, prepared, stage, windows, calls, numbers))


def _calls(request: QueryRequest, folds: int) -> Calls:
    wanted = request.n_depth * request.drift_k_followups
    return Calls(folds, min(wanted, request.max_calls - LAST_CALL - folds))


def _nearest_reports(request: QueryRequest, stage: QueryStage) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The best first."""
    [question] = stage.embedding.embed([request.query])

    def nearest(vectors: VectorReads, graph: GraphReads) -> pd.DataFrame:
        found = vectors.nearest("reports", question, request.primer_reports)
        return vectors.reports([id for id, _ in found])

    return read_reports(request, stage, nearest)


def _folds(reports: pd.DataFrame, request: QueryRequest, stage: QueryStage) -> list[Window]:
    """The reports dealt out to the folds, so that each has some of the best; of each what one window holds."""
    n_folds = min(request.primer_folds, request.max_calls - LAST_CALL, len(reports))
    budget = window_budget(request, stage, PRIMER)
    hands = [reports.iloc[start::n_folds] for start in range(n_folds)]
    return [window for hand in hands for window in windows_of(hand, budget, stage.tokenizer)[:1]]


def _primer_request(request: QueryRequest, stage: QueryStage, window: Window) -> ChatRequest:
    return ChatRequest("primer", instructed(request, stage, PRIMER, window.text, request.query), check=_unreadable)


def _search_request(request: QueryRequest, stage: QueryStage, search: LocalSearch) -> ChatRequest:
    asked = instructed(request, stage, LOCAL, search.context.text, search.question)
    return ChatRequest("search", asked, check=_unreadable)


def _inquire(
    prepared: Prepared, stage: QueryStage, windows: Sequence[Window], calls: Calls, numbers: Numbers
) -> Talk[Prepared]:
    request, contexts = prepared.request, LocalContexts(prepared.request, stage, numbers)
    replies = yield [_primer_request(request, stage, window) for window in windows]
    refuse_all_failed(replies)
    found, follow_ups = [], FollowUps(request.query)
    for reply, window in zip(replies, windows, strict=True):
        found.append(_read(reply, window.citable, follow_ups))
    asked, notes = list(replies), []
    for _ in range(request.n_depth):
        left = calls.most - LAST_CALL - len(asked)
        searches, more = contexts.of(follow_ups.best(min(request.drift_k_followups, left)))
        notes.extend(more)
        if not searches:
            break
        replies = yield [_search_request(request, stage, search) for search in searches]
        asked.extend(replies)
        for reply, search in zip(replies, searches, strict=True):
            found.append(_read(reply, search.citable, follow_ups))
    ready = replace(prepared, context=contexts.merged_with(prepared.context))
    return reduced(ready, stage, found, asked, (*told_failures(asked, "partial answers"), *dict.fromkeys(notes)))


def _read(reply: ChatReply, citable: DataCitations, follow_ups: FollowUps) -> Checked:
    """The partial answer; what it leaves open is added to the follow-ups."""
    partial_answer = parse_partial_answer(reply.text)
    if partial_answer is None:
        return Checked((), 0)
    follow_ups.add(partial_answer)
    return checked_points([Point(partial_answer.text, partial_answer.score)], citable)


def _unreadable(text: str) -> str | None:
    return None if parse_partial_answer(text) is not None else "no partial answer in the reply"
