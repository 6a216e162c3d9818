"""Texts that are found in a read and must be embedded to go on: embedded between two reads, so that no connection to a
database is held while an endpoint thinks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from pipeline.query.fact_paths import Embed
from pipeline.query.stage import Found, Read
from pipeline.stores.base import GraphReads, VectorReads

Find = Callable[[Embed | None, VectorReads, GraphReads], Found]
ATTEMPTS = 3
"""Reads that may meet texts not embedded yet: the second does only where a load has changed them meanwhile."""


class NotEmbeddedError(Exception):
    def __init__(self, texts: Sequence[str]):
        super().__init__(f"{len(texts)} texts are to be embedded first")
        self.texts = texts


def read_embedding_between(read: Read, find: Find, embed: Embed) -> tuple[Found, tuple[str, ...]]:
    """What ``find`` finds at one moment. It is given an ``Embed`` that ends the read at texts not embedded yet; they
    are embedded, and it starts anew. Texts that change with every read are not embedded: it is given None."""
    known: dict[str, np.ndarray] = {}
    for _ in range(ATTEMPTS):
        try:
            return read(partial(find, partial(_vectors, known)))
        except NotEmbeddedError as missing:
            known |= zip(missing.texts, embed(missing.texts), strict=True)
    return read(partial(find, None))


def _vectors(known: Mapping[str, np.ndarray], texts: Sequence[str]) -> np.ndarray:
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    if missing:
        raise NotEmbeddedError(missing)
    return np.array([known[text] for text in texts])
