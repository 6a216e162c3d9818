"""Remove a document and every trace of it: file, tables, history, cached replies, rows of the
stores, remote files.

No model is asked and no input is read. Replies that a model would have to give again are left to
the next run (taken_out.py).

Text that another document also has is kept. What a database server keeps in its files and logs is
out of reach (docs/purge.md).
"""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pipeline.contract.views import select_view, split_name
from pipeline.engine.documents.deletions import DOCUMENTS, check_deletions, identities, without
from pipeline.engine.documents.document_list import present_documents
from pipeline.engine.documents.kept_documents import describe_source, name_of
from pipeline.engine.extraction_check import health
from pipeline.engine.run_report import RunReport
from pipeline.engine.usage.journal import Journal
from pipeline.engine.usage.run_budget import Meter
from pipeline.errors import DataError, UsageError, counted
from pipeline.export.emit import emit, withdraw
from pipeline.files import temporary_folder
from pipeline.load.last_load import LoadedVersions
from pipeline.load.projection import require_sources
from pipeline.purge import workspaces
from pipeline.purge.history import forget_history, workflows_with_tables
from pipeline.purge.intention import PurgeIntent, PurgeIntents
from pipeline.purge.next_calls import NextCalls
from pipeline.purge.purged import PurgedDocuments
from pipeline.purge.taken_out import TakenOut, foresee_tables, take_out
from pipeline.purge.target import (
    PurgeTarget,
    Rows,
    Survey,
    describe_rows,
    document_ids,
    read_target,
    rows_of,
    survey,
    total_of,
)
from pipeline.purge.workspaces import Deleted, WorkspaceSearch
from pipeline.runs.audit import FOLDER as AUDIT
from pipeline.runs.audit import AuditLog
from pipeline.runs.corrections import remove_documents
from pipeline.runs.reports import clock_now
from pipeline.runs.services import HASHES_FOLDER, Services
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.base import silent
from pipeline.stores.loaded_workspaces import FILE as RECORD
from pipeline.stores.loaded_workspaces import LoadedWorkspaces, Workspace
from pipeline.text.ids import document_id

_IN_ARCHIVE = re.compile(r"(?P<archive>.+?\.zip)/(?P<member>.+)", re.IGNORECASE)
PURGE = "purge"
"""The workflow and the step under which the usage counts the cost of abandoned batches."""


@dataclass(frozen=True)
class PurgeReport:
    """The result of a purge.

    - ``file`` is true if the document had a file.
    - ``rows`` counts the rows of this document alone, by workflow and table, in the newest tables
      that had it.
    - ``workspaces`` counts the deleted rows, by workspace, store and table.
    - ``forgotten`` counts the deleted cached replies and vectors; ``unowned`` the replies and
      vectors without a known owner, which stay.
    - ``files`` counts the deleted snapshot files and records.
    - ``rebuilt`` is true if the embedded PostgreSQL was created again.
    - ``unreached`` names the places that may still hold the document, and why.
    - ``hashed`` is the keyed hash of the document's name in the list of purged documents.
    """

    document: str
    runs: tuple[RunReport, ...]
    forgotten: int
    files: int
    rebuilt: bool
    unowned: int = 0
    file: bool = False
    rows: Rows = field(default_factory=dict)
    workspaces: Mapping[str, Deleted] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    hashed: str = ""

    @property
    def exit_code(self) -> int:
        return 1 if self.unreached else 0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "runs": [run.to_json() for run in self.runs]}

    def lines(self) -> list[str]:
        """Return the report as lines of text, without ``notes`` and ``unreached``.

        The last one counts what was found and deleted.
        """
        lines: list[str] = []
        for workflow, rows in self.rows.items():
            lines.append(f"{workflow}: {describe_rows(rows)} were its own")
        deleted = 0
        for workspace, counts in self.workspaces.items():
            for store, rows_of_store in counts.items():
                lines.append(f"{workspace}, {store}: {describe_rows(rows_of_store)} deleted")
                deleted += sum(rows_of_store.values())
        if self.rebuilt:
            lines.append("the embedded PostgreSQL was created again")
        phrases = [
            "its file" if self.file else "no file",
            f"{total_of(self.rows)} of tables",
            f"{counted(deleted, 'row')} of {counted(len(self.workspaces), 'workspace')}",
            counted(self.forgotten, "cached reply or vector", "cached replies and vectors"),
            counted(self.files, "snapshot file"),
        ]
        return [*lines, f"{self.document}: deleted: {', '.join(phrases)}"]


