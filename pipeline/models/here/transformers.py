"""Embedding and reranking by sentence-transformers models on this machine (extra ``transformers``).

Nothing is downloaded.
"""

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import ModelError, SettingsError, in_words, install_extra
from pipeline.files import sha256_of
from pipeline.models.base import EmbeddingModel, Listener, Reranker, unit
from pipeline.models.cache.lookup import embedding_keys
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.here.minilm import MINILM
from pipeline.models.here.multilingual import MULTILINGUAL
from pipeline.models.here.remembered import embed_remembered

_WORKING = threading.Lock()


@dataclass(frozen=True)
class SentenceTransformerEmbedding(EmbeddingModel):
    """EmbeddingModel that runs a model of sentence-transformers from the folder ``model``.

    Raises SettingsError when the extra is not installed or the folder has no such model.
    """

    model: str
    cache: ReplyCache = NO_CACHE
    where: str = "models.embedding.default"

    def __post_init__(self) -> None:
        if not find_spec("sentence_transformers"):
            needs = f"the model in '{self.model}' needs sentence_transformers"
            raise SettingsError(f"{self.where}: {needs}; {install_extra('transformers')}")
        if not (self._model_folder / "modules.json").is_file():
            raise SettingsError(
                f"{self.where}: '{self.model}' is not the folder of a sentence-transformers model "
                f"(no modules.json in it); give its path, '{MINILM}' or '{MULTILINGUAL}'"
            )

    @property
    def identity(self) -> Mapping[str, Any]:
        """The digest of the model's files, wherever its folder is."""
        return self._identity

    @cached_property
    def _identity(self) -> Mapping[str, Any]:
        return {"provider": "local", "model": folder_digest(self._model_folder)}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """Return the vectors of the texts, as EmbeddingModel says.

        ``listener`` only receives the number of texts that are done, because no call is made.
        """
        return embed_remembered(self, texts, self._encode, listener)

    def embed_for(
        self, caller: str, texts: Sequence[str], listener: Listener | None = None
    ) -> np.ndarray:
        return embed_remembered(self, texts, self._encode, listener, caller)

    def keys(self, texts: Sequence[str]) -> set[str]:
        return embedding_keys(self.identity, texts)

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        with _WORKING:
            return unit(np.asarray(self._loaded_model.encode(list(texts), show_progress_bar=False)))

    @property
    def _model_folder(self) -> Path:
        return Path(self.model)

    @cached_property
    def _loaded_model(self) -> Any:
        with loading_offline():
            library = import_module("sentence_transformers")
            return library.SentenceTransformer(str(self._model_folder), local_files_only=True)


@contextmanager
def loading_offline() -> Iterator[None]:
    """Disable network access, and hide progress bars, while a model is loaded in the block."""
    with _offline():
        logging = import_module("transformers.utils.logging")
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            if shown:
                logging.enable_progress_bar()


@contextmanager
def _offline() -> Iterator[None]:
    """Set HF_HUB_OFFLINE during the block, and restore its value afterwards."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before


def folder_digest(folder: Path) -> str:
    """Return a digest of the names and contents of all files in the folder.

    Markdown files, such as README, and hidden files are left out.
    """
    state = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if is_hidden or path.suffix == ".md":
            continue
        state.update(f"{name.as_posix()}\n{sha256_of(path)}\n".encode())
    return state.hexdigest()[:32]


@dataclass(frozen=True)
class CrossEncoderReranker(Reranker):
    """Reranker that runs a cross-encoder from the folder ``model``. The model must return one
    score.

    ``batch_size``: the number of documents at a time. ``max_characters``: only this many characters
    at the start of a document are read. Raises SettingsError when the extra is not installed or
    there is no such folder.
    """

    model: str
    batch_size: int = 100
    max_characters: int = 8000
    where: str = "models.rerank.default"

    def __post_init__(self) -> None:
        if not find_spec("sentence_transformers"):
            needs = "a local model needs sentence_transformers"
            raise SettingsError(f"{self.where}: {needs}; {install_extra('transformers')}")
        if not (self._model_folder / "config.json").is_file():
            fact = f"'{self.model}' is not the folder of a cross-encoder (no config.json in it)"
            raise SettingsError(f"{self.where}: {fact}; give its path")

    @property
    def identity(self) -> Mapping[str, Any]:
        """The digest of the model's files, wherever its folder is, and the limit of characters."""
        return {"provider": "local", "model": self._digest, "max_characters": self.max_characters}

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        """Return a score for each document, as Reranker says. No call is made."""
        if not documents:
            return []
        pairs = [(query, document[: self.max_characters]) for document in documents]
        with _WORKING:
            scores = np.asarray(
                self._loaded_model.predict(
                    pairs, batch_size=self.batch_size, show_progress_bar=False
                )
            )
        if scores.shape != (len(documents),) or not np.isfinite(scores).all():
            fact = f"'{self.model}' gives no score for each document (their shape: {scores.shape})"
            raise ModelError(f"{self.where}: {fact}; take a cross-encoder for reranking")
        return [float(score) for score in scores]

    @property
    def _model_folder(self) -> Path:
        return Path(self.model)

    @cached_property
    def _digest(self) -> str:
        return folder_digest(self._model_folder)

    @cached_property
    def _loaded_model(self) -> Any:
        with loading_offline():
            try:
                return import_module("sentence_transformers").CrossEncoder(
                    str(self._model_folder), local_files_only=True
                )
            except (OSError, ValueError, KeyError) as error:
                fact = f"'{self.model}' cannot be loaded ({in_words(error)[:200]})"
        raise SettingsError(f"{self.where}: {fact}; give the folder of a cross-encoder")
