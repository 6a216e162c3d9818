"""Which pairs of names are worth comparing, and what two names have to do with each other.

Which pairs of names are worth comparing: those that share a key. The number of pairs grows with the
names, not with their square: a key that many share is compared only along its sorted members.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from pipeline.resolution.name import Name
from pipeline.resolution.spelling import DOCUMENT, PROPER_TYPES

Outcome = Literal["same", "perhaps", "different"]
SHORTEST_TYPO, SHORTEST_TYPO_ALONE = 8, 9
"""Letters of a word in which one may be mistaken, beside other words and alone."""
FIXED_END = 2
"""Letters at a word's end that are never mistaken: they inflect it."""
FULL_BLOCK = 30
"""Members of a key that are compared each with each; of more, each with so many that sort next to
it."""
NEIGHBOURS = 5
RARE = 20
"""Names that may share a word for it to propose pairs."""
SHORTEST_WORD = 4
TABLES, SEED = 16, 7
_APOSTROPHE = re.compile("['’‘ʼ´`]")
MEMBERS_OF_A_CELL = 8
Pair = tuple[int, int]


@dataclass(frozen=True)
class Company:
    """In how many text units each of two names stands, and in how many both."""

    one: int = 0
    two: int = 0
    both: int = 0

    @property
    def close(self) -> bool:
        """Whether they are mostly met together: as names that a text gives to one thing are, and
        not by chance."""
        return self.both > 0 and 2 * self.both >= max(self.one, self.two)


@dataclass(frozen=True)
class Comparison:
    """``score``: how alike the names are, 0 to 1; 1 for those that a rule joins. ``rule``: which
    one decided."""

    outcome: Outcome
    rule: str
    score: float


@dataclass(frozen=True)
class Rules:
    """``similarity``: from which score on two names may be one though no rule says so. ``defined``:
    initials -> the joined words that some name of the corpus says they stand for, where that is one
    thing only."""

    similarity: float
    defined: dict[str, str]

    def compare(self, one: Name, two: Name, company: Company = Company()) -> Comparison:
        """Symmetric. ``company``: where the two are met; nowhere together by default."""
        if one.numbers != two.numbers:
            return Comparison("different", "numbers", 0.0)
        spelled = _same_by_spelling(one, two)
        by_chance = spelled and not company.close and _by_chance(one, two)
        rule = ("" if by_chance else spelled) or self._same_by_acronym(one, two)
        if rule:
            return Comparison("same", rule, 1.0)
        if clash := _clash(one, two):
            return Comparison("different", clash, 0.0)
        if by_chance:
            return Comparison("perhaps", spelled, 1.0)
        rule = (
            _same_by_core(one, two, company)
            or _same_person(one, two)
            or _same_by_qualifier(one, two, company)
            or _same_abroad(one, two)
            or _mistyped(one, two, company)
        )
        if rule:
            return Comparison("same", rule, 1.0)
        return self._perhaps(one, two, company)

    def _same_by_acronym(self, one: Name, two: Name) -> str:
        """Long Name (LN) is Long Name, and LN, where no other name claims LN; then these two are
        one as well."""
        for whole, part in ((one, two), (two, one)):
            if whole.short and not part.short:
                short = whole.short
                long = self.defined.get(short, "")
                if part.joined == whole.long or (part.acronym == short and long == whole.long):
                    return "acronym"
            if whole.acronym and self.defined.get(whole.acronym, "") == part.joined:
                return "acronym"
        return ""

    def _perhaps(self, one: Name, two: Name, company: Company) -> Comparison:
        score = fuzz.token_sort_ratio(one.text, two.text) / 100
        if company.both and (_is_acronym_of(one, two) or _is_acronym_of(two, one)):
            return Comparison("perhaps", "acronym", score)
        if one.is_person and two.is_person and _initials_fit(one.core, two.core, least=1):
            return Comparison("perhaps", "initials", score)
        if score >= self.similarity:
            return Comparison("perhaps", "similarity", score)
        return Comparison("different", "similarity", score)


def _same_by_spelling(one: Name, two: Name) -> str:
    return (
        "spelling"
        if one.tokens and one.spellings & two.spellings and _fuse_safely(one, two)
        else ""
    )


