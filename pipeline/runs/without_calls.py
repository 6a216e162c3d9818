"""Run steps in a run that asks no model: what the cache knows is used, and the rest waits.

A step that would have to ask an endpoint keeps its former rows for what waits. Its record is one
that no later run takes for the result of the step, so that the next run asks.

- A row whose reply waits has what its verb makes of a failed call, else its former row.
- A text whose vector waits has the former vector of its row, or zeros.
- A step that looks back at its last tables, such as one that writes reports, still finds those of
  the last run that asked: the manifest keeps that run's record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame, vector_column
from pipeline.contract.fingerprint import fingerprint
from pipeline.contract.laws import Part
from pipeline.contract.reasons import PASSING_REASONS
from pipeline.contract.registry import UNTRACKED, LastTables
from pipeline.contract.schemas import STRING
from pipeline.engine.bill.counting_models import ReadOnlyMemory, Tally, as_remembering
from pipeline.engine.changed_groups import (
    Frames,
    Groups,
    find_last_run,
    outputs_of,
    read_last_tables,
)
from pipeline.engine.plan import INCOMPLETE, PlannedStep
from pipeline.engine.resources import Asked, Resources, WrappedChat
from pipeline.engine.run_report import StepReport
from pipeline.engine.runner import StepWithoutCalls
from pipeline.engine.workflow import REJECTS, Workflow
from pipeline.errors import UsageError, counted
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    Repeats,
    Result,
    Talk,
)
from pipeline.models.cache.lookup import embedding_keys, recall_vectors
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.conversations import Exchange, in_rounds
from pipeline.runs.services import Services
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

WAITING = "waiting"
"""The reject's reason where a run without calls would have had to ask for a reply."""
NOT_ASKED = "this run asks no model; the next ordinary run asks for the reply"
COMMUNITIES = "communities"
PLACE = ["level", "parent", "size"]
"""The columns of a report that tell where its community is, not what is said of it."""


@dataclass
class Missing:
    """Collect the requests that nothing in the cache answers.

    ``chats``: key -> input tokens. ``texts``, those without a vector: key -> tokens.
    """

    chats: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.chats) + len(self.texts)


def converse_from_memory(
    talks: Iterable[Talk[Result]],
    memory: ReadOnlyMemory,
    missing: Missing,
    count: Callable[[ChatRequest], int],
    not_known: ChatReply,
) -> list[Result]:
    """Return the results of conversations whose replies come from the memory alone.

    A request that it does not know gets the reply ``not_known``; ``missing`` collects it with its
    tokens by ``count``.
    """

    def ask(requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        for key, request in requests.items():
            missing.chats[key] = count(request)
        return dict.fromkeys(requests, not_known)

    return in_rounds(Exchange(talks, memory, lambda request, reply: None), ask)


@dataclass(frozen=True)
class CachedChat(WrappedChat):
    """A chat model that answers from its cache alone. ``missing`` collects what it lacks."""

    tally: Tally
    missing: Missing

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, repeats: Repeats | None = None
    ) -> list[Result]:
        model = as_remembering(self.model)
        memory = ReadOnlyMemory(model.memory(), self.tally.keys)
        waits = ChatReply("", reason=WAITING, message=NOT_ASKED)
        return converse_from_memory(talks, memory, self.missing, model.count, waits)


@dataclass(frozen=True)
class SilentEmbedding(EmbeddingModel):
    """Return the vectors of the cache, and zeros for other texts.

    A vector of zeros keeps the stores loadable, because each of their rows needs one. The next run
    replaces it. ``dimensions``: those of the vectors that the step wrote last.
    """

    recorded: Mapping[str, Any]
    cache: ReplyCache
    tally: Tally
    missing: Missing
    dimensions: int

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.recorded

    def embed(self, texts: Sequence[str], listener: object = None) -> np.ndarray:
        self.tally.keys |= embedding_keys(self.recorded, texts)
        found = recall_vectors(self.cache, self.recorded, texts)
        width = next((len(vector) for vector in found.known.values()), self.dimensions)
        for key, text in found.missing.items():
            self.missing.texts[key] = self.tally.tokenizer.count(text)
            found.known[key] = np.zeros(width, dtype=np.float32)
        return found.stack(width)


