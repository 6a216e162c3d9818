"""Rebuild the steps of a workflow as its last run recorded them: with the params, prompts and
models of that run.

A purge works with these, so that an edited prompt, workflow or setting changes nothing that it
does. Only the code of a verb is the present one.
"""

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from pipeline.contract.conversion import Converter
from pipeline.contract.prompts import Prompt
from pipeline.engine.bill.counting_models import ReadOnlyMemory, RehearsedConverter, Tally
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.errors import UsageError
from pipeline.models.base import ChatModel, ChatReply, ChatRequest, EmbeddingModel, Result, Talk
from pipeline.models.cache.lookup import RememberedReplies
from pipeline.models.cache.replies import ReplyCache
from pipeline.runs.without_calls import Missing, SilentEmbedding, converse_from_memory
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord

PURGED = "purged"
"""The reject's reason if a purge would have to ask for a reply."""
NOT_ASKED = (
    "a purge has changed what this reply was made of, and asks no model; the next run asks for it"
)


@dataclass(frozen=True)
class SilentChat(ChatModel):
    """Answer a chat model's requests from the cache alone. ``tally`` collects the keys of all
    requests."""

    recorded: Mapping[str, Any]
    cache: ReplyCache
    tally: Tally
    missing: Missing

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.recorded

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, repeats: object = None
    ) -> list[Result]:
        model = str(self.recorded.get("model", ""))
        memory = ReadOnlyMemory(
            RememberedReplies(model, self.recorded, self.cache), self.tally.keys
        )
        count = self.tally.tokenizer.count

        def count_request(request: ChatRequest) -> int:
            return sum(count(str(message["content"])) for message in request.messages)

        purged = ChatReply("", reason=PURGED, message=NOT_ASKED)
        return converse_from_memory(talks, memory, self.missing, count_request, purged)

    def stream(
        self, request: ChatRequest, listener: object = None
    ) -> Generator[str, None, ChatReply]:
        raise UsageError("a purge: its models are not asked; nothing streams")

    def preflight(self) -> None:
        return


@dataclass(frozen=True)
class RecordedStep:
    """Hold a step of the workflow with the params of its ``record``."""

    step: Step
    record: StepRecord

    def resources(
        self, today: Resources, cache: ReplyCache, tally: Tally, missing: Missing, width: int
    ) -> Resources:
        """Return the models that the step asked in that run, as models that ask nobody.

        A model on this machine is used itself if it is still the same: it costs nothing.
        """
        identities = self.record.components["models"]
        prompts = self.record.components["prompts"]
        own = {
            role: self._of_this_machine(today, role, identities[role]) for role in self.step.models
        }

        def chat(role: str) -> ChatModel:
            return SilentChat(identities[role], cache, tally, missing)

        def embedding(role: str) -> EmbeddingModel:
            return own[role] or SilentEmbedding(identities[role], cache, tally, missing, width)

        converter = today.converter

        def known_conversions() -> Converter:
            assert converter
            return RehearsedConverter(converter(), tally)

        return Resources(
            lambda role: Prompt(role, prompts[role]), chat, embedding, today.tokenizer,
            converter=known_conversions if converter else None,
        )  # fmt: skip

    def _of_this_machine(
        self, today: Resources, role: str, identity: Mapping[str, Any]
    ) -> EmbeddingModel | None:
        if self.step.verb.roles[role] is not EmbeddingModel:
            return None
        model = today.embedding(self.step.models[role])
        is_paid = hasattr(model, "cost")
        is_same = dict(model.identity) == dict(identity)
        return model if is_same and not is_paid else None

    def bound_by_role(self) -> Step:
        """Return the step whose prompts and models go by the names of their roles, as ``resources``
        knows them."""
        prompts = {role: role for role in self.record.components["prompts"]}
        models = {role: role for role in self.step.models}
        return replace(self.step, prompts=prompts, models=models)


def recorded_steps(workflow: Workflow, manifest: Manifest) -> tuple[list[RecordedStep], list[str]]:
    """Return the steps that are as the manifest has them, and the ids of those that the workflow
    file has changed.

    A step that the file lacks, or has with another verb or other tables, cannot be worked on as it
    was recorded.
    """
    steps = {step.id: step for step in workflow.steps}
    found: list[RecordedStep] = []
    changed: list[str] = []
    for name, record in manifest.steps.items():
        step = steps.get(name)
        if step is None or not _is_as_recorded(step, record, manifest):
            changed.append(name)
        else:
            found.append(RecordedStep(_with_params_of(step, record), record))
    place_in_workflow = {id: place for place, id in enumerate(steps)}
    found.sort(key=lambda recorded: place_in_workflow[recorded.step.id])
    return found, changed


def _is_as_recorded(step: Step, record: StepRecord, manifest: Manifest) -> bool:
    """Return whether verb, tables, models and prompts of the step are those of its record."""
    parts, tables = record.components, manifest.tables
    if step.verb.name != parts["verb"] or set(step.prompts) != set(parts["prompts"]):
        return False
    # A record may also have a tokenizer, which no step binds.
    bound_by_step: set[str] = set()
    for role in parts["models"]:
        if step.verb.roles.get(role) in (ChatModel, EmbeddingModel):
            bound_by_step.add(role)
    if set(step.models) != bound_by_step:
        return False
    for name, table in step.inputs.items():
        if table not in tables or parts["inputs"].get(name) != tables[table].sha256:
            return False
    for name, table in step.outputs.items():
        is_compared = table in tables and name != "rejects"
        if is_compared and record.outputs.get(name) != tables[table]:
            return False
    return True


def _with_params_of(step: Step, record: StepRecord) -> Step:
    """Return the step with the recorded params. A param that is no part of a fingerprint, such as a
    folder, is the present one."""
    content = record.components["params"]
    recorded_params = type(step.params).model_validate(content)
    recorded_values = {name: getattr(recorded_params, name) for name in content}
    params = step.params.model_copy(update=recorded_values)
    return replace(step, params=params)


def needed_as_recorded(
    workflow: Workflow,
    manifest: Manifest,
    today: Resources,
    cache: ReplyCache,
    snapshots: SnapshotStore,
) -> set[str]:
    """Return the keys of the replies and vectors that the tables were made of, by the recorded
    prompts and models."""
    tally, missing = Tally(today.tokenizer), Missing()
    steps, _ = recorded_steps(workflow, manifest)

    def read(table: str) -> pd.DataFrame:
        return snapshots.tables.read(manifest.tables[table])

    for one in steps:
        if one.step.models and _all_there(one.step.inputs.values(), manifest, snapshots):
            resources = one.resources(today, cache, tally, missing, 1)
            resources.call(one.bound_by_role(), one.step.inputs_from(read))
    return tally.keys


def _all_there(tables: Collection[str], manifest: Manifest, snapshots: SnapshotStore) -> bool:
    """Return whether the manifest has all of these tables, and their files are there."""
    for table in tables:
        snapshot = manifest.tables.get(table)
        if snapshot is None or not snapshots.tables.exists(snapshot):
            return False
    return True
