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


def singular_key(key: str) -> str:
    """Return the key with its last word in the singular, as far as English endings tell."""
    last = key.rpartition(" ")[2]
    if not last.endswith("s") or len(last) < _SHORTEST_PLURAL or last.endswith(_NO_PLURAL):
        return key
    if last.endswith("ies"):
        return f"{key[:-3]}y"
    return key[:-2] if _SIBILANT_PLURAL.search(last) else key[:-1]


@dataclass(frozen=True)
class TypeNames:
    """The types of one kind.

    ``exact`` maps the keys of names and synonyms to names; ``singular`` maps their singular forms,
    without those of two types.
    """

    exact: Mapping[str, str]
    singular: Mapping[str, str]

    @classmethod
    def of(cls, types: Iterable[tuple[str, Iterable[str]]]) -> "TypeNames":
        """Return the names of types, given as pairs of a name and its synonyms."""
        exact: dict[str, str] = {}
        singular: dict[str, str] = {}
        ambiguous: set[str] = set()
        for key, name in _keys_of(types):
            exact.setdefault(key, name)
            if singular.setdefault(singular_key(key), name) != name:
                ambiguous.add(singular_key(key))
        unambiguous = {key: name for key, name in singular.items() if key not in ambiguous}
        return cls(exact, unambiguous)

    def find(self, text: str) -> str | None:
        """Return the name of the type that the text names, or None."""
        key = type_key(text)
        return self.exact.get(key) or self.singular.get(singular_key(key))


def _keys_of(types: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, str]]:
    """Yield each key with the name of its type; all names come before all synonyms."""
    types = [(name, tuple(synonyms)) for name, synonyms in types]
    for name, _ in types:
        yield type_key(name), name
    for name, synonyms in types:
        for synonym in synonyms:
            yield type_key(synonym), name
