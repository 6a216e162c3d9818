"""Reranking by a sentence-transformers cross-encoder on this machine (extra ``local``), without any download."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import ModelError, SettingsError, in_words
from pipeline.models.local import folder_digest, loading_offline

_WORKING = threading.Lock()


@dataclass(frozen=True)
class CrossEncoderReranker:
    """A Reranker. ``model``: the folder of a cross-encoder with one score; ``batch_size``: documents at a time; of
    each, only its first ``max_characters`` are read.

    Raises SettingsError when the extra is not installed or there is no such folder.
    """

    model: str
    batch_size: int = 100
    max_characters: int = 8000
    where: str = "models.rerank.default"

    def __post_init__(self) -> None:
        if not find_spec("sentence_transformers"):
            raise SettingsError(f"{self.where}: a local model needs an extra; pip install 'graphmill[local]'")
        if not (self._folder / "config.json").is_file():
            fact = f"'{self.model}' is not the folder of a cross-encoder (no config.json in it)"
            raise SettingsError(f"{self.where}: {fact}; give its path")

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's content, wherever its folder is."""
        return {"provider": "local", "model": self._digest, "max_characters": self.max_characters}

    def preflight(self) -> None:
        return

    def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """See Reranker."""
        if not documents:
            return []
        pairs = [(query, document[: self.max_characters]) for document in documents]
        with _WORKING:
            scores = np.asarray(self._loaded.predict(pairs, batch_size=self.batch_size, show_progress_bar=False))
        if scores.shape != (len(documents),) or not np.isfinite(scores).all():
            fact = f"'{self.model}' gives no score for each document (their shape: {scores.shape})"
            raise ModelError(f"{self.where}: {fact}; take a cross-encoder for reranking")
        return [float(score) for score in scores]

    @property
    def _folder(self) -> Path:
        return Path(self.model)

    @cached_property
    def _digest(self) -> str:
        return folder_digest(self._folder)

    @cached_property
    def _loaded(self) -> Any:
        with loading_offline():
            try:
                return import_module("sentence_transformers").CrossEncoder(str(self._folder), local_files_only=True)
            except (OSError, ValueError, KeyError) as error:
                fact = f"'{self.model}' cannot be loaded ({in_words(error)[:200]})"
        raise SettingsError(f"{self.where}: {fact}; give the folder of a cross-encoder")
