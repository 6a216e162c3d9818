"""Vectors that a model on this machine takes long to make: those that are known are not made
again."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pipeline.models.base import EmbeddingModel, Listener
from pipeline.models.cache.database import slices
from pipeline.models.cache.lookup import recall_vectors
from pipeline.models.cache.replies import ReplyCache

TEXTS_AT_ONCE = 256


class Remembering(EmbeddingModel, Protocol):
    @property
    def cache(self) -> ReplyCache: ...


def embed_remembered(
    model: Remembering,
    texts: Sequence[str],
    encode: Callable[[Sequence[str]], np.ndarray],
    listener: Listener | None,
) -> np.ndarray:
    """A row for each text, by ``encode`` where it is not known; zeros where it is blank."""
    recalled = recall_vectors(model.cache, model.identity, texts)
    for texts_of_keys in slices(list(recalled.missing.items()), TEXTS_AT_ONCE):
        keys, some = zip(*texts_of_keys, strict=True)
        new = dict(zip(keys, encode([_without_surrogates(text) for text in some]), strict=True))
        model.cache.store_vectors(model.identity["model"], new)
        recalled.known.update(new)
        if listener:
            listener.finished(len(new))
    some_vector = next(iter(recalled.known.values()), None)
    return recalled.stack(len(encode(["dimensions"])[0] if some_vector is None else some_vector))


def _without_surrogates(text: str) -> str:
    """No tokenizer takes half a character, as a keyword may have it."""
    return text.encode(errors="ignore").decode()