def _fuse_safely(one: Name, two: Name) -> bool:
    """Not where the names differ in spaces alone and one is made of single letters: "A I" and "AI"
    are, "a i d" and "aid" may not be."""
    return one.tokens == two.tokens or min(map(len, map("".join, (one.tokens, two.tokens)))) >= 2


def _by_chance(one: Name, two: Name) -> bool:
    """Whether names that are spelled alike may well be two: L.A. and La, Oh Boy! and Oh Boy, titles
    of two documents; and, where types do not say what they are, Christ Church and Christchurch,
    Réunion and Reunion, Michel'le and Michelle, Game I and Game 1."""
    vague = one.is_vague or two.is_vague
    if one.marks != two.marks and (vague or one.type != two.type):
        return True
    if one.type == two.type == DOCUMENT:
        return True
    short, long = sorted((one, two), key=lambda name: len(name.name))
    if "." in long.name and long.acronym and not short.acronym:
        return True
    if not vague:
        return False
    if len(one.tokens) != len(two.tokens):
        fused = min(one, two, key=lambda name: len(name.tokens)).name
        return fused.isalpha() and fused[1:].islower()
    if len(one.tokens) > 1:
        last = {one.name[-1], two.name[-1]}
        return len(last) == 2 and bool(last & set("IVX")) and any(map(str.isdecimal, last))
    return _accents(one) != _accents(two) or _apostrophe(one) != _apostrophe(two)


def _accents(name: Name) -> list[str]:
    """Acute, grave and circumflex, which tell words apart."""
    return [
        mark for mark in unicodedata.normalize("NFD", name.name) if mark in "\u0300\u0301\u0302"
    ]


def _apostrophe(name: Name) -> bool:
    """Whether there is one that sets apart more than a particle or a sound."""
    parts = _APOSTROPHE.split(name.name)
    return len(parts) > 1 and len(parts[0]) > 3 and len(parts[-1]) > 1


def _clash(one: Name, two: Name) -> str:
    if one.legal and two.legal and one.legal != two.legal:
        return "legal form"
    if one.title and two.title and one.title != two.title:
        return "title"
    return ""


def _same_by_core(one: Name, two: Name, company: Company) -> str:
    """The names without what stands around them, where the entities are of one type or mostly met
    together; there the words may have another order too."""
    if not one.joined or not (one.type == two.type or company.close):
        return ""
    if company.close and one.core != two.core and sorted(one.core) == sorted(two.core):
        return "order"
    if one.joined == two.joined:
        if one.inverted != two.inverted:
            return "inversion"
        if one.legal or two.legal:
            return "legal form"
        if one.title is not None or two.title is not None:
            return "title"
        return "article" if len(one.core) > 1 else ""
    plain = not (one.legal or two.legal) and one.article == two.article
    plain = plain and (company.close or one.type not in PROPER_TYPES)
    return "plural" if plain and one.singular == two.singular else ""


def _same_person(one: Name, two: Name) -> str:
    """J. K. Rowling and Joanne Kathleen Rowling; John F. Kennedy and John Fitzgerald Kennedy."""
    if not (one.is_person and two.is_person):
        return ""
    return "initials" if _initials_fit(one.core, two.core, least=2) else ""


def _initials_fit(one: tuple[str, ...], two: tuple[str, ...], least: int) -> bool:
    """Whether one name is the other with given names as initials: word by word, the surname equal;
    ``least``: how many of the given names speak for it, as initials or as equal words."""
    if len(one) != len(two) or len(one) < 2 or one[-1] != two[-1] or len(one[-1]) < 2 or one == two:
        return False
    pairs = list(zip(one[:-1], two[:-1], strict=True))
    fits = all(
        a == b or (1 in (len(a), len(b)) and a[0] == b[0] and (a + b).isalpha()) for a, b in pairs
    )
    return fits and len(pairs) >= least


def _same_by_qualifier(one: Name, two: Name, company: Company) -> str:
    """Name (qualifier), and the name in no other text units; Name, Rank of Place, and Name of
    Place, where the name has a number or the two are mostly met together."""
    for whole, part, alone in ((one, two, company.two), (two, one, company.one)):
        if whole.unqualified and whole.unqualified == part.joined and 0 < alone == company.both:
            return "qualifier"
        if whole.of_place and whole.of_place == part.joined and (whole.numbers or company.close):
            return "qualifier"
    return ""


