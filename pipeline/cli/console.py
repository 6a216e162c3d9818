"""Print plans, steps, runs and other results for people."""

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
    "documents", "chunks", "entities", "relationships", "sources", "reports", "claims",
    "statements", "attributes", "nodes", "edges", "communities",
    "inserted", "updated", "deleted", "unchanged",
)  # fmt: skip
STEP_HEADER = f"{'step':<22} action"
BILL_HEADER = (
    f"{'step':<22} {'action':<14} {'rows':>8} {'known':>8} {'calls':>15} {'tokens in':>19}"
    f" {'tokens out':>19}  {'cost':<19} expected"
)
NOT_CONVERTED = {"not_converted": "could not be converted"}
"""A count of the report -> the words for it."""
SHOWN_OF_A_REJECT = ["step", "row_id", "reason", "message"]


def describe(report: StepReport) -> str:
    """Return a line about a finished step: what it did and why, its rows, calls, losses and
    time."""
    reasons = dict(report.reject_reasons)
    kept = reasons.pop(KEPT_UNREAD, 0)
    facts = []
    if report.rows:
        facts.append(describe_counts(report.rows))
    if report.conversions:
        named = {NOT_CONVERTED.get(what, what): count for what, count in report.conversions.items()}
        facts.append(f"files: {describe_counts(named)}")
    if report.calls:
        facts.append(counted(report.calls, "call"))
    if report.cached_calls:
        facts.append(f"{report.cached_calls:,} known")
    if reasons:
        facts.append(f"{report.rejects - kept:,} left out ({describe_counts(reasons)})")
    if kept:
        facts.append(f"{kept:,} kept of the last run")
    if report.not_read:
        facts.append(f"not read: {describe_counts(report.not_read)}")
    if report.decided_reasons:
        facts.append(f"decided: {describe_counts(report.decided_reasons)}")
    if report.recovered:
        facts.append(f"{report.recovered:,} recovered")
    action = f"{report.action} ({report.reason})" if report.reason else report.action
    peak = f"  {report.peak_mb:,.0f} MB" if report.peak_mb is not None else ""
    return f"{report.step:<22} {action:<13} {'; '.join(facts)}  {report.seconds:.1f} s{peak}"


