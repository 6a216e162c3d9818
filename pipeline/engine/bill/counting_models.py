"""Models that answer from what is known and count what they would have to ask."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from pipeline.engine.resources import Model, Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.models.base import Anew, ChatModel, ChatReply, ChatRequest, EmbeddingModel, Result, Talk, Tokenizer
from pipeline.models.conversations import Exchange, Memory, in_rounds
from pipeline.snapshots.store import Manifest, SnapshotStore

NOT_ASKED = "not_asked"
"""The reason of a reply that a rehearsal has not got."""


@runtime_checkable
class RememberingChat(Protocol):
    """A chat model that tells what it knows and what a request costs."""

    def memory(self, anew: Anew | None = None) -> "ForgettingMemory": ...

    def count(self, request: ChatRequest) -> int:
        """Input tokens of a request."""
        ...


class ForgettingMemory(Memory, Protocol):
    def forget(self, keys: Iterable[str]) -> None:
        """What is known under these keys is asked for again."""
        ...


@dataclass
class Tally:
    """``rows`` of model work, of which ``known`` needed no call."""

    tokenizer: Tokenizer
    rows: int = 0
    known: int = 0
    known_tokens: int = 0
    calls: int = 0
    input_tokens: int = 0
    batch_size: int = 1
    """Texts that one call of an embedding model takes."""
    paid: bool = True
    """Whether the model makes calls at all: one that is built in does not."""
    keys: set[str] = field(default_factory=set)
    """Of all that was looked for in the cache."""

    def call(self, tokens: int) -> None:
        self.calls += 1
        self.input_tokens += tokens


def rehearsed(model: Model, tally: Tally) -> Model:
    return RehearsedChat(model, tally) if isinstance(model, ChatModel) else RehearsedEmbedding(model, tally)


@dataclass(frozen=True)
class RehearsedChat(ChatModel):
    """A conversation ends where a reply is missing: it is sent one with the reason NOT_ASKED."""

    model: ChatModel
    tally: Tally

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, anew: Anew | None = None
    ) -> list[Result]:
        if not isinstance(self.model, RememberingChat):
            raise TypeError(f"{type(self.model).__name__} does not tell what it remembers")
        model, memory = self.model, _ReadOnly(self.model.memory(), self.tally.keys)

        def heard(request: ChatRequest, reply: ChatReply) -> None:
            if reply.reason != NOT_ASKED:
                self.tally.known += 1
                self.tally.known_tokens += model.count(request)

        def ask(requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
            for request in requests.values():
                self.tally.call(model.count(request))
            return dict.fromkeys(requests, ChatReply("", reason=NOT_ASKED, message="not asked yet"))

        results = in_rounds(Exchange(talks, memory, heard), ask)
        self.tally.rows += len(results)
        return results

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        raise NotImplementedError("a rehearsal streams nothing")

    def preflight(self) -> None:
        return


@dataclass(frozen=True)
class _ReadOnly:
    """A memory that a rehearsal leaves as it is; ``keys`` are those that were looked for."""

    memory: Memory
    keys: set[str]

    def key(self, request: ChatRequest) -> str:
        key = self.memory.key(request)
        self.keys.add(key)
        return key

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        return self.memory.recall(requests)

    def flag(self, valid: Mapping[str, bool]) -> None:
        return


@dataclass(frozen=True)
class RehearsedEmbedding:
    """An EmbeddingModel whose vectors say nothing: one zero each."""

    model: EmbeddingModel
    tally: Tally

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def embed(self, texts: Sequence[str], listener: object = None) -> np.ndarray:
        calls = self.model.unknown(texts)
        self.tally.keys |= self.model.keys(texts)
        for batch in calls:
            self.tally.call(sum(map(self.tally.tokenizer.count, batch)))
        self.tally.batch_size = getattr(self.model, "batch_size", 1)
        self.tally.paid = hasattr(self.model, "cost")
        self.tally.rows += len(texts)
        self.tally.known += len(texts) - sum(map(len, calls))
        return np.zeros((len(texts), 1), dtype=np.float32)

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return self.model.unknown(texts)

    def keys(self, texts: Sequence[str]) -> set[str]:
        return self.model.keys(texts)

    def preflight(self) -> None:
        return


def needed_keys(workflow: Workflow, resources: Resources, snapshots: SnapshotStore) -> set[str]:
    """Keys of the replies and vectors that the workflow's live tables are made of."""
    manifest, tally = snapshots.manifest(workflow.name), Tally(resources.tokenizer)
    for step in workflow.steps:
        if step.models and set(step.inputs.values()) <= set(manifest.tables):
            _replay(step, _inputs(step, manifest, snapshots), resources, tally)
    return tally.keys


def forget_replies(step: Step, inputs: Mapping[str, pd.DataFrame], resources: Resources) -> None:
    """Take from the cache what the step was answered about these inputs, so that it is asked for again."""
    tally = Tally(resources.tokenizer)
    _replay(step, inputs, resources, tally)
    for model in resources.models_of(step).values():
        if isinstance(model, RememberingChat):
            model.memory().forget(tally.keys)


def _inputs(step: Step, manifest: Manifest, snapshots: SnapshotStore) -> dict[str, pd.DataFrame]:
    tables = {name: snapshots.read(manifest.tables[table]) for name, table in step.inputs.items()}
    return {name: frame[step.reads[name].columns] for name, frame in tables.items()}


def _replay(step: Step, inputs: Mapping[str, pd.DataFrame], resources: Resources, tally: Tally) -> None:
    roles = {
        **resources.prompts_of(step),
        **resources.tokenizers_of(step),
        **{role: rehearsed(model, tally) for role, model in resources.models_of(step).items()},
    }
    step.verb.call(inputs, {**roles, **({"params": step.params} if step.verb.takes_params else {})})
