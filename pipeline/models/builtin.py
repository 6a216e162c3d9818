"""The embedding model that comes with the install: WordLlama, 256 dimensions; no network, torch or key."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.models.base import Listener
from pipeline.models.remembered import unit
from pipeline.text import clean

if TYPE_CHECKING:
    from wordllama import WordLlamaInference

DIMENSIONS = 256
TEXTS_AT_ONCE = 256
_LOADING = threading.Lock()


@dataclass(frozen=True)
class BuiltinEmbedding:
    """An EmbeddingModel: the mean of a text's token vectors, so a text's vector is the same in any batch."""

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"provider": "builtin", "model": "wordllama-l2-256", "version": version("wordllama")}

    def preflight(self) -> None:
        return

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """See EmbeddingModel. Nothing is called, so ``listener`` hears nothing."""
        sums = np.zeros((len(texts), DIMENSIONS))
        filled = [(row, text) for row, text in enumerate(map(clean, texts)) if text.strip()]
        if not filled:
            return unit(sums)
        with _LOADING:
            model = _model()
        for start in range(0, len(filled), TEXTS_AT_ONCE):
            rows, some = zip(*filled[start : start + TEXTS_AT_ONCE], strict=True)
            encodings = model.tokenizer.encode_batch_fast(list(some), add_special_tokens=False)
            for row, encoding in zip(rows, encodings, strict=True):
                tokens, counts = np.unique(encoding.ids, return_counts=True)
                sums[row] = (model.embedding[tokens] * counts[:, np.newaxis]).sum(axis=0)
        return unit(sums)

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        """No call is ever made."""
        return []


@cache
def _model() -> "WordLlamaInference":
    """The weights in wordllama's wheel. Importing wordllama sets up the root logger; that is taken back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        import wordllama
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, dim=DIMENSIONS, disable_download=True)
    model.tokenizer.no_padding()
    return model
