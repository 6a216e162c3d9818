"""Reports of the last run that are kept although a few of the facts behind them have changed.

A workflow may allow this, to pay for fewer requests at the price of less current reports.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pipeline.contract.registry import LastTables
from pipeline.models.parse.report import Finding, Report

FIELDS = ("title", "summary", "rating", "rating_explanation")
"""The fields of a report apart from its findings."""


@dataclass(frozen=True)
class KeptReport:
    """A report of the last run.

    ``made_of`` has digests of the facts that it was made from. ``changed`` is the share of the old
    and the present facts together that are not in both.
    """

    report: Report
    made_of: tuple[str, ...]
    changed: float = 0.0


@dataclass(frozen=True)
class KeptReports:
    """The reports of the last run. One is kept if less than the share ``within`` has changed."""

    within: float
    reports: Sequence[KeptReport]

    def find_similar(self, made_of: Collection[str]) -> KeptReport | None:
        """Return the report whose facts differ least from these, or None if too much has changed.

        ``made_of`` has digests of the present facts. Of equally similar reports the first is taken.
        """
        shared_facts: Counter[int] = Counter()
        for fact in made_of:
            shared_facts.update(self._numbers_by_fact[fact])
        least_changed = 1.0
        most_similar: KeptReport | None = None
        for number, n_shared in sorted(shared_facts.items()):
            kept = self.reports[number]
            n_facts_of_both = len(made_of) + len(kept.made_of) - n_shared
            changed = 1 - n_shared / n_facts_of_both
            if changed < least_changed:
                least_changed = changed
                most_similar = kept
        if most_similar is None or least_changed >= self.within:
            return None
        return replace(most_similar, changed=least_changed)

    @cached_property
    def _numbers_by_fact(self) -> Mapping[str, list[int]]:
        """The positions of the reports that were made from a fact, by the fact's digest."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, kept in enumerate(self.reports):
            for fact in kept.made_of:
                numbers[fact].append(number)
        return numbers


def read_kept_reports(last: LastTables, within: float) -> KeptReports:
    """Return the reports of the last run that may be kept; none if ``within`` is 0."""
    table = last.tables.get("community_reports") if within else None
    if table is None or "made_of" not in table:
        return KeptReports(within, ())
    has_facts = [made_of is not None for made_of in table["made_of"]]
    rows = table[has_facts].to_dict("records")
    reports = [KeptReport(build_report(row), tuple(row["made_of"])) for row in rows]
    return KeptReports(within, reports)


def build_report(row: Mapping[Any, Any]) -> Report:
    """Return the report that a row of COMMUNITY_REPORTS holds."""
    findings = tuple(Finding(**finding) for finding in row["findings"])
    fields = {name: row[name] for name in FIELDS}
    return Report(**fields, findings=findings)
