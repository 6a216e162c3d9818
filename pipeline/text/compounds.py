"""German compounds for the nouns of a question: "Kühlwasserpumpe" for "Pumpe für Kühlwasser", and
for "Pumpe".

Texts write as one word what questions often say in two, or by its last part alone. No dictionary is
needed: every spelling that German grammar allows is looked for, and those that no text has count
for nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.text.ids import words

MOST_PAIRS = 5
"""The number of pairs of a question that are joined."""
SHORTEST_NOUN = 3
# The pattern must not match in other languages: "in" and "an" would.
_LINKS = "für|von|vom|des|der|zur|zum|gegen"
_ARTICLES = "den|die|das|dem|der|des|einen|eine|ein|einem|einer|eines"
_NOUN = r"[A-ZÄÖÜ][a-zäöüß]+"
MOST_HEADS = 10
"""The number of nouns of a question whose compounds are looked for."""
SHORTEST_HEAD = 4
"""Letters of such a noun: many words that are no compounds end in fewer."""
SHORTEST_MODIFIER = 3
"""Letters of what stands before the noun in a compound. A prefix as in "Verkauf" has them too, so
some other words count as compounds."""
INFLECTIONS = ("", "e", "n", "s", "en", "er", "es")
"""The endings of a noun in its cases and its plural."""
GERMAN_WORDS = (
    "der|das|dem|ein|eine|einen|einem|einer|und|ist|sind|wird|wurde|im|für|nicht|auf|bei|vom"
    "|zum|zur"
)
"""Frequent German words that English has not, as a part of a regular expression."""
_QUESTION_WORDS = "wer|wem|wen|wo|wann|wie|warum|weshalb|welche|welcher|welches|welchen|welchem"
_IS_GERMAN = re.compile(rf"\b(?:{GERMAN_WORDS}|{_QUESTION_WORDS})\b", re.IGNORECASE)
_NO_NOUN = re.compile(rf"{GERMAN_WORDS}|{_QUESTION_WORDS}|wurden|wieso|woher|wohin", re.IGNORECASE)
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


def find_heads(question: str) -> list[str]:
    """Return the nouns of a German question whose compounds are looked for, as ``words`` has them.

    A question without a frequent German word has none. In others a word with a capital is a noun.
    """
    if not _IS_GERMAN.search(question):
        return []
    heads: dict[str, None] = {}
    for noun in re.findall(rf"\b{_NOUN}\b", question):
        is_long_enough = len(noun) >= SHORTEST_HEAD
        if is_long_enough and not _NO_NOUN.fullmatch(noun):
            heads.update(dict.fromkeys(words(noun)))
    return list(heads)[:MOST_HEADS]


def compound_pattern(head: str) -> str:
    """Return the pattern of compounds that end with the head, for Python and for PostgreSQL."""
    endings = "|".join(INFLECTIONS[1:])
    return rf"\w{{{SHORTEST_MODIFIER},}}{head}({endings})?(?!\w)"


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
