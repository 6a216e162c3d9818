"""Everything that is known of one run: its report, the rows it left out, and the runs before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.contract.reasons import REASONS, Loss, Reason, loss_of
from pipeline.engine.losses import UNREFRESHED
from pipeline.engine.run_report import RunReport
from pipeline.errors import DataError, GraphmillError, UsageError, exit_code_of, in_words
from pipeline.runs.reports import (
    KILLED,
    UNDER_WAY,
    RunEntry,
    UnfinishedRun,
    with_manifest,
    with_usage,
)
from pipeline.runs.stages import LISTED, outcome_of

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.runs.services import Services
    from pipeline.snapshots.store import Manifest, SnapshotStore

BEFORE = 30
"""The most runs of a workflow that are shown together."""
ROWS_SHOWN = 50
"""The most rows of a reason that are shown."""
SAYS_WHAT_IT_IS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "chunk-": ("text_units", ("text",)),
    "doc-": ("documents", ("title", "text")),
    "ent-": ("entities", ("name", "description")),
    "rel-": ("relationships", ("source", "target", "description")),
}
"""The table of a row by the beginning of its id, and the columns that tell a person which row it
is."""
LONGEST_ROW = 300
"""The most characters of a row that are shown."""
DONE = frozenset({"reused", "ran"})


@dataclass(frozen=True)
class LeftOut:
    """Rows that a step rejected for one reason.

    - ``rows`` is their number. ``first`` has (row id, content, message) of the first of them; the
      content is shortened, and "" if it is in no table, such as a file that was not read.
    - ``meaning`` explains the reason, ``loss`` is the class of the rejects.
    """

    step: str
    kind: str
    reason: str
    meaning: str
    rows: int
    first: Sequence[tuple[str, str, str]]
    loss: Loss = "lost"


@dataclass(frozen=True)
class RunDetails:
    """A run with everything that is known of it.

    - ``report`` is its report as JSON, None if it has none.
    - ``going`` says how far a run without a report is.
    - ``left_out`` is None if its rows are not known, as for a run that broke off.
    - ``before`` has the runs of its workflow up to this one, the oldest first.
    """

    entry: RunEntry
    report: Mapping[str, Any] | None
    going: UnfinishedRun | None = None
    left_out: Sequence[LeftOut] | None = None
    before: Sequence[RunEntry] = ()


def list_runs(project: "Services", of: Sequence[str] | None) -> list[RunEntry]:
    """Return the entries of the runs of these ids, or of all runs; see Project.list_runs."""
    from pipeline.engine.usage.journal import sums, usage_of

    entries = project.runs.entries(of)
    workflows = {entry.workflow for entry in entries}
    history = {name: project.snapshots.history(name) for name in workflows}
    unreported = [entry.run_id for entry in entries if entry.outcome in (UNDER_WAY, KILLED)]
    by_run: Any = sums(usage_of(project.usage_folder, unreported), "run").set_index("run_id")
    spent: Mapping[str, Mapping[str, Any]] = by_run.to_dict("index")
    completed: list[RunEntry] = []
    for entry in entries:
        with_cost = with_usage(entry, spent.get(entry.run_id))
        completed.append(with_manifest(with_cost, history[entry.workflow]))
    return completed


def own_reasons(project: "Services", workflow: str) -> Mapping[str, Mapping[str, Reason]]:
    """Return the reasons that verbs of a workflow declare, by step.

    There are none if the file of the workflow cannot be read any more.
    """
    try:
        steps = project.workflow(workflow).steps
    except GraphmillError:
        return {}
    return {step.id: step.verb.reasons for step in steps}


def run_details(project: "Services", run: str | None) -> RunDetails:
    """Return a run with everything that is known of it; see Project.run_details."""
    run_id = _find_run(project.runs.known_ids(), run)
    [entry] = list_runs(project, [run_id])
    before = _runs_before(project, entry)
    report = project.runs.report(run_id)
    if report:
        return RunDetails(entry, report, None, _rows_left_out(project, entry, report), before)
    for begun in project.runs.unreported():
        if begun.run_id == run_id:
            return RunDetails(entry, None, begun, None, before)
    return RunDetails(entry, None, before=before)


def refused(error: BaseException) -> RunDetails:
    """Return the run that an error refused before it began."""
    outcome = outcome_of(error)
    made = RunReport("", "", outcome, exit_code_of(error), message=in_words(error))
    report = made.to_json()
    return RunDetails(RunEntry.of(report), report)


def _find_run(known: Sequence[str], run: str | None) -> str:
    """Return the id of a run by an unambiguous beginning of it, or the newest if ``run`` is None.

    ``known`` has the ids of all runs, the newest first. Raises UsageError if no run, or several,
    match.
    """
    if not known:
        raise UsageError("no run yet; 'graphmill run' makes one")
    if run is None:
        return known[0]
    if run in known:
        return run
    named = [id for id in known if id.startswith(run)]
    if len(named) != 1:
        found = f"{len(named)} runs begin so" if named else "no such run"
        newest = ", ".join((named or known)[:LISTED])
        raise UsageError(f"run '{run}': {found}; the newest are: {newest}")
    return named[0]


def _rows_left_out(
    project: "Services", entry: RunEntry, report: Mapping[str, Any]
) -> list[LeftOut] | None:
    """Return the rows that a run left out, from the tables that it ended with.

    Return None if they are not known: the tables at the end of a run that broke off are those of an
    earlier run.
    """
    from pipeline.engine.workflow import REJECTS

    if not report["steps"]:
        return []
    snapshots = project.snapshots
    kept = with_manifest(entry, snapshots.history(entry.workflow)).manifest
    if not kept or any(step["action"] not in DONE for step in report["steps"]):
        return None
    manifests = snapshots.kept_manifests(entry.workflow, [kept])
    if not manifests:
        return None
    manifest = manifests[0]
    rejects = manifest.tables.get(REJECTS)
    steps_of_run = {step["step"] for step in report["steps"]}
    if rejects is None or manifest.steps.keys() != steps_of_run:
        return None
    try:
        own = own_reasons(project, entry.workflow)
        return by_reason(snapshots.tables.read(rejects), manifest, snapshots, own)
    except DataError:
        # Another machine may have deleted the table meanwhile.
        return None


def by_reason(
    rejects: "pd.DataFrame",
    manifest: "Manifest",
    snapshots: "SnapshotStore",
    own: Mapping[str, Mapping[str, Reason]],
) -> list[LeftOut]:
    """Return rejects by step, kind and reason: losses first, then decisions; the most frequent
    first.

    ``own`` maps each step to the reasons that its verb declares.
    """
    left_out = rejects[rejects["kind"] != UNREFRESHED]
    groups: Any = left_out.groupby(["step", "kind", "reason"], sort=True)
    # The contents of all rows that are shown are read at once.
    contents = _texts_of_rows(groups.head(ROWS_SHOWN)["row_id"], manifest, snapshots)
    found: list[LeftOut] = []
    for (step, kind, reason), rows in groups:
        shown = rows[["row_id", "message"]].head(ROWS_SHOWN)
        first: list[tuple[str, str, str]] = []
        for row_id, message in shown.itertuples(index=False, name=None):
            first.append((row_id, contents.get(row_id, ""), message))
        declared = own.get(step, {})
        known = REASONS.get(reason) or declared.get(reason)
        one = LeftOut(
            step=step,
            kind=kind,
            reason=reason,
            meaning=known.meaning if known else "",
            rows=len(rows),
            first=first,
            loss=loss_of(kind, reason, declared),
        )
        found.append(one)

    def losses_then_most_rows(one: LeftOut) -> tuple[bool, int]:
        is_decision = one.loss == "decided"
        return is_decision, -one.rows

    return sorted(found, key=losses_then_most_rows)


def _texts_of_rows(
    ids: Iterable[str], manifest: "Manifest", snapshots: "SnapshotStore"
) -> dict[str, str]:
    """Return a text for each row by its id, as far as it is in a table that can be read.

    A table of the project's own verb may have the name of one of ours, but other columns.
    """
    import pyarrow as pa

    from pipeline.contract.schemas import STRING

    found: dict[str, str] = {}
    for begins, (table, columns) in SAYS_WHAT_IT_IS.items():
        asked = sorted({id for id in ids if id.startswith(begins)})
        if not asked or table not in manifest.tables:
            continue
        snapshot = manifest.tables[table]
        wanted = ["id", *columns]
        try:
            has_columns = set(wanted) <= set(snapshots.tables.columns(snapshot))
            if not has_columns:
                continue
            rows = snapshots.tables.select(snapshot, ["id"], pa.array(asked, STRING), wanted)
        except DataError:
            continue
        for row in rows.to_pylist():
            cells = [row[column] for column in columns if row[column]]
            found[row["id"]] = _shorten(": ".join(cells))
    return found


def _shorten(text: str) -> str:
    """Return the text, or its first LONGEST_ROW characters."""
    if len(text) <= LONGEST_ROW:
        return text
    beginning = text[:LONGEST_ROW].rstrip()
    return f"{beginning} ..."


def _runs_before(project: "Services", entry: RunEntry) -> list[RunEntry]:
    """Return the runs of the workflow up to this one, the oldest first.

    Only the runs just before it are read: to read the reports of all runs would take ever
    longer.
    """
    earlier_ids = [id for id in project.runs.known_ids() if id < entry.run_id]
    # Other workflows may have run in between, so more runs are read than are shown.
    entries_read = project.runs.entries(earlier_ids[: 4 * BEFORE])
    of_workflow = [earlier for earlier in entries_read if earlier.workflow == entry.workflow]
    # The run itself is one of those that are shown.
    just_before = of_workflow[: BEFORE - 1]
    return [*reversed(just_before), entry]