@dataclass(frozen=True)
class _Subject:
    """A document that may be purged, and what was looked up to decide that.

    ``intent`` is the note of a purge that was begun before, ``workflows`` are those with tables.
    """

    target: PurgeTarget
    workflows: Sequence[str]
    found: WorkspaceSearch
    intent: PurgeIntent | None


def purge(project: Services, document: str, abandons_batches: bool = True) -> PurgeReport:
    """Purge a document and return a report.

    ``document`` is its path below the input folder, present or former, or a record that its file no
    longer has, such as ``people.csv#42``. If the purge is killed at any point, the same call
    continues it. If the report has ``unreached``, call it again with settings that reach those
    places. Without ``abandons_batches``, batches at an endpoint go on: they may be another
    project's.

    These errors are raised before anything is deleted. All but the last two are raised before a
    batch is abandoned too:

    - LockedError while a run is under way
    - UsageError for what is no document, a record that is still in its file, the last document, or
      a workspace that could not be loaded again
    - DeletionError if too many other documents are missing
    - StoreError if a database of the settings does not answer
    - DataError if the list of purged documents has lost its key, or a table is missing or damaged
    - WaitingError while the endpoint is still cancelling a batch

    Errors of ``run`` are raised too, StoreError if others read the cache all the time, and
    DataError if the new tables still have the document.
    """
    with project.runs.alone():
        subject = _look_up_and_check(project, document)
        _refuse_unloadable(project, subject.workflows, subject.found)
        if abandons_batches:
            _abandon_batches(project)
        return _purge(project, subject)


def survey_document(project: Services, document: str, runs_first: bool = False) -> Survey:
    """Return what ``purge`` would find, and what the next run would have to ask.

    ``runs_first`` is true if a run comes before the purge: then the workflow may differ from its
    last run. Raises the errors that ``purge`` raises before it deletes anything, except
    WaitingError.
    """
    with project.runs.alone():
        subject = _look_up_and_check(project, document)
        if not runs_first:
            _refuse_unloadable(project, subject.workflows, subject.found)
        with temporary_folder("graphmill-purge-") as folder:
            tried = SnapshotStore(folder, beneath=project.snapshots)
            taken = [take_out(project, name, subject.target, tried) for name in subject.workflows]
        # The calls follow from the requests without a reply; no table is read for them.
        asks = NextCalls.after(project, taken)
        was_begun = subject.intent is not None
        return survey(project, subject.target, subject.found, was_begun, asks)


def _look_up_and_check(project: Services, document: str) -> _Subject:
    """Look up everything the purge needs. Raises an error if something forbids the purge.

    What may be mended by a run is left to `_refuse_unloadable`.
    """
    PurgedDocuments.of(project.root).require_key()
    intents = PurgeIntents(project.root)
    begun = intents.all()
    # Killed before the end. A purge that is done here waits only for workspaces elsewhere.
    broken_off = next((intent for intent in begun.values() if not intent.done_here), None)
    found = workspaces.look(project, with_embedded=not _is_being_remade(broken_off))

    def is_in_a_workspace(name: str) -> bool:
        without_file = PurgeTarget(name, path=None)
        return workspaces.holds(project, found, without_file.matches)

    target = read_target(project, document, begun, is_in_a_workspace)
    intents.refuse_broken_off(but=target.source)
    workflows = workflows_with_tables(project)
    _refuse_the_last(project, target, workflows)
    _refuse_present(project, target, workflows)
    workspaces.refuse_lost(project, found)
    left = workspaces.left_to_others(project, found, target.matches)
    found = replace(found, unreached={**found.unreached, **left})
    return _Subject(target, workflows, found, begun.get(target.source))


def _is_being_remade(intent: PurgeIntent | None) -> bool:
    """Return whether the embedded PostgreSQL has still to be created again."""
    return intent is not None and intent.embedded is not None and not intent.remade


