"""Mode ``community``: an answer from points that the model finds in community reports.

It is the global answer of Edge et al. 2024, "From Local to Global", section 2.6: map, then reduce.
The reports are those of one level, or those that the model rates as relevant.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Talk, readable
from pipeline.models.parse.report import parse_points, parse_ratings
from pipeline.query import formats
from pipeline.query.context import Numbers
from pipeline.query.messages import build_call_messages
from pipeline.query.prepared import Abstention, Messages, PreparedQuery
from pipeline.query.replies import ask_twice, note_failures, refuse_all_failed
from pipeline.query.reports.windows import (
    CheckedPoints,
    Window,
    build_report_context,
    check_points,
    compute_window_budget,
    pack_at_most,
    pack_windows,
    prepare_reduction,
    read_reports,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.search.filtered import restrict_to_where
from pipeline.query.search.keywords import Keywords
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Report

RATE, MAP = "community_rate", "community_map"
_HAS_RATINGS = readable(parse_ratings, "no ratings in the reply")
_HAS_POINTS = readable(parse_points, "no list of points in the reply")
RELEVANT = 1.0
"""The least rating, from 0 to 5, of a relevant report."""
REPORT_LIMIT = 10_000
"""Most reports that are read, those of the greatest weight."""
LAST_CALL, MAP_AND_REDUCE = 1, 2
"""Calls kept for the answer: the last one, or at least one window and the last one."""


@dataclass(frozen=True)
class ReportChoice:
    """The reports to answer from, by weight, with notes and the replies that were paid for."""

    reports: Sequence[Report]
    notes: tuple[str, ...] = ()
    replies: tuple[ChatReply, ...] = ()


@dataclass
class _RatedTree:
    """The state of the search down the tree of communities.

    ``relevant``: relevant reports by id. A report is removed when one of its children is relevant,
    because that is more detailed. It stays if it is among ``uncovered``: one of its children has no
    report, so nothing else covers it. ``unrated``: number of reports without a rating.
    """

    relevant: dict[str, Report] = field(default_factory=dict)
    uncovered: set[str] = field(default_factory=set)
    unrated: int = 0
    notes: list[str] = field(default_factory=list)
    replies: list[ChatReply] = field(default_factory=list)


def choose_reports(
    request: QueryRequest, resources: QueryResources, chat: ChatModel
) -> ReportChoice:
    """Return the most detailed reports, down to ``community_level``, that are rated as relevant.

    Ratings take at most the calls of ``max_calls`` that the answer does not need. A report that is
    not rated for lack of calls counts as relevant, and its children are not read.
    """
    return chat.converse([_choose(request, resources)])[0]


def _choose(request: QueryRequest, resources: QueryResources) -> Talk[ReportChoice]:
    """Rate the reports level by level, from the coarsest; return those chosen."""
    tree = _RatedTree()
    reports, notes = _read_level(0, request, resources)
    for level in range(request.community_level + 1):
        ratings = yield from _rate(reports, request, resources, tree)
        # A report without a rating counts as relevant.
        relevant = [report for report in reports if ratings.get(report.id, RELEVANT) >= RELEVANT]
        parents = {report.parent for report in relevant}
        for parent in parents - tree.uncovered:
            tree.relevant.pop(parent, None)
        children: list[str] = []
        for report in relevant:
            tree.relevant[report.id] = report
            if report.id in ratings:
                children += report.children
        if level == request.community_level or not children:
            break
        reports, more_notes = _read_by_id(children, request, resources)
        notes = (*notes, *more_notes)
        with_report = {report.id for report in reports}
        for report in relevant:
            if not with_report.issuperset(report.children):
                tree.uncovered.add(report.id)
    return _outcome(tree, notes)


def _read_level(
    level: int, request: QueryRequest, resources: QueryResources
) -> tuple[list[Report], tuple[str, ...]]:
    """Return the reports of a level, and notes on the stores."""

    def find(vectors: VectorReads, graph: GraphReads) -> list[Report]:
        return vectors.reports_at(level, REPORT_LIMIT)

    return read_reports(request, resources, find)


def _read_by_id(
    ids: Sequence[str], request: QueryRequest, resources: QueryResources
) -> tuple[list[Report], tuple[str, ...]]:
    """Return the reports with these ids, and notes on the stores."""

    def find(vectors: VectorReads, graph: GraphReads) -> list[Report]:
        return vectors.reports(ids)

    return resources.read(restrict_to_where(request, find))


def _rate(
    reports: Sequence[Report],
    request: QueryRequest,
    resources: QueryResources,
    tree: _RatedTree,
) -> Generator[Sequence[ChatRequest], Sequence[ChatReply], dict[str, float]]:
    """Ask for ratings and return report id -> rating for the reports that were shown.

    All reports of a window whose reply cannot be read count as relevant.
    """
    # Summaries are enough to rate reports, and much shorter.
    numbered = [
        replace(report, number=number, content=report.summary)
        for number, report in enumerate(reports, 1)
    ]
    budget = compute_window_budget(request, resources, RATE)
    windows = pack_windows(numbered, budget, resources.tokenizer)
    calls_left = max(request.max_calls - MAP_AND_REDUCE - len(tree.replies), 0)
    shown = windows[:calls_left]
    form = resources.answering_in(formats.RATINGS, request.model)
    requests: list[ChatRequest] = []
    for window in shown:
        asked = build_call_messages(request, resources, RATE, window.text, request.query)
        requests.append(ChatRequest("rate", asked, form, _HAS_RATINGS))
    replies, paid = yield from ask_twice(requests, calls_left - len(shown))
    refuse_all_failed(replies)
    tree.replies.extend(paid)
    tree.notes.extend(note_failures(replies, "windows of ratings"))
    ratings: dict[int, float] = {}
    for window, reply in zip(shown, replies, strict=True):
        ratings_in_reply = parse_ratings(reply.text)
        for number in window.numbers:
            if ratings_in_reply is None:
                ratings[number] = RELEVANT
            else:
                ratings[number] = ratings_in_reply.get(number, 0.0)
    tree.unrated += len(reports) - len(ratings)
    return {report.id: ratings[report.number] for report in numbered if report.number in ratings}


def _outcome(tree: _RatedTree, notes: Iterable[str]) -> ReportChoice:
    """Return the relevant reports, sorted by weight, rating and id."""
    ranked = sorted(
        tree.relevant.values(), key=lambda report: (-report.weight, -report.rating, report.id)
    )
    all_notes = [*notes, *tree.notes]
    if tree.unrated:
        all_notes.append(f"max_calls left {tree.unrated} reports without a rating")
    return ReportChoice(ranked, tuple(dict.fromkeys(all_notes)), tuple(tree.replies))


def prepare_community(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """Return the question with the chosen reports in windows, one call for each.

    The model is asked to choose if the request has ``dynamic_community_selection``. Raises
    NothingLoadedError if no reports are loaded.
    """
    clock = Clock()
    with clock.measure("retrieval"):
        chosen = _choose_or_read(request, resources)
    with clock.measure("context"):
        reports = Numbers().number_records("reports", chosen.reports)
        most_windows = request.max_calls - len(chosen.replies) - LAST_CALL
        budget = compute_window_budget(request, resources, MAP)
        windows = pack_at_most(reports, budget, most_windows, resources.tokenizer)
        context = build_report_context(reports, windows)
    if request.dynamic_community_selection:
        most_calls = request.max_calls
    else:
        # Each window may be asked for twice.
        most_calls = min(2 * len(windows) + LAST_CALL, request.max_calls)
    if windows:
        abstention: Abstention = ""
    else:
        abstention = "no_room" if len(reports) else "nothing_found"
    prepared = PreparedQuery(
        request,
        Keywords(),
        context,
        _map_messages(request, resources, windows),
        clock.parts,
        abstention,
        chosen.notes,
        most_calls,
        chosen.replies,
    )
    return replace(prepared, inquiry=partial(_inquire, prepared, resources, windows))


def _choose_or_read(request: QueryRequest, resources: QueryResources) -> ReportChoice:
    """Return the reports that the model chooses, or else all of the request's level."""
    chat = resources.chat(request.model)
    if request.dynamic_community_selection and chat is not None:
        return choose_reports(request, resources, chat)
    reports, notes = _read_level(request.community_level, request, resources)
    return ReportChoice(reports, notes)


