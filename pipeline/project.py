"""The project: a folder with settings, workflows, prompts and data, and everything that can be done
with it.

Each method imports the modules that it needs, so a query loads no engine, and a plan no
database.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.asking import Asking
from pipeline.errors import GraphmillError, SettingsError, UsageError, install_extra
from pipeline.files import write_text
from pipeline.settings.file import read_settings
from pipeline.settings.query_keywords import with_option_names
from pipeline.stores.base import Advanced, silent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import LiteralString, Unpack

    import networkx as nx
    import pandas as pd

    from pipeline.backup.restore import RestoreReport
    from pipeline.backup.write import BackupReport
    from pipeline.corrections.decisions import Decision as Correction
    from pipeline.doctor.chat_model import Consent
    from pipeline.doctor.finding import Finding
    from pipeline.documents.own_tables.imported import TableImport
    from pipeline.engine.bill.expected_calls import Estimate
    from pipeline.engine.bill.forecast import Forecast
    from pipeline.engine.law_check import HeldStep
    from pipeline.engine.plan import PlannedStep, Rows, RunOptions, Selection
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.export.picture import Picture
    from pipeline.export.source import ExportReport, ExportSource
    from pipeline.ontology.other_forms import OntologyImport
    from pipeline.persons.erase import Erased
    from pipeline.persons.find import AboutPerson
    from pipeline.purge.document import PurgeReport
    from pipeline.purge.history import HistoryReport
    from pipeline.purge.target import Survey
    from pipeline.resolution.pins import Decision
    from pipeline.runs.conversions import ConversionReport, SampleEstimate
    from pipeline.runs.corrections import Added, Effect
    from pipeline.runs.events import OnEvent
    from pipeline.runs.gc import GcReport
    from pipeline.runs.nights import Night
    from pipeline.runs.reports import RunEntry
    from pipeline.runs.resolutions import Names, PinReport
    from pipeline.runs.said import WhatWasSaid
    from pipeline.runs.stages import Stage
    from pipeline.runs.suspects import Suspects
    from pipeline.runs.views import ViewSize
    from pipeline.settings.own_models import Given
    from pipeline.settings.query_keywords import QueryKeywords
    from pipeline.snapshots.store import Manifest
    from pipeline.tuning.tune import TuneOptions, Tuning
    from pipeline.verify.verify import Verification


class Project(Asking):
    """A project in a folder.

    Use ``with Project.open(folder) as project``, or close it after use: it may hold connections to
    the stores.
    """

    @classmethod
    def open(
        cls,
        root: str | Path = ".",
        overrides: Sequence[str] = (),
        chat: Given = None,
        embedding: Given = None,
    ) -> Project:
        """Open the project in a folder. Raises SettingsError.

        ``overrides`` are settings for this instance, as ``key.path=value``. ``chat`` and
        ``embedding`` are functions or objects that replace the models named "default"; a mapping of
        names to functions replaces several. docs/model-function.md says how they are called.
        """
        folder = Path(root).resolve()
        names_workspace = any(override.startswith("workspace=") for override in overrides)
        settings = read_settings(folder, overrides)
        if chat is not None or embedding is not None:
            from pipeline.settings.own_models import with_own_models

            settings = with_own_models(settings, chat, embedding)
        if settings.tracing.endpoint:
            _begin_spans(settings.tracing.endpoint)
        return cls(folder, settings, names_workspace, tuple(overrides))

    @classmethod
    @contextmanager
    def temporary(
        cls,
        overrides: Sequence[str] = (),
        chat: Given = None,
        embedding: Given = None,
        workflow: str = "fast",
    ) -> Iterator[Project]:
        """Give a new project in a temporary folder, which is removed at the end of the block.

        Its databases are there too, unless the overrides name others. The arguments are those of
        ``open``; ``workflow`` is the one that runs when none is named.
        """
        from tempfile import TemporaryDirectory

        from pipeline.settings.init import init_project

        with TemporaryDirectory(prefix="graphmill-", ignore_cleanup_errors=True) as folder:
            root = Path(folder)
            init_project(root, workflow)
            with cls.open(root, overrides, chat, embedding) as project:
                try:
                    yield project
                finally:
                    project.stop_stores()

    @classmethod
    def restore(
        cls,
        file: str | Path,
        folder: str | Path,
        workspace: str | None = None,
        purged: str | Path | None = None,
        overrides: Sequence[str] = (),
        advanced: Advanced = silent,
    ) -> RestoreReport:
        """Restore a backup into an empty folder, and load the stores again; no model is asked.

        See ``restore_files`` for the arguments and errors. A shared database that shows the
        workspace already is left as it is.
        """
        from pipeline.backup.restore import RestoreReport, restore_files, why_not_load

        target = Path(folder).absolute()
        listed = None if purged is None else Path(purged)
        restored = restore_files(Path(file), target, workspace, listed, overrides, advanced)
        manifest, problems = restored.manifest, list[str]()
        workflow = manifest.workflow
        with cls.open(target, overrides) as project:
            refusal = why_not_load(project) if workflow else ""
            if refusal:
                problems, workflow = [refusal], ""
            if workflow:
                project.load(workflow)
                found = project.verify(workflow)
                if not found.agrees:
                    problems = [*found.problems, f"stores differ; run '{found.repair}'"]
            notes = list(restored.notes)
            if not workflow and not problems and project.snapshots.workflows():
                known = ", ".join(project.snapshots.workflows())
                notes.append(
                    "restore: nothing was loaded or verified, for the backup does not say which"
                    f" workflow the stores show; 'graphmill -C {target} load WORKFLOW' loads one of"
                    f" {known}"
                )
            return RestoreReport(
                str(target), len(manifest.files), manifest.created, restored.is_copy,
                project.settings.workspace, workflow, restored.purged, tuple(problems),
                tuple(notes),
            )  # fmt: skip

    def backup(
        self, file: str | Path, with_keys: bool = False, advanced: Advanced = silent
    ) -> BackupReport:
        """Write a backup into a new file, also while a run goes on; see backup/write.py.

        It has no keys unless ``with_keys`` is true.
        """
        from pipeline.backup.write import write_backup

        return write_backup(self, Path(file).absolute(), with_keys, advanced)

    def __enter__(self) -> Project:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def plan(self, name: str | None = None) -> list[PlannedStep]:
        """Return what ``index`` would do in each step, and why; no model is called."""
        from pipeline.engine.plan import plan

        return plan(self.workflow(name), self.resources, self.snapshots)

    def forecast(
        self, name: str | None = None, selection: Selection | None = None
    ) -> list[Forecast]:
        """Return what ``index`` would do in each step, and what it would cost.

        No network is used. Only hashes of files are written, so that the run need not read these
        again.
        """
        from pipeline.engine.bill.forecast import forecast
        from pipeline.engine.plan import ALL

        return forecast(
            self.workflow(name), self.resources, self.snapshots, self.usage(), selection or ALL,
            speed_of=self.reply_speed,
        )  # fmt: skip

    def convert(self, name: str | None = None) -> ConversionReport:
        """Convert the files that a run of the workflow would convert, and keep the results; no
        model is asked. A plan knows afterwards what all files say."""
        from pipeline.runs.conversions import convert_files

        with self.runs.alone():
            return convert_files(self, name)

    def forecast_by_sample(
        self, sample: int, name: str | None = None, selection: Selection | None = None
    ) -> tuple[list[Forecast], SampleEstimate]:
        """Convert a sample of the files that are not converted, and return the forecast with what
        the other files would add to it. No model is asked."""
        from pipeline.engine.bill.forecast import totals
        from pipeline.runs.conversions import convert_files, estimate_rest

        before = totals(self.forecast(name, selection))["expected"]
        with self.runs.alone():
            converted = convert_files(self, name, sample)
        forecasts = self.forecast(name, selection)
        return forecasts, estimate_rest(converted, before, totals(forecasts)["expected"])

    def view_sizes(self, name: str | None = None) -> list[ViewSize]:
        """Return the number of rows that the last run of a workflow made for each of
        ``serve.views``."""
        from pipeline.runs.views import sizes_of_views

        views = {view: one.where for view, one in self.settings.serve.views.items()}
        return sizes_of_views(self.snapshots.manifest(name or self.settings.workflow), views)

    def trades(self, name: str | None = None) -> list[str]:
        """Return where the results of a workflow may differ from those of a full build, with the
        number of rows of the last run.

        It is empty unless the workflow asks for such a trade.
        """
        from pipeline.contract.schemas import REJECTS
        from pipeline.engine.losses import trades

        workflow = self.workflow(name)
        rejects = self.snapshots.manifest(workflow.name).tables.get("rejects")
        return trades(workflow, self.snapshots.tables.read(rejects) if rejects else REJECTS.frame())

    def note_on_layout(self, name: str | None = None) -> str:
        """Return a note if an earlier version of graphmill has run the workflow last, whose tables
        in the stores are of another layout; else ""."""
        from pipeline.stores.base import LAYOUT

        version = self.snapshots.schema_version(self.workflow(name).name)
        if version is None or version >= LAYOUT:
            return ""
        return (
            f"the last run was one of an earlier graphmill (schema {version}): the next load writes"
            " the text units again, and asks no model; questions wait for it"
        )

    def check_laws(
        self, name: str | None = None, documents: int = 200, seed: int = 1, draws: int = 4
    ) -> list[HeldStep]:
        """Check each step of a workflow (by default as in ``table``) against the law of its verb.

        The checks use artificial changes to ``documents`` documents of the last run; no model is
        called. Raises UsageError before the first run.
        """
        from pipeline.engine.law_check import check_laws

        workflow = self.workflow(name or self.shown_workflow())
        return check_laws(workflow, self.resources, self.snapshots, documents, seed, draws)

    def index(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Bring the snapshots up to date with the documents. See ``run``."""
        from pipeline.runs.stages import index_stage

        return self._run_alone(name, progress, on_event, options, index_stage)

    def load(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Bring the stores up to date with the snapshots.

        With ``options.manifest``, a run id or an unambiguous beginning of one, bring them back to
        the end of that run; the next load brings back the newest tables.

        Raises UsageError for an unknown run, DataError if its snapshots are no longer kept.
        """
        from pipeline.runs.stages import load_stage

        return self._run_alone(name, progress, on_event, options, load_stage)

    def run(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Index, then load.

        The stores stay unchanged, and the exit code is 3, if more rows of a step than
        ``max_reject_ratio``, or all, were rejected. The stores must answer before any endpoint is
        called. Raises UsageError, before any work, for a workflow whose tables cannot be loaded.

        ``on_event`` is called with every event but heartbeats as a dict (see
        pipeline/runs/events.py), one at a time, possibly from another thread. If it raises an
        error, the run ends; after an OSError it is not called again, and the run goes on.
        ``progress``, if given, receives everything instead.

        Raises DeletionError if more documents are missing than ``max_delete_ratio``, BudgetError if
        the options' limits are reached, WaitingError while a batch is not ready. The next run
        continues from there.
        """
        from pipeline.runs.stages import index_stage, load_stage

        return self._run_alone(name, progress, on_event, options, index_stage, load_stage)

    def retry(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
        recovered: bool = False,
        unended: bool = False,
    ) -> RunReport:
        """Run the workflow, by default the one that ``table`` reads, and ask again for lost or cut
        rows.

        ``recovered`` includes rows whose replies were incomplete or repaired. ``unended`` includes
        rows of which a reply lacks its end mark; only a reply with the mark replaces it. A workflow
        that cannot be loaded is only indexed.
        """
        from pipeline.engine.plan import RunOptions

        workflow = self.workflow(name or self.shown_workflow()).name
        run = self.index if self.why_not_loadable(workflow) else self.run
        again, without_end = self._asked_again(workflow, recovered, unended)
        wanted = replace(options or RunOptions(), again=again, unended=without_end)
        report = run(workflow, progress, on_event, wanted)
        if again:
            return report
        note = "no row was lost or cut, so no row was asked again"
        return replace(report, notes=(note, *report.notes))

    def forecast_retry(
        self, name: str | None = None, recovered: bool = False, unended: bool = False
    ) -> list[Forecast]:
        """Return what each step would do and cost in a ``retry``; no model is called."""
        from pipeline.engine.bill.forecast import forecast

        workflow = self.workflow(name or self.shown_workflow())
        again, without_end = self._asked_again(workflow.name, recovered, unended)
        return forecast(
            workflow, self.resources, self.snapshots, self.usage(), again=again,
            unended=without_end,
            speed_of=self.reply_speed,
        )  # fmt: skip

    def _asked_again(self, workflow: str, recovered: bool, unended: bool) -> tuple[Rows, Rows]:
        """Return the rows that a retry asks for, by step, and those of them that need an end
        mark."""
        from pipeline.engine.losses import ASKED_AGAIN, RECOVERED, UNENDED

        rejects = self.rejects(workflow)
        lost = rejects["kind"].isin(ASKED_AGAIN) & (rejects["class"] == "lost")
        without_end = (rejects["kind"] == UNENDED) & unended
        repaired = (rejects["kind"] == RECOVERED) & recovered
        chosen = lost | without_end | repaired
        return _rows_by_step(rejects[chosen]), _rows_by_step(rejects[without_end])

    def export(
        self,
        kind: str,
        folder: str | Path,
        name: str | None = None,
        force: bool = False,
        advanced: Advanced = silent,
    ) -> ExportReport:
        """Write the newest tables of a workflow (by default as in ``table``) as files; see
        export/kinds.py."""
        from pipeline.export.kinds import export
        from pipeline.runs.audit import audit_log_of

        log = audit_log_of(self.root, self.settings.serve.audit)
        if log:
            log.add(
                "export",
                key="",
                user="",
                workspace=self.settings.workspace,
                what=kind,
                workflow=name or "",
            )
        return export(kind, self._source(name, advanced), Path(folder), force)

    def import_graphrag(
        self,
        folder: str | Path,
        name: str = "",
        progress: Progress | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Index a workflow that reads an index of GraphRAG, in this folder instead of that of
        settings. Notes of the report name what is not taken, by table or file.

        Without ``name``, the workflow is graphrag_cache if the index has replies in its cache, and
        graphrag otherwise. Files of the input folder that a model would be asked about wait for
        the next run: a note says so.

        Raises UsageError for another workflow, SettingsError if a table is missing, DataError if
        one is damaged, and DeletionError if an optional one is gone since the last run.
        """
        from pipeline.engine.workflow import OF_GRAPHRAG, READ_GRAPHRAG_CACHE
        from pipeline.runs.import_graphrag import (
            choose_workflow,
            note_left_out,
            note_place,
            note_unused,
        )

        path = Path(folder).resolve()
        section = self.settings.graphrag.model_copy(update={"path": str(path)})
        project = replace(self, settings=self.settings.model_copy(update={"graphrag": section}))
        chosen, reasons = (name, []) if name else choose_workflow(self, path)
        verb = project._refuse_workflow_without(OF_GRAPHRAG, chosen)
        project._refuse_purged(chosen, "import graphrag")
        if verb == READ_GRAPHRAG_CACHE:
            report = project._index_import(chosen, "graphrag", progress, options)
            reasons += note_place(self, path)
        else:
            report = project.index(chosen, progress, options=options)
        sizes = {table: one.rows for table, one in self.snapshots.manifest(chosen).tables.items()}
        unused = note_unused(project.workflow(chosen), sizes)
        left_out = note_left_out(project.rejects(chosen))
        return replace(report, notes=(*reasons, *unused, *left_out, *report.notes))

    def import_lightrag(
        self,
        source: str | Path,
        name: str = "lightrag",
        progress: Progress | None = None,
        options: RunOptions | None = None,
        of_workspace: str = "",
    ) -> RunReport:
        """Copy an index to ``lightrag.path`` of settings, and index a workflow that begins with
        ``read_lightrag``. No chat model is asked.

        ``source`` is LightRAG's working folder, or the address of its PostgreSQL, postgresql://...,
        and ``of_workspace`` the workspace there, if it has several.
        Files of the input folder that a model would be asked about wait for the next run: a note
        says so. Raises UsageError if they are in the last run already, and for another workflow;
        SettingsError if a file is missing; DataError if one is damaged or was written by another
        version.
        """
        from pipeline.engine.workflow import READ_LIGHTRAG
        from pipeline.runs.import_lightrag import take_edits, take_index

        self._refuse_workflow_without({READ_LIGHTRAG}, name)
        self._refuse_purged_index(source, name, of_workspace)
        with self.runs.alone():
            take_index(self, source, of_workspace)
            notes = take_edits(self)
        report = self._index_import(name, "lightrag", progress, options)
        return replace(report, notes=(*report.notes, *notes))

    def _index_import(
        self, name: str, section: str, progress: Progress | None, options: RunOptions | None
    ) -> RunReport:
        """Index a workflow that reads an index with replies, and ask no model.

        ``section`` of settings is about the index. Files that a model would be asked about wait for
        the next run. Raises UsageError if they are in the last run already.
        """
        from pipeline.engine.workflow import INPUT_DOCUMENTS

        if not self._asks_about_files(name):
            return self.index(name, progress, options=options)
        fact = f"{self.input_folder} has files that a chat model must read, and an import asks none"
        then = f"'graphmill plan {name}' says what they cost, 'graphmill run {name}' adds them"
        if INPUT_DOCUMENTS in self.snapshots.manifest(name).tables:
            raise UsageError(f"import {section}: {fact}; the index is in its place: {then}")
        of_index = getattr(self.settings, section).model_copy(update={"files": ""})
        alone = replace(self, settings=self.settings.model_copy(update={section: of_index}))
        report = alone.index(name, progress, options=options)
        return replace(report, notes=(f"{fact}; {then}", *report.notes))

    def _refuse_purged(self, name: str, action: str) -> None:
        """Raise UsageError if the workflow would read a document that was purged."""
        from pipeline.engine.documents.document_list import present_documents
        from pipeline.purge.purged import PurgedDocuments, refuse_purged

        if PurgedDocuments.of(self.root).all():
            present = present_documents(self.workflow(name), self.resources, self.snapshots)
            refuse_purged(self.root, present.sources if present else (), action)

    def _refuse_purged_index(self, source: str | Path, name: str, of_workspace: str) -> None:
        """Raise UsageError, with nothing copied, if an index of LightRAG has a purged document."""
        from pipeline.purge.purged import PurgedDocuments
        from pipeline.runs.import_lightrag import open_index

        if not PurgedDocuments.of(self.root).all():
            return
        with open_index(source, of_workspace) as index:
            section = self.settings.lightrag.model_copy(update={"path": str(index), "files": ""})
            settings = self.settings.model_copy(update={"lightrag": section})
            replace(self, settings=settings)._refuse_purged(name, "import lightrag")

    def _asks_about_files(self, name: str) -> bool:
        """Check that the next run of the workflow would ask a chat model about files.

        A file that must be converted first counts too, as nobody knows its text.
        """
        from pipeline.models.base import ChatModel

        steps = self.workflow(name).steps
        if not any(step.verb.roles_of(ChatModel) for step in steps):
            return False
        for one in self.forecast(name):
            asks = one.planned.step.verb.roles_of(ChatModel) and one.estimate.calls[1] > 0
            if asks or one.to_convert or one.to_describe:
                return True
        return False

    def _refuse_workflow_without(self, verbs: Collection[str], name: str) -> str:
        """Return the first verb of the workflow that is one of these.

        Raises UsageError if there is none.
        """
        for step in self.workflow(name).steps:
            if step.verb.name in verbs:
                return step.verb.name
        wanted = " or ".join(sorted(verbs))
        raise UsageError(
            f"workflow '{name}': no step {wanted}; name a workflow that begins with it"
        )

    def usage(self) -> pd.DataFrame:
        """Return one row for every call of every run; engine/usage/journal.py lists the columns."""
        from pipeline.engine.usage.journal import read_usage

        return read_usage(self.usage_folder)

    def gc(self, keep: int, dry_run: bool = True, advanced: Advanced = silent) -> GcReport:
        """Delete the snapshots and records that no manifest to be kept names.

        Kept are the live manifest and the newest ``keep`` of each workflow; earlier runs cannot be
        loaded any more, and their logs are deleted.

        Raises LockedError while a run is under way, UsageError if ``keep`` is below 1.
        """
        from pipeline.runs.gc import collect_garbage

        with self.runs.alone():
            if not dry_run:
                self.snapshots.folder.sweep()
            return collect_garbage(self.snapshots, keep, dry_run, advanced, self.runs)

    def verify(
        self, name: str | None = None, quick: bool = False, advanced: Advanced = silent
    ) -> Verification:
        """Compare the stores with the tables of the workflow's last completed run, including those
        of its views.

        The workflow is by default that of ``table``. ``quick`` compares only counts and checksums.
        Raises UsageError if there is no such run, OtherOwnerError if the workspace belongs to
        another owner, DamagedError if the run's manifest cannot be read.
        """
        from pipeline.contract.views import conditions_digest, split_name
        from pipeline.snapshots.manifests import digest_of_view, view_of
        from pipeline.verify.verify import verify, with_view

        manifest = self.snapshots.live_manifest(name or self.shown_workflow())
        max_types = self.settings.stores.neo4j.max_types
        found = verify(
            manifest, self.snapshots, self.stores.all, max_types, quick, advanced, self.known_owner
        )
        _, view_of_manifest = split_name(manifest.workflow)
        if view_of_manifest:
            return found
        for view, one in self.settings.serve.views.items():
            made = view_of(manifest, view)
            if digest_of_view(made) != conditions_digest(one.where):
                fact = (
                    f"view {view}: not made as settings have it; run 'graphmill run"
                    f" {manifest.workflow}'"
                )
                found = replace(found, problems=(*found.problems, fact))
                continue
            stores = self.over_view(view).stores.all
            of_view = verify(
                made, self.snapshots, stores, max_types, quick, advanced, self.known_owner
            )
            found = with_view(found, view, of_view)
        return found

    def purge(self, document: str) -> PurgeReport:
        """Remove a document and every trace of it; see purge/document.py.

        ``document`` is its path below the input folder, present or former, or a record such as
        ``people.csv#42``.
        """
        from pipeline.purge.document import purge

        return purge(self, document)

    def certify_purge(self, report: PurgeReport, file: str | Path) -> None:
        """Write the certificate of a purge into a new file; see purge/certificate.py."""
        from pipeline.purge.certificate import write_certificate

        try:
            found = self.verify(quick=True)
            fact = "agree with the tables" if found.agrees else "differ from the tables"
            stores = (
                f"workspace '{self.settings.workspace}', workflow '{found.workflow}': counts and"
                f" checksums {fact}; other workspaces were not compared"
            )
        except GraphmillError as error:
            stores = f"not compared: {error}"
        write_certificate(self, report, Path(file), stores)

    def survey(self, document: str) -> Survey:
        """Return what ``purge`` would find of a document. Raises the errors of ``purge``."""
        from pipeline.purge.document import survey_document

        return survey_document(self, document)

    def purge_history(self, dry_run: bool = True) -> HistoryReport:
        """Delete everything that only earlier runs have; see purge/history.py."""
        from pipeline.purge.history import purge_history

        return purge_history(self, dry_run)

    def find_person(self, name: str) -> AboutPerson:
        """Return what the project holds about a person of this name; see persons/find.py."""
        from pipeline.persons.find import find_person

        return find_person(self, name)

    def erase_person(self, name: str, keep: Collection[str] = ()) -> Erased:
        """Delete what the project holds about a person, but for documents to ``keep``; see
        persons/erase.py."""
        from pipeline.persons.erase import erase_person

        return erase_person(self, name, keep)

    def resolutions(self, workflow: str | None = None) -> pd.DataFrame:
        """Return every pair of names that resolve_entities decided about; see
        resolution/pins.py."""
        from pipeline.runs.resolutions import resolutions

        return resolutions(self, workflow or self.shown_workflow())

    def names_of(self, entity_id: str, workflow: str | None = None) -> Names:
        """Return the other names of an entity, and the names that it was told apart from."""
        from pipeline.runs.resolutions import names_of

        return names_of(self, entity_id, workflow or self.shown_workflow())

    def pin(
        self, decision: Decision, a: str, b: str, workflow: str | None = None, by: str = ""
    ) -> PinReport:
        """Treat two names as one ("same") or as two ("different") from the next run on.

        ``by`` is who decides; without it, the account does.
        """
        from pipeline.runs.resolutions import pin

        return pin(self, decision, a, b, workflow or self.shown_workflow(), by)

    def undo_resolution(
        self, a: str, b: str, workflow: str | None = None, by: str = ""
    ) -> PinReport:
        """Remove a pin, or separate two names that the last run merged."""
        from pipeline.runs.resolutions import undo

        return undo(self, a, b, workflow or self.shown_workflow(), by)

    def corrections(self, workflow: str | None = None) -> list[Effect]:
        """Return the corrections of people, with what they changed in the last run; see
        runs/corrections.py."""
        from pipeline.runs.corrections import list_effects

        return list_effects(self, workflow or self.shown_workflow())

    def undone_corrections(self, workflow: str | None = None) -> list[dict[str, str]]:
        """Return the corrections that were taken back and that the last run's tables follow."""
        from pipeline.runs.corrections import list_undone

        return list_undone(self, workflow or self.shown_workflow())

    def suspects(self, workflow: str | None = None, limit: int = 200) -> Suspects:
        """Return entities of the last run that may be mistakes; see runs/suspects.py."""
        from pipeline.runs.suspects import list_suspects

        return list_suspects(self, workflow or self.shown_workflow(), limit)

    def what_was_said(
        self, entity: str, target: str = "", workflow: str | None = None
    ) -> WhatWasSaid:
        """Return what the model said of an entity, or with ``target`` of these two, before any
        correction."""
        from pipeline.runs.said import what_was_said

        return what_was_said(self, entity, target, workflow or self.shown_workflow())

    def add_correction(
        self, fields: dict[str, Any], workflow: str | None = None, dry_run: bool = False
    ) -> Added:
        """Add a correction with these fields; the next run follows it."""
        from pipeline.runs.corrections import add

        return add(self, fields, workflow or self.shown_workflow(), dry_run)

    def undo_correction(self, id: str, workflow: str | None = None) -> Correction:
        """Take a correction back and return it."""
        from pipeline.runs.corrections import undo_line

        return undo_line(self, id, workflow or self.shown_workflow())

    def apply_corrections(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
    ) -> RunReport:
        """Apply the corrections at once: a run that reads no source anew and asks no endpoint.

        The workflow is by default the one that ``table`` reads; one that cannot be loaded is only
        indexed. Tables and stores equal the run's manifest afterwards. Where a model would be
        asked, the former rows are kept, ``waiting`` of the step's report counts the requests, and
        the next run makes them. Raises UsageError, before any work, where something else has
        changed that this run could not follow; see runs/apply_corrections.py.
        """
        from pipeline.runs.apply_corrections import options_to_apply

        workflow = self.workflow(name or self.shown_workflow())
        run = self.index if self.why_not_loadable(workflow.name) else self.run
        return run(workflow.name, progress, on_event, options_to_apply(self, workflow))

    def tune(self, name: str | None = None, options: TuneOptions | None = None) -> Tuning:
        """Write prompts that fit these documents beside those of the workflow; see
        tuning/tune.py."""
        from pipeline.tuning.tune import TuneOptions, tune

        with self.runs.alone():
            return tune(self, name, options or TuneOptions())

    def forecast_tuning(
        self, name: str | None = None, options: TuneOptions | None = None
    ) -> Estimate:
        """Return what ``tune`` would ask and cost. No network is used; only hashes of files are
        written."""
        from pipeline.tuning.tune import TuneOptions, forecast_tuning

        return forecast_tuning(self, name, options or TuneOptions())

    def vocabulary_to_adopt(self) -> str | None:
        """Return what prompts/vocabulary.yaml would be for ontology.yaml, or None if it is that.

        Raises UsageError if the project has no ontology.
        """
        from pipeline.ontology.read import read_ontology
        from pipeline.ontology.vocabulary import vocabulary_text, write_vocabulary

        ontology = read_ontology(self.root)
        if ontology is None:
            raise UsageError(
                "ontology: no ontology.yaml with types here; write one, or run"
                " 'graphmill init --ontology'"
            )
        adopted = write_vocabulary(ontology)
        return None if adopted == vocabulary_text(self.root) else adopted

    def import_ontology(self, source: str | Path, force: bool = False) -> OntologyImport:
        """Write ontology.yaml from RDF, a schema of neo4j-graphrag, or classes of pydantic.

        A Python file is executed. Raises UsageError if there is an ontology and ``force`` is false.
        """
        from pipeline.ontology.other_forms import import_ontology

        return import_ontology(Path(source), self.root, force)

    def with_vocabulary(self, text: str) -> Project:
        """Return this project as if prompts/vocabulary.yaml had this content; close it after
        use."""
        return replace(self, vocabulary=text)

    def adopt_ontology(self, text: str) -> None:
        """Write prompts/vocabulary.yaml; the next run asks with its types.

        ``text`` is that of ``vocabulary_to_adopt``.
        """
        from pipeline.ontology.vocabulary import FILE

        with self.runs.alone():
            write_text(self.root / FILE, text)

    def import_triples(
        self,
        source: str | Path,
        columns: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
        is_master_data: bool = False,
    ) -> TableImport:
        """Put a table into the folder ``tables``, in place of one of that name.

        ``columns`` maps fields to names of columns, ``values`` fields to one value for all rows.
        A row of master data describes an entity by its id, name and aliases. Raises UsageError, and
        writes nothing, for a file without a row that can be used.
        """
        from pipeline.documents.own_tables import imported

        path = Path(source)
        named = imported.columns_of_import(
            self.root, path, columns or {}, values or {}, is_master_data
        )
        found = imported.describe_table(path, named)
        if not found.rows:
            reason = found.messages[0] if found.messages else f"{path.name}: no rows in it"
            raise UsageError(f"{reason}; nothing was written")
        with self.runs.alone():
            imported.write_table(self.root, path, named)
        return found

    @contextmanager
    def queried_table(
        self, url: str, query: str, table: str = "", columns: Mapping[str, str] | None = None
    ) -> Iterator[Path]:
        """Give a temporary file with the rows of a query in a Neo4j, for ``import_triples``.

        Its name is ``table``, or one that the same query always has. The user and the password are
        those of the settings ``cypher``. Raises UsageError for a query that writes, that has a
        mistake, or that gives no table of facts; raises StoreError if the server does not answer.
        """
        from tempfile import TemporaryDirectory

        from pipeline.documents.own_tables import imported, queried
        from pipeline.runs.adapters import neo4j_source

        source = neo4j_source(self.settings, url)
        name = queried.name_table(url, query, table)
        with TemporaryDirectory(prefix="graphmill-query-") as folder:
            path = Path(folder) / name
            named = imported.columns_of_import(self.root, path, columns or {}, {})
            # The user's own query is the whole statement. Nothing else is put into it.
            statement = cast("LiteralString", query)
            with source.rows(statement) as (names, rows):
                queried.write_rows(path, names, rows, named)
            yield path

    @contextmanager
    def with_table(
        self,
        source: str | Path,
        columns: Mapping[str, str],
        values: Mapping[str, str],
        is_master_data: bool = False,
    ) -> Iterator[tuple[TableImport, Project]]:
        """Give what the rows of a table are, and this project as if it had the table."""
        from pipeline.documents.own_tables import imported

        path = Path(source)
        named = imported.columns_of_import(self.root, path, columns, values, is_master_data)
        found = imported.describe_table(path, named)
        with imported.tried_folder(self.root, path, named) as tried:
            changed = replace(self, tables_root=tried)
            try:
                yield found, changed
            finally:
                changed.close()

    def status(self) -> dict[str, Any] | None:
        """Return the report of the last run that began, or None before the first.

        Its ``refused`` tells of a later run that did not begin; see ``Runs.status``.
        """
        return self.runs.status()

    def list_runs(self, of: Sequence[str] | None = None) -> list[RunEntry]:
        """Return all runs, or those of these ids, the newest first.

        Runs that were killed and the one under way are included.
        """
        from pipeline.runs.nights import list_runs

        return list_runs(self, of)

    def night(self, run: str | None = None) -> Night:
        """Return everything that is known of a run, by default of the newest.

        ``run`` is its id or an unambiguous beginning of it. Raises UsageError if no run, or
        several, match.
        """
        from pipeline.runs.nights import night

        return night(self, run)

    def list_documents(self, workflow: str | None = None) -> pd.DataFrame:
        """Return the indexed documents, by default those of the workflow that ``table`` reads.

        The columns are listed in engine/documents/document_list.py. Raises UsageError if nothing
        was indexed yet.
        """
        from pipeline.engine.documents.deletions import DOCUMENTS
        from pipeline.engine.documents.document_list import list_documents

        manifest = self._manifest(workflow)
        if DOCUMENTS not in manifest.tables:
            name = manifest.workflow
            advice = f"run 'graphmill index {name}' first"
            others = [one for one in self.snapshots.workflows() if one != name]
            if others:
                advice += f", or name one that has run: --workflow {' or '.join(others)}"
            raise UsageError(f"workflow '{name}': no documents yet; {advice}")
        return list_documents(manifest, self.snapshots)

    def left_out_of(self, rows: Collection[str], workflow: str | None = None) -> pd.DataFrame:
        """Return the rows of ``rejects`` of the last run that concern these sources, documents or
        text units."""
        from pipeline.engine.documents.document_list import left_out_of

        return left_out_of(rows, self._manifest(workflow), self.snapshots)

    def add(self, texts: str | Sequence[str] | Mapping[str, str] | pd.DataFrame) -> list[str]:
        """Add texts to the project's own documents and return their ids; the next run reads them.

        ``texts`` are one text, several, a mapping of ids to texts, or a DataFrame with a column
        ``text`` and, if wanted, ``id`` and ``title``; its other columns become metadata. A document
        of the same id is replaced; without an id, the content gives one. Raises UsageError, with
        nothing written, for an id or a text that cannot be one.
        """
        from pipeline.runs.posted import own_folder, rows_of

        folder = own_folder(self)
        documents = [folder.text(**row) for row in rows_of(texts)]
        for document in documents:
            folder.write(document)
        return [document.id for document in documents]

    def remove(self, ids: str | Collection[str]) -> int:
        """Remove documents that ``add`` or the server has written; return how many there were.

        The next run takes them out of the tables. ``purge`` removes every trace. Raises UsageError,
        with nothing removed, for an id that cannot be one.
        """
        from pipeline.runs.posted import own_folder

        folder = own_folder(self)
        names = {folder.id_of(id) for id in ([ids] if isinstance(ids, str) else ids)}
        return sum(folder.remove(name) for name in names)

    def changed_documents(self, workflow: str | None = None) -> pd.DataFrame:
        """Return the documents that the next run would find ``new``, ``edited`` or ``gone``.

        engine/documents/document_list.py lists the columns and the errors.
        """
        from pipeline.engine.documents.document_list import changed_documents

        return changed_documents(
            self.workflow(workflow or self.shown_workflow()), self.resources, self.snapshots
        )

    def doctor(self, long: bool = False, consent: Consent | None = None) -> list[Finding]:
        """Examine everything that a run depends on; return findings with what to do. See
        ``examine``."""
        from pipeline.doctor.checks import examine

        return examine(self, long, consent)

    def rejects(self, workflow: str | None = None) -> pd.DataFrame:
        """Return the rejects of the last completed run (by default as in ``table``) with a column
        ``class``.

        The class is "lost", or "decided" for rows that a rule left out or only remarked on
        (contract/reasons.py).
        """
        from pipeline.engine.losses import classes_of_steps
        from pipeline.runs.nights import own_reasons

        found = self.table("rejects", workflow)
        own = own_reasons(self, workflow or self.shown_workflow())
        return found.assign(**{"class": classes_of_steps(found, own)})

    def table(self, name: str, workflow: str | None = None) -> pd.DataFrame:
        """Return a table of the workflow's last completed run.

        The workflow is by default the one that the workspace shows, or else the one that settings
        name. Relationships have their ranks (snapshots/ranks.py). Raises UsageError if there is no
        such table.
        """
        from pipeline.snapshots.ranks import degrees, lack_ranks, with_ranks

        manifest = self._manifest(workflow)
        if not manifest.tables:
            advice = self.snapshots.advise_without_tables(manifest.workflow, "workflow")
            raise UsageError(f"workflow '{manifest.workflow}': no tables yet; {advice}")
        if name not in manifest.tables:
            have = ", ".join(sorted(manifest.tables))
            others = ", ".join(sorted(set(self.snapshots.workflows()) - {manifest.workflow}))
            or_name = ""
            if others and workflow is None:
                or_name = f"; or name another workflow: {others}"
            raise UsageError(
                f"workflow '{manifest.workflow}': no table '{name}'; have: {have}{or_name}"
            )
        found = self.snapshots.tables.read(manifest.tables[name])
        if lack_ranks(name, found.columns, manifest, self.snapshots):
            return with_ranks(found, degrees(manifest, self.snapshots))
        return found

    def graph(self, workflow: str | None = None) -> nx.DiGraph:
        """Return the knowledge graph as ``export graphml`` writes it (see ``graph_of``).

        Nodes are entity ids; attributes are texts and numbers, so that every writer of networkx
        accepts it. Raises UsageError if there is none.
        """
        from pipeline.export.graph import graph_of, without_parallels

        return without_parallels(graph_of(self._source(workflow)))

    @with_option_names
    def picture(
        self,
        about: str,
        workflow: str | None = None,
        hops: int = 1,
        most: int = 100,
        **options: Unpack[QueryKeywords],
    ) -> Picture:
        """Draw the neighbourhood of an entity, or the evidence of a question.

        The result shows as SVG in a notebook, and ``.graph`` is a networkx graph with positions. If
        ``about`` is the name or id of an entity, it has what is within ``hops`` of it. Otherwise
        ``about`` is a question with the ``options`` of ``query``, and it has the entities and
        relationships of the evidence. There are up to ``most`` entities, 500 at most, the nearest
        first.

        Raises UsageError if there is no graph, and the errors of ``query``.
        """
        from pipeline.export.picture import find_entity, neighbourhood, picture_of

        source = self._source(workflow)
        entity = find_entity(source, about)
        if entity:
            near = neighbourhood(source, entity, hops)
            return picture_of(source, near, about, most, focus=entity)
        found = self.query_data(about, **options)
        links = found["relationships"]
        ids = [entity["id"] for entity in found["entities"]]
        for link in links:
            ids += [link["source_entity_id"], link["target_entity_id"]]
        distinct = list(dict.fromkeys(ids))
        return picture_of(source, distinct, about, most, only={link["id"] for link in links})

    def _manifest(self, workflow: str | None) -> Manifest:
        return self.snapshots.manifest(workflow or self.shown_workflow())

    def _source(self, workflow: str | None, advanced: Advanced = silent) -> ExportSource:
        from pipeline.export.source import ExportSource

        neo4j = self.settings.stores.neo4j
        return ExportSource(
            self._manifest(workflow), self.snapshots, self.settings.workspace, neo4j.max_types,
            neo4j.max_source_ids,
            advanced,
        )  # fmt: skip

    def _run_alone(
        self,
        name: str | None,
        progress: Progress | None,
        on_event: OnEvent | None,
        options: RunOptions | None,
        *stages: Stage,
    ) -> RunReport:
        from pipeline.engine.plan import RunOptions
        from pipeline.engine.run_report import Progress
        from pipeline.persons.intention import ErasureIntents
        from pipeline.purge.intention import PurgeIntents
        from pipeline.runs.events import Events
        from pipeline.runs.stages import run_stages

        progress = progress or (Events(on_event) if on_event else Progress())
        self.workflow(name)
        with self.runs.alone():
            PurgeIntents(self.root).refuse_broken_off()
            unended = ErasureIntents(self.root).describe_unended()
            if unended:
                progress.told(unended)
            return run_stages(self, name, progress, options or RunOptions(), *stages)


def _begin_spans(endpoint: str) -> None:
    from pipeline.spans import begin

    try:
        begin(endpoint)
    except ImportError:
        raise SettingsError(
            f"tracing.endpoint: OpenTelemetry is not installed; {install_extra('otel')}"
        ) from None


def _rows_by_step(rejects: pd.DataFrame) -> Rows:
    return {str(step): frozenset(rows) for step, rows in rejects.groupby("step")["row_id"]}
