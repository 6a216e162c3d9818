"""Community reports as rows of a context: in full, or by their summaries if room is short."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.models.base import Tokenizer
from pipeline.query.context import SECTION, Table, format_csv_line
from pipeline.query.marks import inert
from pipeline.stores.records import Report

REPORT_HEADER = ("id", "title", "rating", "content")
HEADER_LINE = ",".join(REPORT_HEADER) + "\n"


@dataclass(frozen=True)
class ReportRow:
    """The lines that can show a report: in full, and by its summary; each with its tokens."""

    number: int
    lines: tuple[tuple[str, int], ...]

    def fit(self, room: int) -> tuple[str, int] | None:
        """Return the first line of at most ``room`` tokens, with its tokens; None if none fits."""
        for line, tokens in self.lines:
            if tokens <= room:
                return line, tokens
        return None


def build_report_rows(reports: Iterable[Report], tokenizer: Tokenizer) -> Iterator[ReportRow]:
    """Yield a row for each of the reports, which have numbers already."""
    for report in reports:
        lines: list[tuple[str, int]] = []
        title = inert(report.title)
        rating = f"{report.rating:g}"
        for text in (report.content, report.summary):
            line = format_csv_line((report.number, title, rating, inert(text)))
            lines.append((line, tokenizer.count(line)))
        yield ReportRow(report.number, tuple(lines))


def count_frame_tokens(tokenizer: Tokenizer) -> int:
    """Return the tokens of a table of reports without rows."""
    return tokenizer.count(SECTION.format("Reports", HEADER_LINE))


def build_report_table(
    reports: Sequence[Report], budget: int, tokenizer: Tokenizer
) -> Table[Report]:
    """Return the table of the reports that fit into the budget, each in full or by its summary.

    The reports have numbers already; earlier ones are preferred. One that does not fit is skipped.
    """
    used = count_frame_tokens(tokenizer)
    lines: dict[int, str] = {}
    for row in build_report_rows(reports, tokenizer):
        fitting = row.fit(budget - used)
        if fitting is not None:
            line, tokens = fitting
            lines[row.number] = line
            used += tokens
    kept = [report for report in reports if report.number in lines]
    text = "".join([HEADER_LINE, *lines.values()])
    return Table(kept, text, used if lines else 0, len(reports) - len(kept))
