"""Which pairs of names are worth comparing: those that share a key. The number of pairs grows with the names, not with
their square: a key that many share is compared only along its sorted members."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.resolution.name import Name
from pipeline.resolution.rules import FIXED_END, SHORTEST_TYPO

FULL_BLOCK = 30
"""Members of a key that are compared each with each; of more, each with so many that sort next to it."""
NEIGHBOURS = 5
RARE = 20
"""Names that may share a word for it to propose pairs."""
SHORTEST_WORD = 4
TABLES, SEED = 16, 7
MEMBERS_OF_A_CELL = 8

Pair = tuple[int, int]


def named_pairs(names: Sequence[Name]) -> set[Pair]:
    """Positions (smaller, larger) of names that share a key of a rule, or a rare word."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        for key in set(_keys(name)):
            blocks[key].append(position)
    shared = [(key, members) for key, members in blocks.items() if len(members) > 1]
    return {pair for key, members in shared for pair in _within(key, members, names)}


def defined_acronyms(names: Sequence[Name]) -> dict[str, str]:
    """Initials -> what names such as "Long Name (LN)" say they stand for, joined, where all say the same."""
    meanings: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if name.short:
            meanings[name.short].add(name.long)
    return {short: next(iter(longs)) for short, longs in meanings.items() if len(longs) == 1}


def _keys(name: Name) -> Iterator[str]:
    numbers = "/".join(name.numbers)
    for spelling in name.spellings:
        yield f"spelling {spelling} {numbers}"
    yield f"core {name.joined} {numbers}"
    yield f"core {name.singular} {numbers}"
    if name.short:
        yield f"core {name.long} {numbers}"
        yield f"acronym {name.short}"
    if name.acronym:
        yield f"acronym {name.acronym}"
    if name.initials:
        yield f"acronym {name.initials}"
    if name.is_person and len(name.core) > 1:
        yield f"person {name.core[0][0]} {name.core[-1]} {len(name.core)}"
    if name.foreign or name.joined.isalpha():
        yield f"skeleton {name.skeleton}"
    yield from _words_with_a_letter_less(name, numbers)
    for word in name.core:
        if len(word) >= SHORTEST_WORD:
            yield f"word {word} {numbers}"


def _words_with_a_letter_less(name: Name, numbers: str) -> Iterator[str]:
    """The core with one letter of a long word left out: shared by names that are one slip apart."""
    for place, word in enumerate(name.core):
        if len(word) >= SHORTEST_TYPO and word.isalpha() and word.isascii() | word.islower():
            before, after = " ".join(name.core[:place]), " ".join(name.core[place + 1 :])
            shorter = {word[:at] + word[at + 1 :] for at in range(1, len(word) - FIXED_END)} | {word}
            for rest in shorter:
                yield f"slip {before}|{rest}|{after} {numbers}"


def _within(key: str, members: list[int], names: Sequence[Name]) -> Iterator[Pair]:
    if key.startswith("word ") and len(members) > RARE:
        return
    if len(members) <= FULL_BLOCK:
        reach = len(members)
    else:
        members, reach = sorted(members, key=lambda member: (names[member].text, names[member].name)), NEIGHBOURS
    for place, one in enumerate(members):
        for two in members[place + 1 : place + 1 + reach]:
            yield (one, two) if one < two else (two, one)


def near_pairs(vectors: np.ndarray, least: float) -> dict[Pair, float]:
    """Positions of vectors (rows of length 1) whose cosine is at least ``least``, with it: those that fall into one
    cell of some random partition (sign random projections, Charikar 2002, section 3); some near pairs are missed."""
    count, dimensions = vectors.shape
    if count < 2 or not vectors.any():
        return {}
    bits = max(1, int(np.log2(max(count / MEMBERS_OF_A_CELL, 2))))
    planes = np.random.default_rng(SEED).standard_normal((TABLES, dimensions, bits)).astype(np.float32)
    weights = 1 << np.arange(bits, dtype=np.int64)
    near: dict[Pair, float] = {}
    for table in planes:
        cells = (vectors @ table > 0) @ weights
        order = np.lexsort((np.arange(count), cells))
        ends = np.flatnonzero(np.diff(cells[order])) + 1
        for members in np.split(order, ends):
            near |= _near(vectors, members, least)
    return near


def _near(vectors: np.ndarray, members: np.ndarray, least: float) -> dict[Pair, float]:
    """In slices: a cell of names that are all alike may be large."""
    found = {}
    for start in range(0, len(members), 500):
        part = members[start : start + 500]
        ones, twos = np.triu_indices(len(part), 1)
        cosines = (vectors[part] @ vectors[part].T)[ones, twos]
        for place in np.flatnonzero(cosines >= least):
            pair = sorted((int(part[ones[place]]), int(part[twos[place]])))
            found[pair[0], pair[1]] = round(float(cosines[place]), 4)
    return found
