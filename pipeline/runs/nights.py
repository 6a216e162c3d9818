"""All that is known of one run: what it did, what it left out, and the runs before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.contract.reasons import REASONS, Loss, Reason, loss_of
from pipeline.engine.losses import UNREFRESHED
from pipeline.engine.run_report import RunReport
from pipeline.errors import DataError, UsageError, exit_code_of, in_words
from pipeline.runs.reports import RunEntry, UnfinishedRun, with_manifest
from pipeline.runs.stages import LISTED, outcome_of

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.project import Project
    from pipeline.snapshots.store import Manifest, SnapshotStore

BEFORE = 30
"""Runs of a workflow that are looked at together."""
ROWS_SHOWN = 50
"""Rows of a reason that are shown."""
SAYS_WHAT_IT_IS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "chunk-": ("text_units", ("text",)),
    "doc-": ("documents", ("title", "text")),
    "ent-": ("entities", ("name", "description")),
    "rel-": ("relationships", ("source", "target", "description")),
}
"""How the id of a row begins -> its table, and the columns that tell a person which row it is."""
LONGEST_ROW = 300
"""Characters that are shown of one."""
DONE = frozenset({"reused", "ran"})


@dataclass(frozen=True)
class LeftOut:
    """Rows that a step rejected for a reason: how many there are, and (row id, content, message) of
    the first.

    The content is cut, and "" of what is in no table, as a file that was not read. ``meaning``: of
    the reason. ``loss``: the class of the rejects."""

    step: str
    kind: str
    reason: str
    meaning: str
    rows: int
    first: Sequence[tuple[str, str, str]]
    loss: Loss = "lost"


@dataclass(frozen=True)
class Night:
    """``report``: the run's, as JSON; None where it has made none. ``going``: how far one is that
    has not reported. ``left_out``: None where the rows of this run are not known, as of one that
    broke off. ``before``: the runs of its workflow up to this one, the oldest first."""

    entry: RunEntry
    report: Mapping[str, Any] | None
    going: UnfinishedRun | None = None
    left_out: Sequence[LeftOut] | None = None
    before: Sequence[RunEntry] = ()


def night(project: "Project", run: str | None) -> Night:
    """See Project.night."""
    run_id = _named(project.runs.known_ids(), run)
    [entry] = project.list_runs([run_id])
    report = project.runs.report(run_id)
    going = (
        None
        if report
        else next((begun for begun in project.runs.unreported() if begun.run_id == run_id), None)
    )
    left_out = _left_out(project, entry, report) if report else None
    return Night(entry, report, going, left_out, _before(project, entry))


def refused(error: BaseException) -> Night:
    """Of a run that was refused before it began."""
    report = RunReport(
        "", "", outcome_of(error), exit_code_of(error), message=in_words(error)
    ).to_json()
    return Night(RunEntry.of(report), report)


def _named(known: Sequence[str], run: str | None) -> str:
    """``known``: the newest first."""
    if not known:
        raise UsageError("no run yet; graphmill run makes one")
    if run is None:
        return known[0]
    named = [run] if run in known else [id for id in known if id.startswith(run)]
    if len(named) != 1:
        found = f"{len(named)} runs begin so" if named else "no such run"
        raise UsageError(
            f"run '{run}': {found}; the newest are: {', '.join((named or known)[:LISTED])}"
        )
    return named[0]


def _left_out(
    project: "Project", entry: RunEntry, report: Mapping[str, Any]
) -> list[LeftOut] | None:
    """Of the tables that the run ended with: those of a run that broke off before are of an earlier
    one."""
    from pipeline.engine.workflow import REJECTS

    if not report["steps"]:
        return []
    kept = with_manifest(entry, project.snapshots.history(entry.workflow)).manifest
    if not kept or any(step["action"] not in DONE for step in report["steps"]):
        return None
    [manifest] = project.snapshots.kept_manifests(entry.workflow, [kept]) or [None]
    snapshot = manifest and manifest.tables.get(REJECTS)
    if manifest is None or manifest.steps.keys() != {step["step"] for step in report["steps"]}:
        return None
    if snapshot is None:
        return None
    try:
        own = project.own_reasons(entry.workflow)
        return by_reason(project.snapshots.tables.read(snapshot), manifest, project.snapshots, own)
    except DataError:  # another machine may have deleted it just now
        return None


def by_reason(
    rejects: "pd.DataFrame",
    manifest: "Manifest",
    snapshots: "SnapshotStore",
    own: Mapping[str, Mapping[str, Reason]],
) -> list[LeftOut]:
    """Return rejects by step, kind and reason: losses first, then decisions; the most frequent
    first.

    ``own``: step -> the reasons that its verb declares.
    """
    reasons = rejects[rejects["kind"] != UNREFRESHED].groupby(["step", "kind", "reason"], sort=True)
    contents = _contents(reasons.head(ROWS_SHOWN)["row_id"], manifest, snapshots)
    found = []
    for _, rows in reasons:
        step, kind, reason = (str(rows[column].iloc[0]) for column in ("step", "kind", "reason"))
        told = rows[["row_id", "message"]].head(ROWS_SHOWN).itertuples(index=False, name=None)
        first = [(row, contents.get(row, ""), message) for row, message in told]
        declared = own.get(step, {})
        known = REASONS.get(reason) or declared.get(reason)
        meaning, loss = known.meaning if known else "", loss_of(kind, reason, declared)
        found.append(LeftOut(step, kind, reason, meaning, len(rows), first, loss))
    return sorted(found, key=lambda each: (each.loss == "decided", -each.rows))


def _contents(
    ids: Iterable[str], manifest: "Manifest", snapshots: "SnapshotStore"
) -> dict[str, str]:
    """What rows say, by their ids, as far as they are in tables that can be read; one of an own
    verb may be called as ours and have other columns."""
    import pyarrow as pa

    from pipeline.contract.schemas import STRING

    found: dict[str, str] = {}
    for begins, (table, columns) in SAYS_WHAT_IT_IS.items():
        asked = sorted({id for id in ids if id.startswith(begins)})
        if not asked or table not in manifest.tables:
            continue
        snapshot, wanted = manifest.tables[table], ["id", *columns]
        try:
            if not set(wanted) <= set(snapshots.tables.columns(snapshot)):
                continue
            rows = snapshots.tables.select(snapshot, ["id"], pa.array(asked, STRING), wanted)
        except DataError:
            continue
        found |= {
            row["id"]: _cut(": ".join(filter(None, map(row.get, columns))))
            for row in rows.to_pylist()
        }
    return found


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_ROW else f"{text[:LONGEST_ROW].rstrip()} ..."


def _before(project: "Project", entry: RunEntry) -> list[RunEntry]:
    """Those of its workflow among the runs just before it: to read the reports of all runs would
    take ever longer."""
    earlier = [id for id in project.runs.known_ids() if id < entry.run_id][: 4 * BEFORE]
    same = [each for each in project.runs.entries(earlier) if each.workflow == entry.workflow]
    return [*reversed(same[: BEFORE - 1]), entry]
