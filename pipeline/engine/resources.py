"""The models, prompts and converters that a run binds to a step's roles; they are passed in, so
that the engine imports no adapter."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from pipeline.contract.conversion import ConversionRules, Converted, Converter, FileToConvert
from pipeline.contract.laws import Part
from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import NOTHING_WRITTEN, UNTRACKED, LastTables, Tracker
from pipeline.engine.verb_errors import call_verb
from pipeline.engine.workflow import Step
from pipeline.errors import UsageError
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    Listener,
    Talk,
    Tokenizer,
)

Model = ChatModel | EmbeddingModel
Asked = Model | Converter
"""The objects that a step may ask."""


@dataclass(frozen=True)
class WrappedChat(ChatModel):
    """A chat model whose conversations a subclass wraps; a step uses no other method of it."""

    model: ChatModel

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        raise UsageError("a step: its model does not stream; ask with complete or converse")

    def preflight(self) -> None:
        self.model.preflight()


@dataclass(frozen=True)
class WrappedEmbedding(EmbeddingModel):
    """An embedding model whose ``embed`` a subclass wraps."""

    model: EmbeddingModel

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return self.model.unknown(texts)

    def keys(self, texts: Sequence[str]) -> set[str]:
        return self.model.keys(texts)

    def preflight(self) -> None:
        self.model.preflight()


@dataclass(frozen=True)
class WrappedConverter(Converter):
    """A converter whose ``convert`` a subclass wraps."""

    converter: Converter

    def known(
        self, files: Sequence[FileToConvert], rules: ConversionRules
    ) -> list[Converted | None]:
        return self.converter.known(files, rules)

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        return self.converter.keys(files)


def unchanged(asked: Asked) -> Asked:
    """Return the model or converter itself."""
    return asked


@dataclass(frozen=True)
class Resources:
    """The models, prompts, tokenizer and converter that steps are bound to.

    ``settle_batches``: keep the replies of a model's batches that no step continues, and tell the
    listener. ``converter``: returns the converter; None leaves that role to the verb's own.
    ``decide_format``: return a step whose format is not decided with its format decided, which may
    take a trial; ``format_trial``: the conversation of that trial.
    """

    prompt: Callable[[str], Prompt]
    chat: Callable[[str], ChatModel]
    embedding: Callable[[str], EmbeddingModel]
    tokenizer: Tokenizer
    batched_chat: Callable[[str], ChatModel] | None = None
    settle_batches: Callable[[str, Listener], None] | None = None
    converter: Callable[[], Converter] | None = None
    decide_format: Callable[[Step, Listener], Step] | None = None
    format_trial: Callable[[Step], Talk[object]] | None = None

    def chat_names(self, step: Step) -> list[str]:
        """Return the names in the settings of the chat models that a step asks."""
        return [name for role, name in step.models.items() if step.verb.roles[role] is ChatModel]

    def asks_elsewhere(self, step: Step) -> bool:
        """Check that a model of the step is behind an endpoint; one in this process costs
        nothing."""
        return any(hasattr(model, "cost") for model in self.models_of(step).values())

    def prompts_of(self, step: Step) -> dict[str, Prompt]:
        """Return the prompts of a step by role.

        Raises SettingsError when a prompt lacks a placeholder that its role needs.
        """
        prompts = {role: self.prompt(name) for role, name in step.prompts.items()}
        for role, prompt in prompts.items():
            if role in step.verb.placeholders:
                prompt.check(step.verb.placeholders[role])
        return prompts

    def models_of(self, step: Step) -> dict[str, Model]:
        """Return the models of a step by role."""
        chat = self.chat
        if self.batched_chat is not None and step.execution == "batch":
            chat = self.batched_chat
        models: dict[str, Model] = {}
        for role, name in step.models.items():
            is_chat = step.verb.roles[role] is ChatModel
            models[role] = chat(name) if is_chat else self.embedding(name)
        return models

    def tokenizers_of(self, step: Step) -> dict[str, Tokenizer]:
        return dict.fromkeys(step.verb.roles_of(Tokenizer), self.tokenizer)

    def converters_of(self, step: Step) -> dict[str, Converter]:
        if self.converter is None:
            return {}
        return {role: self.converter() for role in step.verb.roles_of(Converter)}

    def call(
        self,
        step: Step,
        inputs: Mapping[str, pd.DataFrame],
        wrap: Callable[[Asked], Asked] = unchanged,
        tracker: Tracker = UNTRACKED,
        last: LastTables = NOTHING_WRITTEN,
        part: Part | None = None,
    ) -> dict[str, pd.DataFrame]:
        """Return the outputs of the step's verb, or of this sub-step of it, for these inputs.

        Its roles are bound: each model and converter as ``wrap`` returns it, ``tracker``, which
        receives its progress, and ``last``. Raises DataError where a required cell is missing,
        VerbError where a verb of the user's own raises.
        """
        roles: dict[str, Any] = {**self.prompts_of(step), **self.tokenizers_of(step)}
        asked = {**self.models_of(step), **self.converters_of(step)}
        for role, model_or_converter in asked.items():
            roles[role] = wrap(model_or_converter)
        for role in step.verb.roles_of(Tracker):
            roles[role] = tracker
        for role in step.verb.roles_of(LastTables):
            roles[role] = last
        if part is not None and step.verb.parts:
            call = partial(part.call, roles={**roles, "params": step.params})
        else:
            call = partial(step.call, roles=roles)
        return call_verb(step, inputs, call)
