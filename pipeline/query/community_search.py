"""Mode ``community``: points from all reports of a level, then an answer from the points (the global answer of Edge et
al. 2024, "From Local to Global", section 2.6: map, then reduce)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pipeline.models.base import ChatReply, ChatRequest, Talk
from pipeline.models.parse_inquiry import parse_points
from pipeline.query.clock import Clock
from pipeline.query.community_choice import REPORT_LIMIT, Chosen, choose_reports
from pipeline.query.keywords import Keywords
from pipeline.query.messages import instructed
from pipeline.query.points import Checked, checked_points, reduced
from pipeline.query.prepared import Prepared
from pipeline.query.replies import refuse_all_failed, told_failures
from pipeline.query.report_context import read_reports, report_context, window_budget
from pipeline.query.report_windows import Window, fewer_windows
from pipeline.query.request import QueryRequest
from pipeline.query.stage import QueryStage

MAP = "community_map"
LAST_CALL = 1


def prepare_community(request: QueryRequest, stage: QueryStage) -> Prepared:
    """The reports in windows. Asks the model which, where the request says so; else nothing.

    Raises NothingLoadedError where no reports are loaded.
    """
    clock = Clock()
    with clock.measure("retrieval"):
        chosen = _chosen(request, stage)
    with clock.measure("context"):
        reports = chosen.reports.assign(number=range(1, len(chosen.reports) + 1))
        most = request.max_calls - len(chosen.replies) - LAST_CALL
        windows = fewer_windows(reports, window_budget(request, stage, MAP), most, stage.tokenizer)
        context = report_context(reports, windows)
    most_calls = request.max_calls if request.dynamic_community_selection else len(windows) + LAST_CALL
    prepared = Prepared(
        request,
        Keywords(),
        context,
        tuple(message for window in windows for message in _map_request(request, stage, window).messages),
        clock.parts,
        "" if windows else "no_room" if len(reports) else "nothing_found",
        chosen.notes,
        most_calls,
        chosen.replies,
    )
    return replace(prepared, inquiry=partial(_inquire, prepared, stage, windows))


def _chosen(request: QueryRequest, stage: QueryStage) -> Chosen:
    chat = stage.chat(request.model)
    if request.dynamic_community_selection and chat is not None:
        return choose_reports(request, stage, chat)
    reports, notes = read_reports(
        request, stage, lambda seen, _: seen.reports_at(request.community_level, REPORT_LIMIT)
    )
    return Chosen(reports, notes)


def _map_request(request: QueryRequest, stage: QueryStage, window: Window) -> ChatRequest:
    return ChatRequest("map", instructed(request, stage, MAP, window.text, request.query), check=_unreadable)


def _inquire(prepared: Prepared, stage: QueryStage, windows: Sequence[Window]) -> Talk[Prepared]:
    replies = yield [_map_request(prepared.request, stage, window) for window in windows]
    refuse_all_failed(replies)
    found = [_points(reply, window) for reply, window in zip(replies, windows, strict=True)]
    return reduced(prepared, stage, found, replies, told_failures(replies, "windows of reports"))


def _points(reply: ChatReply, window: Window) -> Checked:
    return checked_points(parse_points(reply.text) or (), window.citable)


def _unreadable(text: str) -> str | None:
    return None if parse_points(text) is not None else "no list of points in the reply"
