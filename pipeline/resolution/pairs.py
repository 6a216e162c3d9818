"""Find pairs of names that are worth a comparison, and compare two names by rules.

Two names are worth a comparison if they share a key. The number of pairs grows with the number of
names, not with its square: names that share a frequent key are sorted, and each is compared only
with those that follow it closely.
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

from pipeline.resolution.han import (
    abbreviation_keys,
    han_key,
    has_han,
    is_abbreviation,
    same_han,
)
from pipeline.resolution.name import Name
from pipeline.resolution.spelling import DOCUMENT, PROPER_TYPES

Outcome = Literal["same", "perhaps", "different"]
SHORTEST_TYPO, SHORTEST_TYPO_ALONE = 8, 9
"""The fewest letters of a word that may have a typo, in a longer name and as the whole name."""
FIXED_END = 2
"""The number of letters at the end of a word that may have no typo: they are its inflection."""
FULL_BLOCK = 30
"""The largest number of names sharing a key that are all compared with each other."""
NEIGHBOURS = 5
"""The number of following names that each name is compared with if more share the key."""
RARE = 20
"""The largest number of names that share a word which still makes them worth a comparison."""
SHORTEST_WORD = 4
"""The fewest letters of a word that makes names worth a comparison."""
TABLES, SEED = 16, 7
"""The number of random partitions of the vectors, and the seed that draws them."""
MEMBERS_OF_A_CELL = 8
"""The number of vectors that a cell of a partition has on average."""
SLICE = 500
"""The number of vectors compared with each other at once; it limits memory."""
MAIN_ACCENTS = "\u0300\u0301\u0302"
"""Grave, acute and circumflex, which tell words apart."""
_APOSTROPHE = re.compile("['’‘ʼ´`]")
Pair = tuple[int, int]
"""Two positions in a list of names, the smaller first."""


@dataclass(frozen=True)
class SharedMentions:
    """The numbers of text units that mention each of two names, and both."""

    one: int = 0
    two: int = 0
    both: int = 0

    @property
    def close(self) -> bool:
        """True if at least half of the text units that mention the more frequent name mention both.

        A text that gives two names to one thing uses them together like this.
        """
        return self.both > 0 and 2 * self.both >= max(self.one, self.two)


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two names.

    ``rule`` names the rule that decided. ``score`` is the similarity of the names from 0 to 1; it
    is 1 if a rule says that they are the same.
    """

    outcome: Outcome
    rule: str
    score: float


@dataclass(frozen=True)
class Rules:
    """The rules that compare two names.

    ``similarity`` is the lowest score at which two names may be the same though no rule says so.
    ``defined`` maps initials to the joined words that they stand for, see `defined_acronyms`.
    """

    similarity: float
    defined: dict[str, str]

    def compare(
        self, one: Name, two: Name, mentions: SharedMentions = SharedMentions()
    ) -> Comparison:
        """Return whether two names are the same, perhaps the same or different, and by which rule.

        ``mentions`` tells how many text units mention the names. The comparison is symmetric: with
        names and mentions swapped, the result is equal.
        """
        if one.numbers != two.numbers:
            return Comparison("different", "numbers", 0.0)
        spelling = _same_by_spelling(one, two)
        by_chance = bool(spelling) and not mentions.close and _alike_by_chance(one, two)
        if spelling and not by_chance:
            return Comparison("same", spelling, 1.0)
        acronym = self._same_by_acronym(one, two)
        if acronym:
            return Comparison("same", acronym, 1.0)
        clash = _clash(one, two)
        if clash:
            return Comparison("different", clash, 0.0)
        if by_chance:
            return Comparison("perhaps", spelling, 1.0)
        rule = (
            _same_by_core(one, two, mentions)
            or _same_person(one, two)
            or _same_by_qualifier(one, two, mentions)
            or _same_abroad(one, two)
            or _same_in_han(one, two)
            or _mistyped(one, two, mentions)
        )
        if rule:
            return Comparison("same", rule, 1.0)
        return self._perhaps(one, two, mentions)

    def _same_by_acronym(self, one: Name, two: Name) -> str:
        """Return the rule "acronym" if one name gives the initials of the other, else "".

        "Long Name (LN)" is the same as "Long Name". If LN stands for nothing else in the corpus,
        "Long Name (LN)" and "Long Name" are also the same as "LN".
        """
        for name, other in ((one, two), (two, one)):
            if name.short and not other.short:
                is_long_name = other.joined == name.long
                is_short_name = other.acronym == name.short
                is_unambiguous = self.defined.get(name.short, "") == name.long
                if is_long_name or (is_short_name and is_unambiguous):
                    return "acronym"
            if name.acronym and self.defined.get(name.acronym, "") == other.joined:
                return "acronym"
        return ""

    def _perhaps(self, one: Name, two: Name, mentions: SharedMentions) -> Comparison:
        """Compare two names on which no rule decides: they are perhaps the same, or different."""
        score = fuzz.token_sort_ratio(one.text, two.text) / 100
        if mentions.both:
            if _is_acronym_of(one, two) or _is_acronym_of(two, one):
                return Comparison("perhaps", "acronym", score)
            first, second = one.joined, two.joined
            if is_abbreviation(first, second) or is_abbreviation(second, first):
                return Comparison("perhaps", "abbreviation", score)
        are_people = one.is_person and two.is_person
        if are_people and _initials_fit(one.core, two.core, least=1):
            return Comparison("perhaps", "initials", score)
        if score >= self.similarity:
            return Comparison("perhaps", "similarity", score)
        return Comparison("different", "similarity", score)


