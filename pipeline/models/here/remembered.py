"""Embedding on this machine with a cache, because its vectors take long to compute."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pipeline.models.base import EmbeddingModel, Listener
from pipeline.models.cache.database import slices
from pipeline.models.cache.lookup import recall_vectors
from pipeline.models.cache.replies import ReplyCache

TEXTS_AT_ONCE = 256


class Remembering(EmbeddingModel, Protocol):
    """EmbeddingModel with a cache."""

    @property
    def cache(self) -> ReplyCache: ...


def embed_remembered(
    model: Remembering,
    texts: Sequence[str],
    encode: Callable[[Sequence[str]], np.ndarray],
    listener: Listener | None,
    caller: str = "",
) -> np.ndarray:
    """Return one vector per text, in order; a blank text has zeros.

    Vectors that are not cached are computed by ``encode`` and stored. ``listener`` receives the
    number of texts that are done. ``caller`` is as for ``EmbeddingModel.embed_for``.
    """
    recalled = recall_vectors(model.cache, model.identity, texts, caller)
    for texts_of_keys in slices(list(recalled.missing.items()), TEXTS_AT_ONCE):
        keys, some = zip(*texts_of_keys, strict=True)
        new = dict(zip(keys, encode([without_surrogates(text) for text in some]), strict=True))
        model.cache.store_vectors(model.identity["model"], new)
        recalled.known.update(new)
        if listener:
            listener.finished(len(new))
    some_vector = next(iter(recalled.known.values()), None)
    if some_vector is None:
        # All texts are blank. Encode any text to learn the number of dimensions.
        some_vector = encode(["dimensions"])[0]
    return recalled.stack(len(some_vector))


def without_surrogates(text: str) -> str:
    """Remove lone surrogates, which no tokenizer accepts. A keyword may contain one."""
    return text.encode(errors="ignore").decode()
