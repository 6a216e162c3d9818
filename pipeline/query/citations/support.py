"""Comparison of a cited passage with the statement before the citation, by names and numbers.

This is no proof: a passage may contain a name and say something else about it. But a citation is
wrong if its passage does not even contain the names of the statement. Or it was placed there by a
text that borrows the trust in another document.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.query.context import Reference
from pipeline.text.ids import is_syllabic, stem, words

_TOKEN = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’\u00a0\u202f]\d{3})+")
"""A number in groups of thousands, whatever separates these."""
_BEFORE_WORD = re.compile(r"[\s*_#>\"'“”‘’«»()\[\]–—-]*")
_ENDS_BEFORE = frozenset(".!?:;|。！？：；\n")
"""_BEFORE_WORD: signs between the beginning of a sentence and its first word. _ENDS_BEFORE: signs
after which a sentence, a line or a quotation begins."""
_NO_BEGINNING = "-x"
"""A word that is no name; it is put before a text that continues a sentence."""
_CALENDAR = frozenset(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday".split()
)
"""Words with a capital in English that are no names. Documents write dates in figures, and figures
are compared as numbers."""
SHORTEST_NAME, LONG_WORD = 2, 4
INFLECTED, LONGEST_ENDING = 5, 2
"""INFLECTED: least letters of a name that may have an ending. LONGEST_ENDING: its most letters."""
ENOUGH_WORDS = 4
"""Least words of a statement without names and numbers that can be judged by its words."""
ENOUGH_IN_CLAUSE, ENOUGH_LONG_WORDS = 3, 2
"""Least words of a shorter statement that is judged by their order, and least longer ones among
them. "In the plan" is in any passage about plans, "Nobody was hurt" is not."""


@dataclass(frozen=True)
class Statement:
    """The names of a sentence, its numbers in a normal form, and its words.

    ``clause``: all its words as they are written, in lower case and in their order.
    """

    names: frozenset[str]
    numbers: frozenset[str]
    words: frozenset[str]
    clause: tuple[str, ...]

    @classmethod
    def of(cls, text: str, continues: bool = False) -> "Statement":
        """Read a sentence, with or without Markdown; ``continues``: its beginning was cut off."""
        plain = _folded(text)
        names = frozenset(_names_in(plain, continues))
        numbers = frozenset(map(_normalize_number, _NUMBER.findall(plain)))
        clause = tuple(_TOKEN.findall(plain.lower()))
        return cls(names, numbers, frozenset(words(plain)), clause)

    @property
    def is_weak(self) -> bool:
        """True if the statement has no names or numbers and too few words to be compared."""
        return not self.names and not self.numbers and len(self.words) < ENOUGH_WORDS


@dataclass(frozen=True)
class SupportingText:
    """A passage with the title and source of its document, prepared for comparison."""

    text: str

    @classmethod
    def of(cls, reference: Reference) -> "SupportingText":
        """Return the text of the reference's passage, title and source."""
        return cls("\n".join((reference.title, reference.source, reference.content)))

    def names(self, statement: Statement) -> frozenset[str]:
        """Return the names of the statement that the passage holds."""
        return frozenset(name for name in statement.names if self._holds_name(name))

    def numbers(self, statement: Statement) -> frozenset[str]:
        """Return the numbers of the statement that the passage holds."""
        return frozenset(number for number in statement.numbers if self._holds_number(number))

    def holds_half_of_the_words(self, statement: Statement) -> bool:
        """Return whether at least half of the statement's longer words are in the passage.

        A statement without words gives False.
        """
        if not statement.words:
            return False
        longer = {word for word in statement.words if len(word) >= LONG_WORD or is_syllabic(word)}
        compared = longer or statement.words
        in_passage = compared & self._words
        return 2 * len(in_passage) >= len(compared)

    def holds_the_clause(self, statement: Statement) -> bool:
        """Return whether the passage has all words of the statement in a row.

        A statement of few or short words gives False.
        """
        clause = statement.clause
        long_words = [word for word in clause if len(word) >= LONG_WORD]
        if len(clause) < ENOUGH_IN_CLAUSE or len(long_words) < ENOUGH_LONG_WORDS:
            return False
        return f" {' '.join(clause)} " in self._in_order

    def _holds_name(self, name: str) -> bool:
        """Return whether the passage has the name, or a form of it with another ending."""
        if stem(name) in self._words or name in self._tokens:
            return True
        if len(name) < INFLECTED:
            return False
        return any(_differ_by_an_ending(name, token) for token in self._tokens)

    def _holds_number(self, number: str) -> bool:
        if number in self._all_numbers:
            return True
        parts = number.split(".")
        if len(parts) < 3:
            return False
        # A date such as 3.5.1840 may be written in another order.
        return all(part.lstrip("0") in self._all_numbers for part in parts)

    @cached_property
    def _folded(self) -> str:
        return _folded(self.text)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(words(self._folded))

    @cached_property
    def _tokens(self) -> frozenset[str]:
        return frozenset(_TOKEN.findall(self._folded.lower()))

    @cached_property
    def _in_order(self) -> str:
        """The words of the passage as they are written, with a space around each."""
        return f" {' '.join(_TOKEN.findall(self._folded.lower()))} "

    @cached_property
    def _all_numbers(self) -> frozenset[str]:
        """The numbers of the passage, and each run of digits in them: 1840 is in 3.5.1840."""
        whole_numbers = _NUMBER.findall(self._folded)
        runs_of_digits = re.findall(r"\d+", self._folded)
        return frozenset(map(_normalize_number, [*whole_numbers, *runs_of_digits]))


