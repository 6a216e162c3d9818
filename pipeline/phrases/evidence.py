"""Find out from a sentence what kind of thing a name names.

The words before or behind the name must say so, as in "the film X" or "X is a Polish director".
"""

import re

from pipeline.phrases.lexicon import CLASS_NOUNS, KIN

_BRACKETS = r"(?:\s?\([^()]{0,200}\))?"
_IS = re.compile(
    rf"[\"”»]?{_BRACKETS}(?:,[^,.;]{{1,60}},)?\s(?:is|was)\s(?:an?|the)\s(?P<phrase>[^.;:()|]{{1,120}})"
)
_BESIDE = re.compile(rf"[\"”»]?{_BRACKETS},\s(?:an?|the)\s(?P<phrase>[^.;:()|]{{1,120}})")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+s?|[^\w\s]")
_ENDS_PHRASE = frozenset(
    "of in on at by to from with without for and or as who whom whose which that where when is was"
    " has had near under between against during about into over set it he she they".split()
)
_NOT_NOUN = re.compile(r"\w{2,}(?:ed|ing)$|born$|known$|written$")
_BEFORE = 60
"""The number of characters before a name that are searched for evidence."""
_KIN_BEFORE = re.compile(rf"\b(?:{KIN})(?: of)?\s$|\b(?:married|née|nee)\s$")
_PLACE_BEFORE = re.compile(
    r"\b(?:(?:born|died|buried|located|situated|lives|lived|raised|settled)\s(?:(?:on\s)?[\w"
    r" ]{0,18}?\d{4},?\s)?"
    r"(?:in|at)|(?:city|town|village|municipality|province|capital|island|river|state|country|commune)"
    r" of)(?:\sthe)?\s$"
)
_PERSON_BEFORE = re.compile(
    r"\b(?:directed by|starring|[Ss]tars|featuring|portrayed by|played by)\s$"
)
_NO_SUBJECT = re.compile(r"(?:,|\b(?:of|and|for|by|in|at|with|from|to|on|than)(?:\sthe)?)\s?$")
_NEXT_OF_LIST = re.compile(r",\s(?:and\s)?|\sand\s|\s&\s")
_LAST_WORD = re.compile(r"(?:^|[\s(\"“])(?P<word>[a-zà-ÿ]+)\s[\"“«]?$")
_QUALIFIER = re.compile(r"[(（][^()（）]*?(?P<word>[a-zà-ÿ]+)[)）]$")


def kind_in_sentence(sentence: str, start: int, end: int) -> str | None:
    """Return the type of the name at ``start:end`` by the words around it.

    The types are person, location, organization, work and event; None if the words tell none.
    """
    text_before = sentence[max(0, start - _BEFORE) : start]
    is_subject = not _NO_SUBJECT.search(text_before)
    patterns = (_IS, _BESIDE) if is_subject else (_BESIDE,)
    for pattern in patterns:
        description = pattern.match(sentence, end)
        kind = _kind_of_phrase(description["phrase"]) if description else None
        if kind:
            return kind
    if _KIN_BEFORE.search(text_before) or _PERSON_BEFORE.search(text_before):
        return "person"
    if _PLACE_BEFORE.search(text_before):
        return "location"
    class_noun = _LAST_WORD.search(text_before)
    return CLASS_NOUNS.get(class_noun["word"]) if class_noun else None


def kind_of_qualifier(title: str) -> str | None:
    """Return the type that the brackets behind a title tell: "Island Baby (1934 film)", or None."""
    found = _QUALIFIER.search(title)
    return CLASS_NOUNS.get(found["word"]) if found else None


def opens_cast(sentence: str, start: int) -> bool:
    """Return whether a list of people begins at ``start``, behind words such as "starring"."""
    text_before = sentence[max(0, start - _BEFORE) : start]
    return _PERSON_BEFORE.search(text_before) is not None


def goes_on_in_list(between: str) -> bool:
    """Return whether the text between two names continues a list: ", ", " and " or " & "."""
    return _NEXT_OF_LIST.fullmatch(between) is not None


def _kind_of_phrase(phrase: str) -> str | None:
    """Return the type of the last noun of the phrase, which the phrase is about, or None."""
    head = ""
    for found in _WORD.finditer(phrase):
        word = found[0]
        ends_phrase = not word[0].isalnum() or word.lower() in _ENDS_PHRASE
        if ends_phrase or (head and _NOT_NOUN.match(word)):
            break
        head = word
    return CLASS_NOUNS.get(head.lower())