def in_order(counts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the items in the order of ``ORDER``, all others after them by name.

    A fixed order makes a run and a later look at its report print the same.
    """
    places = {name: place for place, name in enumerate(ORDER)}

    def place_of(item: tuple[str, Any]) -> tuple[int, str]:
        name, _ = item
        return places.get(name, len(ORDER)), name

    return sorted(counts.items(), key=place_of)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return the counts as text, such as "3 inserted, 1 deleted"."""
    return ", ".join(f"{count:,} {what}" for what, count in in_order(counts))


def describe_load(load: LoadCounts, seconds: float) -> str:
    """Return a line for each store with the counts of its tables, and the time at the end."""
    lines = [f"load {store:<17} {_describe_tables(tables)}" for store, tables in in_order(load)]
    return "\n".join(lines) + f"  {seconds:.1f} s"


def _describe_tables(tables: Mapping[str, Mapping[str, int]]) -> str:
    described = []
    for table, counts in in_order(tables):
        above_zero = {what: count for what, count in counts.items() if count}
        described.append(f"{table} {describe_counts(above_zero) or 'empty'}")
    return "; ".join(described)


def print_forecast(
    forecasts: "list[Forecast]", totals: Mapping[str, Any], notes: Iterable[str]
) -> None:
    """Print a line for each step, the sums, and notes about the run."""
    # Without a call to come the columns of the bill would be empty.
    asks = any(entry.estimate.rows or entry.estimate.calls[1] for entry in forecasts)
    print(BILL_HEADER if asks else STEP_HEADER)
    for entry in forecasts:
        planned, estimate = entry.planned, entry.estimate
        action = f"{planned.action}: {planned.reason}" if planned.reason else planned.action
        bill = _bill(asdict(estimate)) if estimate.rows or estimate.calls[1] else ""
        print(f"{planned.step.id:<22} {action:<14} {bill}".rstrip())
    if asks:
        print(f"{'all':<22} {'':<14} {_bill(totals)}")
    else:
        print("all: no model is asked, cost 0")
    print_notes(notes)


def print_bill(what: str, estimate: Mapping[str, Any]) -> None:
    """Print what a command would ask and cost. ``estimate`` has the fields of an Estimate."""
    print_bills({what: estimate})


def print_bills(estimates: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line for each kind of calls that a command would make."""
    print(BILL_HEADER)
    for what, estimate in estimates.items():
        print(f"{what:<22} {'':<14} {_bill(estimate)}")


def _bill(estimate: Mapping[str, Any]) -> str:
    """Return the columns of an estimate from "rows" on, as ``BILL_HEADER`` names them."""
    calls = _range(estimate["calls"], ",d")
    tokens_in = _range(estimate["input_tokens"], ",d")
    tokens_out = _range(estimate["output_tokens"], ",d")
    bounds = f"{calls:>15} {tokens_in:>19} {tokens_out:>19}"
    cost = "no price" if estimate["cost"] is None else _range(estimate["cost"], ".4f")
    expected = estimate["expected"]
    price = "" if expected["cost"] is None else f", {expected['cost']:.4f}"
    likely = f"{counted(expected['calls'], 'call')}{price}"
    return f"{estimate['rows']:>8,} {estimate['known']:>8,} {bounds}  {cost:<19} {likely}"


def _range(ends: Sequence[float], form: str) -> str:
    """Return "LOW to HIGH" in a number format, or one number if both are equal."""
    low, high = (format(end, form) for end in ends)
    return low if low == high else f"{low} to {high}"


def print_findings(findings: "Iterable[Finding]") -> None:
    """Print a line for each finding, and below it the action, if there is one."""
    for finding in findings:
        print(f"{finding.verdict:<8} {finding.area:<9} {finding.what:<22} {finding.fact}")
        if finding.action:
            print(f"{'':<41} -> {finding.action}")


def print_report(report: dict[str, Any], rejects: "pd.DataFrame | None" = None) -> None:
    """Print the end of a run: its first losses, its documents, sums, notes and outcome.

    ``report`` is the JSON of a RunReport.
    """
    totals = report["totals"]
    if rejects is not None:
        _print_losses(rejects)
    not_read = totals.get("not_read")
    if not_read:
        print(f"not read: {describe_counts(not_read)}; see graphmill rejects")
    documents = report.get("documents")
    if documents:
        kinds = [change for change in ("new", "edited", "gone") if change in documents]
        changes = ", ".join(f"{documents[change]:,} {change}" for change in kinds)
        changes = changes or "those of the run before are not known"
        print(f"documents: {documents['all']:,}; {changes}")
    print(_sums(totals))
    print_notes(report.get("notes", ()))
    health = report.get("health")
    if health:
        figures = [f"{name.replace('_', ' ')} {count:g}" for name, count in in_order(health)]
        print(f"health: {', '.join(figures)}")
    outcome = report["outcome"].replace("_", " ")
    print(f"{report['workflow']}: {outcome}  {report['message']}".rstrip())


def _print_losses(rejects: "pd.DataFrame") -> None:
    """Print the first lost rows, and how many more there are."""
    lost = rejects[rejects["class"] == "lost"]
    first = lost[SHOWN_OF_A_REJECT].head(MOST_REJECTS)
    for step, row, reason, message in first.itertuples(index=False):
        what = "kept" if reason == KEPT_UNREAD else "left out"
        print(f"{what} by {step}: {row}: {reason}: {message}")
    if len(lost) > MOST_REJECTS:
        print(f"... and {len(lost) - MOST_REJECTS:,} more: graphmill rejects")


def _sums(totals: Mapping[str, Any]) -> str:
    """Return a line with the calls, tokens, cost, rejects and seconds of a run."""
    facts = [
        f"{counted(totals['calls'], 'model call')} ({totals['cached_calls']:,} known)",
        f"{totals['input_tokens']:,} + {totals['output_tokens']:,} tokens",
    ]
    if totals["cost"] is not None:
        facts.append(f"cost {totals['cost']:.4f}")
    facts.append(counted(totals["rejects"], "reject"))
    facts += [f"{totals[name]:,} {name}" for name in ("decided", "recovered") if totals.get(name)]
    facts.append(f"{totals['seconds']:.1f} s")
    return ", ".join(facts)


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
        of_class = rejects[rejects["class"] == loss]
        counts = of_class.groupby(["kind", "reason"]).size().reset_index(name="rows")
        shown = ", ".join(f"{row.rows:,} {row.kind} {row.reason}" for row in counts.itertuples())
        if shown:
            print(f"{workflow}: {loss}: {shown}")
    if rejects.empty:
        print(f"{workflow}: no rejects")


def print_usage(usage: "pd.DataFrame", by: str) -> None:
    """Print a line for each run, step, or other key ``by`` which the usage is summed."""
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
    """Print the files that were deleted, or would be, by table."""
    for line in report.runs:
        print(line)
    for table, size in report.tables.items():
        print(f"{table:<28} {counted(size.files, 'file'):>12} {size.bytes / 1e6:>10,.1f} MB")
    if report.logs.files:
        size = report.logs
        print(f"{'logs':<28} {counted(size.files, 'file'):>12} {size.bytes / 1e6:>10,.1f} MB")
    total = report.total
    files = f"{counted(total.files, 'file')} of {total.bytes / 1e6:,.1f} MB"
    if not total.files:
        print("nothing to delete: no file that only older runs need")
    elif report.dry_run:
        print(f"{files} would go; add --delete")
    else:
        print(f"deleted: {files}")
