from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.contract.schemas import EMBEDDINGS, TEXTS
from pipeline.models.base import Listener
from pipeline.verbs.embed_text import embed_text


class LetterCounts:
    """Eight dimensions: how often each of eight letters comes up, scaled to length 1."""

    identity: Mapping[str, Any] = {"model": "letters"}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        counts = np.array(
            [[text.count(letter) for letter in "abcdefgh"] for text in texts], dtype=np.float32
        )
        counts = counts.reshape(len(texts), 8)
        lengths = np.linalg.norm(counts, axis=1, keepdims=True)
        return np.divide(counts, lengths, out=np.zeros_like(counts), where=lengths > 0)

    def preflight(self) -> None: ...


def test_every_text_gets_its_own_vector():
    texts = TEXTS.frame([("1", "aab"), ("2", ""), ("3", "hh")])
    embeddings = EMBEDDINGS.encode(embed_text(texts, LetterCounts()), "embeddings").to_pandas()
    assert embeddings["id"].tolist() == ["1", "2", "3"]
    vectors = np.stack(embeddings["vector"].tolist())
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, LetterCounts().embed(["aab", "", "hh"]))


def test_no_texts_have_no_vectors():
    assert EMBEDDINGS.encode(embed_text(TEXTS.frame(), LetterCounts()), "embeddings").num_rows == 0


def test_rows_keep_their_vectors_whatever_their_index():
    texts = TEXTS.frame([("1", "a"), ("2", "b")]).iloc[::-1]
    embeddings = embed_text(texts, LetterCounts())
    assert embeddings["id"].tolist() == ["2", "1"]
    assert embeddings["vector"][0][1] == 1.0
