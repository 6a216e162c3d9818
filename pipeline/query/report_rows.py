"""Reports as rows of the tables that a model is shown."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from pipeline.models.base import Tokenizer
from pipeline.query.context import SECTION, Table, csv_line

REPORT_HEADER = ("id", "title", "rating", "content")
HEADER_LINE = ",".join(REPORT_HEADER) + "\n"


@dataclass(frozen=True)
class ReportRow:
    """``lines``: the report in full and, where there is no room for that, its summary; each with its tokens."""

    number: int
    lines: tuple[tuple[str, int], ...]

    def fitting(self, room: int) -> tuple[str, int] | None:
        return next((line for line in self.lines if line[1] <= room), None)


def report_rows(reports: pd.DataFrame, tokenizer: Tokenizer) -> Iterator[ReportRow]:
    """``reports``: REPORT_COLUMNS and ``number``."""
    columns = ["number", "title", "rating", "content", "summary"]
    for number, title, rating, content, summary in reports[columns].itertuples(index=False):
        texts = [csv_line((number, title, f"{rating:g}", text)) for text in (content, summary)]
        yield ReportRow(number, tuple((text, tokenizer.count(text)) for text in texts))


def frame_tokens(tokenizer: Tokenizer) -> int:
    """Of a table of reports without a row."""
    return tokenizer.count(SECTION.format("Reports", HEADER_LINE))


def report_table(reports: pd.DataFrame, budget: int, tokenizer: Tokenizer) -> Table:
    """The reports, the first first, that the budget has room for: in full, else by their summaries. ``reports`` as of
    ``report_rows``."""
    used = frame_tokens(tokenizer)
    lines: dict[int, str] = {}
    for row in report_rows(reports, tokenizer):
        if line := row.fitting(budget - used):
            lines[row.number] = line[0]
            used += line[1]
    kept = reports[reports["number"].isin(list(lines))].reset_index(drop=True)
    return Table(kept, "".join([HEADER_LINE, *lines.values()]), used if lines else 0, len(reports) - len(kept))
