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
from pipeline.engine.documents.deletions import NOT_ASKED, NOT_CONVERTED
from pipeline.engine.resources import (
    Asked,
    Resources,
    WrappedChat,
    WrappedConverter,
    WrappedEmbedding,
)
from pipeline.engine.workflow import Step, Workflow
from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Repeats, Result, Talk, Tokenizer
from pipeline.models.conversations import Exchange, Memory, in_rounds
from pipeline.snapshots.store import SnapshotStore


@runtime_checkable
class RememberingChat(Protocol):
    """A chat model with a cache of replies that can be asked what it holds, and how long a request
    is."""

    def memory(self, repeats: Repeats | None = None) -> "ForgettingMemory": ...

    def count(self, request: ChatRequest) -> int:
        """Count the input tokens of a request."""
        ...


class ForgettingMemory(Memory, Protocol):
    def keys(self, request: ChatRequest) -> tuple[str, ...]:
        """Return every key under which a reply to the request may be stored: first its own."""
        ...

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the replies stored under these keys, so that they are asked for again."""
        ...


@dataclass
class Tally:
    """The counted requests of a step that is not run.

    ``rows`` of model work, of which ``known`` needed no call. ``repeats``: rows whose bad replies
    count as unknown.
    """

    tokenizer: Tokenizer
    rows: int = 0
    known: int = 0
    known_tokens: int = 0
    calls: int = 0
    input_tokens: int = 0
    batch_size: int = 1
    """Texts that one call of an embedding model takes."""
    repeats: Repeats | None = None
    keys: set[str] = field(default_factory=set)
    """The keys of everything that was looked for in the cache."""
    embedded: set[int] = field(default_factory=set)
    """Hashes of (model, text) for vectors that exist or were counted already; shared by several
    steps."""
    bytes_to_convert: int = 0
    """Size of the files that a run would convert."""

    def call(self, tokens: int) -> None:
        self.calls += 1
        self.input_tokens += tokens

    def rehearsed(self, model: Asked) -> Asked:
        """Return the model so that it answers from its cache; what it would have to ask is counted.

        A converter converts nothing: a file without a stored conversion has the reason
        NOT_CONVERTED.
        """
        if isinstance(model, Converter):
            return RehearsedConverter(model, self)
        if isinstance(model, ChatModel):
            return RehearsedChat(model, self)
        return RehearsedEmbedding(model, self)


def as_remembering(model: ChatModel) -> RememberingChat:
    """Return the model as one that tells what it remembers. Raises TypeError if it does not."""
    if not isinstance(model, RememberingChat):
        raise TypeError(f"{type(model).__name__} does not tell what it remembers")
    return model


@dataclass(frozen=True)
class RehearsedChat(WrappedChat):
    """A chat model that answers from its cache. A missing reply is replaced by one with the reason
    NOT_ASKED, which ends the conversation."""

    tally: Tally

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, repeats: Repeats | None = None
    ) -> list[Result]:
        model = as_remembering(self.model)
        memory = ReadOnlyMemory(model.memory(self.tally.repeats), self.tally.keys)

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
    """An embedding model that returns vectors of one zero."""

    tally: Tally

    def embed(self, texts: Sequence[str], listener: object = None) -> np.ndarray:
        tally = self.tally
        batches = self.model.unknown(self._not_asked_before(texts))
        keys = self.model.keys(texts)
        tally.keys |= keys
        # Without a cache there are no keys, and the same text is asked for again.
        if keys:
            tally.embedded.update(map(self._mark, texts))
        unknown = 0
        for batch in batches:
            unknown += len(batch)
            tally.call(sum(map(tally.tokenizer.count, batch)))
        tally.batch_size = getattr(self.model, "batch_size", 1)
        tally.rows += len(texts)
        tally.known += len(texts) - unknown
        return np.zeros((len(texts), 1), dtype=np.float32)

    def _not_asked_before(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts whose vectors no step before has counted."""
        embedded = self.tally.embedded
        if not embedded:
            return texts
        return [text for text in texts if self._mark(text) not in embedded]

    def _mark(self, text: str) -> int:
        """Return a hash of the model and the text, which takes less memory than both."""
        model = str(sorted(self.model.identity.items()))
        return hash((model, text))


@dataclass(frozen=True)
class RehearsedConverter(WrappedConverter):
    tally: Tally

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: object = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        self.tally.keys |= self.converter.keys(files)
        results = self.converter.known(files, rules)
        for file, known in zip(files, results, strict=True):
            if known is None:
                # A file that was deleted meanwhile has no size.
                with suppress(OSError):
                    self.tally.bytes_to_convert += file.path.stat().st_size
        return mark_unconverted(results)


def mark_unconverted(results: Iterable[Converted | None]) -> list[Converted]:
    """Return the results, with NOT_CONVERTED in place of those that are not known."""
    not_yet = NotConverted(NOT_CONVERTED, "is to be converted yet")
    return [known or not_yet for known in results]


def needed_keys(workflow: Workflow, resources: Resources, snapshots: SnapshotStore) -> set[str]:
    """Return the keys of everything in the cache that the workflow's live tables need.

    These are the replies and vectors that the tables were made from, and the conversions of the
    files that exist.
    """
    tables = snapshots.manifest(workflow.name).tables
    tally = Tally(resources.tokenizer)
    for step in workflow.steps:
        asks = step.models or step.verb.roles_of(Converter)
        has_inputs = set(step.inputs.values()) <= set(tables)
        if not asks or not has_inputs:
            continue
        inputs = step.inputs_from(lambda table: snapshots.tables.read(tables[table]))
        # The tables may have been made in any of the formats.
        for decided in step.in_each_format():
            resources.call(decided, inputs, tally.rehearsed)
    return tally.keys


def forget_replies(step: Step, inputs: Mapping[str, pd.DataFrame], resources: Resources) -> None:
    """Delete from the cache the step's replies about these inputs, so that it is asked again."""
    tally = Tally(resources.tokenizer)
    resources.call(step, inputs, tally.rehearsed)
    for model in resources.models_of(step).values():
        if isinstance(model, RememberingChat):
            model.memory().forget(tally.keys)
