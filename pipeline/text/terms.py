"""Terms that a question asks about, and the comparison of a term with a text."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.text.ids import SHORTEST_STEM, is_syllabic, words

GAP = r"\D{0,12}"
"""The pattern of what may stand between the name and the number of a code: "Zephyr No. 99"."""
SHORTEST_PART, LONGEST_COMPOUND = 4, 40
"""Letters of the shortest part, and of the longest compound that is split."""
# Characters between two words, in the notation that Python and PostgreSQL share.
_EDGE = r"\W|_"


@dataclass(frozen=True)
class Term:
    """A name, a word, a number or a code of a question.

    ``text``: as the question writes it. ``beginning``: the letters, in lower case, with which a
    word of a text must begin; a beginning that is shorter than SHORTEST_STEM must be the whole
    word, or its plural. Han and kana may stand anywhere. ``number``: the digits that must follow
    the word, as in a code, or that are the whole term, which then has no ``beginning``.
    ``is_name``: whether it is a name, a number or a code. ``parts``: the pairs of words that a
    compound may consist of; a text that has both words of a pair has the compound too.
    """

    text: str
    beginning: str = ""
    number: str = ""
    is_name: bool = True
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def spellings(self) -> list[str]:
        """The beginning, and the same with ß for ss or ss for ß: STRASSE is Straße in capitals."""
        other = self.beginning.replace("ß", "ss")
        if other == self.beginning:
            other = self.beginning.replace("ss", "ß")
        return list(dict.fromkeys((self.beginning, other)))

    @property
    def pattern(self) -> str:
        """The regular expression of the term, for Python and for PostgreSQL; case is ignored."""
        if not self.beginning:
            # Thousands may be grouped: 45,012 or 45.012.
            digits = r"[.,' ]?".join(self.number)
            return rf"(^|\D){digits}($|\D)"
        if is_syllabic(self.beginning):
            return self.beginning
        opening = rf"(^|{_EDGE})"
        if self.number:
            return rf"{opening}{self.beginning}{GAP}{self.number}($|\D)"
        if len(self.beginning) >= SHORTEST_STEM:
            spelled = "|".join(map(_with_plural, self.spellings))
            return f"{opening}({spelled})"
        return rf"{opening}({_with_plural(self.beginning)})s?($|{_EDGE})"

    def is_in(self, text: str) -> bool:
        """Return whether the text has the term, or both parts of it if it is a compound."""
        if re.search(self.pattern, text, re.IGNORECASE):
            return True
        if not self.parts:
            return False
        found = _list_words(text)
        for first, second in self.parts:
            if _begins_any(first, found) and _begins_any(second, found):
                return True
        return False


def shorten(word: str) -> str:
    """Return the beginning that the forms of a word share: "manufac" of "manufactured".

    It is short enough for most endings of European languages; a word of another meaning that
    begins alike counts as a form too.
    """
    # A word of punctuation alone has no words.
    [base] = words(word) or [""]
    length = max(SHORTEST_STEM, len(base) - 3)
    return base[:length]


def split_compound(word: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of parts that the word in lower case may consist of, as in German.

    Each part has SHORTEST_PART letters or more. The first may end in a linking s, which is left
    out.
    """
    if len(word) > LONGEST_COMPOUND or is_syllabic(word):
        return ()
    pairs: list[tuple[str, str]] = []
    for place in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
        first, second = word[:place], word[place:]
        if first.endswith("s") and place > SHORTEST_PART:
            first = first[:-1]
        pairs.append((first, second))
    return tuple(pairs)


# The same passages are searched for each compound of a question.
@lru_cache(maxsize=256)
def _list_words(text: str) -> tuple[str, ...]:
    """Return the words of a text that are long enough for a part, each once, sorted."""
    found = re.findall(rf"\w{{{SHORTEST_PART},}}", text.lower())
    return tuple(sorted(set(found)))


def _begins_any(part: str, found: Sequence[str]) -> bool:
    """Return whether one of the sorted words begins with the part."""
    # A word that begins with the part is not before it in the order, and none is between the two.
    place = bisect_left(found, part)
    return place < len(found) and found[place].startswith(part)


def _with_plural(word: str) -> str:
    """Return the pattern of the word, which in English may change a final -y to -ies."""
    return rf"({word}|{word[:-1]}ies)" if word.endswith("y") else word