def _map_messages(
    request: QueryRequest, resources: QueryResources, windows: Sequence[Window]
) -> Messages:
    """Return the messages of all calls for points."""
    all_messages: Messages = ()
    for window in windows:
        all_messages += _map_request(request, resources, window).messages
    return all_messages


def _map_request(request: QueryRequest, resources: QueryResources, window: Window) -> ChatRequest:
    asked = build_call_messages(request, resources, MAP, window.text, request.query)
    form = resources.answering_in(formats.POINTS, request.model)
    return ChatRequest("map", asked, form, _HAS_POINTS)


def _inquire(
    prepared: PreparedQuery, resources: QueryResources, windows: Sequence[Window]
) -> Talk[PreparedQuery]:
    """Ask for the points of each window; return the question ready for the call for the answer."""
    requests = [_map_request(prepared.request, resources, window) for window in windows]
    calls_left = prepared.request.max_calls - len(prepared.replies) - len(windows) - LAST_CALL
    replies, paid = yield from ask_twice(requests, calls_left)
    refuse_all_failed(replies)
    found: list[CheckedPoints] = []
    for reply, window in zip(replies, windows, strict=True):
        found.append(check_points(parse_points(reply.text) or (), window.citable))
    notes = note_failures(replies, "windows of reports")
    return prepare_reduction(prepared, resources, found, paid, notes)
