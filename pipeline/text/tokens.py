"""Token counts equal to those of tiktoken, without any download.

``rs-bpe`` contains the ranks of the two encodings in use today and returns the same ids as
tiktoken. It is used even where tiktoken's own ranks are on the machine, because tiktoken's regular
expression overflows its stack on megabytes of white space. tiktoken handles older encodings whose
rank files are in its cache.
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
LONGEST_REMEMBERED, REMEMBERED = 1_000, 8_192
"""Characters of the longest text whose count is remembered, and the number of such texts: about 8
MB. A question counts its instructions and many rows twice, and questions share rows."""
_SAME_PLAIN_TEXT = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}
"""Encodings that differ only in special tokens, and the encoding with the same plain text."""


@dataclass
class BytePairTokenizer:
    """Tokenizer of the encoding ``name``. Special tokens count as plain text, lone surrogates as
    U+FFFD."""

    name: str

    def encode(self, text: str) -> list[int]:
        try:
            return _load(self.name).encode(text)
        except UnicodeEncodeError:
            return _load(self.name).encode(_without_surrogates(text))

    def count(self, text: str) -> int:
        """Return the number of tokens; the counts of the last short texts are remembered."""
        count = _count_remembered if len(text) <= LONGEST_REMEMBERED else _count
        return count(self.name, text)


def _count(encoding: str, text: str) -> int:
    try:
        return _load(encoding).count(text)
    except UnicodeEncodeError:
        return _load(encoding).count(_without_surrogates(text))


_count_remembered = lru_cache(REMEMBERED)(_count)


def tokenizer(name: str) -> BytePairTokenizer:
    """Return the tokenizer of a model ("gpt-4o-mini") or an encoding ("cl100k_base").

    An unknown name gives the tokenizer of o200k_base.
    """
    return BytePairTokenizer(encoding_for(name))


def encoding_for(name: str) -> str:
    """Return the name of the encoding of a model or encoding, by tiktoken's own table.

    An encoding that is not available on this machine becomes o200k_base.
    """
    encoding = name if name in ENCODING_CONSTRUCTORS else _encoding_of_model(name)
    encoding = _SAME_PLAIN_TEXT.get(encoding, encoding)
    if encoding in _PACKAGED or _ranks_are_here(encoding):
        return encoding
    return DEFAULT_ENCODING


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
    """Return the functions of an encoding, which are loaded once per process."""
    if encoding in _PACKAGED:
        packaged = _PACKAGED[encoding]()
        return _Functions(packaged.encode, packaged.count)
    original = tiktoken.get_encoding(encoding)
    return _Functions(original.encode_ordinary, lambda text: len(original.encode_ordinary(text)))


def _ranks_are_here(encoding: str) -> bool:
    """Return whether tiktoken can load the encoding without the network, from intact cached files.

    The addresses and hashes of the files are constants of the function that would download them.
    ``tiktoken.load`` names a cached file by the SHA-1 of its address. It downloads a file again if
    its SHA-256 differs.
    """
    code = ENCODING_CONSTRUCTORS[encoding].__code__
    texts = [constant for constant in code.co_consts if isinstance(constant, str)]
    addresses = [text for text in texts if text.startswith("https://")]
    if not addresses:
        return False
    # The hash that an intact file has is one of the texts too.
    return all(_cached_hash(address) in texts for address in addresses)


def _cached_hash(address: str) -> str | None:
    """Return the SHA-256 of the cached file of an address, or None if there is none.

    The folder is found as ``tiktoken.load`` finds it; an empty variable turns its cache off.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = Path(tempfile.gettempdir(), "data-gym-cache")
    if folder == "":
        return None
    name = hashlib.sha1(address.encode()).hexdigest()
    path = Path(folder, name)
    if not path.is_file():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
