"""The resemblance of two texts: how many of their shingles, runs of words, they share.

Shingles and resemblance are those of Broder (1997), "On the resemblance and containment of
documents".
"""

import re
import zlib

WORDS_OF_SHINGLE = 3
"""Words of a shingle. A changed figure changes three of them."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|\w+")
"""A word, or one character of Han or kana: they are written without spaces."""


def hash_shingles(text: str) -> frozenset[int]:
    """Return the hashes (32 bits) of the shingles of a text; a text of fewer words has none."""
    found = _WORD.findall(text.lower())
    starts = range(len(found) - WORDS_OF_SHINGLE + 1)
    # A run that occurs several times is hashed once.
    runs = {" ".join(found[start : start + WORDS_OF_SHINGLE]) for start in starts}
    encoded_runs = [run.encode("utf-8", "surrogatepass") for run in runs]
    return frozenset(map(zlib.crc32, encoded_runs))


def compute_resemblance(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the share of shingles that two texts have in common, of all that either has."""
    shared = len(one & other)
    either = len(one) + len(other) - shared
    return shared / either if either else 0.0
