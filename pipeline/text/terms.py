"""Terms that a question asks about, and the comparison of a term with a text."""

import re
from dataclasses import dataclass

from pipeline.text.ids import SHORTEST_STEM, is_syllabic, words

GAP = r"\D{0,12}"
"""The pattern of what may stand between the name and the number of a code: "Zephyr No. 99"."""
# Characters between two words, in the notation that Python and PostgreSQL share.
_EDGE = r"\W|_"


@dataclass(frozen=True)
class Term:
    """A name, a word, a number or a code of a question.

    ``text``: as the question writes it. ``beginning``: the letters, in lower case, with which a
    word of a text must begin; a beginning that is shorter than SHORTEST_STEM must be the whole
    word, or its plural. Han and kana may stand anywhere. ``number``: the digits that must follow
    the word, as in a code, or that are the whole term, which then has no ``beginning``.
    ``is_name``: whether it is a name, a number or a code.
    """

    text: str
    beginning: str = ""
    number: str = ""
    is_name: bool = True

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
            return opening + _with_plural(self.beginning)
        return rf"{opening}({_with_plural(self.beginning)})s?($|{_EDGE})"

    def is_in(self, text: str) -> bool:
        """Return whether the text has the term."""
        return re.search(self.pattern, text, re.IGNORECASE) is not None


def shorten(word: str) -> str:
    """Return the beginning that the forms of a word share: "manufac" of "manufactured".

    It is short enough for most endings of European languages; a word of another meaning that
    begins alike counts as a form too.
    """
    [base] = words(word) or [""]
    return base[: max(SHORTEST_STEM, len(base) - 3)]


def _with_plural(word: str) -> str:
    """Return the pattern of the word, which in English may change a final -y to -ies."""
    return rf"({word}|{word[:-1]}ies)" if word.endswith("y") else word
