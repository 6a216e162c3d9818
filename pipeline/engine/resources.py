"""What a run binds to a step's roles, handed in from outside, so that the engine names no adapter."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import Verb
from pipeline.engine.workflow import Step
from pipeline.models.base import ChatModel, EmbeddingModel, Listener, Tokenizer

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


@dataclass(frozen=True)
class LocalEngine:
    """``batch_rows``: rows of the rowwise input given to the verb at once; None gives it the whole table."""

    batch_rows: int | None = None

    def run(self, verb: Verb, tables: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        results = [verb.call(batch, roles) for batch in self._batches(verb, tables)]
        if len(results) == 1:
            return results[0]
        return {name: pd.concat([result[name] for result in results], ignore_index=True) for name in verb.outputs}

    def _batches(self, verb: Verb, tables: Mapping[str, pd.DataFrame]) -> Iterator[Mapping[str, pd.DataFrame]]:
        rows = len(tables[verb.rowwise]) if verb.rowwise else 0
        if not verb.rowwise or not self.batch_rows or rows <= self.batch_rows:
            yield tables
            return
        for start in range(0, rows, self.batch_rows):
            batch = tables[verb.rowwise].iloc[start : start + self.batch_rows].reset_index(drop=True)
            yield {**tables, verb.rowwise: batch}