def _refuse_unloadable(project: Services, workflows: Sequence[str], found: WorkspaceSearch) -> None:
    """Raise UsageError if the tables without the document would be too few to load a workspace."""
    # The workflows whose tables some workspace shows now.
    shown = {held.live.workflow for held in found.held}
    for workflow in sorted(shown):
        name, view = split_name(workflow)
        if name not in workflows:
            continue
        tables, changed = foresee_tables(project, name)
        try:
            require_sources(select_view(tables, view) if view else tables)
        except UsageError as error:
            steps = ", ".join(changed) or "its steps"
            raise UsageError(
                f"purge: workflow '{name}' has been changed since its last run ({steps}), and a"
                f" workspace shows it; 'graphmill index {name}', then purge again"
            ) from error


def _purge(project: Services, subject: _Subject) -> PurgeReport:
    """Delete the document.

    The order lets the same call go on with a purge that was killed. Nothing is deleted before the
    note of the purge. Each step then leaves the document out of what the next one reads: the
    inputs and tables, what was made of the tables, at last the history. The note goes at the end.
    """
    target, found = subject.target, subject.found
    # What a damaged cache lacks would count as missing in the new tables.
    project.cache.mend()
    taken = _take_out_everywhere(project, subject)
    intent = PurgeIntents(project.root).save(_make_intent(project, subject))
    # Older backups have the document: a restore purges it again by this note.
    hashed = PurgedDocuments.of(project.root).note(target.source)
    removed_corrections = remove_documents(project, _texts_of(project, subject))
    if removed_corrections:
        # The tables of corrections were made of the lines that are gone now.
        taken = _take_out_everywhere(project, subject)
    _delete_inputs(project, target)
    runs = [_publish(project, name, taken[name]) for name in subject.workflows]
    _require_gone(project, target, subject.workflows)
    # A load would compare with the tables that have the document, and these will be deleted.
    LoadedVersions(project.snapshots).forget()
    intent, deleted_rows = _clean_workspaces(project, found, intent)
    _withdraw_exports(project, subject.workflows)
    AuditLog(project.root / AUDIT).forget(target.matches)
    newest_run = max((run.run_id for run in runs), default="")
    history = forget_history(project, subject.workflows, newest_run)
    unreached = _end_or_keep_note(project, found, intent)
    return PurgeReport(
        document=target.source,
        runs=tuple(runs),
        forgotten=history.replies,
        files=history.snapshots.total.files,
        rebuilt=intent.embedded is not None,
        unowned=history.unowned,
        file=target.path is not None,
        rows=intent.rows,
        workspaces={str(workspace): counts for workspace, counts in deleted_rows.items()},
        unreached=_describe_unreached(project, target, unreached, found.foreign),
        notes=_write_notes(taken.values(), removed_corrections, found.unowned),
        hashed=hashed,
    )


def _take_out_everywhere(project: Services, subject: _Subject) -> dict[str, TakenOut]:
    """Return the tables without the document of each workflow. They are written, not published."""
    taken: dict[str, TakenOut] = {}
    for name in subject.workflows:
        taken[name] = take_out(project, name, subject.target, project.snapshots)
    return taken


def _make_intent(project: Services, subject: _Subject) -> PurgeIntent:
    """Return what a killed purge must remember: where the document was, and what the embedded
    PostgreSQL shows.

    If the document has come back since an earlier purge, workspaces that were cleaned then do not
    count as cleaned: it may have been loaded again.
    """
    earlier, target = subject.intent, subject.target
    if earlier and not earlier.done_here:
        return earlier
    rows = rows_of(project.snapshots, target)
    is_still_gone = not rows and target.path is None
    cleaned = earlier.cleaned if earlier and is_still_gone else ()
    embedded = workspaces.shown(project, subject.found)
    return PurgeIntent(target.source, rows, embedded, cleaned=cleaned)


def _texts_of(project: Services, subject: _Subject) -> dict[str, str]:
    """Return the texts of the document, or of its records, by their ids."""
    # The tables may not have the document any more; its id follows from its name all the same.
    texts = {document_id(subject.target.source): ""}
    tables = project.snapshots.tables
    for name in subject.workflows:
        manifest = project.snapshots.manifest(name)
        documents = manifest.tables.get(DOCUMENTS)
        if documents is None or not tables.exists(documents):
            continue
        ids = document_ids(project.snapshots, manifest, subject.target)
        # Only these rows are read: the texts of the whole corpus may not fit into memory.
        rows = tables.select(documents, ("id",), ids, ["id", "text"])
        texts |= dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))
    return texts


