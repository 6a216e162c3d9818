"""Reports in windows: each is what one call is shown."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from pipeline.models.base import Tokenizer
from pipeline.query.context import SECTION
from pipeline.query.data_citations import DataCitations
from pipeline.query.report_rows import HEADER_LINE, ReportRow, frame_tokens, report_rows
from pipeline.text import digest

SEED = "community"


@dataclass(frozen=True)
class Window:
    text: str
    tokens: int
    numbers: tuple[int, ...]

    @property
    def citable(self) -> DataCitations:
        return DataCitations.of({"reports": self.numbers})


def shuffled(reports: pd.DataFrame) -> pd.DataFrame:
    """In an order that has nothing to do with rank, so that no window holds only what matters least. It is the same for
    the same reports, and one more or less leaves that of the others."""
    places = [digest(f"{SEED} {id}") for id in reports["id"]]
    return reports.assign(place=places).sort_values("place").drop(columns="place").reset_index(drop=True)


def windows_of(reports: pd.DataFrame, budget: int, tokenizer: Tokenizer) -> list[Window]:
    """The reports in their order, ``number`` being what they are cited by, in as many windows as it takes, each within
    the budget. One too long for a window is shown by its summary; left out where that is too long too."""
    return list(_packed(report_rows(reports, tokenizer), budget - frame_tokens(tokenizer), frame_tokens(tokenizer)))


def fewer_windows(reports: pd.DataFrame, budget: int, most: int, tokenizer: Tokenizer) -> list[Window]:
    """At most so many windows over the shuffled reports; those at the end are left out where it takes more."""
    windows = windows_of(shuffled(reports), budget, tokenizer)
    while len(windows) > most:
        reports = reports.head(len(reports) * most // len(windows))
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
    return Window(SECTION.format("Reports", "".join([HEADER_LINE, *lines.values()])), tokens, tuple(lines))
