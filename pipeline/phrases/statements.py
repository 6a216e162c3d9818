"""Find the relation that an English sentence states between two neighbouring names.

Examples are "directed by", "born in" and "wife of". The relation is taken from the words between
the two names, with the first name as their subject; text around the names can only rule it out.
Nothing is guessed: a sentence that merely mentions two names states no relation.
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
"""The most characters between two names that may state a relation."""
_BRACKETS = re.compile(r"\s?\([^()]*\)")
_BORN_IN_BRACKETS = re.compile(r"^\s?\(\s?born(?=\s)")
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
"""The most words before a name that may describe it."""
_AFTER_OBJECT = (
    "and|or|but|in|on|at|to|from|by|for|with|as|who|whom|whose|which|that|when|where|while|until|before|after|during|"
    "under|since|between|against|about|over|through|near|is|was|are|were|has|had|having|because|if|then|he|she|it|they|"
    "also|later|into|upon|within|without|via|shortly|only|once|twice|again|about|around|written|starring"
)
_SUBJECT = re.compile(r"(?:^|[|\"“])\s*(?:(?P<words>[\w.]+(?:\s[\w.]+){0,2})\s)?[\"“]?$")
# Text behind the second name with which it names something else: "Ann's brother", "the Livingston
# family", "Western/action".
_GOES_ON = re.compile(rf"['’]s?|[-/&]|\s(?!(?:{_AFTER_OBJECT})\b|\w+(?:ed|ing)\b)[a-zà-ÿ]")
_OF_ANOTHER = re.compile(r"\b(?:of|by|with|and|to|for)\s(?:the\s)?$")
_NO_RELATION = frozenset(
    "used supposed known called named based noted credited considered regarded".split()
)
_INTRANSITIVE = frozenset(
    "named called titled entitled born died based located lived starred appeared".split()
)


def statement(sentence: str, start: int, first: int, last: int, end: int) -> str | None:
    """Return the relation that a sentence states between two neighbouring names, or None.

    The first name is ``sentence[start:first]``, the second ``sentence[last:end]``. ``sentence`` is
    part of the `reading` of a `lines.Layout`. The relation is a verb, a verb or noun with a
    preposition, or a word of kinship. A bare word of kinship says what the second name is to the
    first: "Ann's brother Max" gives "brother".
    """
    between = sentence[first:last]
    if not 2 < len(between) <= _LONGEST or _GOES_ON.match(sentence, end):
        return None
    kin = _KIN_OF.match(between)
    if kin:
        return kin["kin"]
    between = _without_asides(between)
    if _FOREIGN.search(between) or between.startswith(("'", "’")):
        return None
    # A comma may only open a clause, as in ", who" or ", wife of".
    if between.count(",") > 1 or between.find(",") > 0:
        return None
    tokens = [token.lower() for token in _TOKEN.findall(between)]
    if tokens[:2] in ([",", "who"], [",", "which"]):
        # In "the son of Ann, who married Max", it is not sure who married.
        if _OF_ANOTHER.search(sentence, max(0, start - 12), start):
            return None
        return _relation(tokens[2:], apposed=False)
    if not _is_subject(sentence[:start]):
        return None
    apposed = tokens[:1] == [","]
    return _relation(tokens[1:] if apposed else tokens, apposed)


def _without_asides(between: str) -> str:
    """Return the text between two names without brackets, dates and all but the last of some verbs.

    The brackets must follow the first name. "written and directed by" becomes "directed by".
    """
    brackets = _BRACKETS.match(between)
    if brackets:
        between = between[brackets.end() :]
    between = between.rstrip(' "“«')
    between = _BORN_IN_BRACKETS.sub(", born", between)
    return _COORDINATED.sub("", _WHEN.sub("", between))


def _is_subject(before: str) -> bool:
    """Return whether a name with this text before it is what its sentence is about."""
    found = _SUBJECT.search(before)
    if found is None:
        return False
    words = (found["words"] or "").lower().split()
    return all(
        word.rstrip(".") in HONORIFICS or word in CLASS_NOUNS or word in ARTICLES for word in words
    )


def _relation(tokens: list[str], apposed: bool) -> str | None:
    """Return the relation that the words between two names state, or None.

    ``apposed`` is true if a comma stands before the words, as in ", wife of".
    """
    if not tokens or not _NO_STATEMENT.isdisjoint(tokens):
        return None
    linked = tokens[0] in _COPULAS
    core = tokens[1:] if linked else tokens
    while core and core[0] in _AUXILIARIES:
        core = core[1:]
    place = next((place for place, token in enumerate(core) if token in _PREPOSITIONS), None)
    if place is None:
        return None if linked else _direct_object_verb(core)
    after = core[place + 1 :]
    if place == 0 or not _are_modifiers(after):
        return None
    word, preposition = core[place - 1], core[place]
    is_infinitive = preposition == "to" and after and after[0] not in _DETERMINERS
    if word in _NO_RELATION or is_infinitive:
        return None
    if word in RELATION_NOUNS or re.fullmatch(KIN, word):
        is_stated = (linked or apposed) and preposition in ("of", "to")
    else:
        is_stated = _is_verb(word) and (linked or apposed or place == 1)
    return f"{word} {preposition}" if is_stated else None


def _direct_object_verb(core: list[str]) -> str | None:
    """Return the verb of words such as "married" or "founded the" before an object, or None."""
    if not core:
        return None
    verb = core[0]
    takes_object = _is_verb(verb) and verb not in _INTRANSITIVE
    return verb if takes_object and _are_modifiers(core[1:]) else None


def _is_verb(word: str) -> bool:
    """Return whether the word is a known verb in the past, or ends as one."""
    if word in VERBS:
        return True
    return len(word) > 3 and word.endswith("ed") and not word.endswith("eed")


def _are_modifiers(words: list[str]) -> bool:
    """Return whether the words can describe the name behind them: "the Polish director"."""
    rest = [word for word in words if word not in _DETERMINERS]
    if len(rest) > _MAX_MODIFIERS:
        return False
    for word in rest:
        is_function_word = word == "," or word in _PREPOSITIONS or word in stop_words("en")
        if is_function_word or _is_verb(word):
            return False
    return True