def _same_abroad(one: Name, two: Name) -> str:
    """The same name in Cyrillic or Greek and in Latin letters."""
    if one.foreign == two.foreign or one.type != two.type or len(one.core) != len(two.core):
        return ""
    alike = one.skeleton == two.skeleton and len(one.joined) >= SHORTEST_TYPO
    return (
        "transliteration" if alike and all(len(word) > 1 for word in (*one.core, *two.core)) else ""
    )


def _mistyped(one: Name, two: Name, company: Company) -> str:
    """One letter of one long word is missing, doubled, or changed places with the next, within the
    word. A letter in place of another is no such mistake: sulfate and sulfite, Colombia and
    Columbia; nor is a missing one in a word that stands alone: deprecate and depreciate. Of
    people's names, and of what may be one, none is: Anderson and Andersson are two. Names that are
    mostly met together may be shorter, and people's."""
    if len(one.core) != len(two.core) or not (company.close or one.type == two.type):
        return ""
    if not company.close and (one.may_be_person or two.may_be_person):
        return ""
    unequal = [(a, b) for a, b in zip(one.core, two.core, strict=True) if a != b]
    if len(unequal) != 1:
        return ""
    least = SHORTEST_TYPO if len(one.core) > 1 else SHORTEST_TYPO_ALONE
    a, b = unequal[0]
    long_enough = (
        min(len(a), len(b)) >= (SHORTEST_WORD if company.close else least) and (a + b).isalpha()
    )
    likely = company.close or len(one.core) > 1 or len(a) == len(b) or _single(a) == _single(b)
    return "typo" if long_enough and likely and slipped(a, b) else ""


def _single(word: str) -> str:
    """Without doubled letters."""
    return "".join(letter for letter, _ in groupby(word))


def slipped(a: str, b: str) -> bool:
    """Whether two words are one edit apart, no substitution, neither in the first letter nor near
    the end."""
    if a[0] != b[0] or a[-FIXED_END:] != b[-FIXED_END:] or OSA.distance(a, b, score_cutoff=1) != 1:
        return False
    return len(a) != len(b) or sorted(a) == sorted(b)


def _is_acronym_of(short: Name, long: Name) -> bool:
    return bool(short.acronym) and len(long.core) > 1 and short.acronym == long.initials


def named_pairs(names: Sequence[Name]) -> set[Pair]:
    """Positions (smaller, larger) of names that share a key of a rule, or a rare word."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        for key in set(_keys(name)):
            blocks[key].append(position)
    shared = [(key, members) for key, members in blocks.items() if len(members) > 1]
    return {pair for key, members in shared for pair in _within(key, members, names)}


def defined_acronyms(names: Sequence[Name]) -> dict[str, str]:
    """Initials -> what names such as "Long Name (LN)" say they stand for, joined, where all say the
    same."""
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
    for other in (name.unqualified, name.of_place):
        if other:
            yield f"core {other} {numbers}"
    if len(name.core) > 1:
        yield f"order {' '.join(sorted(name.core))} {numbers}"
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
            shorter = {word[:at] + word[at + 1 :] for at in range(1, len(word) - FIXED_END)} | {
                word
            }
            for rest in shorter:
                yield f"slip {before}|{rest}|{after} {numbers}"


def _within(key: str, members: list[int], names: Sequence[Name]) -> Iterator[Pair]:
    if key.startswith("word ") and len(members) > RARE:
        return
    if len(members) <= FULL_BLOCK:
        reach = len(members)
    else:
        members, reach = (
            sorted(members, key=lambda member: (names[member].text, names[member].name)),
            NEIGHBOURS,
        )
    for place, one in enumerate(members):
        for two in members[place + 1 : place + 1 + reach]:
            yield (one, two) if one < two else (two, one)


def near_pairs(vectors: np.ndarray, least: float) -> dict[Pair, float]:
    """Positions of vectors (rows of length 1) whose cosine is at least ``least``, with it: those
    that fall into one cell of some random partition (sign random projections, Charikar 2002,
    section 3); some near pairs are missed."""
    count, dimensions = vectors.shape
    if count < 2 or not vectors.any():
        return {}
    bits = max(1, int(np.log2(max(count / MEMBERS_OF_A_CELL, 2))))
    planes = (
        np.random.default_rng(SEED).standard_normal((TABLES, dimensions, bits)).astype(np.float32)
    )
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