def incomplete(
    step: str, parts: Mapping[str, Any], outputs: Mapping[str, Snapshot], retry: bool
) -> StepRecord:
    """Return a record that no run takes for the result of the step, nor for a part of it that it
    can go on from."""
    parts = {**parts, INCOMPLETE: True}
    return StepRecord(step, fingerprint(parts), parts, outputs, retry)


def vector_width(snapshots: SnapshotStore, outputs: Mapping[str, Snapshot]) -> int:
    """Return the dimensions of the vectors that a step wrote; 1 where it wrote none."""
    tables = snapshots.tables
    for snapshot in outputs.values():
        if not tables.exists(snapshot) or "vector" not in tables.columns(snapshot):
            continue
        for batch in tables.read_batches(snapshot, ["vector"]):
            if len(batch):
                return len(batch["vector"][0])
    return 1


def run_quietly(
    project: Services,
    workflow: Workflow,
    planned: PlannedStep,
    tables: Mapping[str, Snapshot],
    previous: Manifest,
) -> StepWithoutCalls:
    """Run a step that would ask an endpoint, without asking. See ``RunWithoutCalls``."""
    quiet = QuietSteps(workflow, project.resources, project.snapshots, project.cache, previous)
    return quiet.run(planned, tables)


def notes_on_waiting(reports: Iterable[StepReport]) -> list[str]:
    """Return a note for each step of which something waits for the next run."""
    notes: list[str] = []
    for report in reports:
        if not report.waiting:
            continue
        requests = counted(report.waiting, "request")
        wait = "waits" if report.waiting == 1 else "wait"
        notes.append(
            f"{report.step}: {requests} to a model {wait} for the next run; its former rows are"
            " kept"
        )
    return notes