def _same_by_spelling(one: Name, two: Name) -> str:
    """Return the rule "spelling" if two names have a common spelling, else ""."""
    shares_spelling = bool(one.tokens) and bool(one.spellings & two.spellings)
    return "spelling" if shares_spelling and _may_ignore_spaces(one, two) else ""


def _may_ignore_spaces(one: Name, two: Name) -> bool:
    """Return whether spaces do not matter between two names with a common spelling.

    They matter if one of the names has fewer than two letters and the words differ.
    """
    if one.tokens == two.tokens:
        return True
    letters_of_one = "".join(one.tokens)
    letters_of_two = "".join(two.tokens)
    return len(letters_of_one) >= 2 and len(letters_of_two) >= 2


def _alike_by_chance(one: Name, two: Name) -> bool:
    """Return whether two names with a common spelling may well mean two things.

    Examples are L.A. and La, Oh Boy! and Oh Boy, and the titles of two documents. If a type is
    vague, further examples are Christ Church and Christchurch, Réunion and Reunion, Michel'le and
    Michelle, Game I and Game 1.
    """
    one_is_vague = one.is_vague or two.is_vague
    types_differ = one.type != two.type
    if one.marks != two.marks and (one_is_vague or types_differ):
        # Oh Boy! and Oh Boy.
        return True
    if one.type == two.type == DOCUMENT:
        return True
    shorter, longer = sorted((one, two), key=lambda name: len(name.name))
    is_dotted_acronym = "." in longer.name and longer.acronym
    if is_dotted_acronym and not shorter.acronym:
        # L.A. and La.
        return True
    if not one_is_vague:
        return False
    if len(one.tokens) != len(two.tokens):
        # Christ Church and Christchurch: one capitalised word is a word of its own.
        with_fewer_words = min(one, two, key=lambda name: len(name.tokens))
        text = with_fewer_words.name
        return text.isalpha() and text[1:].islower()
    if len(one.tokens) > 1:
        # Game I and Game 1.
        return _number_against_numeral(one.name[-1], two.name[-1])
    # Réunion and Reunion, Michel'le and Michelle.
    accents_differ = _accents(one) != _accents(two)
    return accents_differ or _sets_apart(one) != _sets_apart(two)


def _number_against_numeral(one: str, two: str) -> bool:
    """Return whether one of two last letters is a digit and the other a Roman numeral."""
    for digit, numeral in ((one, two), (two, one)):
        if digit.isdecimal() and numeral in "IVX":
            return True
    return False


def _accents(name: Name) -> list[str]:
    """Return the main accents of the name in the order of its letters."""
    decomposed = unicodedata.normalize("NFD", name.name)
    return [mark for mark in decomposed if mark in MAIN_ACCENTS]


