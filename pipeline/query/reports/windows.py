"""Reports in windows, each shown to one call, and the scored points that the calls return."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.errors import NothingLoadedError
from pipeline.models.base import ChatReply, Tokenizer
from pipeline.query.context import NO_TABLE, RESERVE, SECTION, Context, Table, cut_rows
from pipeline.query.data_citations import DataCitations, parse_cited_records
from pipeline.query.messages import build_answer_messages, build_call_messages, count_tokens
from pipeline.query.prepared import Abstention, PreparedQuery
from pipeline.query.report_table import (
    HEADER_LINE,
    ReportRow,
    build_report_rows,
    count_frame_tokens,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.query.search.filtered import Work, restrict_to_where
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Report
from pipeline.text.ids import digest

if TYPE_CHECKING:
    from pipeline.models.parse.report import Point

SEED = "community"
Notes = tuple[str, ...]
NO_REPORTS = "query: no community reports in this workspace; run the workflow 'communities'"
POINT_HEADER = ["score", "point"]


@dataclass(frozen=True)
class Window:
    """The reports that one call is shown: their text, its tokens and their numbers."""

    text: str
    tokens: int
    numbers: tuple[int, ...]

    @property
    def citable(self) -> DataCitations:
        return DataCitations.of({"reports": self.numbers})


def shuffle_reports(reports: Iterable[Report]) -> list[Report]:
    """Return the reports in an order that does not depend on their rank.

    So no window holds only the least important reports. The order is reproducible, and adding or
    removing a report does not change the order of the others.
    """
    return sorted(reports, key=lambda report: digest(f"{SEED} {report.id}"))


def pack_windows(reports: Iterable[Report], budget: int, tokenizer: Tokenizer) -> list[Window]:
    """Pack the reports, in their order, into as many windows as needed, each within the budget.

    The reports have numbers already, by which they are cited. One too long for a window is shown by
    its summary, and left out if that is too long too.
    """
    frame = count_frame_tokens(tokenizer)
    rows = build_report_rows(reports, tokenizer)
    return list(_pack(rows, budget - frame, frame))


def pack_at_most(
    reports: Sequence[Report], budget: int, most: int, tokenizer: Tokenizer
) -> list[Window]:
    """Pack the shuffled reports into at most ``most`` windows; leave out the last if needed."""
    windows = pack_windows(shuffle_reports(reports), budget, tokenizer)
    while len(windows) > most:
        reports = reports[: len(reports) * most // len(windows)]
        windows = pack_windows(shuffle_reports(reports), budget, tokenizer)
    return windows


def _pack(rows: Iterable[ReportRow], room: int, frame: int) -> Iterable[Window]:
    """Yield windows of at most ``room`` tokens of rows; ``frame`` tokens are added to each."""
    lines: dict[int, str] = {}
    used = 0
    for row in rows:
        fitting = row.fit(room)
        if fitting is None:
            continue
        line, tokens = fitting
        if used + tokens > room:
            yield _as_window(lines, used + frame)
            lines, used = {}, 0
        lines[row.number] = line
        used += tokens
    if lines:
        yield _as_window(lines, used + frame)


def _as_window(lines: dict[int, str], tokens: int) -> Window:
    table = "".join([HEADER_LINE, *lines.values()])
    return Window(SECTION.format("Reports", table), tokens, tuple(lines))


def read_reports(
    request: QueryRequest, resources: QueryResources, find: Work[list[Report]]
) -> tuple[list[Report], Notes]:
    """Return the reports that ``find`` finds, and notes on the state of the stores.

    ``find`` sees only the documents of the request's ``where``. Raises NothingLoadedError if the
    workspace has no reports at all.
    """

    def read(vectors: VectorReads, graph: GraphReads) -> list[Report]:
        if not vectors.reports_at(0, 1):
            raise NothingLoadedError(NO_REPORTS)
        return restrict_to_where(request, find)(vectors, graph)

    return resources.read(read)


def compute_window_budget(request: QueryRequest, resources: QueryResources, prompt: str) -> int:
    """Return the tokens of evidence for a call with the prompt of this name.

    They are max_map_tokens, or less if max_total_tokens leaves no room for them.
    """
    without_evidence = build_call_messages(request, resources, prompt, "", request.query)
    overhead = count_tokens(without_evidence, resources.tokenizer)
    room = request.max_total_tokens - overhead - RESERVE
    return max(min(request.max_map_tokens, room), 0)


def build_report_context(reports: Sequence[Report], windows: Sequence[Window]) -> Context:
    """Return the context of the reports that the windows show."""
    shown = {number for window in windows for number in window.numbers}
    kept = [report for report in reports if report.number in shown]
    tokens = sum(window.tokens for window in windows)
    table = Table(kept, "", tokens, len(reports) - len(kept))
    texts = tuple(window.text for window in windows)
    return Context(NO_TABLE, NO_TABLE, NO_TABLE, (), table, windows=texts)


@dataclass(frozen=True)
class CheckedPoints:
    """Points whose citations have been checked, and the number of citations removed from them."""

    points: "tuple[Point, ...]"
    removed: int


def check_points(points: "Sequence[Point]", citable: DataCitations) -> CheckedPoints:
    """Return the points with a score above 0, without citations of records not in ``citable``.

    A point without any other text is left out.
    """
    kept: list[Point] = []
    n_removed = 0
    for point in points:
        if point.score > 0:
            text, removed = citable.check(point.description)
            n_removed += removed
            if text.strip():
                kept.append(replace(point, description=text))
    return CheckedPoints(tuple(kept), n_removed)


def prepare_reduction(
    prepared: PreparedQuery,
    resources: QueryResources,
    found: Sequence[CheckedPoints],
    replies: Sequence[ChatReply],
    notes: Sequence[str],
) -> PreparedQuery:
    """Return the question ready for the call for the answer, which is shown the best points.

    They are sorted by score, ties in the order found, and cut to max_total_tokens. The answer may
    cite the records that they cite. ``replies`` are the calls made for them.
    """
    points = _rank_points(found)
    overhead = count_tokens(
        build_answer_messages(prepared.request, resources, ""), resources.tokenizer
    )
    rows = [(f"{point.score:g}", point.description) for point in points]
    room = prepared.request.max_total_tokens - overhead - RESERVE
    table = cut_rows(points, rows, POINT_HEADER, max(room, 0), resources.tokenizer)
    shown = SECTION.format("Points", table.csv) if table.records else ""
    if points:
        abstention: Abstention = "" if shown else "no_room"
    else:
        abstention = "not_in_context"
    all_notes = [*prepared.notes, *notes]
    if table.dropped:
        all_notes.append(f"{table.dropped} points had no room in the last prompt")
    shown_text = "\n".join(point.description for point in table.records)
    n_removed = sum(checked.removed for checked in found)
    return replace(
        prepared,
        messages=build_answer_messages(prepared.request, resources, shown),
        abstention=abstention,
        notes=tuple(dict.fromkeys(all_notes)),
        replies=(*prepared.replies, *replies),
        citable=DataCitations.of(parse_cited_records(shown_text)),
        removed_citations=prepared.removed_citations + n_removed,
        inquiry=None,
    )


def _rank_points(found: Sequence[CheckedPoints]) -> "list[Point]":
    """Return the points, best first; of points with the same text only the best."""
    points = [point for checked in found for point in checked.points]
    points.sort(key=lambda point: -point.score)
    unique: dict[str, Point] = {}
    for point in points:
        unique.setdefault(point.description, point)
    return list(unique.values())
