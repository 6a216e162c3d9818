"""The embedding model that is installed with graphmill: WordLlama with 256 dimensions.

It needs no network, no torch and no key.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipeline.models.base import EmbeddingModel, Listener, unit, version
from pipeline.text.ids import clean

if TYPE_CHECKING:
    from tokenizers import Tokenizer


DIMENSIONS = 256
TEXTS_AT_ONCE = 512
TOKENS_AT_ONCE = 4_096
_LOADING = threading.Lock()
# The character by which the vocabulary represents a space.
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_SPECIAL = re.compile(r"(<unk>|</?s>)")
_PIECE = re.compile(rf"{_SPACE}+[^{_SPACE}\n\t]*|[^{_SPACE}\n\t]+|[\n\t]")


@dataclass(frozen=True)
class BuiltinEmbedding(EmbeddingModel):
    """EmbeddingModel whose vector of a text is the mean of its tokens' vectors.

    The vector of a text therefore does not depend on the batch.
    """

    follows_from_texts: ClassVar[bool] = True
    """Makes no calls and uses no cache, so any process may compute some of a step's vectors
    (engine/tasks.py)."""

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"provider": "builtin", "model": "wordllama-l2-256", "version": version("wordllama")}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """Return the vectors of the texts, as EmbeddingModel says.

        ``listener`` only receives the number of texts that are done, because no call is made.
        """
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        filled = [row for row, text in enumerate(texts) if clean(text).strip()]
        if not filled:
            return vectors
        with _LOADING:
            embedding, tokenizer = _load_model()
        for start in range(0, len(filled), TEXTS_AT_ONCE):
            rows = filled[start : start + TEXTS_AT_ONCE]
            tokens = _tokenize([clean(texts[row]) for row in rows], tokenizer)
            vectors[rows] = unit(_sum_by_text(embedding, tokens))
            if listener:
                listener.finished(len(rows))
        return vectors


def _tokenize(texts: Sequence[str], tokenizer: "Tokenizer") -> list[list[int]]:
    """Return the token ids of each text.

    No token of the vocabulary crosses a space, a tab or a line end. The words between them are
    therefore encoded separately, and each distinct word only once.
    """
    words_of_texts = [_split_words(text) for text in texts]
    distinct = list(dict.fromkeys(chain.from_iterable(words_of_texts)))
    encodings = tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
    ids_of_word = {word: encoding.ids for word, encoding in zip(distinct, encodings, strict=True)}
    return [
        list(chain.from_iterable(ids_of_word[word] for word in words)) for words in words_of_texts
    ]


def _split_words(text: str) -> list[str]:
    """Split the text into words as the vocabulary writes them, each with the spaces before it.

    The text between two special tokens always begins with a space.
    """
    written = ""
    for part in _SPECIAL.split(text):
        if part:
            written += part if _SPECIAL.fullmatch(part) else _SPACE + part
    return _PIECE.findall(written.replace(" ", _SPACE))


def _sum_by_text(embedding: np.ndarray, tokens: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the sum of each text's token vectors, one row per text.

    The vectors are float16, so a sum in float64 is exact in any order.
    """
    ends = list(accumulate(map(len, tokens)))
    ids = np.fromiter(chain.from_iterable(tokens), dtype=np.int64, count=ends[-1])
    distinct, places = np.unique(ids, return_inverse=True)
    vectors = embedding[distinct].astype(np.float64)
    return np.stack(
        [_sum_vectors(vectors, places[start:end]) for start, end in pairwise([0, *ends])]
    )


def _sum_vectors(vectors: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the sum of the vectors at these places. Slices keep the memory of long texts low."""
    total = np.zeros(DIMENSIONS)
    for start in range(0, len(places), TOKENS_AT_ONCE):
        total += vectors[places[start : start + TOKENS_AT_ONCE]].sum(axis=0)
    return total


@cache
def _load_model() -> tuple[np.ndarray, "Tokenizer"]:
    """Load the token vectors and the tokenizer from the files of wordllama's package.

    Importing the package itself takes longer than a query over a small project.
    """
    from safetensors import safe_open
    from tokenizers import Tokenizer

    spec = find_spec("wordllama")
    assert spec
    assert spec.origin
    folder = Path(spec.origin).parent
    tokenizer = Tokenizer.from_file(
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )
    # _split_words does the normalizer's work.
    tokenizer.normalizer = None
    with safe_open(folder / "weights" / f"l2_supercat_{DIMENSIONS}.safetensors", "np") as weights:
        return weights.get_tensor("embedding.weight"), tokenizer