def _sets_apart(name: Name) -> bool:
    """Return whether an apostrophe of the name separates more than a particle or a sound."""
    parts = _APOSTROPHE.split(name.name)
    return len(parts) > 1 and len(parts[0]) > 3 and len(parts[-1]) > 1


def _clash(one: Name, two: Name) -> str:
    """Return the rule by which legal forms or titles tell two names apart, or an empty text."""
    if one.legal and two.legal and one.legal != two.legal:
        return "legal form"
    if one.title and two.title and one.title != two.title:
        return "title"
    return ""


def _same_by_core(one: Name, two: Name, mentions: SharedMentions) -> str:
    """Return the rule by which the cores of two names are the same, or an empty text.

    The entities must be of one type or mostly mentioned together. If they are mostly mentioned
    together, the words may be in another order.
    """
    if not one.joined:
        return ""
    if one.type != two.type and not mentions.close:
        return ""
    if mentions.close and one.core != two.core:
        has_same_words = sorted(one.core) == sorted(two.core)
        if has_same_words:
            return "order"
    if one.joined == two.joined:
        return _rule_for_equal_cores(one, two)
    if one.legal or two.legal or one.article != two.article:
        return ""
    may_have_plural = mentions.close or one.type not in PROPER_TYPES
    return "plural" if may_have_plural and one.singular == two.singular else ""


def _rule_for_equal_cores(one: Name, two: Name) -> str:
    """Return the rule for two names with equal cores, by what only one of them may have."""
    if one.inverted != two.inverted:
        return "inversion"
    if one.legal or two.legal:
        return "legal form"
    if one.title is not None or two.title is not None:
        return "title"
    return "article" if len(one.core) > 1 else ""


def _same_person(one: Name, two: Name) -> str:
    """Return the rule "initials" if two given names or more fit as words or initials, else "".

    Examples are J. K. Rowling and Joanne Kathleen Rowling, or John F. Kennedy and John Fitzgerald
    Kennedy.
    """
    if not (one.is_person and two.is_person):
        return ""
    return "initials" if _initials_fit(one.core, two.core, least=2) else ""


def _initials_fit(one: tuple[str, ...], two: tuple[str, ...], least: int) -> bool:
    """Return whether one person's name is the other with given names as initials.

    The names are compared word by word and have an equal surname at the end. They need ``least``
    given names or more; each must be an equal word or an initial of the other's word.
    """
    if one == two or len(one) != len(two) or len(one) < 2:
        return False
    *given_names_of_one, surname_of_one = one
    *given_names_of_two, surname_of_two = two
    if surname_of_one != surname_of_two or len(surname_of_one) < 2:
        return False
    if len(given_names_of_one) < least:
        return False
    pairs = zip(given_names_of_one, given_names_of_two, strict=True)
    return all(_fits_as_initial(a, b) for a, b in pairs)


def _fits_as_initial(a: str, b: str) -> bool:
    """Return whether two given names are equal, or one is the initial of the other."""
    if a == b:
        return True
    one_is_initial = len(a) == 1 or len(b) == 1
    if not one_is_initial or a[0] != b[0]:
        return False
    return a.isalpha() and b.isalpha()


def _same_by_qualifier(one: Name, two: Name, mentions: SharedMentions) -> str:
    """Return the rule "qualifier" if one name is the other with a qualifier, else "".

    "Name (qualifier)" is the same as "Name" if every text unit that mentions the second mentions
    the first. "Name, Rank of Place" is the same as "Name of Place" if the name has a number or the
    two are mostly mentioned together.
    """
    for full, plain, units_of_plain in ((one, two, mentions.two), (two, one, mentions.one)):
        only_together = 0 < units_of_plain == mentions.both
        if full.unqualified and full.unqualified == plain.joined and only_together:
            return "qualifier"
        is_certain = bool(full.numbers) or mentions.close
        if full.of_place and full.of_place == plain.joined and is_certain:
            return "qualifier"
    return ""


def _same_abroad(one: Name, two: Name) -> str:
    """Return the rule "transliteration" for one name in two alphabets, else "".

    One of the names is written in Cyrillic or Greek letters, the other in Latin ones.
    """
    if one.foreign == two.foreign or one.type != two.type:
        return ""
    if one.skeleton != two.skeleton or len(one.core) != len(two.core):
        return ""
    if len(one.joined) < SHORTEST_TYPO:
        return ""
    words = (*one.core, *two.core)
    has_initials = any(len(word) == 1 for word in words)
    return "" if has_initials else "transliteration"


