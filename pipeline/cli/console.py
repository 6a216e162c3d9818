"""What plans, steps and runs look like to people."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline.engine.report import LoadCounts, StepReport

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.doctor.finding import Finding
    from pipeline.engine.plan import PlannedStep

MOST_REJECTS = 5
SHOWN_OF_A_REJECT = ["step", "row_id", "reason", "message"]


def describe(report: StepReport) -> str:
    """A finished step in one line."""
    rows = ", ".join(f"{count:,} {table}" for table, count in report.rows.items())
    calls = f"; {report.calls} calls" if report.calls else ""
    known = f"; {report.cached_calls} known" if report.cached_calls else ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in report.reject_reasons.items())
    rejects = f"; {report.rejects} left out ({reasons})" if reasons else ""
    why = f"reused{' ' * 7}" if report.action == "reused" else f"ran ({report.reason})".ljust(13)
    return f"{report.step:<22} {why} {rows}{calls}{known}{rejects}  {report.seconds:.1f} s"


def describe_load(load: LoadCounts, seconds: float) -> str:
    """One line a store."""
    lines = [f"load {store:<17} {_counts(tables)}" for store, tables in load.items()]
    return "\n".join(lines) + f"  {seconds:.1f} s"


def _counts(tables: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{table} " + (", ".join(f"{n:,} {what}" for what, n in counts.items() if n) or "empty")
        for table, counts in tables.items()
    )


def print_plan(planned: "list[PlannedStep]") -> None:
    for entry in planned:
        reason = f": {entry.reason}" if entry.reason else ""
        print(f"{entry.step.id:<22} {entry.action}{reason}")


def print_steps(report: dict[str, Any]) -> None:
    """What became of each step; ``report`` is RunReport's JSON."""
    for step in report["steps"]:
        print(f"{step['step']:<22} {step['action']:<7} {step['reason']}")


def print_findings(findings: "Iterable[Finding]") -> None:
    """A line a finding, and under it, where there is something to do, what."""
    for finding in findings:
        print(f"{finding.verdict:<8} {finding.area:<9} {finding.what:<22} {finding.fact}")
        if finding.action:
            print(f"{'':<41} -> {finding.action}")


def print_report(report: dict[str, Any], rejects: "pd.DataFrame | None" = None) -> None:
    """The end of a run; ``report`` is RunReport's JSON."""
    totals = report["totals"]
    if rejects is not None:
        for step, row, reason, message in rejects[SHOWN_OF_A_REJECT].head(MOST_REJECTS).itertuples(index=False):
            print(f"left out by {step}: {row}: {reason}: {message}")
        if len(rejects) > MOST_REJECTS:
            print(f"... and {len(rejects) - MOST_REJECTS} more, in the table 'rejects'")
    cost = "" if totals["cost"] is None else f", cost {totals['cost']:.4f}"
    calls = f"{totals['calls']} model calls ({totals['cached_calls']} known)"
    tokens = f"{totals['input_tokens']:,} + {totals['output_tokens']:,} tokens{cost}"
    print(f"{calls}, {tokens}, {totals['rejects']} rejects, {totals['seconds']:.1f} s")
    print(f"{report['workflow']}: {report['outcome'].replace('_', ' ')}  {report['message']}".rstrip())
