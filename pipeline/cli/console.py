"""What plans, steps and runs look like to people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipeline.engine.run_report import LoadCounts, StepReport
from pipeline.errors import counted

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.doctor.finding import Finding
    from pipeline.engine.bill.forecast import Forecast
    from pipeline.runs.gc import GcReport

KEPT_UNREAD = "kept_unread"
MOST_REJECTS = 5
ORDER = (
    "documents", "chunks", "entities", "relationships", "sources", "reports", "claims", "nodes",
    "edges", "communities",
    "inserted", "updated", "deleted", "unchanged",
)  # fmt: skip
BILL_HEADER = (
    f"{'step':<22} {'action':<14} {'rows':>8} {'known':>8} {'calls':>15} {'tokens in':>19}"
    f" {'tokens out':>19}  {'cost':<19} expected"
)
NOT_CONVERTED = {"not_converted": "could not be converted"}
"""What people read for a field of the report."""
SHOWN_OF_A_REJECT = ["step", "row_id", "reason", "message"]


def describe(report: StepReport) -> str:
    """A finished step in one line."""
    kept = report.reject_reasons.get(KEPT_UNREAD, 0)
    reasons = told(
        {reason: count for reason, count in report.reject_reasons.items() if reason != KEPT_UNREAD}
    )
    did = [
        told(report.rows),
        f"files: {_conversions(report)}" if report.conversions else "",
        counted(report.calls, "call") if report.calls else "",
        f"{report.cached_calls:,} known" if report.cached_calls else "",
        f"{report.rejects - kept:,} left out ({reasons})" if reasons else "",
        f"{kept:,} kept of the last run" if kept else "",
        f"not read: {told(report.not_read)}" if report.not_read else "",
        f"decided: {told(report.decided_reasons)}" if report.decided_reasons else "",
        f"{report.recovered:,} recovered" if report.recovered else "",
    ]
    peak = f"  {report.peak_mb:,.0f} MB" if report.peak_mb is not None else ""
    why = (f"{report.action} ({report.reason})" if report.reason else report.action).ljust(13)
    return f"{report.step:<22} {why} {'; '.join(filter(None, did))}  {report.seconds:.1f} s{peak}"


def _conversions(report: StepReport) -> str:
    """Return "3 converted, 2 could not be converted"."""
    named = {NOT_CONVERTED.get(what, what): count for what, count in report.conversions.items()}
    return told(named)


def in_order(counts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The stores' tables as they are loaded, all else by name: a run and a look at its report say
    the same."""
    places = {name: place for place, name in enumerate(ORDER)}
    return sorted(counts.items(), key=lambda count: (places.get(count[0], len(ORDER)), count[0]))


def told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in in_order(counts))


def describe_load(load: LoadCounts, seconds: float) -> str:
    """One line a store."""
    lines = [f"load {store:<17} {_counts(tables)}" for store, tables in in_order(load)]
    return "\n".join(lines) + f"  {seconds:.1f} s"


def _counts(tables: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{table} {told({what: n for what, n in counts.items() if n}) or 'empty'}"
        for table, counts in in_order(tables)
    )


def print_forecast(
    forecasts: "list[Forecast]", totals: Mapping[str, Any], notes: Iterable[str]
) -> None:
    """A line a step, the sums, and what else is to be known before a run."""
    print(BILL_HEADER)
    for entry in forecasts:
        planned, estimate = entry.planned, entry.estimate
        action = f"{planned.action}: {planned.reason}" if planned.reason else planned.action
        bill = _bill(asdict(estimate)) if estimate.rows or estimate.calls[1] else ""
        print(f"{planned.step.id:<22} {action:<14} {bill}".rstrip())
    print(f"{'all':<22} {'':<14} {_bill(totals)}")
    print_notes(notes)


def print_bill(what: str, estimate: Mapping[str, Any]) -> None:
    """What one command would ask and cost; ``estimate``: an Estimate's fields."""
    print(BILL_HEADER)
    print(f"{what:<22} {'':<14} {_bill(estimate)}")


def _bill(estimate: Mapping[str, Any]) -> str:
    numbers = [f"{estimate[name]:>8,}" for name in ("rows", "known")]
    widths = {"calls": 15, "input_tokens": 19, "output_tokens": 19}
    ranges = [f"{_range(estimate[name], ',d'):>{width}}" for name, width in widths.items()]
    cost = "no price" if estimate["cost"] is None else _range(estimate["cost"], ".4f")
    expected = estimate["expected"]
    price = "" if expected["cost"] is None else f", {expected['cost']:.4f}"
    return (
        " ".join([*numbers, *ranges]) + f"  {cost:<19} {counted(expected['calls'], 'call')}{price}"
    )


