"""Evaluation of a run's rejects: lost rows, the share of a step that they are, and files that are
no input."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath

import pandas as pd

from pipeline.contract.reasons import EXTRAS, Reason, loss_of
from pipeline.engine.documents.kept_documents import KEPT, SKIPPED, SOURCE, name_of, named_sources
from pipeline.engine.workflow import (
    DOCUMENTS,
    INPUT_DOCUMENTS,
    READ_TABLE,
    REJECTS,
    Step,
    Workflow,
)
from pipeline.errors import DataError, counted
from pipeline.snapshots.store import Snapshot, StepRecord

RECOVERED = "recovered"
"""The kind of a row that was answered after all, in halves or by repair: it is not lost, though in
the table of rejects."""
UNREFRESHED = "unrefreshed"
"""The kind of a row that is not up to date, because the workflow allows it, though its sources have
changed."""
UNENDED = "unended"
"""The kind of a row of which a reply lacks its end mark: it is used whole, and may have been cut
between records."""
ROW, CUT, RECORD = "row", "cut", "record"
"""The kinds of losses: nothing of a row is used; only the whole records of its cut replies are; one
record of it is lost."""
ASKED_AGAIN = frozenset({ROW, CUT, SOURCE, KEPT})
"""The kinds that a retry asks for."""
COUNTED_ELSEWHERE = frozenset({RECOVERED, SKIPPED})
"""The kinds that a step's report counts by themselves, beside what was decided."""
_LINE = re.compile(r":\d+$")
_CAUSES_SHOWN = 3
"""Failures that the message on a source without documents repeats: enough to see the cause."""


def classes(rejects: pd.DataFrame, own: Mapping[str, Reason]) -> pd.Series:
    """Return the class of each reject, "lost" or "decided". ``own``: the reasons that the step's
    verb declares."""
    # Millions of rejects have a few kinds and reasons: each pair is looked up once.
    distinct = rejects[["kind", "reason"]].drop_duplicates()
    class_of_pair: dict[tuple[str, str], str] = {}
    for kind, reason in distinct.itertuples(index=False, name=None):
        class_of_pair[kind, reason] = loss_of(kind, reason, own)
    pairs = zip(rejects["kind"], rejects["reason"], strict=True)
    found = [class_of_pair[pair] for pair in pairs]
    return pd.Series(found, index=rejects.index, dtype=object)


def classes_of_steps(rejects: pd.DataFrame, own: Mapping[str, Mapping[str, Reason]]) -> pd.Series:
    """Return the class of each reject of a run. ``own``: step -> the reasons that its verb
    declares."""
    found = pd.Series("", index=rejects.index, dtype=object)
    for step, rows in rejects.groupby("step"):
        found.loc[rows.index] = classes(rows, own.get(str(step), {}))
    return found


def select_lost(rejects: pd.DataFrame, own: Mapping[str, Reason]) -> pd.DataFrame:
    """Return the rejects of one step that are losses: something is missing in the tables, or out of
    date."""
    return rejects[classes(rejects, own) == "lost"]


def select_decided(rejects: pd.DataFrame, own: Mapping[str, Reason]) -> pd.DataFrame:
    """Return the rejects of one step that a rule decided, but for those that a report counts by
    themselves."""
    is_decided = classes(rejects, own) == "decided"
    is_counted_elsewhere = rejects["kind"].isin(COUNTED_ELSEWHERE)
    return rejects[is_decided & ~is_counted_elsewhere]


def note_trades(workflow: Workflow, rejects: pd.DataFrame) -> list[str]:
    """Return a message for each step whose params trade equality with a full build, with the rows
    concerned.

    ``rejects``: those of all steps.
    """
    rows = rejects.loc[rejects["kind"] == UNREFRESHED, "step"].value_counts()
    messages = []
    for step in workflow.steps:
        trade = step.params.trade()
        if not trade:
            continue
        rows_of_step = int(rows.get(step.id, 0))
        unrefreshed = counted(rows_of_step, "row")
        messages.append(
            f"{step.id}: {trade}; {unrefreshed} unrefreshed: 'graphmill run"
            f" --force {step.id}' refreshes all"
        )
    return messages


def count_no_input(rejects: pd.DataFrame) -> dict[str, int]:
    """Count the files that were no input, the most frequent first.

    Keys are the suffix of a kind that is not read, with the extra that would read it if there is
    one, otherwise the reason.
    """
    skipped = rejects[rejects["kind"] == SKIPPED]
    counts: Counter[str] = Counter()
    for file, reason in zip(skipped["row_id"], skipped["reason"], strict=True):
        description = _describe_file(PurePath(file), reason)
        counts[description] += 1
    # Equal counts are in the order of their names, so that two runs write the same report.
    frequent_first = sorted(counts, key=lambda description: (-counts[description], description))
    return {description: counts[description] for description in frequent_first}


def _describe_file(source: PurePath, reason: str) -> str:
    """Return what a report calls a file that was no input: its suffix, or the reason."""
    suffix = source.suffix.lower()[1:] or "without suffix"
    if reason in EXTRAS:
        return f"{suffix} ({EXTRAS[reason]})"
    if reason == "unsupported":
        return suffix
    return reason