@dataclass(frozen=True)
class QuietSteps:
    """Runs the steps of a workflow that would ask an endpoint, without asking.

    ``previous``: the manifest of the last run, whose rows stay where something waits.
    """

    workflow: Workflow
    resources: Resources
    snapshots: SnapshotStore
    cache: ReplyCache
    previous: Manifest

    def run(self, planned: PlannedStep, tables: Mapping[str, Snapshot]) -> StepWithoutCalls:
        """Return the step without what waits.

        A record with nothing that waits is that of an ordinary run, and is stored. Raises
        UsageError for a step that has never been completed.
        """
        step = planned.step
        before = self.previous.steps.get(step.id)
        if before is None:
            raise UsageError(
                f"step '{step.id}': never completed, and this run asks no model; 'graphmill run"
                f" {self.workflow.name}' first"
            )
        missing = Missing()
        tally = Tally(self.resources.tokenizer)
        width = vector_width(self.snapshots, before.outputs)

        def silenced(asked: Asked) -> Asked:
            if not hasattr(asked, "cost"):
                return asked
            if isinstance(asked, ChatModel):
                return CachedChat(asked, tally, missing)
            assert isinstance(asked, EmbeddingModel)
            return SilentEmbedding(asked.identity, self.cache, tally, missing, width)

        def make(part: Part, inputs: Frames, groups: Groups | None) -> Frames:
            frames = self.resources.call(step, inputs, silenced, UNTRACKED, last_tables, part)
            if not missing:
                return frames
            return self._with_former_rows(part, frames, before, inputs.get(COMMUNITIES))

        last_tables = read_last_tables(planned, self.previous, self.snapshots)
        last = find_last_run(planned, self.previous, self.snapshots)
        # Rejected rows are tried again as in any run, so that they wait where a run would ask.
        outputs = outputs_of(step, tables, last, self.snapshots, make)
        retry = self._has_passing_errors(outputs)
        components = planned.components
        if missing:
            # In an object store a table is there only when somebody has made sure of it.
            self.snapshots.tables.keep(outputs.values())
            record = incomplete(step.id, components, outputs, retry)
            looks_back = bool(step.verb.roles_of(LastTables))
            record_for_manifest = before if looks_back else record
            return StepWithoutCalls(record, len(missing), record_for_manifest)
        record = StepRecord(step.id, fingerprint(components), components, outputs, retry)
        self.snapshots.save_record(record)
        return StepWithoutCalls(record, 0, record)

    def _has_passing_errors(self, outputs: Mapping[str, Snapshot]) -> bool:
        """Check that a row was rejected for a reason that may be gone at the next run."""
        if REJECTS not in outputs or not outputs[REJECTS].rows:
            return False
        reasons = self.snapshots.tables.read(outputs[REJECTS], ["reason"])["reason"]
        return bool(reasons.isin(PASSING_REASONS).any())

    def _with_former_rows(
        self, part: Part, frames: Frames, before: StepRecord, communities: pd.DataFrame | None
    ) -> dict[str, pd.DataFrame]:
        """Return the outputs with former rows, and former vectors, for what waits.

        ``communities``: those that the rows are about, if they are; else None.
        """
        made = dict(frames)
        waiting: set[str] = set()
        if REJECTS in made:
            rejects = made[REJECTS]
            waiting = set(rejects.loc[rejects["reason"] == WAITING, "row_id"])
        tables = self.snapshots.tables
        for name, frame in frames.items():
            former = before.outputs.get(name)
            if name == REJECTS or former is None or not tables.exists(former):
                continue
            column = part.law.row_of[name] if part.law else "id"
            columns = list(frame.columns)
            has_same_columns = set(columns) <= set(tables.columns(former))
            if waiting and has_same_columns:
                lacking = sorted(waiting - set(frame[column]))
                rows = self._read_former(former, column, lacking, columns)
                if communities is not None:
                    rows = _place_anew(rows, communities)
                # An empty frame would change the types of the columns.
                if len(rows):
                    made[name] = pd.concat([frame, rows], ignore_index=True)
            has_vectors = "id" in columns and "vector" in columns
            if has_vectors:
                made[name] = self._with_former_vectors(made[name], former)
        return made

    def _with_former_vectors(self, frame: pd.DataFrame, former: Snapshot) -> pd.DataFrame:
        """Return the rows with the former vector of their id in place of zeros."""
        if frame.empty:
            return frame
        vectors = np.stack([np.asarray(vector, np.float32) for vector in frame["vector"]])
        is_blank = ~vectors.any(axis=1)
        ids = frame["id"].to_numpy()
        rows = self._read_former(former, "id", sorted(ids[is_blank]), ["id", "vector"])
        known = dict(zip(rows["id"], rows["vector"], strict=True))
        for place in np.flatnonzero(is_blank):
            vector = known.get(ids[place])
            if vector is not None and len(vector) == vectors.shape[1]:
                vectors[place] = np.asarray(vector, np.float32)
        return frame.assign(vector=vector_column(vectors))

    def _read_former(
        self, former: Snapshot, column: str, ids: Sequence[str], columns: Sequence[str]
    ) -> pd.DataFrame:
        """Return these columns of the former rows with these ids."""
        wanted = pa.array(ids, STRING)
        rows = self.snapshots.tables.select(former, (column,), wanted, list(columns))
        return as_frame(rows)


def _place_anew(rows: pd.DataFrame, communities: pd.DataFrame) -> pd.DataFrame:
    """Return rows about communities with the place that these have among the others now."""
    places = communities.set_index("id")[PLACE].reindex(rows["id"])
    places_now = {name: places[name].to_numpy() for name in PLACE}
    return rows.assign(**places_now)
