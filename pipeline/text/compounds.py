"""German compounds for the nouns of a question: "Kühlwasserpumpe" for "Pumpe für Kühlwasser", and
for "Pumpe".

Texts write as one word what questions often say in two, or by its last part alone. No dictionary is
needed: every spelling that German grammar allows is looked for, and those that no text has count
for nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

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
LONGEST_HEAD = 50
"""Letters of the longest one. PostgreSQL refuses a search for a word of more than 2,046 bytes."""
SHORTEST_MODIFIER = 3
"""Letters of what stands before the noun in a compound. A prefix as in "Verkauf" has them too, so
some other words count as compounds."""
LETTERS: LiteralString = "0-9A-Za-zÀ-ÖØ-öø-ɏ"
"""The Latin letters and the digits, as a part of a regular expression. They are written out,
because PostgreSQL knows ASCII letters alone where the locale of the database is C."""
INFLECTIONS = ("", "e", "n", "s", "en", "er", "es")
"""The endings of a noun in its cases and its plural."""
GERMAN_WORDS: LiteralString = (
    "der|das|dem|ein|eine|einen|einem|einer|und|ist|sind|wird|wurde|im|für|nicht|auf|bei|vom"
    "|zum|zur"
)
"""Frequent German words that English has not, as a part of a regular expression."""
_QUESTION_WORDS = "wer|wem|wen|wo|wann|wie|warum|weshalb|welche|welcher|welches|welchen|welchem"
_IS_GERMAN = re.compile(rf"\b(?:{GERMAN_WORDS}|{_QUESTION_WORDS})\b", re.IGNORECASE)
_NO_NOUN = re.compile(rf"{GERMAN_WORDS}|{_QUESTION_WORDS}|wurden|wieso|woher|wohin", re.IGNORECASE)
_IS_NOUN = re.compile(_NOUN)
_SENTENCE_ENDS = frozenset(".?!:;\n")
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
        if len(head) < SHORTEST_NOUN or len(modifier) < SHORTEST_NOUN:
            continue
        spellings = _spell(head.lower(), modifier.lower())
        # A dict keeps each spelling once, in its order.
        each_once = tuple(dict.fromkeys(spellings))
        found[head, modifier] = Compound((head, modifier), each_once)
    compounds = list(found.values())
    return compounds[:MOST_PAIRS]


def find_heads(question: str) -> list[str]:
    """Return the nouns of a German question whose compounds are looked for, in lower case.

    A question without a frequent German word has none. In others a word with a capital is a noun.
    They keep their endings: a compound that ends with "haus" need not end with its stem "hau".
    """
    if not _IS_GERMAN.search(question):
        return []
    # A dict keeps each noun once, in the order of the question.
    heads: dict[str, None] = {}
    follows_name = False
    last_end = 0
    for token in re.finditer(r"\w+", question):
        word = token[0]
        between = question[last_end : token.start()]
        is_first = last_end == 0
        opens_sentence = is_first or not _SENTENCE_ENDS.isdisjoint(between)
        # "Mann" behind "Thomas" is a surname.
        is_surname = follows_name and between.isspace()
        is_noun = _IS_NOUN.fullmatch(word) is not None and not _NO_NOUN.fullmatch(word)
        has_length = SHORTEST_HEAD <= len(word) <= LONGEST_HEAD
        if is_noun and has_length and not is_surname:
            heads[word.lower()] = None
        # The word that opens a sentence has its capital from there, and need not be a name.
        follows_name = word[0].isupper() and not opens_sentence
        last_end = token.end()
    return list(heads)[:MOST_HEADS]


def compound_pattern(head: str) -> str:
    """Return the pattern of compounds that end with the head, for Python and for PostgreSQL.

    It begins where a word begins: elsewhere each letter of a long word would begin a search.
    """
    endings = "|".join(INFLECTIONS[1:])
    letter = f"[{LETTERS}]"
    return rf"(?<!{letter}){letter}{{{SHORTEST_MODIFIER},}}{head}({endings})?(?!{letter})"


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
