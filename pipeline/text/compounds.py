"""German compounds for the pairs of nouns of a question: "Kühlwasserpumpe" for "Pumpe für
Kühlwasser".

Texts write as one word what questions often say in two. No dictionary is needed: every spelling
that German grammar allows is looked for, and those that no text has count for nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_PAIRS = 5
"""The number of pairs of a question that are joined."""
SHORTEST_NOUN = 3
# The pattern must not match in other languages: "in" and "an" would.
_LINKS = "für|von|vom|des|der|zur|zum|gegen"
_ARTICLES = "den|die|das|dem|der|des|einen|eine|ein|einem|einer|eines"
_NOUN = r"[A-ZÄÖÜ][a-zäöüß]+"
_PAIR = re.compile(rf"\b({_NOUN}) (?:{_LINKS}) (?:(?:{_ARTICLES}) )?({_NOUN})\b")


@dataclass(frozen=True)
class Compound:
    """The compound of two nouns of a question.

    ``nouns``: the two, as the question writes them. ``spellings``: what the compound may be, in
    lower case.
    """

    nouns: tuple[str, str]
    spellings: tuple[str, ...]


def join_nouns(question: str) -> list[Compound]:
    """Return the compounds of pairs of nouns that a German preposition or article links.

    A text in which no such pair stands, as one in another language, has none.
    """
    found: dict[tuple[str, str], Compound] = {}
    for pair in _PAIR.finditer(question):
        head, modifier = pair[1], pair[2]
        if min(len(head), len(modifier)) >= SHORTEST_NOUN:
            spellings = dict.fromkeys(_spell(head.lower(), modifier.lower()))
            found[head, modifier] = Compound((head, modifier), tuple(spellings))
    return list(found.values())[:MOST_PAIRS]


def _spell(head: str, modifier: str) -> Iterator[str]:
    """Yield the modifier before the head, with each linking sound that German has for it."""
    yield modifier + head
    if modifier.endswith("s"):
        # The question has the genitive: "Pumpe des Kühlwassers".
        yield modifier[:-1] + head
    else:
        yield f"{modifier}s{head}"
    if modifier.endswith("e"):
        yield f"{modifier}n{head}"
        yield modifier[:-1] + head
    else:
        yield f"{modifier}en{head}"