def _same_in_han(one: Name, two: Name) -> str:
    """Return the rule "characters" for one name in two forms of Chinese characters, else ""."""
    if one.type != two.type:
        return ""
    return "characters" if same_han(one.joined, two.joined) else ""


def _mistyped(one: Name, two: Name, mentions: SharedMentions) -> str:
    """Return the rule "typo" if the names differ by a slip in one long word, else "".

    A slip is a missing or doubled letter, or two swapped neighbours, within the word. A letter in
    place of another is no slip: sulfate and sulfite, Colombia and Columbia. A missing letter is
    none in a word that stands alone: deprecate and depreciate. Names of people, and of what may be
    a person, have none: Anderson and Andersson are two. Names that are mostly mentioned together
    may be shorter, and names of people.
    """
    if len(one.core) != len(two.core):
        return ""
    may_be_person = one.may_be_person or two.may_be_person
    if not mentions.close and (may_be_person or one.type != two.type):
        return ""
    words = zip(one.core, two.core, strict=True)
    unequal = [(a, b) for a, b in words if a != b]
    if len(unequal) != 1:
        return ""
    a, b = unequal[0]
    stands_alone = len(one.core) == 1
    if mentions.close:
        fewest_letters = SHORTEST_WORD
    else:
        fewest_letters = SHORTEST_TYPO_ALONE if stands_alone else SHORTEST_TYPO
    if min(len(a), len(b)) < fewest_letters or not (a + b).isalpha():
        return ""
    if stands_alone and not mentions.close:
        letter_is_missing = len(a) != len(b) and _undoubled(a) != _undoubled(b)
        if letter_is_missing:
            return ""
    return "typo" if has_slip(a, b) else ""


def _undoubled(word: str) -> str:
    """Return the word with each run of equal letters as one letter."""
    return "".join(letter for letter, _ in groupby(word))


def has_slip(a: str, b: str) -> bool:
    """Return whether two words differ by a missing letter or by two swapped neighbours.

    The difference may neither be in the first letter nor in the last `FIXED_END` letters.
    """
    if a[0] != b[0] or a[-FIXED_END:] != b[-FIXED_END:]:
        return False
    if OSA.distance(a, b, score_cutoff=1) != 1:
        return False
    # Of one edit between words of equal length, only a swap keeps the letters; this excludes a
    # letter in place of another.
    return len(a) != len(b) or sorted(a) == sorted(b)


def _is_acronym_of(short: Name, long: Name) -> bool:
    """Return whether the first name is written in capitals and has the initials of the second."""
    return bool(short.acronym) and len(long.core) > 1 and short.acronym == long.initials


def named_pairs(names: Sequence[Name]) -> set[Pair]:
    """Return the pairs of positions of names that share a key of a rule, or a rare word."""
    positions_by_key: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        for key in set(_keys(name)):
            positions_by_key[key].append(position)
    pairs: set[Pair] = set()
    for key, positions in positions_by_key.items():
        is_frequent_word = key.startswith("word ") and len(positions) > RARE
        if len(positions) > 1 and not is_frequent_word:
            pairs.update(_pairs_of_block(positions, names))
    return pairs


def defined_acronyms(names: Sequence[Name]) -> dict[str, str]:
    """Map initials to the joined words they stand for, by names such as "Long Name (LN)".

    Initials that stand for different words in different names are left out.
    """
    meanings: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if name.short:
            meanings[name.short].add(name.long)
    defined: dict[str, str] = {}
    for short, long_names in meanings.items():
        if len(long_names) == 1:
            (defined[short],) = long_names
    return defined


def _keys(name: Name) -> Iterator[str]:
    """Yield the keys of a name: two names that a rule could join share one of them."""
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
    yield from _keys_of_slips(name, numbers)
    yield from _keys_in_han(name, numbers)
    for word in name.core:
        if len(word) >= SHORTEST_WORD:
            yield f"word {word} {numbers}"


