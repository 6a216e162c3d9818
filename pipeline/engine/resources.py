"""What a run may bind to a step's roles: handed in from outside, so that the engine names no adapter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.engine.workflow import Step
from pipeline.models.base import ChatModel, EmbeddingModel, Listener, Tokenizer
from pipeline.prompts import Prompt

Model = ChatModel | EmbeddingModel


@dataclass(frozen=True)
class Resources:
    """``settle_batches``: keep what has come of a model's batches that nobody goes on with, and tell the listener."""

    prompt: Callable[[str], Prompt]
    chat: Callable[[str], ChatModel]
    embedding: Callable[[str], EmbeddingModel]
    tokenizer: Tokenizer
    batched_chat: Callable[[str], ChatModel] | None = None
    settle_batches: Callable[[str, Listener], None] | None = None

    @property
    def direct(self) -> "Resources":
        """The same, with every question asked directly."""
        return replace(self, batched_chat=None, settle_batches=None)

    def chat_names(self, step: Step) -> list[str]:
        """The chat models that a step asks, as settings name them."""
        return [name for role, name in step.models.items() if step.verb.roles[role] is ChatModel]

    def prompts_of(self, step: Step) -> dict[str, Prompt]:
        """Raises SettingsError when a prompt has not the placeholders its role needs."""
        prompts = {role: self.prompt(name) for role, name in step.prompts.items()}
        for role, prompt in prompts.items():
            if role in step.verb.placeholders:
                prompt.check(step.verb.placeholders[role])
        return prompts

    def models_of(self, step: Step) -> dict[str, Model]:
        chat = self.batched_chat if self.batched_chat and step.execution == "batch" else self.chat
        lookup: Mapping[type, Callable[[str], Any]] = {ChatModel: chat, EmbeddingModel: self.embedding}
        return {role: lookup[step.verb.roles[role]](name) for role, name in step.models.items()}

    def tokenizers_of(self, step: Step) -> dict[str, Tokenizer]:
        return dict.fromkeys(step.verb.roles_of(Tokenizer), self.tokenizer)
