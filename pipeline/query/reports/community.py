"""Mode ``community``: points from the reports of a level, or of those chosen, then an answer from
them.

It is the global answer of Edge et al. 2024, "From Local to Global", section 2.6: map, then reduce.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Talk, readable
from pipeline.models.parse.report import parse_points, parse_ratings
from pipeline.query import formats
from pipeline.query.context import Numbers
from pipeline.query.messages import (
    PreparedQuery,
    asked_twice,
    instructed,
    refuse_all_failed,
    told_failures,
)
from pipeline.query.reports.windows import (
    CheckedPoints,
    Window,
    checked_points,
    fewer_windows,
    read_reports,
    reduced,
    report_context,
    window_budget,
    windows_of,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.search.filtered import allowed
from pipeline.query.search.modes import Keywords
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Report

RATE, MAP = "community_rate", "community_map"
_HAS_RATINGS = readable(parse_ratings, "no ratings in the reply")
_HAS_POINTS = readable(parse_points, "no list of points in the reply")
RELEVANT = 1.0
"""The least rating, of 0 to 5, below which a report is looked at no further."""
REPORT_LIMIT = 10_000
"""Reports read at most, the weightiest."""
LAST_CALL, MAP_AND_REDUCE = 1, 2
"""Calls kept for the answer, at least."""


@dataclass(frozen=True)
class ReportChoice:
    """Reports to answer from, the weightiest first; what is to be said of the choice; what it was
    paid for."""

    reports: Sequence[Report]
    notes: tuple[str, ...] = ()
    replies: tuple[ChatReply, ...] = ()


@dataclass
class _Tree:
    """``relevant``: reports by id. A report leaves it when one of its children is relevant, which
    tells more, unless it is among ``uncovered``: a child of these has no report, and nothing else
    tells of it."""

    relevant: dict[str, Report] = field(default_factory=dict)
    uncovered: set[str] = field(default_factory=set)
    unrated: int = 0
    notes: list[str] = field(default_factory=list)
    replies: list[ChatReply] = field(default_factory=list)


def choose_reports(
    request: QueryRequest, resources: QueryResources, chat: ChatModel
) -> ReportChoice:
    """The most detailed reports, down to ``community_level``, that the model rates as relevant. At
    most ``max_calls`` less those that the answer takes; what is not rated for that counts as
    relevant, and nothing below it is looked at.
    """
    return chat.converse([_choose(request, resources)])[0]


def _choose(request: QueryRequest, resources: QueryResources) -> Talk[ReportChoice]:
    tree = _Tree()
    reports, notes = read_reports(
        request, resources, lambda seen, _: seen.reports_at(0, REPORT_LIMIT)
    )
    for level in range(request.community_level + 1):
        ratings = yield from _rated(reports, request, resources, tree)
        relevant = [report for report in reports if ratings.get(report.id, RELEVANT) >= RELEVANT]
        for parent in {report.parent for report in relevant} - tree.uncovered:
            tree.relevant.pop(parent, None)
        tree.relevant |= {report.id: report for report in relevant}
        below = [child for report in relevant if report.id in ratings for child in report.children]
        if level == request.community_level or not below:
            break
        reports, more = resources.read(_below(request, below))
        notes = (*notes, *more)
        told = {report.id for report in reports}
        tree.uncovered |= {report.id for report in relevant if not told.issuperset(report.children)}
    return _outcome(tree, notes)


def _rated(
    reports: Sequence[Report], request: QueryRequest, resources: QueryResources, tree: _Tree
) -> Generator[Sequence[ChatRequest], Sequence[ChatReply], dict[str, float]]:
    """Rating of each report that was rated, by id. A window whose reply cannot be read is not held
    against it."""
    numbered = [
        replace(report, number=number, content=report.summary)
        for number, report in enumerate(reports, 1)
    ]
    windows = windows_of(numbered, window_budget(request, resources, RATE), resources.tokenizer)
    left = max(request.max_calls - MAP_AND_REDUCE - len(tree.replies), 0)
    asked = windows[:left]
    form = resources.answering_in(formats.RATINGS, request.model)
    requests = [
        ChatRequest(
            "rate",
            instructed(request, resources, RATE, window.text, request.query),
            form,
            _HAS_RATINGS,
        )
        for window in asked
    ]
    replies, paid = yield from asked_twice(requests, left - len(asked))
    refuse_all_failed(replies)
    tree.replies.extend(paid)
    tree.notes.extend(told_failures(replies, "windows of ratings"))
    rated: dict[int, float] = {}
    for window, reply in zip(asked, replies, strict=True):
        found = parse_ratings(reply.text)
        rated |= {
            number: RELEVANT if found is None else found.get(number, 0.0)
            for number in window.numbers
        }
    tree.unrated += len(reports) - len(rated)
    return {report.id: rated[report.number] for report in numbered if report.number in rated}


def _below(
    request: QueryRequest, ids: Sequence[str]
) -> Callable[[VectorReads, GraphReads], list[Report]]:
    return allowed(request, lambda vectors, _: vectors.reports(ids))


def _outcome(tree: _Tree, notes: Iterable[str]) -> ReportChoice:
    ranked = sorted(
        tree.relevant.values(), key=lambda report: (-report.weight, -report.rating, report.id)
    )
    unrated = [f"max_calls left {tree.unrated} reports without a rating"] if tree.unrated else []
    return ReportChoice(
        ranked, tuple(dict.fromkeys([*notes, *tree.notes, *unrated])), tuple(tree.replies)
    )


def prepare_community(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """The reports in windows. Asks the model which, where the request says so; else nothing.

    Raises NothingLoadedError where no reports are loaded.
    """
    clock = Clock()
    with clock.measure("retrieval"):
        chosen = _chosen(request, resources)
    with clock.measure("context"):
        reports = Numbers().given_to("reports", chosen.reports)
        most = request.max_calls - len(chosen.replies) - LAST_CALL
        windows = fewer_windows(
            reports, window_budget(request, resources, MAP), most, resources.tokenizer
        )
        context = report_context(reports, windows)
    most_calls = (
        request.max_calls if request.dynamic_community_selection else 2 * len(windows) + LAST_CALL
    )
    prepared = PreparedQuery(
        request,
        Keywords(),
        context,
        tuple(
            message
            for window in windows
            for message in _map_request(request, resources, window).messages
        ),
        clock.parts,
        "" if windows else "no_room" if len(reports) else "nothing_found",
        chosen.notes,
        min(most_calls, request.max_calls),
        chosen.replies,
    )
    return replace(prepared, inquiry=partial(_inquire, prepared, resources, windows))


def _chosen(request: QueryRequest, resources: QueryResources) -> ReportChoice:
    chat = resources.chat(request.model)
    if request.dynamic_community_selection and chat is not None:
        return choose_reports(request, resources, chat)
    reports, notes = read_reports(
        request, resources, lambda seen, _: seen.reports_at(request.community_level, REPORT_LIMIT)
    )
    return ReportChoice(reports, notes)


def _map_request(request: QueryRequest, resources: QueryResources, window: Window) -> ChatRequest:
    form = resources.answering_in(formats.POINTS, request.model)
    return ChatRequest(
        "map", instructed(request, resources, MAP, window.text, request.query), form, _HAS_POINTS
    )


def _inquire(
    prepared: PreparedQuery, resources: QueryResources, windows: Sequence[Window]
) -> Talk[PreparedQuery]:
    requests = [_map_request(prepared.request, resources, window) for window in windows]
    left = prepared.request.max_calls - len(prepared.replies) - len(windows) - LAST_CALL
    replies, paid = yield from asked_twice(requests, left)
    refuse_all_failed(replies)
    found = [_points(reply, window) for reply, window in zip(replies, windows, strict=True)]
    return reduced(prepared, resources, found, paid, told_failures(replies, "windows of reports"))


def _points(reply: ChatReply, window: Window) -> CheckedPoints:
    return checked_points(parse_points(reply.text) or (), window.citable)
