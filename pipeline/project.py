"""The project: a folder with settings, workflows, prompts and data, and everything that can be done
with it.

Each method imports the modules that it needs, so a query loads no engine, and a plan no
database.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.asking import Asking
from pipeline.errors import GraphmillError, SettingsError, UsageError, install_extra
from pipeline.files import temporary_folder, write_text
from pipeline.importing import Importing
from pipeline.settings.file import read_settings
from pipeline.settings.query_keywords import with_option_names
from pipeline.stores.base import Advanced, silent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Unpack

    import networkx as nx
    import pandas as pd

    from pipeline.backup.restore import RestoreReport
    from pipeline.backup.write import BackupReport
    from pipeline.corrections.decisions import Decision as Correction
    from pipeline.doctor.chat_model import Consent
    from pipeline.doctor.finding import Finding
    from pipeline.engine.bill.expected_calls import Estimate
    from pipeline.engine.law_check import HeldStep
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.export.picture import Picture
    from pipeline.export.source import ExportReport, ExportSource
    from pipeline.persons.erase import Erased
    from pipeline.persons.find import AboutPerson
    from pipeline.purge.document import PurgeReport
    from pipeline.purge.history import HistoryReport
    from pipeline.purge.target import Survey
    from pipeline.resolution.pins import Decision
    from pipeline.runs.corrections import Added, Effect
    from pipeline.runs.events import OnEvent
    from pipeline.runs.gc import GcReport
    from pipeline.runs.resolutions import Names, PinReport
    from pipeline.runs.said import WhatWasSaid
    from pipeline.runs.suspects import Suspects
    from pipeline.runs.views import ViewSize
    from pipeline.settings.own_models import Given
    from pipeline.settings.query_keywords import QueryKeywords
    from pipeline.tuning.tune import TuneOptions, Tuning
    from pipeline.verify.verify import Verification


class Project(Asking, Importing):
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
        from pipeline.settings.init import init_project

        with temporary_folder("graphmill-") as root:
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
                    problems = [*found.problems, found.advice]
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
        from pipeline.engine.losses import note_trades

        workflow = self.workflow(name)
        rejects = self.snapshots.manifest(workflow.name).tables.get("rejects")
        if rejects is None:
            return note_trades(workflow, REJECTS.frame())
        return note_trades(workflow, self.snapshots.tables.read(rejects))

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
        nothing written, for an id or a text that cannot be one, and for different texts of one id.
        """
        from pipeline.documents.owned import refuse_twice
        from pipeline.runs.posted import own_folder, rows_of

        folder = own_folder(self)
        documents = [folder.text(**row) for row in rows_of(texts, folder)]
        refuse_twice(documents)
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
        from pipeline.export.picture import draw_picture, find_entity, find_neighbourhood

        source = self._source(workflow)
        entity = find_entity(source, about)
        if entity:
            near = find_neighbourhood(source, entity, hops)
            return draw_picture(source, near, about, most, focus_id=entity)
        found = self.query_data(about, **options)
        links = found["relationships"]
        ids = [entity["id"] for entity in found["entities"]]
        for link in links:
            ids += [link["source_entity_id"], link["target_entity_id"]]
        distinct = list(dict.fromkeys(ids))
        link_ids = {link["id"] for link in links}
        return draw_picture(source, distinct, about, most, relationship_ids=link_ids)

    def _source(self, workflow: str | None, advanced: Advanced = silent) -> ExportSource:
        from pipeline.export.source import ExportSource

        neo4j = self.settings.stores.neo4j
        return ExportSource(
            self._manifest(workflow), self.snapshots, self.settings.workspace, neo4j.max_types,
            neo4j.max_source_ids,
            advanced,
        )  # fmt: skip


def _begin_spans(endpoint: str) -> None:
    from pipeline.spans import begin

    try:
        begin(endpoint)
    except ImportError:
        raise SettingsError(
            f"tracing.endpoint: OpenTelemetry is not installed; {install_extra('otel')}"
        ) from None
