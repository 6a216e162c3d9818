"""Reports that stand though a little of what they were made of has changed: freshness given up for
price, where a workflow says so."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipeline.contract.registry import LastTables
from pipeline.models.parse.report import Finding, Report

PARTS = ("title", "summary", "rating", "rating_explanation")
"""Of a report, beside its findings."""


@dataclass(frozen=True)
class KeptReport:
    """``made_of``: digests of the facts that it was made of; ``changed``: the share of them, and of
    those of now, that is not in both."""

    report: Report
    made_of: tuple[str, ...]
    changed: float = 0.0


@dataclass(frozen=True)
class KeptReports:
    """Those of the last run, and below which share of change one stands."""

    within: float
    reports: Sequence[KeptReport]

    def of(self, made_of: Collection[str]) -> KeptReport | None:
        """The report of which least has changed, if that is little enough; of two the first
        one's."""
        shared = Counter(number for fact in made_of for number in self._numbers[fact])
        found = (
            (_changed(both, len(made_of), len(self.reports[n].made_of)), n)
            for n, both in shared.items()
        )
        share, number = min(found, default=(1.0, 0))
        if share >= self.within:
            return None
        return KeptReport(self.reports[number].report, self.reports[number].made_of, share)

    @cached_property
    def _numbers(self) -> Mapping[str, list[int]]:
        """Fact -> the reports that were made of it."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, kept in enumerate(self.reports):
            for fact in kept.made_of:
                numbers[fact].append(number)
        return numbers


def kept_reports(last: LastTables, within: float) -> KeptReports:
    """``within``: 0 keeps none."""
    there = last.tables.get("community_reports") if within else None
    if there is None or "made_of" not in there:
        return KeptReports(within, ())
    rows = there[[made_of is not None for made_of in there["made_of"]]].to_dict("records")
    return KeptReports(within, [KeptReport(_report(row), tuple(row["made_of"])) for row in rows])


def _report(row: Mapping[Any, Any]) -> Report:
    findings = tuple(Finding(**finding) for finding in row["findings"])
    return Report(**{name: row[name] for name in PARTS}, findings=findings)


def _changed(both: int, one: int, other: int) -> float:
    return 1 - both / (one + other - both)
