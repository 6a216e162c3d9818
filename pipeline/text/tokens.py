"""Token counts equal to tiktoken's, with no download at any time.

``rs-bpe`` carries the ranks of the two encodings in use today and gives tiktoken's very ids; it is
taken even where tiktoken's own ranks are on the machine, because tiktoken's regular expression
overflows its stack on megabytes of white space. tiktoken serves older encodings whose rank files
are in its cache.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import tiktoken
from rs_bpe.bpe import openai
from tiktoken.model import encoding_name_for_model
from tiktoken_ext.openai_public import ENCODING_CONSTRUCTORS

DEFAULT_ENCODING = "o200k_base"
_PACKAGED: dict[str, Callable[[], openai.Tokenizer]] = {
    "cl100k_base": openai.cl100k_base,
    "o200k_base": openai.o200k_base,
}
_SAME_PLAIN_TEXT = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}


@dataclass
class BytePairTokenizer:
    """``name`` is the encoding's. Special tokens read as plain text; a lone surrogate as U+FFFD."""

    name: str

    def encode(self, text: str) -> list[int]:
        try:
            return _load(self.name).encode(text)
        except UnicodeEncodeError:
            return _load(self.name).encode(_without_surrogates(text))

    def count(self, text: str) -> int:
        try:
            return _load(self.name).count(text)
        except UnicodeEncodeError:
            return _load(self.name).count(_without_surrogates(text))


def tokenizer(name: str) -> BytePairTokenizer:
    """The tokenizer of a model ("gpt-4o-mini") or an encoding ("cl100k_base"); else that of
    o200k_base."""
    return BytePairTokenizer(encoding_for(name))


def encoding_for(name: str) -> str:
    """The name of the encoding by tiktoken's own table; an encoding that cannot be had here is
    o200k_base."""
    encoding = name if name in ENCODING_CONSTRUCTORS else _encoding_of_model(name)
    encoding = _SAME_PLAIN_TEXT.get(encoding, encoding)
    return encoding if encoding in _PACKAGED or _ranks_are_here(encoding) else DEFAULT_ENCODING


def _encoding_of_model(model: str) -> str:
    try:
        return encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:
        return DEFAULT_ENCODING


@dataclass(frozen=True)
class _Functions:
    encode: Callable[[str], list[int]]
    count: Callable[[str], int]


@lru_cache
def _load(encoding: str) -> _Functions:
    if encoding in _PACKAGED:
        packaged = _PACKAGED[encoding]()
        return _Functions(packaged.encode, packaged.count)
    original = tiktoken.get_encoding(encoding)
    return _Functions(original.encode_ordinary, lambda text: len(original.encode_ordinary(text)))


def _ranks_are_here(encoding: str) -> bool:
    """Whether tiktoken would load the encoding without the network: its files are cached and
    intact.

    Their addresses and hashes are constants of the function that would fetch them
    (``tiktoken.load`` names a cached file by the SHA-1 of its address, and fetches again one whose
    SHA-256 is another).
    """
    constants = [
        c for c in ENCODING_CONSTRUCTORS[encoding].__code__.co_consts if isinstance(c, str)
    ]
    addresses = [constant for constant in constants if constant.startswith("https://")]
    return bool(addresses) and all(_cached_hash(address) in constants for address in addresses)


def _cached_hash(address: str) -> str | None:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = Path(tempfile.gettempdir(), "data-gym-cache")
    if folder == "":
        return None
    path = Path(folder, hashlib.sha1(address.encode()).hexdigest())
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
