"""What a project's settings name, each made once: workflows, models, cache, stores, snapshots."""

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
    is_of_another,
    of_others,
    refuse_other_owner,
    told_owner,
)
from pipeline.models.conversations import made_once, made_once_each
from pipeline.models.measured import MeasuredModels
from pipeline.runs.adapters import (
    EMBEDDED,
    EMBEDDED_FOLDER,
    Stores,
    batched_chat,
    chat_model,
    embedding_model,
    loads_into,
    neo4j_store,
    open_cache,
    open_stores,
    reranker,
)
from pipeline.runs.owner import claim_snapshots, known_owner, owner_of, place_of, settle
from pipeline.runs.reports import Runs, held
from pipeline.settings.file import environment_of, expanded
from pipeline.stores.base import alone
from pipeline.stores.loaded_workspaces import LoadedWorkspaces, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pipeline.contract.conversion import Converter
    from pipeline.contract.prompts import Prompt
    from pipeline.engine.plan import RunOptions, Selection
    from pipeline.engine.resources import Model, Resources
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
"""Of snapshots that are in an object store: may be deleted at any time."""
KEYWORD_SECONDS = 8.0
"""For a call that only makes a search better."""


SHARED = (
    "cache", "tokenizer", "query_chat", "keyword_chat", "embedding", "query_embedding", "reranker",
    "question_journal",
)  # fmt: skip
"""What questions of several workspaces share."""


