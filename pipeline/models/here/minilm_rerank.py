"""Reranking on this machine by the similarity of MiniLM's vectors (extra ``local``)."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.models.base import Listener, Reranker
from pipeline.models.here.minilm import encode_texts, identify_weights, require_minilm
from pipeline.models.here.remembered import without_surrogates
from pipeline.text.ids import digest

MOST_CHARACTERS = 1_000
"""Characters at the start of a document that are read: about the 256 tokens that the model reads
at once. So a document costs little, however long it is."""
MOST_REMEMBERED = 20_000
"""The number of vectors that a process keeps, 1.5 kB each: about 30 MB."""


@dataclass(frozen=True)
class _RememberedVectors:
    """The vectors of the texts that were used last, by the digest of the text.

    They are kept in memory alone, so that no vector of a purged document stays on a disk.
    """

    vectors: OrderedDict[str, np.ndarray] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        with self.lock:
            known = {key: self.vectors[key] for key in keys if key in self.vectors}
            for key in known:
                self.vectors.move_to_end(key)
            return known

    def add(self, vectors: Mapping[str, np.ndarray]) -> None:
        with self.lock:
            self.vectors.update(vectors)
            while len(self.vectors) > MOST_REMEMBERED:
                self.vectors.popitem(last=False)


@dataclass(frozen=True)
class MiniLMReranker(Reranker):
    """Reranker whose score is the cosine of MiniLM's vectors of query and document.

    ``max_characters``: only this many characters at the start of a document are read. Raises
    SettingsError when the extra is not installed.
    """

    max_characters: int = MOST_CHARACTERS
    where: str = "models.rerank.default"
    remembered: _RememberedVectors = field(
        default_factory=_RememberedVectors, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        require_minilm(self.where)

    @property
    def identity(self) -> Mapping[str, Any]:
        return {**identify_weights(), "max_characters": self.max_characters}

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        """Return a score for each document, as Reranker says. No call is made."""
        if not documents:
            return []
        read = [without_surrogates(text[: self.max_characters]) for text in documents]
        question, *vectors = self._embed([without_surrogates(query), *read])
        return [float(vector @ question) for vector in vectors]

    def _embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the vectors of the texts, in order; only those not remembered are computed."""
        keys = [digest(text) for text in texts]
        known = self.remembered.find(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            new = encode_texts(list(missing.values()), self.where)
            # A row that is not copied would keep the vectors of the whole call in memory.
            computed = {key: vector.copy() for key, vector in zip(missing, new, strict=True)}
            self.remembered.add(computed)
            known |= computed
        return [known[key] for key in keys]
