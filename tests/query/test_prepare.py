from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from pipeline.models.base import Listener
from pipeline.query.prepare import prepare
from tests.query.memory_stores import LetterEmbedding, question, resources, village


@dataclass
class Watched(LetterEmbedding):
    """An embedding model and stores that record the order of their calls."""

    happened: list[str] = field(default_factory=list)

    def read(self, work: Callable[..., Any]) -> tuple[Any, tuple[str, ...]]:
        self.happened.append("read")
        return work(village(), village()), ()

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        self.happened.append("embed")
        return super().embed(texts, listener)


@pytest.mark.parametrize("mode", ["naive", "mix", "graph"])
def test_a_question_is_embedded_once_and_then_read_for_once(mode: str):
    """No connection to a database is held while a model works."""
    watched = Watched()
    prepare(
        question(mode=mode), replace(resources(village()), read=watched.read, embedding=watched)
    )
    assert watched.happened == ["embed", "read"]
