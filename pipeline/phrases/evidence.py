"""What a sentence says a name is: by what it is called before or behind the name. Nothing is
guessed."""

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
    """person, location, organization, work or event, as what stands around ``start:end`` says;
    None: it says none."""
    before = sentence[max(0, start - _BEFORE) : start]
    for pattern in (_BESIDE,) if _NO_SUBJECT.search(before) else (_IS, _BESIDE):
        if (found := pattern.match(sentence, end)) and (kind := _kind_of_phrase(found["phrase"])):
            return kind
    if _KIN_BEFORE.search(before) or _PERSON_BEFORE.search(before):
        return "person"
    if _PLACE_BEFORE.search(before):
        return "location"
    called = _LAST_WORD.search(before)
    return CLASS_NOUNS.get(called["word"]) if called else None


def kind_of_qualifier(title: str) -> str | None:
    """What the brackets behind a title say: "Island Baby (1934 film)"."""
    found = _QUALIFIER.search(title)
    return CLASS_NOUNS.get(found["word"]) if found else None


def opens_cast(sentence: str, start: int) -> bool:
    """Whether the persons of an enumeration begin here."""
    return _PERSON_BEFORE.search(sentence[max(0, start - _BEFORE) : start]) is not None


def goes_on_in_list(between: str) -> bool:
    return _NEXT_OF_LIST.fullmatch(between) is not None


def _kind_of_phrase(phrase: str) -> str | None:
    """The kind of the noun that a noun phrase is about: its last one."""
    head = ""
    for found in _WORD.finditer(phrase):
        word = found[0]
        if (
            not word[0].isalnum()
            or word.lower() in _ENDS_PHRASE
            or (head and _NOT_NOUN.match(word))
        ):
            break
        head = word
    return CLASS_NOUNS.get(head.lower())
