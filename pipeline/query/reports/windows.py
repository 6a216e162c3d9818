"""Reports in windows, each what one call is shown, and the scored points that the calls bring."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.errors import NothingLoadedError
from pipeline.models.base import ChatReply, Tokenizer
from pipeline.query.context import (
    NO_TABLE,
    RESERVE,
    SECTION,
    Context,
    Table,
    csv_line,
    cut,
)
from pipeline.query.data_citations import DataCitations, cited_records
from pipeline.query.marks import inert
from pipeline.query.messages import Abstention, PreparedQuery, count_tokens, instructed, messages
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.query.search.filtered import Work, allowed
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Report
from pipeline.text.ids import digest

if TYPE_CHECKING:
    from pipeline.models.parse.report import Point

REPORT_HEADER = ("id", "title", "rating", "content")
HEADER_LINE = ",".join(REPORT_HEADER) + "\n"
SEED = "community"
Notes = tuple[str, ...]
NO_REPORTS = "query: no community reports in this workspace; run the workflow 'communities'"
POINT_HEADER = ["score", "point"]


@dataclass(frozen=True)
class ReportRow:
    """``lines``: the report in full and, where there is no room for that, its summary; each with
    its tokens."""

    number: int
    lines: tuple[tuple[str, int], ...]

    def fitting(self, room: int) -> tuple[str, int] | None:
        return next((line for line in self.lines if line[1] <= room), None)


def report_rows(reports: Iterable[Report], tokenizer: Tokenizer) -> Iterator[ReportRow]:
    """``reports``: numbered."""
    for report in reports:
        shown = report.number, inert(report.title), f"{report.rating:g}"
        texts = [csv_line((*shown, inert(text))) for text in (report.content, report.summary)]
        yield ReportRow(report.number, tuple((text, tokenizer.count(text)) for text in texts))


def frame_tokens(tokenizer: Tokenizer) -> int:
    """Of a table of reports without a row."""
    return tokenizer.count(SECTION.format("Reports", HEADER_LINE))


def report_table(reports: Sequence[Report], budget: int, tokenizer: Tokenizer) -> Table[Report]:
    """The reports, the first first, that the budget has room for: in full, else by their summaries.
    ``reports`` as of ``report_rows``."""
    used = frame_tokens(tokenizer)
    lines: dict[int, str] = {}
    for row in report_rows(reports, tokenizer):
        if line := row.fitting(budget - used):
            lines[row.number] = line[0]
            used += line[1]
    kept = [report for report in reports if report.number in lines]
    return Table(
        kept,
        "".join([HEADER_LINE, *lines.values()]),
        used if lines else 0,
        len(reports) - len(kept),
    )


@dataclass(frozen=True)
class Window:
    text: str
    tokens: int
    numbers: tuple[int, ...]

    @property
    def citable(self) -> DataCitations:
        return DataCitations.of({"reports": self.numbers})


def shuffled(reports: Iterable[Report]) -> list[Report]:
    """In an order that has nothing to do with rank, so that no window holds only what matters
    least. It is the same for the same reports, and one more or less leaves that of the others."""
    return sorted(reports, key=lambda report: digest(f"{SEED} {report.id}"))


def windows_of(reports: Iterable[Report], budget: int, tokenizer: Tokenizer) -> list[Window]:
    """The reports in their order, ``number`` being what they are cited by, in as many windows as it
    takes, each within the budget. One too long for a window is shown by its summary; left out where
    that is too long too."""
    return list(
        _packed(
            report_rows(reports, tokenizer),
            budget - frame_tokens(tokenizer),
            frame_tokens(tokenizer),
        )
    )


def fewer_windows(
    reports: Sequence[Report], budget: int, most: int, tokenizer: Tokenizer
) -> list[Window]:
    """At most so many windows over the shuffled reports; those at the end are left out where it
    takes more."""
    windows = windows_of(shuffled(reports), budget, tokenizer)
    while len(windows) > most:
        reports = reports[: len(reports) * most // len(windows)]
        windows = windows_of(shuffled(reports), budget, tokenizer)
    return windows


def _packed(rows: Iterable[ReportRow], room: int, frame: int) -> Iterable[Window]:
    lines: dict[int, str] = {}
    used = 0
    for row in rows:
        line = row.fitting(room)
        if line is None:
            continue
        if used + line[1] > room:
            yield _window(lines, used + frame)
            lines, used = {}, 0
        lines[row.number] = line[0]
        used += line[1]
    if lines:
        yield _window(lines, used + frame)


def _window(lines: dict[int, str], tokens: int) -> Window:
    return Window(
        SECTION.format("Reports", "".join([HEADER_LINE, *lines.values()])), tokens, tuple(lines)
    )


def read_reports(
    request: QueryRequest, resources: QueryResources, find: Work[list[Report]]
) -> tuple[list[Report], Notes]:
    """Return what ``find`` finds among the reports that the request may see, and what is to be said
    of the moment.

    Raises NothingLoadedError where the workspace has none at all.
    """

    def read(vectors: VectorReads, graph: GraphReads) -> list[Report]:
        if not vectors.reports_at(0, 1):
            raise NothingLoadedError(NO_REPORTS)
        return allowed(request, find)(vectors, graph)

    return resources.read(read)


def window_budget(request: QueryRequest, resources: QueryResources, prompt: str) -> int:
    """Tokens of evidence that a call with this prompt may have: max_map_tokens, within
    max_total_tokens."""
    overhead = count_tokens(
        instructed(request, resources, prompt, "", request.query), resources.tokenizer
    )
    return max(min(request.max_map_tokens, request.max_total_tokens - overhead - RESERVE), 0)


def report_context(reports: Sequence[Report], windows: Sequence[Window]) -> Context:
    """Those of the reports that a window shows."""
    shown = {number for window in windows for number in window.numbers}
    kept = [report for report in reports if report.number in shown]
    table = Table(kept, "", sum(window.tokens for window in windows), len(reports) - len(kept))
    return Context(
        NO_TABLE, NO_TABLE, NO_TABLE, (), table, windows=tuple(window.text for window in windows)
    )


@dataclass(frozen=True)
class CheckedPoints:
    """Points without citations of what their call was not shown, and how many of those there
    were."""

    points: "tuple[Point, ...]"
    removed: int


def checked_points(points: "Sequence[Point]", citable: DataCitations) -> CheckedPoints:
    """Points with a score of 0 are left out."""
    checked = [(point, *citable.checked(point.description)) for point in points if point.score > 0]
    kept = tuple(replace(point, description=text) for point, text, _ in checked if text.strip())
    return CheckedPoints(kept, sum(count for _, _, count in checked))


def reduced(
    prepared: PreparedQuery,
    resources: QueryResources,
    found: Sequence[CheckedPoints],
    replies: Sequence[ChatReply],
    notes: Sequence[str],
) -> PreparedQuery:
    """Ready for the answer: the points by their scores, ties in the order found, as many as
    max_total_tokens has room for. The answer may cite what they cite."""
    points = _ranked(found)
    overhead = count_tokens(messages(prepared.request, resources, ""), resources.tokenizer)
    rows = [(f"{point.score:g}", point.description) for point in points]
    room = prepared.request.max_total_tokens - overhead - RESERVE
    table = cut(points, rows, POINT_HEADER, max(room, 0), resources.tokenizer)
    shown = SECTION.format("Points", table.csv) if table.records else ""
    unshown = [f"{table.dropped} points had no room in the last prompt"] if table.dropped else []
    return replace(
        prepared,
        messages=messages(prepared.request, resources, shown),
        abstention=_abstention(points, shown),
        notes=tuple(dict.fromkeys((*prepared.notes, *notes, *unshown))),
        replies=(*prepared.replies, *replies),
        citable=DataCitations.of(
            cited_records("\n".join(point.description for point in table.records))
        ),
        removed_citations=prepared.removed_citations + sum(one.removed for one in found),
        inquiry=None,
    )


def _ranked(found: Sequence[CheckedPoints]) -> "list[Point]":
    """Each text once, by its best score."""
    unique: dict[str, Point] = {}
    for point in sorted(
        (point for one in found for point in one.points), key=lambda point: -point.score
    ):
        unique.setdefault(point.description, point)
    return list(unique.values())


def _abstention(points: "Sequence[Point]", shown: str) -> Abstention:
    if not points:
        return "not_in_context"
    return "" if shown else "no_room"
