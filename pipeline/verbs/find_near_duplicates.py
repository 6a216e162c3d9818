"""find_near_duplicates: find the pairs of documents whose texts are nearly the same.

The texts are compared by MinHash (Broder 1997) in bands, as Leskovec, Rajaraman and Ullman describe
(Mining of Massive Datasets, chapter 3). A band is a run of minimal hashes. The more alike two texts
are, the more bands they share, so only documents that share a band are ever compared.
"""

import hashlib
from collections import defaultdict
from functools import lru_cache
from itertools import combinations

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.laws import Law, Part
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import NEAR_DUPLICATES, STRING, table
from pipeline.text.ids import digest
from pipeline.text.shingles import hash_shingles

N_BANDS, ROWS = 32, 4
"""The number of bands, and of minimal hashes in a band.

Two texts share a band with a probability of resemblance to the power of ROWS: .41 at .8, .06 at .5.
The estimate of .8 has a standard error of about .04.
"""
MOST_PAIRED = 50
"""The most documents with an equal band that are paired each with each.

Of more, each is paired with its neighbours alone: pairs grow with the square of their number.
"""
NEIGHBOURS = 5
"""The documents behind each one, by their ids, with which it is paired in a large band.

Two documents that are so near among all with a band of the group are as near in each single band,
where some of the others are missing. So every band that the two share is counted. For a pair that
is farther apart only some bands count, and its resemblance is too low.
"""
SHINGLES_AT_ONCE = 4096
"""Shingles that are permuted at once. A long text would otherwise take 2 kB for each shingle."""
TEXTS = table("id", id=STRING, text=STRING)
BANDS = table("document_id", "band", document_id=STRING, band=STRING)
"""The bands of each document; equal bands have equal names."""
BAND_PAIRS = table(
    "id", "band", id=STRING, band=STRING, left_id=STRING, right_id=STRING
)  # fmt: skip
"""Pairs of documents, once for each band that they share."""


class NearDuplicateParams(Params):
    """The least resemblance of a pair, and the fewest shingles of a text that is compared."""

    least: float = Field(default=0.7, gt=0.0, le=1.0)
    min_shingles: int = Field(default=20, ge=1)


def hash_bands(
    documents: pd.DataFrame, params: NearDuplicateParams = NearDuplicateParams()
) -> pd.DataFrame:
    """Return BANDS of the documents; a text with too few shingles has none."""
    rows: list[tuple[str, str]] = []
    for id, text in zip(documents["id"], documents["text"], strict=True):
        hashes = np.fromiter(hash_shingles(text), dtype=np.uint64)
        if len(hashes) < params.min_shingles:
            continue
        bands = _find_minima(hashes).reshape(N_BANDS, ROWS)
        for number, band in enumerate(bands):
            # Only bands of the same number are compared.
            rows.append((id, f"{number}-{band.tobytes().hex()}"))
    return BANDS.frame(rows)


def _find_minima(hashes: np.ndarray) -> np.ndarray:
    """Return for each hash function its least value over these hashes of shingles."""
    multipliers, summands = _hash_functions()
    minima = np.full(N_BANDS * ROWS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, len(hashes), SHINGLES_AT_ONCE):
        some = hashes[start : start + SHINGLES_AT_ONCE]
        # A row for each hash function, a column for each shingle. Multiplication wraps around at
        # 64 bits; the upper half is the hash.
        products = multipliers[:, None] * some[None, :]
        permuted = (products + summands[:, None]) >> np.uint64(32)
        minima = np.minimum(minima, permuted.min(axis=1))
    # The same bytes on every machine, whatever its order of bytes.
    return minima.astype("<u4")


def pair_in_bands(bands: pd.DataFrame) -> pd.DataFrame:
    """Return BAND_PAIRS: the pairs of documents with an equal band."""
    documents_of: dict[str, list[str]] = defaultdict(list)
    for document, band in zip(bands["document_id"], bands["band"], strict=True):
        documents_of[band].append(document)
    rows: list[tuple[str, str, str, str]] = []
    for band, documents in documents_of.items():
        documents.sort()
        if len(documents) <= MOST_PAIRED:
            pairs = list(combinations(documents, 2))
        else:
            pairs = _pair_neighbours(documents)
        rows += [(digest(left, right), band, left, right) for left, right in pairs]
    return BAND_PAIRS.frame(rows)


def _pair_neighbours(documents: list[str]) -> list[tuple[str, str]]:
    """Return the pairs of each document with the next NEIGHBOURS of the list."""
    pairs: list[tuple[str, str]] = []
    for place, document in enumerate(documents):
        neighbours = documents[place + 1 : place + 1 + NEIGHBOURS]
        pairs += [(document, neighbour) for neighbour in neighbours]
    return pairs


def rate_pairs(
    band_pairs: pd.DataFrame, params: NearDuplicateParams = NearDuplicateParams()
) -> pd.DataFrame:
    """Return NEAR_DUPLICATES: the pairs whose number of shared bands says enough resemblance."""
    counts = band_pairs.groupby(["id", "left_id", "right_id"], sort=False).size()
    rows: list[tuple[str, str, str, float]] = []
    for (id, left, right), count in counts.items():  # pyright: ignore
        share_of_bands = count / N_BANDS
        # All rows of a shared band are equal, each with the resemblance as its probability.
        resemblance = round(float(share_of_bands ** (1 / ROWS)), 3)
        if resemblance >= params.least:
            rows.append((f"near-{id}", left, right, resemblance))
    return NEAR_DUPLICATES.frame(rows)


def _list_band_parts(params: Params) -> tuple[Part, ...]:
    """Return the sub-steps: bands of documents, pairs of bands, and pairs by their bands."""
    bands = Part(
        hash_bands,
        {"documents": TEXTS},
        {"bands": BANDS},
        Law({"documents": ("id",)}, row_of={"bands": "document_id"}),
    )
    pairs = Part(
        pair_in_bands,
        {"bands": BANDS},
        {"band_pairs": BAND_PAIRS},
        Law({"bands": ("band",)}, row_of={"band_pairs": "band"}),
    )
    rated = Part(
        rate_pairs,
        {"band_pairs": BAND_PAIRS},
        {"near_duplicates": NEAR_DUPLICATES},
        Law({"band_pairs": ("left_id",)}, row_of={"near_duplicates": "left_id"}),
    )
    return bands, pairs, rated


@verb(
    inputs={"documents": TEXTS},
    outputs={"near_duplicates": NEAR_DUPLICATES},
    parts=_list_band_parts,
)
def find_near_duplicates(
    documents: pd.DataFrame, params: NearDuplicateParams = NearDuplicateParams()
) -> pd.DataFrame:
    """Return the pairs of documents whose texts are nearly the same, with their resemblance.

    ``resemblance`` estimates the share of runs of three words that both have. Of more than 50
    documents with an equal band, each is paired with the 5 before and behind it by their ids.
    """
    return rate_pairs(pair_in_bands(hash_bands(documents, params)), params)


@lru_cache(maxsize=1)
def _hash_functions() -> tuple[np.ndarray, np.ndarray]:
    """Return the multipliers, which are odd, and the summands of the hash functions.

    They are made of digests, so that they are the same on every machine.
    """
    digests: list[bytes] = []
    for number in range(N_BANDS * ROWS):
        text = str(number).encode()
        digests.append(hashlib.sha256(text).digest())
    # A digest of 32 bytes is four numbers of 64 bits, of which two are used.
    numbers = np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 4)
    multipliers = numbers[:, 0] | np.uint64(1)
    summands = numbers[:, 1]
    return multipliers, summands
