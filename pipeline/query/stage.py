"""What it takes to answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pandas as pd

from pipeline.models.base import ChatModel, EmbeddingModel, Reranker, Tokenizer
from pipeline.prompts import Prompt
from pipeline.query.evidence import Evidence
from pipeline.stores.base import GraphReads, VectorReads

Found = tuple[Evidence, pd.DataFrame]
"""Evidence, and the text units to show."""

Result = TypeVar("Result")


class Read(Protocol):
    def __call__(self, work: Callable[[VectorReads, GraphReads], Result], /) -> tuple[Result, tuple[str, ...]]:
        """Does all reads of ``work`` at one moment of the stores; and what is to be said of the moment."""
        ...


def noting(notes: tuple[str, ...], read: Read) -> Read:
    """Read so, and have these said of every moment."""

    def noted(work: Callable[[VectorReads, GraphReads], Result], /) -> tuple[Result, tuple[str, ...]]:
        result, told = read(work)
        return result, (*notes, *told)

    return noted if notes else read


@dataclass(frozen=True)
class QueryStage:
    """``chat`` by name; it gives None where that model is not configured, and raises UsageError where there is none of
    that name."""

    read: Read
    embedding: EmbeddingModel
    chat: Callable[[str], ChatModel | None]
    tokenizer: Tokenizer
    prompt: Callable[[str], Prompt]
    reranker: Reranker | None = None
