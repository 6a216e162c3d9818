"""Project: a folder with settings, workflows, prompts and data, and everything that can be done with it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import ValidationError

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.adapters import Stores, chat_model, embedding_model, open_cache, open_stores
from pipeline.engine.plan import PlannedStep, plan
from pipeline.engine.report import LoadCounts, Outcome, RunReport
from pipeline.engine.resources import Resources
from pipeline.engine.runner import Progress, Runner, Silent
from pipeline.engine.workflow import Workflow, read_workflow
from pipeline.errors import GraphmillError, UsageError
from pipeline.gc import GcReport, collect_garbage
from pipeline.history import manifest_of
from pipeline.load.loader import load
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.prompts import Prompt, read_prompt
from pipeline.query.answer import Answer, QueryStage, answer
from pipeline.query.request import QueryRequest
from pipeline.query.stream import Event, stream_answer
from pipeline.runs import Runs
from pipeline.settings import Settings, read_settings
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.tokens import tokenizer
from pipeline.validation import explain

if TYPE_CHECKING:
    import networkx as nx

FAILED, ABOVE_MAX_REJECTS, INTERRUPTED = 1, 3, 130
DEFAULT = "default"


@dataclass(frozen=True)
class Project:
    """Use ``with Project.open(folder) as project`` or close it: it may hold connections to the stores."""

    root: Path
    settings: Settings

    @classmethod
    def open(cls, root: str | Path = ".", overrides: Sequence[str] = ()) -> "Project":
        """``overrides``: settings for this once, as ``key.path=value``. Raises SettingsError."""
        folder = Path(root).resolve()
        return cls(folder, read_settings(folder, overrides))

    def close(self) -> None:
        if "stores" in self.__dict__:
            self.stores.close()

    def __enter__(self) -> "Project":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def workflow(self, name: str | None = None) -> Workflow:
        """A workflow of this project; the one that settings name by default."""
        path = self.root / "workflows" / f"{name or self.settings.workflow}.yaml"
        folder = {"path": str(self.root / self.settings.input.path)}
        return read_workflow(path, {"input": self.settings.input.model_dump() | folder})

    def plan(self, name: str | None = None) -> list[PlannedStep]:
        """What ``index`` would do, and why; no model is called."""
        return plan(self.workflow(name), self.resources, self.snapshots)

    def index(self, name: str | None = None, progress: Progress | None = None) -> RunReport:
        """Bring the snapshots up to date with the documents."""
        return self._run(name, progress, self._index)

    def load(self, name: str | None = None, progress: Progress | None = None, manifest: str | None = None) -> RunReport:
        """Bring the stores up to date with the snapshots, or back to what they were at the end of an earlier run:
        ``manifest`` is its id, or an unambiguous beginning of it. The next load brings back the newest.

        Raises UsageError for a run that is not known, DataError when its snapshots are no longer kept.
        """
        return self._run(name, progress, partial(self._load, run=manifest))

    def run(self, name: str | None = None, progress: Progress | None = None) -> RunReport:
        """Index, then load."""
        return self._run(name, progress, self._index, self._load)

    def gc(self, keep: int, dry_run: bool = True) -> GcReport:
        """Delete the snapshots and records that neither the newest ``keep`` manifests of a workflow nor the live
        ones name. The runs before those cannot be loaded any more.

        Raises LockedError while a run is under way, UsageError for a ``keep`` below 1.
        """
        with self.runs.alone():
            if not dry_run:
                self.snapshots.sweep()
            return collect_garbage(self.snapshots, keep, dry_run)

    def status(self) -> dict[str, Any] | None:
        """The report of the last run; None before the first."""
        return self.runs.last()

    def table(self, name: str, workflow: str | None = None) -> pd.DataFrame:
        """A table of the workflow's last completed run (by default the last run's workflow).

        Raises UsageError when there is none.
        """
        manifest = self._manifest(workflow)
        if name not in manifest.tables:
            have = ", ".join(sorted(manifest.tables)) or f"none; run 'graphmill index {manifest.workflow}'"
            raise UsageError(f"workflow '{manifest.workflow}': no table '{name}'; have: {have}")
        return self.snapshots.read(manifest.tables[name])

    def graph(self, workflow: str | None = None) -> "nx.DiGraph":
        """The knowledge graph: nodes are entity ids, attributes the columns of the tables."""
        import networkx as nx  # for notebooks: the pipeline itself does not need it

        entities = self.table("entities", workflow).set_index("id")
        links = self.table("relationships", workflow)
        graph: nx.DiGraph = nx.from_pandas_edgelist(
            links, "source_entity_id", "target_entity_id", edge_attr=True, create_using=nx.DiGraph
        )
        graph.add_nodes_from(entities.to_dict("index").items())
        return graph

    def query(self, question: str, **options: Any) -> Answer:
        """Answer a question over the loaded stores; ``options`` are QueryRequest's.

        Raises UsageError for options that make no sense, StoreError and ModelError when the services fail.
        """
        return answer(self.request(question, **options), self.query_stage)

    def query_stream(self, question: str, **options: Any) -> Iterator[Event]:
        """Sources first, then the answer's text in pieces, then the whole."""
        return stream_answer(self.request(question, **options), self.query_stage)

    def query_data(self, question: str, **options: Any) -> dict[str, Any]:
        """What was found, structured, with no model call for an answer."""
        found = self.query(question, **{**options, "only_need_context": True}).to_json()
        return {name: value for name, value in found.items() if name != "answer"}

    async def aquery(self, question: str, **options: Any) -> Answer:
        return await asyncio.to_thread(self.query, question, **options)

    async def aquery_data(self, question: str, **options: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.query_data, question, **options)

    async def aquery_stream(self, question: str, **options: Any) -> AsyncIterator[Event]:
        events = self.query_stream(question, **options)
        while (event := await asyncio.to_thread(next, events, None)) is not None:
            yield event

    def request(self, question: str, **options: Any) -> QueryRequest:
        """The request with the project's defaults for what is not given (None counts as not given)."""
        given = {name: value for name, value in options.items() if value is not None}
        try:
            return QueryRequest(**{**self.settings.query.model_dump(), "query": question.strip(), **given})
        except ValidationError as error:
            raise UsageError(explain("query", error, QueryRequest.model_fields)) from None

    @property
    def resources(self) -> Resources:
        """Prompts are read anew each time: they may have been edited."""
        return Resources(cache(self._prompt), self._chat, self._embedding, self._tokenizer)

    @property
    def query_stage(self) -> QueryStage:
        """Raises UsageError when nothing has been loaded, or with vectors that no model of the settings makes."""
        live = self.stores.vectors.live()
        if live is None:
            raise UsageError(f"workspace '{self.settings.workspace}': nothing is loaded; run 'graphmill run' first")
        chat = self.settings.models.chat.get(DEFAULT)
        return QueryStage(
            self.stores.vectors,
            self.stores.graph,
            self._embedding_like(live.embedding),
            self._chat(DEFAULT) if chat and chat.configured else None,
            self._tokenizer,
            self._prompt,
        )

    @cached_property
    def stores(self) -> Stores:
        return open_stores(self.settings, self.root)

    @cached_property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.root / self.settings.snapshots)

    @cached_property
    def runs(self) -> Runs:
        return Runs.of(self.root)

    @cached_property
    def _cache(self) -> Any:
        return open_cache(self.settings, self.root)

    @cached_property
    def _tokenizer(self) -> Any:
        chat = self.settings.models.chat.get(DEFAULT)
        return tokenizer(chat.model if chat else "")

    def _prompt(self, name: str) -> Prompt:
        return read_prompt(self.root / "prompts", name, {"language": self.settings.language})

    @cached_property
    def _chat(self) -> Callable[[str], ChatModel]:
        """By name; each model is made once, so that its connections serve all who use it."""
        return cache(lambda name: chat_model(self.settings, name, self._cache))

    @cached_property
    def _embedding(self) -> Callable[[str], EmbeddingModel]:
        return cache(lambda name: embedding_model(self.settings, name, self._cache))

    def _embedding_like(self, identity: Mapping[str, Any]) -> EmbeddingModel:
        """The model of the settings that made the loaded vectors: a question must be embedded by the same."""
        for name in self.settings.models.embedding:
            if dict(self._embedding(name).identity) == dict(identity):
                return self._embedding(name)
        raise UsageError(
            f"workspace '{self.settings.workspace}': its vectors were made by {dict(identity)}, which is none of "
            "models.embedding; set that model again, or run 'graphmill run' to embed with the present one"
        )

    def _manifest(self, workflow: str | None) -> Manifest:
        last = self.runs.last()
        return self.snapshots.manifest(workflow or (last["workflow"] if last else self.settings.workflow))

    def _run(self, name: str | None, progress: Progress | None, *stages: "Stage") -> RunReport:
        """Run the stages in order and keep the report, also of a run that fails."""
        workflow = self.workflow(name)
        runner = Runner(self.resources, self.snapshots, progress or Silent())
        with self.runs.alone():
            self.snapshots.sweep()
            state = RunState(self.runs.new_id(), workflow, runner)
            try:
                for stage in stages:
                    stage(state)
            except BaseException as error:
                self.runs.save(state.broken_off(error))
                raise
            report = state.completed(self.settings.max_reject_ratio)
            self.runs.save(report)
        return report

    def _index(self, state: "RunState") -> None:
        result = state.runner.run(state.workflow, state.run_id)
        state.reject_ratio = result.reject_ratio

    def _load(self, state: "RunState", run: str | None = None) -> None:
        name = state.workflow.name
        earlier = manifest_of(run, name, self.snapshots, self.runs.ids(name)) if run is not None else None
        manifest = earlier or self.snapshots.manifest(name)
        if not manifest.tables:
            raise UsageError(
                f"workflow '{manifest.workflow}': nothing to load; run 'graphmill index {manifest.workflow}' first"
            )
        started = time.perf_counter()
        state.runner.progress.load_started()
        state.load = load(manifest, self.snapshots, self.stores.all, self.settings.stores.neo4j.max_types)
        state.load_seconds = round(time.perf_counter() - started, 3)
        state.runner.progress.load_finished(state.load, state.load_seconds)


@dataclass
class RunState:
    """A run under way."""

    run_id: str
    workflow: Workflow
    runner: Runner
    reject_ratio: float = 0.0
    load: LoadCounts | None = None
    load_seconds: float = 0.0

    def report(self, outcome: Outcome, exit_code: int, message: str = "") -> RunReport:
        steps = tuple(self.runner.reports)
        return RunReport(
            self.run_id, self.workflow.name, outcome, exit_code, steps, self.load or {}, message, self.load_seconds
        )

    def broken_off(self, error: BaseException) -> RunReport:
        if isinstance(error, KeyboardInterrupt):
            return self.report("stopped", INTERRUPTED, "interrupted")
        code = error.exit_code if isinstance(error, GraphmillError) else FAILED
        return self.report("failed", code, str(error) or type(error).__name__)

    def completed(self, max_reject_ratio: float) -> RunReport:
        if not any(step.rejects for step in self.runner.reports):
            return self.report("completed", 0)
        above = self.reject_ratio > max_reject_ratio
        message = f"{self.reject_ratio:.0%} of a step's rows rejected" if above else ""
        return self.report("completed_with_rejects", ABOVE_MAX_REJECTS if above else 0, message)


Stage = Callable[[RunState], None]