class Passages:
    """The passages that an answer may cite, by their numbers."""

    def __init__(self, references: Iterable[Reference]):
        self._texts: Mapping[int, SupportingText] = {
            reference.id: SupportingText.of(reference) for reference in references
        }

    def __contains__(self, number: int) -> bool:
        return number in self._texts

    def supporting(self, statement: Statement, numbers: Sequence[int]) -> frozenset[int]:
        """Return those of the passages, cited together, that support the statement.

        Together they must hold all of its names and numbers, and each must hold one of them. A
        statement that has none is supported by a passage that holds at least half of its words.
        """
        cited = {number: self._texts[number] for number in numbers if number in self._texts}
        supporting: set[int] = set()
        if not statement.names and not statement.numbers:
            for number, text in cited.items():
                if text.holds_half_of_the_words(statement):
                    supporting.add(number)
            return frozenset(supporting)
        held_names: set[str] = set()
        held_numbers: set[str] = set()
        for number, text in cited.items():
            names = text.names(statement)
            numbers_of_text = text.numbers(statement)
            if names or numbers_of_text:
                supporting.add(number)
            held_names |= names
            held_numbers |= numbers_of_text
        if held_names != statement.names or held_numbers != statement.numbers:
            return frozenset()
        return frozenset(supporting)

    def holding_the_clause(self, statement: Statement, numbers: Iterable[int]) -> frozenset[int]:
        """Return those of the passages that have the words of the statement in a row."""
        return frozenset(
            number for number in numbers if self._texts[number].holds_the_clause(statement)
        )


def _names_in(text: str, continues: bool) -> Iterable[str]:
    """Yield the words that look like names, in lower case.

    They have a capital inside, or begin with a capital that no beginning of a sentence explains.
    """
    text = f"{_NO_BEGINNING} {text}" if continues else text
    backwards = text[::-1]
    for found in _TOKEN.finditer(text):
        word = found[0]
        if len(word) < SHORTEST_NAME or word.isdigit() or word.lower() in _CALENDAR:
            continue
        has_inner_capital = any(letter.isupper() for letter in word[1:])
        if has_inner_capital:
            yield word.lower()
        elif word[0].isupper():
            start_from_the_end = len(text) - found.start()
            if not _begins_sentence(backwards, start_from_the_end):
                yield word.lower()


def _begins_sentence(backwards: str, start: int) -> bool:
    """Return whether the word that ends before ``start`` begins a sentence, line or quotation.

    ``backwards`` is the reversed text, so that the search starts at the word. A search from the
    beginning of the text for each word would take long.
    """
    signs = _BEFORE_WORD.match(backwards, start)
    end = signs.end() if signs else start
    if end == len(backwards) or backwards[end] in _ENDS_BEFORE:
        return True
    return "\n" in backwards[start:end]


def _differ_by_an_ending(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return (
        len(shorter) >= INFLECTED
        and longer.startswith(shorter)
        and len(longer) - len(shorter) <= LONGEST_ENDING
    )


def _normalize_number(number: str) -> str:
    """Return the number without separators of thousands and without superfluous zeros."""
    if _GROUPED.fullmatch(number):
        return re.sub(r"\D", "", number).lstrip("0") or "0"
    plain = re.sub(r"[^\d.]", ".", number)
    whole, _, fraction = plain.partition(".")
    fraction = fraction.rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def _folded(text: str) -> str:
    """Return the text without accents and with plain instead of full-width characters."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
