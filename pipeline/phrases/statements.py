"""What an English sentence states between two names that are neighbours in it: "directed by", "born
in", "wife of".

Only what the words between the two say with the first name as their subject; all else that a
sentence holds of two names is no more than that it holds both.
"""

import re

from pipeline.phrases.lexicon import (
    ARTICLES,
    CLASS_NOUNS,
    HONORIFICS,
    KIN,
    MONTHS,
    RELATION_NOUNS,
    VERBS,
    stop_words,
)

_LONGEST = 140
_BRACKETS = re.compile(r"\s?\([^()]*\)")
_FOREIGN = re.compile(r"[^\w\s,'’-]")
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|,")
_KIN_OF = re.compile(rf"['’]s\s(?:\w+\s)?(?P<kin>{KIN})\s,?\s?$")
_COPULAS = frozenset("is was are were".split())
_AUXILIARIES = frozenset(
    "has had been being also later then first currently formerly previously again".split()
)
_PREPOSITIONS = frozenset(
    "by of in at from to for with on against near under into between over about among".split()
)
_DETERMINERS = frozenset("the a an his her its their".split())
_NO_STATEMENT = frozenset(
    "and or but nor not never no than as while when where after before until since if although"
    " though because he she it they him them this that these those there would could should may"
    " might can will possibly probably perhaps reportedly allegedly supposedly rumoured said"
    " believed thought claimed alleged intended planned almost nearly neither instead unlike like"
    " hardly whose whom what why how".split()
)
_WHEN = re.compile(
    rf",?\s(?:(?:on|in|circa)\s)?(?:(?:\d{{1,2}}\s)?(?:{MONTHS})(?:\s\d{{1,2}})?,?\s)?\d{{3,4}},?(?=\s)"
)
_COORDINATED = re.compile(
    r"\b(?:\w+ed|written|sung)(?:, (?:\w+ed|written|sung))? and (?=(?:\w+ed|written|sung) by\b)"
)
_MAX_MODIFIERS = 3
_AFTER_OBJECT = (
    "and|or|but|in|on|at|to|from|by|for|with|as|who|whom|whose|which|that|when|where|while|until|before|after|during|"
    "under|since|between|against|about|over|through|near|is|was|are|were|has|had|having|because|if|then|he|she|it|they|"
    "also|later|into|upon|within|without|via|shortly|only|once|twice|again|about|around|written|starring"
)
_SUBJECT = re.compile(r"(?:^|[|\"“])\s*(?:(?P<words>[\w.]+(?:\s[\w.]+){0,2})\s)?[\"“]?$")
# The second name is not all of what is spoken of: "Ann's brother", "the Livingston family",
# "Western/action".
_GOES_ON = re.compile(rf"['’]s?|[-/&]|\s(?!(?:{_AFTER_OBJECT})\b|\w+(?:ed|ing)\b)[a-zà-ÿ]")
_OF_ANOTHER = re.compile(r"\b(?:of|by|with|and|to|for)\s(?:the\s)?$")
_NO_RELATION = frozenset(
    "used supposed known called named based noted credited considered regarded".split()
)
_INTRANSITIVE = frozenset(
    "named called titled entitled born died based located lived starred appeared".split()
)


def statement(sentence: str, start: int, first: int, last: int, end: int) -> str | None:
    """What the sentence states of the names ``start:first`` and ``last:end``, the first one's
    subject; None where nothing is certain. ``sentence`` as ``lines.Layout.reading`` has it."""
    between = sentence[first:last]
    if not 2 < len(between) <= _LONGEST or _GOES_ON.match(sentence, end):
        return None
    if found := _KIN_OF.match(between):
        return found["kin"]
    opening = _BRACKETS.match(between)
    between = between[opening.end() if opening else 0 :].rstrip(' "“«')
    between = _COORDINATED.sub("", _WHEN.sub("", re.sub(r"^\s?\(\s?born(?=\s)", ", born", between)))
    if (
        _FOREIGN.search(between)
        or between.count(",") > 1
        or between.find(",") > 0
        or between.startswith(("'", "’"))
    ):
        return None
    tokens = [token.lower() for token in _TOKEN.findall(between)]
    relative = tokens[:2] in ([",", "who"], [",", "which"])
    if (
        _OF_ANOTHER.search(sentence, max(0, start - 12), start)
        if relative
        else not _is_subject(sentence[:start])
    ):
        return None
    apposed = tokens[:1] == [","]
    return _relation(tokens[2:] if relative else tokens[apposed:], apposed and not relative)


def _is_subject(before: str) -> bool:
    """Whether a name with this before it is what its sentence is about."""
    found = _SUBJECT.search(before)
    if found is None:
        return False
    words = (found["words"] or "").lower().split()
    return all(
        word.rstrip(".") in HONORIFICS or word in CLASS_NOUNS or word in ARTICLES for word in words
    )


def _relation(tokens: list[str], apposed: bool) -> str | None:
    if not tokens or not _NO_STATEMENT.isdisjoint(tokens):
        return None
    linked = tokens[0] in _COPULAS
    core = tokens[linked:]
    while core and core[0] in _AUXILIARIES:
        core = core[1:]
    stop = next((place for place, token in enumerate(core) if token in _PREPOSITIONS), None)
    if stop is None:
        return None if linked else _direct(core)
    if stop == 0 or not _are_modifiers(core[stop + 1 :]):
        return None
    word, preposition = core[stop - 1 : stop + 1]
    after = core[stop + 1 :]
    infinitive = preposition == "to" and after and after[0] not in _DETERMINERS
    if word in _NO_RELATION or infinitive:
        return None
    if word in RELATION_NOUNS or re.fullmatch(KIN, word):
        stated = (linked or apposed) and preposition in ("of", "to")
    else:
        stated = _is_verb(word) and (linked or apposed or stop == 1)
    return f"{word} {preposition}" if stated else None


def _direct(core: list[str]) -> str | None:
    """ "married", "founded the": a verb right before its object."""
    verb = core[0] if core else ""
    return (
        verb if _is_verb(verb) and verb not in _INTRANSITIVE and _are_modifiers(core[1:]) else None
    )


def _is_verb(word: str) -> bool:
    return word in VERBS or (len(word) > 3 and word.endswith("ed") and not word.endswith("eed"))


def _are_modifiers(words: list[str]) -> bool:
    """Whether the words can stand before a name as a part of what is called so: "the Polish
    director"."""
    rest = [word for word in words if word not in _DETERMINERS]
    return len(rest) <= _MAX_MODIFIERS and not any(
        word == "," or word in _PREPOSITIONS or word in stop_words("en") or _is_verb(word)
        for word in rest
    )
