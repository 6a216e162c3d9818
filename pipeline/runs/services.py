"""The services that a project's settings name, each created once: workflows, models, cache, stores,
snapshots."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache as memoized
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pipeline.contract.views import in_view, is_made_by, split_name
from pipeline.errors import DiskFullError, NothingLoadedError, SettingsError, StoreError, UsageError
from pipeline.files import SETTINGS
from pipeline.load.owners import (
    DROP,
    OF_VIEW,
    READ,
    describe_owner,
    is_of_another,
    of_others,
    refuse_other_owner,
)
from pipeline.models.conversations import made_once, made_once_each
from pipeline.models.measured import MeasuredModels
from pipeline.runs.adapters import (
    DEFAULT_RERANKER,
    EMBEDDED,
    EMBEDDED_FOLDER,
    Stores,
    batched_chat,
    chat_model,
    embedding_model,
    graph_store,
    loads_into,
    open_cache,
    open_stores,
    reranker,
)
from pipeline.runs.owner import claim_snapshots, known_owner, owner_of, place_of, settle
from pipeline.runs.project_lock import lock_folder
from pipeline.runs.reports import Runs
from pipeline.settings.file import environment_of, expanded
from pipeline.settings.inputs import BUCKETS
from pipeline.stores.base import alone
from pipeline.stores.loaded_workspaces import LoadedWorkspaces, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pipeline.contract.prompts import Prompt
    from pipeline.documents.kept_conversions import KeepingConverter
    from pipeline.engine.resources import Model, Resources
    from pipeline.engine.run_options import RunOptions, Selection
    from pipeline.engine.usage.questions import QuestionJournal
    from pipeline.engine.workflow import Workflow
    from pipeline.models.base import EmbeddingModel, Listener, Reranker
    from pipeline.models.cache.replies import ReplyCache
    from pipeline.models.endpoint.batch import BatchChat
    from pipeline.models.endpoint.chat import OpenAIChat
    from pipeline.settings.schema import Settings
    from pipeline.snapshots.store import SnapshotStore
    from pipeline.stores.base import Live, Store

DEFAULT = "default"
EMBEDDING_ROLE = "embedding"
"""The role of a step's embedding model in its components."""
USAGE_FOLDER = "data/usage"
HASHES_FOLDER = "data/file-hashes"
MIRROR_FOLDER = "data/snapshots-mirror"
"""The folder that mirrors snapshots in an object store; it may be deleted at any time."""
KEYWORD_SECONDS = 8.0
"""The timeout of a call that only improves a search."""


SHARED = (
    "cache", "tokenizer", "query_chat", "keyword_chat", "embedding", "query_embedding", "reranker",
    "question_journal",
)  # fmt: skip
"""The services that queries of several workspaces share."""