@dataclass(frozen=True)
class Services:
    """Of the project in the folder ``root``. ``names_workspace``: whoever asks has named the
    workspace for this once, and means it, whosever it is; ``overrides``: of the settings, for this
    once, as a command takes them. ``view``: of ``serve.views``, over whose workspace it is. Close
    it: it may hold connections to the stores."""

    root: Path
    settings: Settings
    names_workspace: bool = False
    overrides: tuple[str, ...] = field(default=(), repr=False)
    view: str = ""

    def close(self) -> None:
        if "stores" in self.__dict__:
            self.stores.close()
        for other in self.__dict__.get("_over", {}).values():
            other.close()

    def over(self, workspace: str) -> Self:
        """The same project over another workspace, whosever it is; models and cache are the same
        ones. It is closed with this one."""
        settings = self.settings.model_copy(update={"workspace": workspace})
        return self._beside(workspace, replace(self, settings=settings, names_workspace=True))

    def over_view(self, view: str) -> Self:
        """The same project over the workspace of one of ``serve.views``, if it is this project's
        and shows the view as settings have it; models and cache are the same ones. It is closed
        with this one."""
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
        """Return a workflow of this project, the one that settings name by default, with the steps
        of all views."""
        from pipeline.runs.views import with_views

        workflow = self._workflow_without_views(name)
        views = {view: one.where for view, one in self.settings.serve.views.items()}
        return with_views(workflow, views) if views else workflow

    def _workflow_without_views(self, name: str | None) -> Workflow:
        import pipeline.verbs  # noqa: F401  (registers them)
        from pipeline.contract.own_verbs import read_verbs
        from pipeline.engine.workflow_file import InputStep, read_workflow
        from pipeline.models.base import ChatModel, EmbeddingModel
        from pipeline.runs.formats import read_formats, with_formats

        path = self.root / "workflows" / f"{name or self.settings.workflow}.yaml"
        environment = environment_of(self.root) if self.settings.input.steps else {}
        steps = [
            InputStep(
                where := f"{SETTINGS}: input.steps[{position}]",
                step.verb,
                expanded(step.args, environment, where),
            )
            for position, step in enumerate(self.settings.input.steps)
        ]
        sections = {
            "input": (
                self.settings.input.model_dump(exclude={"steps"})
                | {
                    "path": str(self.input_folder),
                    "converter_folder": str(self.root),
                    "hashes": str(self.root / HASHES_FOLDER),
                }
            ),
            "graphrag": {"path": str(self.root / self.settings.graphrag.path)},
            "project": {"root": str(self.root)},
        }
        own = read_verbs(self.root, self.settings.verbs)
        models = {
            ChatModel: self.settings.models.chat,
            EmbeddingModel: self.settings.models.embedding,
        }
        workflow = read_workflow(path, sections, steps, own, models)
        if not any(step.format_undecided for step in workflow.steps):
            return workflow
        chats = self.settings.models.chat
        return with_formats(workflow, read_formats(self.root), lambda chat: chats[chat].named_model)

    def why_not_loadable(self, name: str | None = None) -> str:
        """Why the tables that the workflow writes cannot be loaded, and what to do; empty where
        they can. Told by its steps alone: nothing is read."""
        from pipeline.engine.workflow import REJECTS
        from pipeline.load.projection import EMBEDDING_STEP_TABLE, require_columns
        from pipeline.models.base import EmbeddingModel
        from pipeline.runs.views import why_no_view

        workflow = self._workflow_without_views(name)
        steps = workflow.steps
        written = {
            table: step.writes[name].columns
            for step in steps
            for name, table in step.outputs.items()
        }
        try:
            require_columns(
                {table: columns for table, columns in written.items() if table != REJECTS}
            )
        except UsageError as error:
            return str(error)
        embeds = next(step for step in steps if EMBEDDING_STEP_TABLE in step.outputs.values())
        if EmbeddingModel not in (embeds.verb.roles[role] for role in embeds.models):
            return (
                f"load: step '{embeds.id}' writes {EMBEDDING_STEP_TABLE} without an embedding"
                " model, by which questions are embedded too; have a step with one write them"
            )
        views = self.settings.serve.views.items()
        return next(
            filter(None, (why_no_view(workflow, view, one.where) for view, one in views)), ""
        )

    def abandon_batches(self, listener: Listener) -> None:
        """Cancel the batches that are under way, keep what they have answered, and delete their
        files. Raises WaitingError while one is still being cancelled."""
        for name in self.settings.models.chat:
            self.batched_chat(name).abandon(listener)

    def settle_batches(self, name: str, listener: Listener) -> None:
        """Keep what has come of the chat model's batches; cancel those that no workflow will ask
        for."""
        batched = self.batched_chat(name)
        if batched.settle(listener) and not self._asked_in_batches(name):
            batched.cancel()
            batched.settle(listener)

    def _asked_in_batches(self, name: str) -> bool:
        """By any workflow, also by one that cannot be read at present."""
        for path in sorted((self.root / "workflows").glob("*.yaml")):
            try:
                steps = self.workflow(path.stem).steps
            except SettingsError:
                return True
            if any(
                step.execution == "batch" and name in self.resources.chat_names(step)
                for step in steps
            ):
                return True
        return False

    def shown_workflow(self) -> str:
        """The workflow of those who read what a run has made and name none: that of which this
        project's workspace shows the tables, else, also where no store answers or the workspace is
        another owner's, the one that settings name. Who makes something, and names none, has the
        one that settings name, as ``workflow`` does."""
        try:
            return self.live_workflow() or self.settings.workflow
        except StoreError:
            return self.settings.workflow

    def live_workflow(self) -> str | None:
        """Which workflow's tables the stores show; None when nothing is loaded, or the workspace is
        another owner's."""
        if self.embedded_folder is not None and not self.embedded_folder.exists():
            return None
        live = self.stores.vectors.live()
        return live.workflow if live and not is_of_another(live, self.known_owner) else None

    def notes_on_owner(self, live: Live) -> tuple[str, ...]:
        """What those are to be told who read the workspace, which shows ``live``: whose it is,
        where it is another owner's and they have named it for this once. Raises OtherOwnerError
        where they have not."""
        if not is_of_another(live, self.known_owner):
            return ()
        if not self.names_workspace:
            refuse_other_owner(self.settings.workspace, [live], action=READ)
        return (
            (
                f"workspace '{self.settings.workspace}': belongs to {told_owner(live)}, not to this"
                " project"
            ),
        )

    def refuse_other_view(self, live: Live) -> None:
        """Raise NothingLoadedError where this is over a view, and what is shown is not that view as
        settings have it.

        Its conditions may have been narrowed since it was loaded; and anybody may load into any
        workspace.
        """
        if not self.view:
            return
        _, shown = split_name(live.workflow)
        if shown != self.view or not is_made_by(
            live.version, self.settings.serve.views[self.view].where
        ):
            raise NothingLoadedError(
                f"workspace '{self.settings.workspace}': does not show view '{self.view}' as"
                " serve.views has it now; run 'graphmill run' first"
            )

    def workspaces(self) -> dict[str, Mapping[str, Live]]:
        """Store -> workspace -> what it shows, and whose it is (``Live.owner``)."""
        with self._stores_there() as stores:
            return {store.name: store.workspaces() for store in stores}

    def removed_views(self) -> list[str]:
        """Return the workspaces that show views of this workspace which ``serve.views`` does not
        have any more."""
        own = self.settings
        kept = {own.of_view(view).workspace for view in own.serve.views}
        found = set[str]()
        for shown in self.workspaces().values():
            for name, live in shown.items():
                _, view = split_name(live.workflow)
                is_ours = (
                    view and live.owner == self.known_owner and name == own.of_view(view).workspace
                )
                found |= {name} if is_ours and name not in kept else set()
        return sorted(found)

    def drop_workspace(
        self, name: str, take_over: Collection[str] = ()
    ) -> dict[str, Mapping[str, int]]:
        """Delete a workspace from all stores; store -> table -> deleted rows. Snapshots and cache
        stay.

        Raises UsageError when no store has it, OtherOwnerError when it belongs to another owner,
        and to none of ``take_over``. Waits for a load that is under way.
        """
        self.reach_workspace(name, take_over)
        settings = self.settings.model_copy(update={"workspace": name})
        with closing(open_stores(settings, self.root)) as stores, alone(stores.all):
            refuse_other_owner(name, of_others(stores.all, self.owner).values(), take_over, DROP)
            dropped = {store.name: store.drop() for store in stores.all}
            LoadedWorkspaces(self.root).forget(loads_into(settings))
            return dropped

    def reach_workspace(self, name: str, take_over: Collection[str] = ()) -> None:
        """Raises what ``drop_workspace`` does, before anybody is asked whether to drop it."""
        known = sorted(
            {workspace for workspaces in self.workspaces().values() for workspace in workspaces}
        )
        if name not in known:
            raise UsageError(
                f"workspace '{name}': there is none in the stores; have:"
                f" {', '.join(known) or 'none'}"
            )
        refuse_other_owner(name, self.others(name).values(), take_over, DROP)

    def reach_stores(self, workflow: Workflow, options: RunOptions, indexes: bool = False) -> None:
        """Check that the stores answer, and that ``workflow`` can be loaded into the workspace.

        ``indexes``: whether a run indexes the workflow before it loads it. Vectors of another
        embedding model than the run's are refused then, before they cost anything.

        Raises StoreError when a server does not answer, UsageError if the workspace is another
        owner's, or shows another workflow or another model's vectors, and the options do not
        replace these.
        """
        from pipeline.load.overwrite_guard import VECTORS, refuse_other_model, refuse_other_workflow

        workspace = self.settings.workspace
        with self._stores_there() as stores:
            others = of_others(stores, self.owner)
            refuse_other_owner(workspace, others.values(), options.take_over)
            for of_view in (
                self.settings.of_view(view).workspace for view in self.settings.serve.views
            ):
                refuse_other_owner(
                    of_view, of_others(stores, self.owner, of_view).values(), action=OF_VIEW
                )
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
        """Return the identity of the model whose vectors the text units have after a run of
        ``selection``.

        A step that the selection leaves as it is keeps the vectors, and so the model, of the last
        run. Return None for a workflow that makes no such vectors, or before a first run. Raises
        UsageError for a step that the workflow does not have.
        """
        from pipeline.load.projection import EMBEDDING_STEP_TABLE

        selection.check(workflow)
        embeds = next(
            (step for step in workflow.steps if EMBEDDING_STEP_TABLE in step.outputs.values()), None
        )
        if embeds is None:
            return None
        if selection.leaves(embeds.id, workflow):
            record = self.snapshots.manifest(workflow.name).steps.get(embeds.id)
            return record.components["models"].get(EMBEDDING_ROLE) if record else None
        model = self.resources.models_of(embeds).get(EMBEDDING_ROLE)
        return model.identity if model else None

    def refusal_of_model(self, workflow: Workflow, selection: Selection) -> str:
        """Return why a run would be refused for its embedding model, as far as the project itself
        knows; else "".

        No store is asked: what the last load of the project brought to them is in its reports. The
        run asks the stores (``reach_stores``).
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
        """Return the identity of the model whose vectors the newest load brought to the stores, or
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
        """Store -> what it shows in the workspace, by default that of the settings, for another
        owner. Raises StoreError when a server does not answer."""
        with self._stores_there() as stores:
            return of_others(stores, self.owner, workspace)

    @contextmanager
    def _stores_there(self) -> Iterator[Sequence[Store]]:
        """All but an embedded PostgreSQL that nothing was loaded into yet: to look there would make
        it."""
        if self.embedded_folder is None or self.embedded_folder.exists():
            yield self.stores.all
        elif self.settings.stores.graph == "neo4j":
            with closing(neo4j_store(self.settings)) as graph:
                yield [graph]
        else:
            yield []

    @property
    def loads_into(self) -> list[Workspace]:
        """The workspaces that a load fills, those of views included."""
        views = map(self.settings.of_view, self.settings.serve.views)
        return [
            workspace for settings in (self.settings, *views) for workspace in loads_into(settings)
        ]

    def stop_stores(self) -> None:
        """Let go of the stores, and stop the embedded PostgreSQL."""
        from pipeline.stores.postgres.embedded import stop_embedded

        self.close()
        self.__dict__.pop("stores", None)
        if self.embedded_folder is not None:
            stop_embedded(self.embedded_folder)

    @made_once
    def owner(self) -> str:
        """Whose rows the stores have of this project. Raises UsageError for a copy of another
        project."""
        settle(self.root)
        return self.settings.owner or owner_of(self.root)

    @property
    def known_owner(self) -> str:
        """As ``owner``, for those who only look: nothing is made, and a project that has never run
        is nobody's."""
        return known_owner(self.root, self.settings.owner)

    @property
    def place(self) -> str:
        return place_of(self.root)

    @property
    def input_folder(self) -> Path:
        return self.root / self.settings.input.path

    @property
    def embedded_folder(self) -> Path | None:
        """Where the embedded PostgreSQL is; None where another server is used."""
        return (
            self.root / EMBEDDED_FOLDER if self.settings.stores.postgres.url == EMBEDDED else None
        )

    @property
    def output_folder(self) -> Path:
        return self.root / self.settings.output

    @property
    def usage_folder(self) -> Path:
        return self.root / USAGE_FOLDER

    @property
    def resources(self) -> Resources:
        """Prompts are read anew each time: they may have been edited."""
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
        """What questions cost."""
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
        """Raises LockedError where others use them, UsageError where they are another project's."""
        snapshots = self.snapshots
        with (
            held(snapshots.root, "a run of another project holds these snapshots"),
            snapshots.folder.alone(self.place),
        ):
            with suppress(OSError, DiskFullError):  # a full disk must not keep gc from making space
                mine = [owner for owner in (self.settings.owner, owner_of(self.root)) if owner]
                claim_snapshots(snapshots.folder, self.root, mine)
            yield

    @made_once
    def cache(self) -> ReplyCache:
        return open_cache(self.settings, self.root)

    @made_once
    def converter(self) -> Converter:
        from pipeline.documents.kept_conversions import KeepingConverter
        from pipeline.models.cache.conversions import ConversionCache

        return KeepingConverter(ConversionCache(self.cache))

    @made_once
    def tokenizer(self) -> Any:
        from pipeline.text.tokens import tokenizer

        chat = self.settings.models.chat.get(DEFAULT)
        return tokenizer(chat.model if chat else "")

    def prompt(self, name: str) -> Prompt:
        from pipeline.contract.prompts import read_prompt

        return read_prompt(self.root / "prompts", name, {"language": self.settings.language})

    def query_prompt(self, name: str) -> Prompt:
        """As ``prompt``, for questions: one that the project does not have is the one that comes
        with graphmill."""
        from pipeline.contract.prompts import read_prompt
        from pipeline.settings.init import shipped

        folders = [self.root / "prompts", shipped() / "prompts"]
        folder = next(
            (folder for folder in folders if (folder / f"{name}.md").is_file()), folders[0]
        )
        return read_prompt(folder, name, {"language": self.settings.language})

    @made_once
    def chat(self) -> Callable[[str], OpenAIChat]:
        """By name; each model is made once, so that its connections serve all who use it."""
        return made_once_each(
            lambda name: chat_model(self.settings, name, self.cache, root=self.root, waits=True)
        )

    @made_once
    def query_chat(self) -> Callable[[str], OpenAIChat]:
        """By name, as ``chat``, for questions: they do not wait behind a run's calls."""
        return made_once_each(
            lambda name: chat_model(self.settings, name, self.cache, urgent=True, root=self.root)
        )

    @made_once
    def keyword_chat(self) -> Callable[[str], OpenAIChat]:
        """As ``query_chat``, for a call that a question can do without: tried once, and for
        seconds."""
        return made_once_each(
            lambda name: replace(
                self.query_chat(name),
                timeout=min(KEYWORD_SECONDS, self.query_chat(name).timeout),
                max_retries=0,
            )
        )

    @property
    def measured(self) -> MeasuredModels:
        return MeasuredModels(self.root)

    def reply_speed(self, model: Model) -> float | None:
        """Return the tokens of replies in a second that doctor measured of a model; None if it did
        not."""
        from pipeline.models.endpoint.attempts import RemoteModel

        return (
            self.measured.of(model.endpoint.digest).speed
            if isinstance(model, RemoteModel)
            else None
        )

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
        """As ``query_chat``; a model on this machine is loaded once for all."""
        return made_once_each(
            lambda name: (
                embedding_model(
                    self.settings, name, lambda: self.cache, urgent=True, root=self.root
                )
                if self.settings.models.embedding[name].kind not in ("builtin", "local")
                else self.embedding(name)
            )
        )

    @made_once
    def reranker(self) -> Reranker | None:
        """The one called default; None where settings name none."""
        return reranker(self.settings, root=self.root)

    def embedding_like(self, identity: Mapping[str, Any]) -> EmbeddingModel:
        """The model of the settings that made the loaded vectors: a question must be embedded by
        the same."""
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