def _keys_in_han(name: Name, numbers: str) -> Iterator[str]:
    """Yield the keys of a name with Chinese characters: for their forms, and for abbreviations."""
    if has_han(name.joined):
        yield f"han {han_key(name.joined)} {numbers}"
        for key in abbreviation_keys(name.joined):
            yield f"abbreviation {key}"


def _keys_of_slips(name: Name, numbers: str) -> Iterator[str]:
    """Yield the core with one letter of a long word left out, and the core itself.

    Names that differ by a slip share one of these keys.
    """
    for place, word in enumerate(name.core):
        if len(word) < SHORTEST_TYPO or not word.isalpha():
            continue
        # Words in scripts without lower case, such as Chinese, have no slip keys.
        if not (word.isascii() or word.islower()):
            continue
        words_before = " ".join(name.core[:place])
        words_after = " ".join(name.core[place + 1 :])
        variants = {word}
        # The first letter and the last FIXED_END ones are never left out: see `has_slip`.
        for left_out in range(1, len(word) - FIXED_END):
            variants.add(word[:left_out] + word[left_out + 1 :])
        for variant in variants:
            yield f"slip {words_before}|{variant}|{words_after} {numbers}"


def _pairs_of_block(positions: list[int], names: Sequence[Name]) -> Iterator[Pair]:
    """Yield the pairs of names that share a key: all, or close neighbours of a large block."""
    reach = len(positions)
    if len(positions) > FULL_BLOCK:
        # Sorted by their texts, names that are alike are mostly neighbours.
        positions = sorted(positions, key=lambda at: (names[at].text, names[at].name))
        reach = NEIGHBOURS
    for place, one in enumerate(positions):
        first = place + 1
        for two in positions[first : first + reach]:
            yield (one, two) if one < two else (two, one)


def near_pairs(vectors: np.ndarray, least: float) -> dict[Pair, float]:
    """Map pairs of rows whose cosine is at least ``least`` to the cosine, rounded to 4 digits.

    The rows of ``vectors`` must have length 1. Only rows that fall into one cell of some random
    partition are compared, so some near pairs are missed (sign random projections, Charikar 2002,
    section 3).
    """
    count, dimensions = vectors.shape
    if count < 2 or not vectors.any():
        return {}
    # A partition by n planes has 2**n cells.
    wanted_cells = max(count / MEMBERS_OF_A_CELL, 2)
    planes_per_table = int(np.log2(wanted_cells))
    random = np.random.default_rng(SEED)
    shape = (TABLES, dimensions, planes_per_table)
    tables = random.standard_normal(shape).astype(np.float32)
    bit_values = 1 << np.arange(planes_per_table, dtype=np.int64)
    near: dict[Pair, float] = {}
    for planes in tables:
        # The sides of all planes that a vector lies on, read as bits, are the number of its cell.
        is_above_plane = vectors @ planes > 0
        cells = is_above_plane @ bit_values
        # A stable sort leaves the members of a cell in the order of the rows.
        by_cell = np.argsort(cells, kind="stable")
        is_last_of_cell = np.diff(cells[by_cell]) != 0
        cell_starts = np.flatnonzero(is_last_of_cell) + 1
        for members in np.split(by_cell, cell_starts):
            near |= _near_pairs_of_cell(vectors, members, least)
    return near


def _near_pairs_of_cell(
    vectors: np.ndarray, members: np.ndarray, least: float
) -> dict[Pair, float]:
    """Map the near pairs among ``members``, row numbers of one cell, to their cosine.

    A cell of names that are all alike may be large; only rows of one slice are compared.
    """
    found: dict[Pair, float] = {}
    for start in range(0, len(members), SLICE):
        rows = members[start : start + SLICE]
        # Two copies on purpose: for one array and its own transpose NumPy calls another routine,
        # whose last digits differ.
        cosines = vectors[rows] @ vectors[rows].T
        # Each pair is looked at once: above the diagonal.
        ones, twos = np.triu_indices(len(rows), 1)
        cosines_of_pairs = cosines[ones, twos]
        for pair in np.flatnonzero(cosines_of_pairs >= least):
            one = int(rows[ones[pair]])
            two = int(rows[twos[pair]])
            smaller, larger = sorted((one, two))
            found[smaller, larger] = round(float(cosines_of_pairs[pair]), 4)
    return found
