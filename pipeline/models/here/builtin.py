"""The embedding model that comes with the install: WordLlama, 256 dimensions; no network, torch or
key."""

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
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how the vocabulary writes a space
_SPECIAL = re.compile(r"(<unk>|</?s>)")
_PIECE = re.compile(rf"{_SPACE}+[^{_SPACE}\n\t]*|[^{_SPACE}\n\t]+|[\n\t]")


@dataclass(frozen=True)
class BuiltinEmbedding(EmbeddingModel):
    """An EmbeddingModel: the mean of a text's token vectors, so a text's vector is the same in any
    batch."""

    follows_from_texts: ClassVar[bool] = True
    """Nobody is asked and nothing remembered: any process may make some of a step's vectors
    (engine/tasks.py)."""

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"provider": "builtin", "model": "wordllama-l2-256", "version": version("wordllama")}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """See EmbeddingModel. Nothing is called or remembered: ``listener`` hears of texts that are
        done."""
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        filled = [row for row, text in enumerate(texts) if clean(text).strip()]
        if not filled:
            return vectors
        with _LOADING:
            embedding, tokenizer = _model()
        for start in range(0, len(filled), TEXTS_AT_ONCE):
            rows = filled[start : start + TEXTS_AT_ONCE]
            tokens = _tokens([clean(texts[row]) for row in rows], tokenizer)
            vectors[rows] = unit(_sums(embedding, tokens))
            if listener:
                listener.finished(len(rows))
        return vectors


def _tokens(texts: Sequence[str], tokenizer: "Tokenizer") -> list[list[int]]:
    """Each text's tokens. No token of the vocabulary goes on past a space, a tab or a line end, so
    that the pieces between them, of which texts share most, are encoded once each."""
    pieces = [_pieces(text) for text in texts]
    distinct = list(dict.fromkeys(chain.from_iterable(pieces)))
    encodings = tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
    known = {piece: encoding.ids for piece, encoding in zip(distinct, encodings, strict=True)}
    return [[id for piece in parts for id in known[piece]] for parts in pieces]


def _pieces(text: str) -> list[str]:
    """The text as the vocabulary writes it, where each stretch between special tokens begins with a
    space."""
    parts = (
        part if _SPECIAL.fullmatch(part) else _SPACE + part for part in _SPECIAL.split(text) if part
    )
    return _PIECE.findall("".join(parts).replace(" ", _SPACE))


def _sums(embedding: np.ndarray, tokens: Sequence[Sequence[int]]) -> np.ndarray:
    """The sum of each text's token vectors. These are float16, so that float64 adds them up
    exactly, in any order."""
    ends = list(accumulate(map(len, tokens)))
    ids = np.fromiter(chain.from_iterable(tokens), dtype=np.int64, count=ends[-1])
    distinct, places = np.unique(ids, return_inverse=True)
    vectors = embedding[distinct].astype(np.float64)
    return np.stack([_sum(vectors, places[start:end]) for start, end in pairwise([0, *ends])])


def _sum(vectors: np.ndarray, places: np.ndarray) -> np.ndarray:
    starts = range(0, len(places), TOKENS_AT_ONCE)
    return sum(
        (vectors[places[start : start + TOKENS_AT_ONCE]].sum(axis=0) for start in starts),
        np.zeros(DIMENSIONS),
    )


@cache
def _model() -> tuple[np.ndarray, "Tokenizer"]:
    """The token vectors and the tokenizer, read from wordllama's wheel: importing the package
    itself takes longer than a question over a small project."""
    from safetensors import safe_open
    from tokenizers import Tokenizer

    spec = find_spec("wordllama")
    assert spec
    assert spec.origin
    folder = Path(spec.origin).parent
    tokenizer = Tokenizer.from_file(
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )
    tokenizer.normalizer = None  # _pieces does what it did
    with safe_open(folder / "weights" / f"l2_supercat_{DIMENSIONS}.safetensors", "np") as weights:
        return weights.get_tensor("embedding.weight"), tokenizer
