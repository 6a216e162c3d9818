"""A run as a page: the values of its templates, and the report in a single file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pipeline.pages.environment import environment, texts, whole_page
from pipeline.pages.words import moment, number, price, span
from pipeline.runs.reports import RunEntry
from pipeline.runs.run_details import RunDetails

CHARTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "took": ("seconds", span),
    "calls": ("calls", number),
    "cost": ("cost", price),
    "rows_written": ("rows_written", number),
    "rejects": ("rejects", number),
}
"""The charts of runs: for each name the field of RunEntry, and the function that formats its
value."""


@dataclass(frozen=True)
class Chart:
    """A chart of several runs.

    ``columns`` has (label, value, value in words, colour), the oldest run first. ``about`` sums
    them up in words; ``most`` is the highest value in words.
    """

    title: str
    about: str
    columns: Sequence[tuple[str, float, str, str]]
    most: str


def report_page(details: RunDetails) -> str:
    """Return the report of a run as one HTML file without scripts or external resources.

    Everything that documents, models or people have written is escaped text in it.
    """
    return whole_page(
        environment(), "report.html.j2", version=version("graphmill"), **shown(details)
    )


def shown(details: RunDetails) -> dict[str, Any]:
    """Return the values for the templates of run.html.j2."""
    return {"details": details, "run_charts": charts_of(details.before)}


def charts_of(runs: Sequence[RunEntry], names: Iterable[str] = CHARTS) -> list[Chart]:
    """Return the charts among ``names`` that have something to show; ``runs`` has the oldest
    first."""
    charts = [_chart(name, runs) for name in names]
    return [chart for chart in charts if chart]


def _chart(name: str, runs: Sequence[RunEntry]) -> Chart | None:
    """Return a chart of the runs, or None if there is nothing to show."""
    field, describe = CHARTS[name]
    values = [float(getattr(entry, field) or 0) for entry in runs]
    if len(runs) < 2 or not any(values):
        return None
    words = texts()["runs"]
    title = words["charts"][name]
    most = describe(max(values))
    about = words["chart_about"].format(
        title=title,
        count=len(runs),
        first=moment(runs[0].began),
        last=moment(runs[-1].began),
        most=most,
        last_value=describe(values[-1]),
    )
    is_one_day = len({entry.began[:10] for entry in runs}) == 1
    is_one_workflow = len({entry.workflow for entry in runs}) == 1
    columns: list[tuple[str, float, str, str]] = []
    for entry, value in zip(runs, values, strict=True):
        # ``began`` is in ISO 8601: the day, then hours and minutes.
        label = entry.began[11:16] if is_one_day else entry.began[:10]
        outcome = words["outcomes"][entry.outcome]
        described = f"{describe(value)}, {outcome}"
        if not is_one_workflow:
            described = f"{entry.workflow}, {described}"
        columns.append((label, value, described, words["kinds"][entry.outcome]))
    return Chart(title, about, columns, most)
