"""A workflow of the small verbs, and a chat model with prescribed replies."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.contract.prompts import Prompt
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Workflow
from pipeline.engine.workflow_file import read_workflow
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Listener,
    Repeats,
    Result,
    Talk,
    Usage,
    one_question,
)
from tests.talking import converse

WORKFLOW = """
name: small
steps:
  - verb: read_numbers
    args: {path: numbers.txt}
  - verb: keep_even
    outputs: {kept: evens}
  - verb: describe_numbers
    inputs: {numbers: evens}
    prompts: {ask: ask}
  - verb: describe_numbers
    id: describe_again
    inputs: {numbers: evens}
    outputs: {texts: more_texts}
    prompts: {ask: ask_again}
"""
PROMPTS = {"ask": "Say $number", "ask_again": "Again $number"}


@dataclass
class ScriptedChat:
    """Repeats the request; ``failures`` maps a row id to the reason of its failure."""

    name: str = "parrot"
    failures: dict[str, str] = field(default_factory=dict)
    broken: Exception | None = None

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": self.name}

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        def reply(request: ChatRequest) -> ChatReply:
            if listener:
                usage = Usage(request.row_id, self.name, 10, 2, cached=False, seconds=0.1, cost=0.5)
                listener.ended(usage, listener.begun(usage))
            return self._reply(request)

        return converse(talks, reply)

    def complete(
        self, requests: Sequence[ChatRequest], listener: Listener | None = None
    ) -> list[ChatReply]:
        return self.converse(map(one_question, requests), listener)

    def _reply(self, request: ChatRequest) -> ChatReply:
        reason = self.failures.get(request.row_id)
        return ChatReply("" if reason else request.messages[0]["content"], reason=reason)

    def stream(self, request: ChatRequest) -> Iterator[str]:
        yield from request.messages[0]["content"]

    def preflight(self) -> None:
        if self.broken:
            raise self.broken


class Words:
    name = "words"

    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def count(self, text: str) -> int:
        return len(text.split())


class NoEmbedding:
    identity: Mapping[str, Any] = {"model": "none"}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        return np.zeros((len(texts), 2), dtype=np.float32)

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return []

    def preflight(self) -> None: ...


@dataclass
class SmallProject:
    root: Path
    chat: ScriptedChat = field(default_factory=ScriptedChat)
    prompts: dict[str, str] = field(
        default_factory=lambda: {"ask": "Say $number", "ask_again": "Again $number"}
    )
    workflow_text: str = WORKFLOW

    def numbers(self, *lines: str) -> None:
        (self.root / "numbers.txt").write_text("\n".join(lines))

    @property
    def workflow(self) -> Workflow:
        named = re.search(r"^name: (\w+)", self.workflow_text, re.MULTILINE)
        path = self.root / f"{named[1] if named else 'small'}.yaml"
        path.write_text(self.workflow_text)
        return read_workflow(
            path, {"input": {"root": str(self.root)}}, models={ChatModel: ["default"]}
        )

    @property
    def resources(self) -> Resources:
        return Resources(
            prompt=lambda name: Prompt(name, self.prompts[name]),
            chat=lambda name: self.chat,
            embedding=lambda name: NoEmbedding(),
            tokenizer=Words(),
        )