def _range(ends: Sequence[float], form: str) -> str:
    low, high = (format(end, form) for end in ends)
    return low if low == high else f"{low} to {high}"


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
        lost = rejects[rejects["class"] == "lost"]
        for step, row, reason, message in (
            lost[SHOWN_OF_A_REJECT].head(MOST_REJECTS).itertuples(index=False)
        ):
            what = "kept" if reason == KEPT_UNREAD else "left out"
            print(f"{what} by {step}: {row}: {reason}: {message}")
        if len(lost) > MOST_REJECTS:
            print(f"... and {len(lost) - MOST_REJECTS:,} more: graphmill rejects")
    if not_read := totals.get("not_read"):
        print(f"not read: {told(not_read)}; see graphmill rejects")
    cost = "" if totals["cost"] is None else f", cost {totals['cost']:.4f}"
    calls = f"{counted(totals['calls'], 'model call')} ({totals['cached_calls']:,} known)"
    tokens = f"{totals['input_tokens']:,} + {totals['output_tokens']:,} tokens{cost}"
    beside = "".join(
        f", {totals[name]:,} {name}" for name in ("decided", "recovered") if totals.get(name)
    )
    if counts := report.get("documents"):
        changes = ", ".join(
            f"{counts[change]:,} {change}"
            for change in ("new", "edited", "gone")
            if change in counts
        )
        print(f"documents: {counts['all']:,}; {changes or 'those of the run before are not known'}")
    print(
        f"{calls}, {tokens}, {counted(totals['rejects'], 'reject')}{beside},"
        f" {totals['seconds']:.1f} s"
    )
    print_notes(report.get("notes", ()))
    if report.get("health"):
        print(
            "health: "
            + ", ".join(
                f"{name.replace('_', ' ')} {count:g}" for name, count in in_order(report["health"])
            )
        )
    print(
        f"{report['workflow']}: {report['outcome'].replace('_', ' ')}  {report['message']}".rstrip()
    )


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"note: {note}")


def print_rejects(rejects: "pd.DataFrame", workflow: str) -> None:
    """Print a line for each row, then for each class how many rows there are of each kind and
    reason."""
    columns = rejects[["step", "class", "kind", "reason", "row_id", "message"]]
    for step, loss, kind, reason, row_id, message in columns.itertuples(index=False, name=None):
        print(f"{step:<22} {loss:<7} {kind:<9} {reason:<15} {row_id}  {message}")
    for loss in ("lost", "decided"):
        counts = (
            rejects[rejects["class"] == loss]
            .groupby(["kind", "reason"])
            .size()
            .reset_index(name="rows")
        )
        shown = ", ".join(f"{row.rows:,} {row.kind} {row.reason}" for row in counts.itertuples())
        if shown:
            print(f"{workflow}: {loss}: {shown}")
    if rejects.empty:
        print(f"{workflow}: no rejects")


def print_usage(usage: "pd.DataFrame", by: str) -> None:
    """A line for each run, step, or whatever they are summed by."""
    if usage.empty:
        print("no call of a model is known")
        return
    print(
        f"{by:<44} {'calls':>8} {'ok':>8} {'estimated':>9} {'tokens in':>13} {'out':>13}"
        f" {'cost':>12} {'seconds':>9}"
    )
    priced = usage["cost"].notna()
    for row, has_price in zip(usage.itertuples(index=False), priced, strict=True):
        cost = f"{row.cost:.4f}" if has_price else "no price"
        print(
            f"{row[0] or '-':<44} {row.calls:>8,} {row.ok:>8,} {row.estimated:>9,}"
            f" {row.input_tokens:>13,} {row.output_tokens:>13,} {cost:>12} {row.seconds:>9.1f}"
        )
    if usage["estimated"].any():
        print(
            "estimated: calls of endpoints that report no token counts, and calls that ended"
            " without any; graphmill counted their tokens"
        )


def print_collected(report: "GcReport") -> None:
    """What was deleted, or would be."""
    for line in report.nights:
        print(line)
    for table, size in report.tables.items():
        print(f"{table:<28} {counted(size.files, 'file'):>12} {size.bytes / 1e6:>10,.1f} MB")
    total = report.total
    if not total.files:
        print("nothing to delete: no file that only older nights need")
    elif report.dry_run:
        print(
            f"{counted(total.files, 'file')} of {total.bytes / 1e6:,.1f} MB would go; add --delete"
        )
    else:
        print(f"deleted: {counted(total.files, 'file')} of {total.bytes / 1e6:,.1f} MB")