def _delete_inputs(project: Services, target: PurgeTarget) -> None:
    """Delete the document's file, and the hashes of input files, which have its name."""
    # Runs make these hashes again.
    shutil.rmtree(project.root / HASHES_FOLDER, ignore_errors=True)
    if target.path:
        target.path.unlink(missing_ok=True)


def _publish(project: Services, name: str, taken: TakenOut) -> RunReport:
    """Publish the tables without the document as those of the workflow, under a run id of their
    own."""
    run_id, began = project.runs.new_id(), clock_now()
    manifest = taken.manifest
    project.snapshots.publish(manifest, run_id)
    emit(project.workflow(name), manifest, project.snapshots, project.output_folder / name)
    has_rejects = any(step.rejects for step in taken.steps)
    outcome = "completed_with_rejects" if has_rejects else "completed"
    extraction = health(manifest.tables, project.snapshots, project.workflow(name))
    report = RunReport(
        run_id,
        name,
        outcome,
        exit_code=0,
        steps=taken.steps,
        health=extraction,
        notes=taken.notes,
        ended=clock_now(),
        began=began,
    )
    project.runs.save(report)
    return report


def _clean_workspaces(
    project: Services, found: WorkspaceSearch, intent: PurgeIntent
) -> tuple[PurgeIntent, dict[Workspace, Deleted]]:
    """Load the workspaces again without the document, and note each of them.

    Return the new note, and the deleted rows of the workspaces that this call has cleaned.
    """
    intents = PurgeIntents(project.root)
    deleted_rows: dict[Workspace, Deleted] = {}
    if intent.embedded is not None and _is_being_remade(intent):
        deleted_rows |= workspaces.remake_embedded(project, intent.embedded, found)
        intent = intents.save(replace(_note_cleaned(intent, deleted_rows), remade=True))
    for workspace, counts in workspaces.clean(project, found, tuple(deleted_rows)):
        deleted_rows[workspace] = counts
        intent = intents.save(_note_cleaned(intent, [workspace]))
    return intent, deleted_rows


def _note_cleaned(intent: PurgeIntent, cleaned: Iterable[Workspace]) -> PurgeIntent:
    """Return the note with these workspaces as finished, each once."""
    finished = dict.fromkeys((*intent.cleaned, *cleaned))
    return replace(intent, cleaned=tuple(finished))


def _withdraw_exports(project: Services, workflows: Sequence[str]) -> None:
    """Delete files that were emitted by workflows without tables: no run would write them again."""
    for folder in sorted(project.output_folder.glob("*/")):
        if folder.name not in workflows:
            withdraw(folder)


def _end_or_keep_note(
    project: Services, found: WorkspaceSearch, intent: PurgeIntent
) -> dict[Workspace, str]:
    """Return the workspaces that were not reached, and why. Delete the note if there are none."""
    unreached = dict(found.unreached)
    # This call or an earlier one has reached these.
    for workspace in intent.cleaned:
        unreached.pop(workspace, None)
    intents = PurgeIntents(project.root)
    # A damaged list may have named more workspaces.
    if unreached or LoadedWorkspaces(project.root).damaged:
        intents.save(replace(intent, done_here=True))
    else:
        intents.end(intent.document)
    return unreached


def _write_notes(
    taken: Iterable[TakenOut], removed_corrections: Sequence[str], unowned: Iterable[Workspace]
) -> list[str]:
    """Return what a person should know beside the figures of the report."""
    notes: list[str] = []
    for taken_out in taken:
        notes += taken_out.notes
    if removed_corrections:
        notes.append(
            f"corrections.jsonl: {counted(len(removed_corrections), 'correction')} named or quoted"
            f" the document and went with it: {', '.join(removed_corrections)}"
        )
    for workspace in unowned:
        notes.append(
            f"{workspace}: of an earlier version, for whom is not known; if it is this project's,"
            f" 'graphmill load --set workspace={workspace.name}', then purge again"
        )
    return notes


