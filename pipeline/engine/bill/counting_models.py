"""Models that answer from what is known and count what they would have to ask."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from pipeline.contract.conversion import (
    ConversionRules,
    Converted,
    Converter,
    FileToConvert,
    NotConverted,
)
from pipeline.engine.deletions import NOT_CONVERTED
from pipeline.engine.resources import (
    Asked,
    Resources,
    WrappedChat,
    WrappedConverter,
    WrappedEmbedding,
)
from pipeline.engine.workflow import Step, Workflow
from pipeline.models.base import Anew, ChatModel, ChatReply, ChatRequest, Result, Talk, Tokenizer
from pipeline.models.conversations import Exchange, Memory, in_rounds
from pipeline.snapshots.store import SnapshotStore

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
    def keys(self, request: ChatRequest) -> tuple[str, ...]:
        """Return every key under which a reply to the request may be stored: first its own."""
        ...

    def forget(self, keys: Iterable[str]) -> None:
        """What is known under these keys is asked for again."""
        ...


@dataclass
class Tally:
    """``rows`` of model work, of which ``known`` needed no call. ``anew``: rows whose bad replies
    count as unknown."""

    tokenizer: Tokenizer
    rows: int = 0
    known: int = 0
    known_tokens: int = 0
    calls: int = 0
    input_tokens: int = 0
    batch_size: int = 1
    """Texts that one call of an embedding model takes."""
    anew: Anew | None = None
    keys: set[str] = field(default_factory=set)
    """Of all that was looked for in the cache."""
    embedded: set[int] = field(default_factory=set)
    """Stand for the texts, each with its model, whose vectors are there or asked for by now;
    several steps share it."""
    bytes_to_convert: int = 0
    """Size of the files that a run would convert."""

    def call(self, tokens: int) -> None:
        self.calls += 1
        self.input_tokens += tokens

    def rehearsed(self, model: Asked) -> Asked:
        """The model, which answers from what it knows; what it would have to ask is counted. A
        converter converts nothing: a file that it does not know has the reason NOT_CONVERTED."""
        if isinstance(model, Converter):
            return RehearsedConverter(model, self)
        return (
            RehearsedChat(model, self)
            if isinstance(model, ChatModel)
            else RehearsedEmbedding(model, self)
        )


@dataclass(frozen=True)
class RehearsedChat(WrappedChat):
    """A conversation ends where a reply is missing: it is sent one with the reason NOT_ASKED."""

    tally: Tally

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, anew: Anew | None = None
    ) -> list[Result]:
        if not isinstance(self.model, RememberingChat):
            raise TypeError(f"{type(self.model).__name__} does not tell what it remembers")
        model, memory = (
            self.model,
            ReadOnlyMemory(self.model.memory(self.tally.anew), self.tally.keys),
        )

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


@dataclass(frozen=True)
class ReadOnlyMemory:
    """A memory that is read and never changed.

    ``keys`` collects every key that is looked for, also those of earlier forms of a request.
    """

    memory: ForgettingMemory
    keys: set[str]

    def key(self, request: ChatRequest) -> str:
        keys = self.memory.keys(request)
        self.keys.update(keys)
        return keys[0]

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        return self.memory.recall(requests)

    def flag(self, valid: Mapping[str, bool]) -> None:
        return


@dataclass(frozen=True)
class RehearsedEmbedding(WrappedEmbedding):
    """Vectors that say nothing: one zero each."""

    tally: Tally

    def embed(self, texts: Sequence[str], listener: object = None) -> np.ndarray:
        calls = self.model.unknown(self._not_asked_before(texts))
        keys = self.model.keys(texts)
        self.tally.keys |= keys
        if keys:  # without a cache, the same text is asked for again
            self.tally.embedded.update(map(self._mark, texts))
        for batch in calls:
            self.tally.call(sum(map(self.tally.tokenizer.count, batch)))
        self.tally.batch_size = getattr(self.model, "batch_size", 1)
        self.tally.rows += len(texts)
        self.tally.known += len(texts) - sum(map(len, calls))
        return np.zeros((len(texts), 1), dtype=np.float32)

    def _not_asked_before(self, texts: Sequence[str]) -> Sequence[str]:
        embedded = self.tally.embedded
        return [text for text in texts if self._mark(text) not in embedded] if embedded else texts

    def _mark(self, text: str) -> int:
        return hash((str(sorted(self.model.identity.items())), text))


@dataclass(frozen=True)
class RehearsedConverter(WrappedConverter):
    tally: Tally

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: object = None,
        anew: Anew | None = None,
    ) -> list[Converted]:
        self.tally.keys |= self.converter.keys(files)
        not_yet = NotConverted(NOT_CONVERTED, "is to be converted yet")
        results = self.converter.known(files, rules)
        for file, known in zip(files, results, strict=True):
            if known is None:
                with suppress(OSError):  # a file that is gone meanwhile has no size
                    self.tally.bytes_to_convert += file.path.stat().st_size
        return [known or not_yet for known in results]


def needed_keys(workflow: Workflow, resources: Resources, snapshots: SnapshotStore) -> set[str]:
    """Keys of the replies and vectors that the workflow's live tables are made of, and of the
    conversions of the files that are there."""
    manifest, tally = snapshots.manifest(workflow.name), Tally(resources.tokenizer)
    for step in workflow.steps:
        asks = step.models or step.verb.roles_of(Converter)
        if asks and set(step.inputs.values()) <= set(manifest.tables):
            inputs = step.inputs_from(lambda table: snapshots.tables.read(manifest.tables[table]))
            for decided in step.in_each_format():  # the tables may have been made in either
                resources.call(decided, inputs, tally.rehearsed)
    return tally.keys


def forget_replies(step: Step, inputs: Mapping[str, pd.DataFrame], resources: Resources) -> None:
    """Take from the cache what the step was answered about these inputs, so that it is asked for
    again."""
    tally = Tally(resources.tokenizer)
    resources.call(step, inputs, tally.rehearsed)
    for model in resources.models_of(step).values():
        if isinstance(model, RememberingChat):
            model.memory().forget(tally.keys)
