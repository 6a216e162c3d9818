"""A run as a page: what its templates are given, and the report that is one file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pipeline.pages.environment import environment, texts, whole_page
from pipeline.pages.words import moment, number, price, span
from pipeline.runs.nights import Night
from pipeline.runs.reports import RunEntry

CHARTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "took": ("seconds", span),
    "calls": ("calls", number),
    "cost": ("cost", price),
    "rows_written": ("rows_written", number),
    "rejects": ("rejects", number),
}
"""Name -> what of a run it shows, and how that is told."""


@dataclass(frozen=True)
class Chart:
    """``columns``: (label, value, in words, colour), the oldest run first; ``about``: what they
    come to, in words; ``most``: the highest of them."""

    title: str
    about: str
    columns: Sequence[tuple[str, float, str, str]]
    most: str


def report_page(night: Night) -> str:
    """One file: no script, nothing that is loaded. Whatever documents, models or people have
    written is text in it."""
    return whole_page(environment(), "report.html.j2", version=version("graphmill"), **shown(night))


def shown(night: Night) -> dict[str, Any]:
    """What the templates of night.html.j2 are given."""
    return {"night": night, "night_charts": charts_of(night.before)}


def charts_of(runs: Sequence[RunEntry], names: Iterable[str] = CHARTS) -> list[Chart]:
    """Of runs, the oldest first: those of CHARTS that have something to draw."""
    return list(filter(None, (_chart(name, runs) for name in names)))


def _chart(name: str, runs: Sequence[RunEntry]) -> Chart | None:
    """None where there is nothing to draw."""
    field, told = CHARTS[name]
    values = [float(getattr(entry, field) or 0) for entry in runs]
    if len(runs) < 2 or not any(values):
        return None
    said, title = texts()["nights"], texts()["nights"]["charts"][name]
    about = said["chart_about"].format(
        title=title, count=len(runs), first=moment(runs[0].began), last=moment(runs[-1].began),
        most=told(max(values)),
        last_value=told(values[-1]),
    )  # fmt: skip
    one_day, one_workflow = (
        len({entry.began[:10] for entry in runs}) == 1,
        len({entry.workflow for entry in runs}) == 1,
    )
    columns = [
        (
            entry.began[11:16] if one_day else entry.began[:10],
            value,
            (
                f"{'' if one_workflow else f'{entry.workflow}, '}{told(value)},"
                f" {said['outcomes'][entry.outcome]}"
            ),
            said["kinds"][entry.outcome],
        )
        for entry, value in zip(runs, values, strict=True)
    ]
    return Chart(title, about, columns, told(max(values)))