def reject_ratio(
    step: Step,
    record: StepRecord,
    tables: Mapping[str, Snapshot],
    rejects: pd.DataFrame,
    loaded: pd.DataFrame | None,
) -> float:
    """Return the share of lost rows or records of a step: the larger of two.

    The first is the share of rows of which nothing, or only the whole records of cut replies, is
    used. The second is the share of records that could not be read: if each row loses half of them,
    half is lost without a rejected row.

    For a source, only what could be read before counts: its kept documents, and what has failed
    since the stores were loaded (``loaded``: the rejects of then, None before the first load).
    """
    if rejects.empty:
        return 0.0
    if step.verb.inputs:
        missing = select_lost(rejects, step.verb.reasons)
        is_row = missing["kind"] == ROW
        is_cut = missing["kind"] == CUT
        is_record = missing["kind"] == RECORD
        rejected = missing.loc[is_row, "row_id"].nunique()
        incomplete = missing.loc[is_row | is_cut, "row_id"].nunique()
        rows = _rows_decided(step, record, tables, rejected)
        share_of_rows = incomplete / max(rows, 1)
        unread_records = int(is_record.sum())
        records = _rows_written(step, record) + unread_records
        share_of_records = unread_records / max(records, 1)
        return max(share_of_rows, share_of_records)
    failed = _failures(rejects, step)
    if loaded is None:
        # There was no load yet, so nothing has failed since the last one.
        new_failures: Counter[str] = Counter()
    else:
        # The difference of Counters has no negative counts: only new failures are left.
        new_failures = failed - _failures(loaded[loaded["step"] == step.id], step)
    return _share(_kept(rejects), new_failures, step, record)


def unread_ratio(step: Step, record: StepRecord, rejects: pd.DataFrame) -> float:
    """Return the share of what a source could not read, whenever that began."""
    if rejects.empty:
        return 0.0
    return _share(_kept(rejects), _failures(rejects, step), step, record)


def refuse_nothing(step: Step, outputs: Mapping[str, Snapshot], rejects: pd.DataFrame) -> None:
    """Raise DataError for a source of documents without a row.

    That is a mistake (an unmounted folder, a wrong pattern), not a corpus to load. Tables beside
    the documents may have no rows: the documents are there.
    """
    if step.verb.inputs or DOCUMENTS not in step.verb.outputs:
        return
    table = step.outputs[DOCUMENTS]
    is_beside_documents = table != DOCUMENTS
    if step.verb.name == READ_TABLE and is_beside_documents:
        return
    if table.startswith(INPUT_DOCUMENTS):
        # The documents of an imported index are there.
        return
    if any(outputs[name].rows for name in step.writes if name != REJECTS):
        return
    reasons = rejects["reason"].value_counts()
    left_out = ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "no files"
    # Without these messages nobody learns which of several inputs failed: there is no table yet
    # that 'graphmill rejects' could show.
    causes = list(select_lost(rejects, step.verb.reasons)["message"].unique()[:_CAUSES_SHOWN])
    what_to_do = causes or ["put documents there, or set input.path and input.file_pattern"]
    raise DataError(
        f"step '{step.id}': {getattr(step.params, 'path', '')}: no documents ({left_out});"
        f" {'; '.join(what_to_do)}; the stores are left as they are"
    )


def _share(kept: Counter[str], failed: Counter[str], step: Step, record: StepRecord) -> float:
    """Return the share of kept and failed records, counted by source.

    A record that cannot be read is, as a rule, one of those that are kept, so it counts once.
    """
    # The union of Counters takes the larger count of each source.
    worst = kept | failed
    # Kept documents are rows of the table already.
    not_in_table = worst - kept
    rows = _rows_written(step, record) + sum(not_in_table.values())
    return sum(worst.values()) / max(rows, 1)


def _failures(rejects: pd.DataFrame, step: Step) -> Counter[str]:
    """Return the number of failed records by source; 1 for a source that failed as a whole.

    A record that a rule left out, such as a mail that is there twice, has not failed.
    """
    missing = select_lost(rejects, step.verb.reasons)
    failed_rows = missing.loc[missing["kind"] == ROW, "row_id"]
    # The row of a record is its file and line.
    failed_records = Counter(_LINE.sub("", row) for row in failed_rows)
    failed_sources = set(missing.loc[missing["kind"] == SOURCE, "row_id"])
    # The union of Counters takes the larger count of each source.
    return failed_records | Counter(failed_sources)


def _kept(rejects: pd.DataFrame) -> Counter[str]:
    """Return the number of kept documents by the source that could not be read."""
    named = named_sources(rejects)
    kept = rejects.loc[rejects["kind"] == KEPT, "row_id"]
    return Counter(name_of(source, named) or source for source in kept)


def _rows_decided(
    step: Step, record: StepRecord, tables: Mapping[str, Snapshot], rejected: int
) -> int:
    """Return the number of rows that the step had to decide, as far as it is known."""
    if step.verb.rowwise:
        return tables[step.inputs[step.verb.rowwise]].rows
    return rejected + _rows_written(step, record)


def _rows_written(step: Step, record: StepRecord) -> int:
    """Return the number of rows that the step wrote, without rejects."""
    return sum(record.outputs[name].rows for name in step.writes if name != REJECTS)
