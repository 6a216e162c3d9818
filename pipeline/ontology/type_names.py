"""Find the type that a word names: by its name or a synonym, in any case, also as a plural."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pipeline.text.ids import match_key

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The place between two words of a name such as WorksAt."""
_SIBILANT_PLURAL = re.compile(r"(?:s|x|z|ch|sh)es$")
_NO_PLURAL = ("ss", "us", "is")
"""Endings in s of words that are no plurals."""
_SHORTEST_PLURAL = 4


def type_key(text: str) -> str:
    """Return the key that is equal for all spellings of a type: WORKS_AT, worksAt and works at."""
    words = _INNER_CAPITAL.sub(" ", text).replace("_", " ").replace("/", " ")
    return match_key(words)


def singular_keys(key: str) -> list[str]:
    """Return the key with its last word in the singular, as far as English endings tell.

    Endings do not tell all: classes is class, and diseases is disease. So there may be several
    keys, the most probable one first.
    """
    last = key.rpartition(" ")[2]
    if not last.endswith("s") or len(last) < _SHORTEST_PLURAL or last.endswith(_NO_PLURAL):
        return [key]
    keys = [key[:-1]]
    if last.endswith("ies"):
        keys.insert(0, f"{key[:-3]}y")
    elif _SIBILANT_PLURAL.search(last):
        keys.insert(0, key[:-2])
    return keys


@dataclass(frozen=True)
class TypeNames:
    """The types of one kind.

    ``spelled`` maps names and synonyms to names, whatever the case; ``exact`` maps their keys, and
    ``singular`` their singular forms, without those of two types. Signs tell spellings apart that
    have one key, such as A and A-.
    """

    spelled: Mapping[str, str]
    exact: Mapping[str, str]
    singular: Mapping[str, str]

    @classmethod
    def of(cls, types: Iterable[tuple[str, Iterable[str]]]) -> "TypeNames":
        """Return the names of types, given as pairs of a name and its synonyms."""
        spelled: dict[str, str] = {}
        exact: dict[str, str] = {}
        singular: dict[str, str] = {}
        ambiguous: set[str] = set()
        for spelling, name in _spellings_of(types):
            key = type_key(spelling)
            spelled.setdefault(spelling.casefold(), name)
            exact.setdefault(key, name)
            for one in singular_keys(key):
                if singular.setdefault(one, name) != name:
                    ambiguous.add(one)
        unambiguous = {key: name for key, name in singular.items() if key not in ambiguous}
        return cls(spelled, exact, unambiguous)

    def find(self, text: str) -> str | None:
        """Return the name of the type that the text names, or None."""
        key = type_key(text)
        known = self.spelled.get(text.strip().casefold()) or self.exact.get(key)
        if known is not None:
            return known
        found = (self.singular.get(one) for one in singular_keys(key))
        return next((name for name in found if name is not None), None)


def _spellings_of(types: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, str]]:
    """Yield each spelling with the name of its type; all names come before all synonyms."""
    types = [(name, tuple(synonyms)) for name, synonyms in types]
    for name, _ in types:
        yield name, name
    for name, synonyms in types:
        for synonym in synonyms:
            yield synonym, name