def _describe_unreached(
    project: Services,
    target: PurgeTarget,
    unreached: Mapping[Workspace, str],
    foreign: Mapping[Workspace, str],
) -> dict[str, str]:
    """Return for each workspace that was not reached why, and what to do.

    A damaged list of workspaces is named too, by its path.
    """
    command = f"graphmill purge --document {target.source}"
    no_more = f"or, if it no longer exists, take it out of {RECORD} and purge again"
    loaded = LoadedWorkspaces(project.root)
    known = () if loaded.damaged else loaded.all()
    actions: dict[str, str] = {}
    for workspace, why in unreached.items():
        if workspace in foreign:
            load = (
                f"'graphmill load --set workspace={workspace.name} --take-over"
                f" {foreign[workspace]}'"
            )
            action = (
                f"{load} if these rows belong to this project after all, then purge again,"
                f" {no_more}"
            )
        elif workspace in known:
            with_address = f"'{command} --set stores.{workspace.kind}...'"
            action = f"{with_address} with what reaches it, {no_more}"
        else:
            action = f"'{command}' there, then here again"
        actions[str(workspace)] = f"{why}; {action}"
    if loaded.damaged:
        actions[str(loaded.damaged)] = (
            "which databases it named is not known; purge in those that were loaded before by"
            " --set, then delete it and purge again"
        )
    return actions


def _refuse_the_last(project: Services, target: PurgeTarget, workflows: Sequence[str]) -> None:
    for name in workflows:
        manifest = project.snapshots.manifest(name)
        if DOCUMENTS not in manifest.tables:
            continue
        sources = project.snapshots.tables.read(manifest.tables[DOCUMENTS], ["source"])["source"]
        if len(sources) and all(target.matches(source) for source in sources):
            raise UsageError(
                f"purge: {target.source} is the only document of workflow '{name}', and one has to"
                " stay; add another document and run, then purge again"
            )


def _refuse_present(project: Services, target: PurgeTarget, workflows: Sequence[str]) -> None:
    """Raise an error if a run would read the document again, or might.

    A purge cannot be undone, so it must not run while the input folder is only partly mounted. A
    record must be out of its file, which only its owner edits.
    """
    for name in workflows:
        present = present_documents(
            project.workflow(name), project.resources, project.snapshots, target.source
        )
        if present is None:
            continue
        is_present = any(target.matches(source) for source in present.sources)
        # The file is deleted by the purge itself.
        if target.path is None and is_present:
            remedy = _describe_remedy(target, name)
            raise UsageError(f"purge: {target.source}: {remedy}, then purge again")
        unread = name_of(target.source, present.unread) if target.path is None else None
        if unread:
            raise UsageError(
                f"purge: {target.source}: {describe_source(unread)} was not read whole, and may"
                f" have it still; mend that ('graphmill rejects {name}' says what), then purge"
                " again"
            )
        before = project.snapshots.manifest(name).tables.get(DOCUMENTS)
        if before is not None and project.snapshots.tables.exists(before):
            known = identities(project.snapshots, before)
            first = f"if this is meant, 'graphmill run {name} --allow-deletes' first, then purge"
            others_known = without(known, target.source)
            others_present = without(present.documents, target.source)
            ratio = project.settings.max_delete_ratio
            check_deletions(others_known, others_present, ratio, first)


def _describe_remedy(target: PurgeTarget, workflow: str) -> str:
    """Return where a document without a file of its own still is, and how it is taken out."""
    file, _, record = target.source.rpartition("#")
    if file:
        return f"still in {file}; take record {record} out of the file"
    found = _IN_ARCHIVE.fullmatch(target.source)
    if found:
        return f"still in {found['archive']}; take {found['member']} out of the archive"
    return f"workflow '{workflow}' still reads it, and not from the input folder; take it out there"


def _require_gone(project: Services, target: PurgeTarget, workflows: Sequence[str]) -> None:
    """Raise DataError if the published tables of a workflow still have the document."""
    for name in workflows:
        manifest = project.snapshots.manifest(name)
        if DOCUMENTS not in manifest.tables:
            continue
        documents = project.snapshots.tables.read(manifest.tables[DOCUMENTS], ["source"])
        sources: Any = documents["source"]
        if any(target.matches(source) for source in sources):
            raise DataError(
                f"purge: {target.source}: the new tables of workflow '{name}' still have it; the"
                " same command goes on"
            )


def _abandon_batches(project: Services) -> None:
    with closing(Journal(project.usage_folder, project.runs.new_id(), PURGE)) as journal:
        project.abandon_batches(Meter(PURGE, silent, journal=journal))