@dataclass(frozen=True)
class Services:
    """The services of the project in the folder ``root``.

    - ``names_workspace`` is true if the caller has named the workspace for this call and means it,
      whoever owns it.
    - ``overrides`` are settings for this call, as a command takes them.
    - ``view`` is the name in ``serve.views`` of the view whose workspace this is, or "".
    - ``vocabulary`` is a text in place of that of prompts/vocabulary.yaml, to tell its price.
    - ``tables_root`` is a folder with other tables than the project's, to tell what a run does.

    Close it after use: it may hold connections to the stores.
    """

    root: Path
    settings: Settings
    names_workspace: bool = False
    overrides: tuple[str, ...] = field(default=(), repr=False)
    view: str = ""
    vocabulary: str | None = None
    tables_root: Path | None = None

    def close(self) -> None:
        if "stores" in self.__dict__:
            self.stores.close()
        for other in self.__dict__.get("_over", {}).values():
            other.close()

    def over(self, workspace: str) -> Self:
        """Return the same project over another workspace, whoever owns it.

        It shares models and cache with this one, and is closed with it.
        """
        settings = self.settings.model_copy(update={"workspace": workspace})
        return self._beside(workspace, replace(self, settings=settings, names_workspace=True))

    def over_view(self, view: str) -> Self:
        """Return the same project over the workspace of one of ``serve.views``.

        That workspace is only read if it belongs to this project and shows the view as settings
        define it. It shares models and cache with this one, and is closed with it.
        """
        settings = self.settings.of_view(view)
        return self._beside(
            in_view("", view), replace(self, settings=settings, names_workspace=False, view=view)
        )

    def _beside(self, key: str, other: Self) -> Self:
        if key not in self._over:
            other.__dict__.update({name: getattr(self, name) for name in SHARED})
            self._over[key] = other
        return self._over[key]

    @made_once
    def _over(self) -> dict[str, Self]:
        return {}

    def workflow(self, name: str | None = None) -> Workflow:
        """Return a workflow of this project, by default the one that settings name, with the steps
        of all views."""
        from pipeline.runs.views import with_views

        workflow = self._workflow_without_views(name)
        views = {view: one.where for view, one in self.settings.serve.views.items()}
        return with_views(workflow, views) if views else workflow

    def _workflow_without_views(self, name: str | None) -> Workflow:
        import pipeline.verbs  # noqa: F401  (registers them)
        from pipeline.contract.own_verbs import read_verbs
        from pipeline.corrections.file import FILE as CORRECTIONS
        from pipeline.engine.workflow_file import InputStep, read_workflow
        from pipeline.models.base import ChatModel, EmbeddingModel
        from pipeline.ontology.read import read_ontology
        from pipeline.ontology.step_args import OPEN
        from pipeline.runs.correction_steps import with_corrections
        from pipeline.runs.formats import read_formats, with_formats
        from pipeline.runs.input_steps import with_input_files
        from pipeline.runs.ontology_steps import with_ontology
        from pipeline.runs.picture_steps import with_pictures
        from pipeline.runs.table_steps import list_ids_of_tables, with_tables

        path = self.root / "workflows" / f"{name or self.settings.workflow}.yaml"
        environment = environment_of(self.root) if self.settings.input.steps else {}
        steps: list[InputStep] = []
        for position, step in enumerate(self.settings.input.steps):
            where = f"{SETTINGS}: input.steps[{position}]"
            args = expanded(step.args, environment, where)
            steps.append(InputStep(where, step.verb, args))
        sections = {
            "input": {
                **self.settings.input.model_dump(exclude={"steps", "owned", "pictures"}),
                "path": str(self.input_folder),
                "converter_folder": str(self.root),
                "hashes": str(self.root / HASHES_FOLDER),
                "inputs": self.placed_inputs(),
                "environment": self.keys_of_inputs(),
            },
            "graphrag": {"path": str(self.root / self.settings.graphrag.path)},
            "lightrag": {"path": str(self.lightrag_folder)},
            "vocabulary": self._vocabulary_args(),
            "project": {"root": str(self.root)},
        }
        own = read_verbs(self.root, self.settings.verbs)
        models = {
            ChatModel: self.settings.models.chat,
            EmbeddingModel: self.settings.models.embedding,
        }
        pictures = self.settings.input.pictures.model
        workflow = read_workflow(path, sections, steps, own, models)
        workflow = with_pictures(workflow, pictures, self.settings.models.chat)
        if self._joins_files(workflow):
            other = path.with_name(f"{self._workflow_of_files(workflow)}.yaml")
            reading = read_workflow(other, sections, steps, own, models)
            reading = with_pictures(reading, pictures, self.settings.models.chat)
            workflow = with_input_files(workflow, reading)
        tables_root = self.tables_root or self.root
        workflow = with_tables(workflow, tables_root, self.root / CORRECTIONS)
        ids = list_ids_of_tables(workflow, tables_root)
        ontology = read_ontology(self.root) or (OPEN if ids else None)
        if ontology is not None:
            workflow = with_ontology(workflow, ontology, ids)
        workflow = with_corrections(workflow, self.root, has_aliases=bool(ids))
        if not any(step.format_undecided for step in workflow.steps):
            return workflow
        chats = self.settings.models.chat
        return with_formats(workflow, read_formats(self.root), lambda chat: chats[chat].named_model)

    def placed_inputs(self) -> list[dict[str, Any]]:
        """Return the inputs beside the input folder, their paths below the project's folder."""
        placed: list[dict[str, Any]] = []
        for source in self.settings.inputs:
            url = source.url.get_secret_value()
            if source.type in ("folder", "git"):
                url = str(self.root / url)
            elif source.type == "sql":
                from pipeline.documents.database_rows import resolve_url

                url = resolve_url(url, self.root)
            # These are in no fingerprint, so a dump leaves them out.
            left_out = {"query": source.query, "max_deleted": source.max_deleted}
            placed.append({**source.model_dump(), **left_out, "url": url})
        return placed

    def keys_of_inputs(self) -> dict[str, str]:
        """Return the variables of the environment that open the buckets among the inputs."""
        from pipeline.snapshots.objects import keys_of

        buckets = [each for each in self.settings.inputs if each.type in BUCKETS]
        environment = environment_of(self.root) if buckets else {}
        keys: dict[str, str] = {}
        for source in buckets:
            keys |= keys_of(source.url.get_secret_value(), environment)
        return keys

    def _workflow_of_files(self, workflow: Workflow) -> str:
        """Return the name of the workflow that reads files which join an index; "" if none can."""
        from pipeline.runs.input_steps import source_with_replies

        source = source_with_replies(workflow)
        sections = {"lightrag": self.settings.lightrag, "graphrag": self.settings.graphrag}
        return sections[source].files if source else ""

    def _joins_files(self, workflow: Workflow) -> bool:
        """Check that files of the input folder, or tables, join the index that a workflow reads.

        They do as well if the last run had files: then the run tells that they are gone.
        """
        from pipeline.corrections.file import FILE as CORRECTIONS
        from pipeline.corrections.own_documents import has_own_statements
        from pipeline.documents.own_tables.columns import FOLDER
        from pipeline.engine.workflow import INPUT_DOCUMENTS
        from pipeline.runs.input_steps import has_files
        from pipeline.runs.table_steps import has_tables

        if not self._workflow_of_files(workflow):
            return False
        if (
            self.settings.inputs
            or has_files(self.input_folder)
            or has_tables((self.tables_root or self.root) / FOLDER)
            or has_own_statements(self.root / CORRECTIONS)
        ):
            return True
        last = self.snapshots.manifest(workflow.name).tables.get(INPUT_DOCUMENTS)
        return last is not None and last.rows > 0

    def _vocabulary_args(self) -> dict[str, Any]:
        """Return the arg of extract_graph that names the types of the prompt, if there are any."""
        from pipeline.ontology import vocabulary

        if self.vocabulary is None:
            found = vocabulary.read_vocabulary(self.root)
        else:
            found = vocabulary.parse_vocabulary(self.vocabulary, vocabulary.FILE)
        return {} if found is None else {"vocabulary": found}

    def why_not_loadable(self, name: str | None = None) -> str:
        """Return why the tables of the workflow cannot be loaded, and what to do; "" if they can.

        Only its steps are examined; no table is read.
        """
        from pipeline.engine.workflow import REJECTS
        from pipeline.load.projection import EMBEDDING_STEP_TABLE, require_columns
        from pipeline.models.base import EmbeddingModel
        from pipeline.runs.views import why_no_view

        workflow = self._workflow_without_views(name)
        steps = workflow.steps
        columns: dict[str, Collection[str]] = {}
        for step in steps:
            for output, table in step.outputs.items():
                if table != REJECTS:
                    columns[table] = step.writes[output].columns
        try:
            require_columns(columns)
        except UsageError as error:
            return str(error)
        embeds = next(step for step in steps if EMBEDDING_STEP_TABLE in step.outputs.values())
        kinds_of_models = [embeds.verb.roles[role] for role in embeds.models]
        if EmbeddingModel not in kinds_of_models:
            return (
                f"load: step '{embeds.id}' writes {EMBEDDING_STEP_TABLE} without an embedding"
                " model, by which questions are embedded too; have a step with one write them"
            )
        for view, one in self.settings.serve.views.items():
            reason = why_no_view(workflow, view, one.where)
            if reason:
                return reason
        return ""

    def abandon_batches(self, listener: Listener) -> None:
        """Cancel the batches that are under way, keep the replies they have given, and delete their
        files.

        Raises WaitingError while one is still being cancelled.
        """
        for name in self.settings.models.chat:
            self.batched_chat(name).abandon(listener)

    def settle_batches(self, name: str, listener: Listener) -> None:
        """Keep the replies of the chat model's batches, and cancel batches that no workflow will
        ask for."""
        batched = self.batched_chat(name)
        if batched.settle(listener) and not self._asked_in_batches(name):
            batched.cancel()
            batched.settle(listener)

    def _asked_in_batches(self, name: str) -> bool:
        """Return whether any workflow asks the model in batches, or cannot be read at present."""
        for path in sorted((self.root / "workflows").glob("*.yaml")):
            try:
                steps = self.workflow(path.stem).steps
            except SettingsError:
                return True
            for step in steps:
                if step.execution == "batch" and name in self.resources.chat_names(step):
                    return True
        return False

    def shown_workflow(self) -> str:
        """Return the workflow for callers who read the results of a run and name no workflow.

        It is the one whose tables this project's workspace shows. If no store answers, or the
        workspace belongs to another owner, it is the one that settings name. Callers who start a
        run use ``workflow`` instead.
        """
        try:
            return self.live_workflow() or self.settings.workflow
        except StoreError:
            return self.settings.workflow

    def live_workflow(self) -> str | None:
        """Return the name of the workflow whose tables the stores show.

        Return None if nothing is loaded, or if the workspace belongs to another owner.
        """
        if self.embedded_folder is not None and not self.embedded_folder.exists():
            return None
        live = self.stores.vectors.live()
        return live.workflow if live and not is_of_another(live, self.known_owner) else None

    def notes_on_owner(self, live: Live) -> tuple[str, ...]:
        """Return a warning if the workspace that shows ``live`` belongs to another owner.

        Raises OtherOwnerError in this case if the caller has not named the workspace.
        """
        if not is_of_another(live, self.known_owner):
            return ()
        if not self.names_workspace:
            refuse_other_owner(self.settings.workspace, [live], action=READ)
        note = (
            f"workspace '{self.settings.workspace}': belongs to {describe_owner(live)}, not to this"
            " project"
        )
        return (note,)

    def refuse_other_view(self, live: Live) -> None:
        """Raise NothingLoadedError if this is over a view that the workspace does not show as
        settings define it.

        Its conditions may have been narrowed since it was loaded, and anybody may load into any
        workspace.
        """
        if not self.view:
            return
        _, shown = split_name(live.workflow)
        conditions = self.settings.serve.views[self.view].where
        if shown != self.view or not is_made_by(live.version, conditions):
            raise NothingLoadedError(
                f"workspace '{self.settings.workspace}': does not show view '{self.view}' as"
                " serve.views has it now; run 'graphmill run' first"
            )

    def workspaces(self) -> dict[str, Mapping[str, Live]]:
        """Return, for each store and each workspace in it, what it shows and who owns it
        (``Live.owner``)."""
        with self._stores_there() as stores:
            return {store.name: store.workspaces() for store in stores}

    def removed_views(self) -> list[str]:
        """Return the workspaces that show views of this project which ``serve.views`` no longer
        has."""
        own = self.settings
        kept = {own.of_view(view).workspace for view in own.serve.views}
        found: set[str] = set()
        for shown in self.workspaces().values():
            for name, live in shown.items():
                _, view = split_name(live.workflow)
                if not view or live.owner != self.known_owner or name in kept:
                    continue
                if name == own.of_view(view).workspace:
                    found.add(name)
        return sorted(found)

    def drop_workspace(
        self, name: str, take_over: Collection[str] = ()
    ) -> dict[str, Mapping[str, int]]:
        """Delete a workspace from all stores; return the number of deleted rows by store and table.

        Snapshots and cache stay. Wait for a load that is under way. Raises UsageError if no store
        has the workspace. Raises OtherOwnerError if its owner is another one that is not among
        ``take_over``.
        """
        self.reach_workspace(name, take_over)
        settings = self.settings.model_copy(update={"workspace": name})
        with closing(open_stores(settings, self.root)) as stores, alone(stores.all):
            # Another project may have loaded the workspace since the first look at it.
            others = of_others(stores.all, self.owner).values()
            refuse_other_owner(name, others, take_over, DROP)
            dropped = {store.name: store.drop() for store in stores.all}
            LoadedWorkspaces(self.root).forget(loads_into(settings))
            return dropped

    def reach_workspace(self, name: str, take_over: Collection[str] = ()) -> None:
        """Check that the workspace may be dropped, before anybody is asked to confirm it.

        Raises the errors of ``drop_workspace``.
        """
        known: set[str] = set()
        for workspaces in self.workspaces().values():
            known.update(workspaces)
        if name not in known:
            have = ", ".join(sorted(known)) or "none"
            raise UsageError(f"workspace '{name}': there is none in the stores; have: {have}")
        refuse_other_owner(name, self.others(name).values(), take_over, DROP)

    def reach_stores(self, workflow: Workflow, options: RunOptions, indexes: bool = False) -> None:
        """Check that the stores answer, and that ``workflow`` can be loaded into the workspace.

        If ``indexes`` is true, the run indexes the workflow before it loads it. Then vectors of
        another embedding model are refused here, before they cost anything.

        Raises StoreError if a server does not answer. Raises UsageError if the workspace belongs to
        another owner. Raises UsageError if it shows another workflow or another model's vectors,
        and the options do not replace these.
        """
        from pipeline.load.overwrite_guard import VECTORS, refuse_other_model, refuse_other_workflow

        workspace = self.settings.workspace
        with self._stores_there() as stores:
            others = of_others(stores, self.owner)
            refuse_other_owner(workspace, others.values(), options.take_over)
            for view in self.settings.serve.views:
                of_view = self.settings.of_view(view).workspace
                others_in_view = of_others(stores, self.owner, of_view).values()
                refuse_other_owner(of_view, others_in_view, action=OF_VIEW)
            own = [store for store in stores if store.name not in others]
            lives = [store.live() for store in own]
            has_vectors = [VECTORS in store.tables for store in own]
        if not options.replace:
            tables = [table for step in workflow.steps for table in step.outputs.values()]
            refuse_other_workflow(workspace, lives, workflow.name, tables)
        if indexes and not options.re_embed:
            identity = self.embedding_of_run(workflow, options.selection)
            shown = [live for live, vectors in zip(lives, has_vectors, strict=True) if vectors]
            if identity is not None:
                refuse_other_model(workspace, shown, identity, workflow.name)

    def embedding_of_run(
        self, workflow: Workflow, selection: Selection
    ) -> Mapping[str, Any] | None:
        """Return the identity of the embedding model of the text units after a run of
        ``selection``.

        A step that the selection leaves unchanged keeps the vectors, and so the model, of the last
        run. Return None for a workflow without such vectors, or before a first run. Raises
        UsageError if the selection names a step that the workflow does not have.
        """
        from pipeline.load.projection import EMBEDDING_STEP_TABLE

        selection.check(workflow)
        embedding_steps = [
            step for step in workflow.steps if EMBEDDING_STEP_TABLE in step.outputs.values()
        ]
        if not embedding_steps:
            return None
        embeds = embedding_steps[0]
        if selection.leaves(embeds.id, workflow):
            record = self.snapshots.manifest(workflow.name).steps.get(embeds.id)
            return record.components["models"].get(EMBEDDING_ROLE) if record else None
        model = self.resources.models_of(embeds).get(EMBEDDING_ROLE)
        return model.identity if model else None

    def refusal_of_model(self, workflow: Workflow, selection: Selection) -> str:
        """Return why a run would be refused for its embedding model, or "".

        Only the reports of the project are read: they say which model the last load used. The run
        itself asks the stores (``reach_stores``).
        """
        from pipeline.load.overwrite_guard import refusal_of_other_model

        loaded = self._last_embedding()
        identity = self.embedding_of_run(workflow, selection)
        if loaded is None or identity is None or dict(loaded) == dict(identity):
            return ""
        return (
            f"workspace '{self.settings.workspace}':"
            f" {refusal_of_other_model(loaded, identity, workflow.name)}"
        )

    def _last_embedding(self) -> Mapping[str, Any] | None:
        """Return the identity of the model whose vectors the newest load wrote to the stores, or
        None."""
        from pipeline.load.projection import EMBEDDING_STEP_TABLE

        report = next((report for report in self.runs.reports() if report["load"]), None)
        if report is None:
            return None
        name = report["workflow"]
        until = [run for run in self.snapshots.history(name) if run <= report["run_id"]]
        for manifest in self.snapshots.kept_manifests(name, until[-1:]):
            vectors = manifest.tables.get(EMBEDDING_STEP_TABLE)
            for record in manifest.steps.values():
                if vectors is not None and vectors.rows and vectors in record.outputs.values():
                    return record.components["models"].get(EMBEDDING_ROLE)
        return None

    def others(self, workspace: str | None = None) -> dict[str, Live]:
        """Return what each store shows in the workspace for another owner; by default that of the
        settings.

        Raises StoreError if a server does not answer.
        """
        with self._stores_there() as stores:
            return of_others(stores, self.owner, workspace)

    @contextmanager
    def _stores_there(self) -> Iterator[Sequence[Store]]:
        """Yield the stores without an embedded PostgreSQL that does not exist yet; a connection
        would create it."""
        if self.embedded_folder is None or self.embedded_folder.exists():
            yield self.stores.all
        elif graph := graph_store(self.settings):
            with closing(graph):
                yield [graph]
        else:
            yield []

    @property
    def loads_into(self) -> list[Workspace]:
        """The workspaces that a load fills, including those of views."""
        views = map(self.settings.of_view, self.settings.serve.views)
        found: list[Workspace] = []
        for settings in (self.settings, *views):
            found += loads_into(settings)
        return found

    def stop_stores(self) -> None:
        """Close the stores, and stop the embedded PostgreSQL."""
        from pipeline.stores.postgres.embedded import stop_embedded

        self.close()
        self.__dict__.pop("stores", None)
        if self.embedded_folder is not None:
            stop_embedded(self.embedded_folder)

    @made_once
    def owner(self) -> str:
        """Return the owner of this project's rows in the stores.

        Raises UsageError for a copied project, unless all that it writes to is in its own folder.
        """
        settle(self.root, shares=not self._has_all_of_its_own)
        return self.settings.owner or owner_of(self.root)

    @property
    def _has_all_of_its_own(self) -> bool:
        """True if stores, snapshots and cache are in the project's folder."""
        settings = self.settings
        if self.embedded_folder is None or settings.stores.graph != "postgres":
            return False
        if settings.own_cache(self.root) is None or settings.snapshots_are_remote:
            return False
        return (self.root / settings.snapshots).resolve().is_relative_to(self.root.resolve())

    @property
    def known_owner(self) -> str:
        """The owner for callers that only read: nothing is created, and "" stands for a project
        that never ran."""
        return known_owner(self.root, self.settings.owner)

    @property
    def place(self) -> str:
        return place_of(self.root)

    @property
    def input_folder(self) -> Path:
        return self.root / self.settings.input.path

    @property
    def lightrag_folder(self) -> Path:
        """The folder with an index of LightRAG."""
        return self.root / self.settings.lightrag.path

    @property
    def embedded_folder(self) -> Path | None:
        """The folder of the embedded PostgreSQL, or None if another server is used."""
        if self.settings.stores.postgres.url != EMBEDDED:
            return None
        return self.root / EMBEDDED_FOLDER

    @property
    def output_folder(self) -> Path:
        return self.root / self.settings.output

    @property
    def usage_folder(self) -> Path:
        return self.root / USAGE_FOLDER

    @property
    def resources(self) -> Resources:
        """The models and prompts of steps. Prompts are read again each time, because they may have
        been edited."""
        from pipeline.engine.resources import Resources
        from pipeline.runs.formats import FormatChooser

        chooser = FormatChooser(self.root, self.chat, self.prompt)
        return Resources(
            memoized(self.prompt), self.chat, self.embedding, self.tokenizer, self.batched_chat,
            self.settle_batches,
            lambda: self.converter, chooser.decide, chooser.trial,
        )  # fmt: skip

    @made_once
    def stores(self) -> Stores:
        return open_stores(self.settings, self.root)

    @made_once
    def question_journal(self) -> QuestionJournal:
        """Return the journal of what questions cost."""
        from pipeline.engine.usage.questions import QUESTIONS, QuestionJournal

        return QuestionJournal(self.usage_folder / QUESTIONS)

    @made_once
    def snapshots(self) -> SnapshotStore:
        from pipeline.snapshots.store import SnapshotStore, open_snapshots

        if self.settings.snapshots_are_remote:
            return open_snapshots(
                self.settings.snapshots, self.root / MIRROR_FOLDER, environment_of(self.root)
            )
        return SnapshotStore(self.root / self.settings.snapshots)

    @made_once
    def runs(self) -> Runs:
        return replace(Runs.of(self.root), hold_snapshots=self._hold_snapshots)

    @contextmanager
    def _hold_snapshots(self) -> Iterator[None]:
        """Lock the snapshots while the block runs.

        Raises LockedError if others use them, UsageError if they belong to another project.
        """
        snapshots = self.snapshots
        with (
            lock_folder(snapshots.root, "a run of another project holds these snapshots"),
            snapshots.folder.alone(self.place),
        ):
            # A full disk must not keep the garbage collection from making space.
            with suppress(OSError, DiskFullError):
                mine = [owner for owner in (self.settings.owner, owner_of(self.root)) if owner]
                claim_snapshots(snapshots.folder, self.root, mine)
            yield

    @made_once
    def cache(self) -> ReplyCache:
        return open_cache(self.settings, self.root)

    @made_once
    def converter(self) -> KeepingConverter:
        from pipeline.documents.kept_conversions import KeepingConverter
        from pipeline.documents.limited_converter import LimitedConverter
        from pipeline.models.cache.conversions import ConversionCache

        processes = self.settings.engine.local_workers
        # One worker is the default of the setting, and no wish to convert files one by one.
        here = LimitedConverter(processes) if processes > 1 else LimitedConverter()
        return KeepingConverter(ConversionCache(self.cache), here)

    @made_once
    def tokenizer(self) -> Any:
        from pipeline.text.tokens import tokenizer

        chat = self.settings.models.chat.get(DEFAULT)
        return tokenizer(chat.model if chat else "")

    def prompt(self, name: str) -> Prompt:
        from pipeline.contract.prompts import read_prompt
        from pipeline.runs.picture_steps import PROMPT

        if name == PROMPT:
            # No workflow file names it, so a project of an earlier version does not have it.
            return self.query_prompt(name)
        return read_prompt(self.root / "prompts", name, {"language": self.settings.language})

    def query_prompt(self, name: str) -> Prompt:
        """Return a prompt for questions: the project's own, or else the one that comes with
        graphmill."""
        from pipeline.contract.prompts import read_prompt
        from pipeline.settings.init import shipped

        own, ours = self.root / "prompts", shipped() / "prompts"
        has_own = (own / f"{name}.md").is_file()
        # If neither folder has it, the error names the project's own.
        folder = ours if not has_own and (ours / f"{name}.md").is_file() else own
        return read_prompt(folder, name, {"language": self.settings.language})

    @made_once
    def chat(self) -> Callable[[str], OpenAIChat]:
        """Return the function that gives a chat model by its name.

        Each model is created once, so that its connections serve all its users.
        """
        return made_once_each(
            lambda name: chat_model(self.settings, name, self.cache, root=self.root, waits=True)
        )

    @made_once
    def query_chat(self) -> Callable[[str], OpenAIChat]:
        """Return the function that gives a chat model for questions; these do not wait behind a
        run's calls."""
        return made_once_each(
            lambda name: chat_model(self.settings, name, self.cache, urgent=True, root=self.root)
        )

    @made_once
    def keyword_chat(self) -> Callable[[str], OpenAIChat]:
        """Return the function that gives a chat model for optional calls of a question.

        Such a call is tried once, with a short timeout.
        """

        def make(name: str) -> OpenAIChat:
            chat = self.query_chat(name)
            return replace(chat, timeout=min(KEYWORD_SECONDS, chat.timeout), max_retries=0)

        return made_once_each(make)

    @property
    def measured(self) -> MeasuredModels:
        return MeasuredModels(self.root)

    def reply_speed(self, model: Model) -> float | None:
        """Return the tokens of replies in a second that doctor measured of a model; None if it did
        not."""
        from pipeline.models.endpoint.remote_model import RemoteModel

        if not isinstance(model, RemoteModel):
            return None
        return self.measured.of(model.endpoint.digest).speed

    @made_once
    def batched_chat(self) -> Callable[[str], BatchChat]:
        return made_once_each(lambda name: batched_chat(self.settings, name, self.chat(name)))

    @made_once
    def embedding(self) -> Callable[[str], EmbeddingModel]:
        return made_once_each(
            lambda name: embedding_model(
                self.settings, name, lambda: self.cache, root=self.root, waits=True
            )
        )

    @made_once
    def query_embedding(self) -> Callable[[str], EmbeddingModel]:
        """Return the function that gives an embedding model for questions; these do not wait behind
        a run's calls.

        A model on this machine is loaded only once for all its users.
        """

        def make(name: str) -> EmbeddingModel:
            if self.settings.models.embedding[name].kind in ("builtin", "local"):
                return self.embedding(name)
            return embedding_model(
                self.settings, name, lambda: self.cache, urgent=True, root=self.root
            )

        return made_once_each(make)

    @made_once
    def reranker(self) -> Reranker | None:
        """Return the reranker that is called default, or None if settings name no reranker."""
        return reranker(self.settings, root=self.root)

    @property
    def fuses_ranks(self) -> bool:
        """Return whether the reranker's order is fused with that of the search."""
        named = self.settings.models.rerank.get(DEFAULT_RERANKER)
        return named is not None and named.fuses_ranks

    def embedding_like(self, identity: Mapping[str, Any]) -> EmbeddingModel:
        """Return the model of the settings that made the loaded vectors, by which questions must be
        embedded.

        Raises UsageError if settings have no such model.
        """
        for name in self.settings.models.embedding:
            if dict(self.query_embedding(name).identity) == dict(identity):
                return self.query_embedding(name)
        # Imported late: it needs pandas, which a question does without.
        from pipeline.load.overwrite_guard import named_model

        raise UsageError(
            f"workspace '{self.settings.workspace}': its vectors were made by"
            f" {named_model(identity)}, which is none of models.embedding; set that model again, or"
            " 'graphmill run --re-embed' embeds all texts with the present one"
        )
