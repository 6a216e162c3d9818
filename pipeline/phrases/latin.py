"""Names in a sentence of a Latin (or other cased) script: runs of capitalised words."""

import re
from collections.abc import Iterator
from itertools import islice

from pipeline.phrases.evidence import goes_on_in_list, kind_in_sentence, opens_cast
from pipeline.phrases.lexicon import (
    ARTICLES,
    CALENDAR,
    CLASS_NOUNS,
    CONNECTORS,
    COURTESIES,
    DEMONYMS,
    EVENT_HEADS,
    GERMAN_PREPOSITIONS,
    HEADS_IN_FRONT,
    HONORIFICS,
    INSTITUTIONS,
    LABELS,
    LOCATION_HEADS,
    MONTHS,
    OF_NOUNS,
    ORGANIZATION_HEADS,
    RANKS,
    SMALL_WORDS,
    STARTERS,
    SURNAME_HEADS,
    stop_words,
)
from pipeline.phrases.names import (
    LOWER,
    UPPER,
    Name,
    kind_of_words,
    leftmost_longest,
    overlay,
    without_article,
)
from pipeline.phrases.titles import Gazetteer

# Groups are repeated within (?>...), not by *+: before 3.11.5 CPython matches the latter wrongly
# (gh-106052).
_LINE_BREAK = (
    r"[ \t]*+\n[ \t]*+(?!(?:The|An?|I|In|On|At|It|He|She|They|This|That|For|By|But|And)\b)"
)
_SPACE = rf"(?:[ \t\xa0]++|{_LINE_BREAK})"
_ABBREVIATION = (
    "(?:St|Ste|Mt|Ft|Dr|Mr|Mrs|Ms|Prof|Capt|Col|Gen|Lt|Sgt|Rev|Sen|Gov|Jr|Sr|Bros|Inc|Ltd|Corp|Co)"
)
_INITIALS = rf"(?>(?:[{UPPER}]\.-?)+)(?![{LOWER}])"
_PREFIX = rf"(?:[dl]['’]|(?:al|el|ad|ar|as)-|[a-z]{{1,2}}(?=[{UPPER}][{LOWER}]))"
_AFTER_HYPHEN = "(?:based|born|winning|style|led|like|era|speaking|related|language)"
_HYPHEN = rf"[-‐‑–](?:(?!{_AFTER_HYPHEN}\b)(?=[^\W_])|[ ](?=[{UPPER}]))\w*+"
_WORD = (
    rf"(?:{_ABBREVIATION}\.|{_INITIALS}|"
    rf"{_PREFIX}?[{UPPER}]\w*+(?>(?:['’‘ʻ]\w++|&[{UPPER}]\w*+|{_HYPHEN})*))"
)
_NUMBER = rf"(?:{_SPACE}\d{{1,3}}\b(?![.,:%–-]?\d|%|\s(?:{MONTHS})\b))?"
_ORDINAL = rf"\d{{1,3}}(?:st|nd|rd|th){_SPACE}"
_JUNIOR = r"(?:,[ ](?:Jr|Sr)\b\.?)?"
_RUN = rf"(?:{_ORDINAL})?{_WORD}(?>(?:{_SPACE}(?:(?:{CONNECTORS}){_SPACE})?{_WORD})*){_JUNIOR}"
_INSTITUTION = (
    rf"(?:{_WORD}{_SPACE})*?(?:{INSTITUTIONS}){_SPACE}(?:of|for){_SPACE}(?:the{_SPACE})?{_RUN}"
    rf"(?:{_SPACE}(?:and|for|for{_SPACE}the){_SPACE}(?!(?:{_WORD}{_SPACE}){{0,3}}(?:{INSTITUTIONS})\b){_RUN})?"
)
_SPAN = re.compile(rf"(?<![\w'’&-])(?:{_INSTITUTION}|{_RUN}{_NUMBER})")
_TITLE_WORD = rf"(?:{_WORD}|\d++)"
_QUOTED = re.compile(
    rf"[\"“«]\s?(?P<work>{_TITLE_WORD}(?:[,:]?{_SPACE}(?:(?:{SMALL_WORDS}){_SPACE})*{_TITLE_WORD})+[!?]?)"
    rf"[,.;]?\s?[\"”»]"
)
_PART = re.compile(r"\S+")
_POSSESSIVE = re.compile(r"['’]s$")
_LETTER = re.compile(r"[^\W\d_]")
_YEAR_BEFORE = re.compile(r"\b\d{4}\s$")
_YEAR_AFTER = re.compile(r"\s(?:of\s)?\d{4}\b")
_LIFE_DATES = re.compile(
    r"\s?\(\s?(?:born|b\.|died|d\.|[^()\d]{0,15}\d{0,2}[^()\d]{0,12}\d{3,4}\s?[–—-]\s?[^()]{0,25}\d{3,4}\))"
)
_ROMAN = re.compile(r"[IVXLC]+$")
_HYPHEN_AND_SPACE = re.compile(r"(?<=\w)[-‐‑–] ")
_LINE_ENDS = re.compile(r"[^\w|]*\|")
_MAX_RUN = 40  # words; more of them capitalised in a row are no names but a heading or a table
_OPENERS = frozenset(':;•|#>*"“‘«')
_SUFFIXES = frozenset(("jr", "sr", "am", "pm", "co", "corp", "inc", "ltd", "bros"))
_NEVER_ALONE = STARTERS | CALENDAR | DEMONYMS | HONORIFICS | LABELS | _SUFFIXES
_KINDS = ORGANIZATION_HEADS.union(LOCATION_HEADS, EVENT_HEADS, CLASS_NOUNS) - SURNAME_HEADS
_BEFORE_PLACE = re.compile(r"\b(?:[Tt]he|[Ii]n|[Aa]t|[Nn]ear|[Oo]n|[Aa]cross|[Aa]long)\s$")
_DATED = CALENDAR | _SUFFIXES | {"no", "vs"}
_JUNIOR_COMMA = re.compile(r",(?= [JS]r\b)")
_ORDINAL_WORD = re.compile(r"\d+(?:st|nd|rd|th)$")


def find_names(
    sentence: str, gazetteer: Gazetteer, language: str = "en", cells: bool = False
) -> list[Name]:
    """The names in the sentence in order of place; two overlap only where a title stands within a
    name, as in "Aldric II of Hallowfell". ``cells``: it is a row of a table, where a lone word
    opens no sentence."""
    works = list(_quoted_works(sentence))
    fixed = leftmost_longest([*gazetteer.find(sentence), *works])
    return _with_evidence(
        overlay(list(_capitalised(sentence, language, cells)), fixed, sentence), sentence
    )


def _with_evidence(names: list[Name], sentence: str) -> list[Name]:
    """Names whose heads tell nothing with what the sentence calls them."""
    told: list[Name] = []
    cast, last = False, 0
    for name in names:
        cast = opens_cast(sentence, name.start) or (
            cast and goes_on_in_list(sentence[last : name.start])
        )
        kind = kind_in_sentence(sentence, name.start, name.end) if name.type == "name" else None
        told.append(
            name._replace(type=kind or "person") if kind or (cast and name.type == "name") else name
        )
        last = name.end
    return told


def _quoted_works(sentence: str) -> Iterator[Name]:
    """A straight quotation mark opens where as many have closed as opened before it."""
    place, counted, marks = 0, 0, 0
    while found := _QUOTED.search(sentence, place):
        marks += sentence.count('"', counted, found.start())
        counted = found.start()
        if sentence[counted] == '"' and marks % 2:
            place = counted + 1
            continue
        name = without_article(_on_one_line(found["work"]))
        yield Name(found.end("work") - len(name), found.end("work"), name, "work")
        place = found.end()


def _capitalised(sentence: str, language: str, cells: bool) -> Iterator[Name]:
    """Names by capital letters alone; disjoint."""
    first_letter = _LETTER.search(sentence)
    opening = first_letter.start() if first_letter and language != "zh" and not cells else -1
    starters = STARTERS if language == "en" else STARTERS | stop_words(language)
    shouting = sentence.isupper()
    for run in _runs(sentence):
        start = run[0].start()
        initial = start <= opening or _character_before(sentence, start) in _OPENERS
        words = _without_opening(run, starters if initial else ARTICLES)
        explained = initial and words[:1] == run[:1] and not _is_capitals(words, sentence)
        if language == "de" and words:
            explained = explained or not _after_preposition(sentence, words[0].start())
        if name := _name(sentence, words, explained, shouting):
            yield name


def _runs(sentence: str) -> Iterator[list[re.Match[str]]]:
    """The words of what may be one name each."""
    for found in _SPAN.finditer(sentence):
        words = list(islice(_PART.finditer(sentence, found.start(), found.end()), _MAX_RUN + 1))
        if len(words) <= _MAX_RUN:
            yield from _split(words)


def _split(words: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """The names in one run of words: "Mira Vale's | Harbour Guild", "Mira Vale of the | Harbour
    Guild", "U.S. | President Ann Moor"; but "Schindler's List", "St. Mary's Abbey", "Bank of the
    South"."""
    start = place = 0
    while place < len(words):
        skipped = _words_between_names(words, start, place)
        if skipped is not None:
            yield words[start:place]
            start = place = place + skipped
        place += 1
    yield words[start:]


def _words_between_names(words: list[re.Match[str]], start: int, place: int) -> int | None:
    """How many words to skip when the name from ``start`` on ends before ``place``; None if it goes
    on."""
    if place == start or place == len(words) - 1:
        return None
    texts = [word[0] for word in words]
    word, before, after = texts[place], texts[start:place], texts[place + 1 :]
    folded = word.lower().rstrip(".")
    if len(before) > 1 and _POSSESSIVE.search(before[-1]) and not before[-2].endswith("."):
        return 0
    if folded in HONORIFICS and before[-1].lower() not in RANKS and after[0][0].isupper():
        return 0 if len(after) > 1 or folded in COURTESIES else None
    if word == "the" and before[-1][0].isupper() and not _is_byname(after):
        return 1
    if (
        word == "&"
        and len(before) > 1
        and len(after) > 1
        and kind_of_words(texts[start:]) == "name"
    ):
        return 1
    if word == "of" and len(before) > 1 and _ends_before_of(before):
        return 1 + (after[0] == "the")
    return None


def _is_byname(words: list[str]) -> bool:
    """As in "Alexander the Great"; not what "The Diet gave the Institute" has."""
    return (len(words) == 1 or words[1].isdigit()) and words[0].lower() not in ORGANIZATION_HEADS


def _ends_before_of(words: list[str]) -> bool:
    """Whether these words name something whole: "Mira Vale" does, "Hall" and "Aldric II" go on."""
    last = words[-1]
    open_ended = (
        last.lower() in OF_NOUNS or last.lower() in HONORIFICS or _ROMAN.match(last) is not None
    )
    return not open_ended and last[0].isupper() and kind_of_words(words) == "name"


def _without_opening(words: list[re.Match[str]], openers: frozenset[str]) -> list[re.Match[str]]:
    for place, word in enumerate(words):
        folded = word[0].lower()
        stays = folded not in openers or (len(folded) > 1 and word[0].isupper())
        if not (word[0][0].islower() and word[0].islower()) and stays and folded != "i":
            return words[place:]
        openers = openers if folded in openers else ARTICLES
    return []


def _name(
    sentence: str, words: list[re.Match[str]], explained: bool, shouting: bool
) -> Name | None:
    """The name these words make; ``explained``: the first capital means nothing, ``shouting``: none
    does."""
    words, addressed = _without_honorific(_without_date(words))
    if not words:
        return None
    texts = [word[0] for word in words]
    if not _can_be_name(texts, shouting or not _is_capitals(words, sentence)):
        return None
    start = words[0].start()
    end = words[-1].end() - _ending(texts[-1])
    kind = kind_of_words(texts)
    may_be_surname = texts[-1].lower() in SURNAME_HEADS and texts[0].lower() not in HEADS_IN_FRONT
    if may_be_surname and not _BEFORE_PLACE.search(sentence, max(0, start - 8), start):
        kind = "name"
    if kind == "event":
        start, end = _with_year(sentence, start, end)
    elif kind == "name" and (addressed or _is_person(sentence, texts, end)):
        kind = "person"
    lone = len(texts) == 1
    common = lone and not addressed and _is_common_noun(texts[0])
    return Name(
        start,
        end,
        _on_one_line(sentence[start:end]),
        kind,
        shouting or common or (lone and explained and not addressed),
    )


def _without_date(words: list[re.Match[str]]) -> list[re.Match[str]]:
    """Without a weekday or a month (and its number) at the front or the end, unless it belongs to a
    name."""

    def is_date(word: re.Match[str]) -> bool:
        return word[0].lower() in CALENDAR

    if (
        len(words) > 1
        and _ORDINAL_WORD.match(words[0][0])
        and (is_date(words[1]) or words[1][0] == "Century")
    ):
        words = words[1:] if is_date(words[1]) or len(words) == 2 else words
    while words and is_date(words[0]):
        if len(words) > 1 and not (words[1][0].isdigit() or is_date(words[1])):
            break
        words = words[2:] if len(words) > 1 and words[1][0].isdigit() else words[1:]
    if len(words) > 2 and is_date(words[-2]) and words[-1][0].isdigit():
        words = words[:-2]
    return words


def _without_honorific(words: list[re.Match[str]]) -> tuple[list[re.Match[str]], bool]:
    """Titles of address off, where enough of a name is left; whether there was one."""
    addressed = False
    while len(words) > 1:
        ranked = (
            words[0][0].lower() in RANKS and words[1][0].lower() in HONORIFICS and len(words) > 2
        )
        title, rest = (words[1], words[2:]) if ranked else (words[0], words[1:])
        folded = title[0].lower().rstrip(".")
        if (
            folded not in HONORIFICS
            or rest[0][0].islower()
            or _is_no_person([word[0] for word in rest])
        ):
            break
        addressed = True
        if len(rest) == 1 and folded not in COURTESIES:
            break
        words = rest
    return words, addressed


def _is_adjective(word: str) -> bool:
    """As "German-Ukrainian" and "May–June"."""
    parts = re.split("[-‐‑–]", word.lower())
    return len(parts) > 1 and all(part in DEMONYMS or part in CALENDAR for part in parts)


def _is_no_person(words: list[str]) -> bool:
    """As what stands behind the title in "Major League Baseball" and "Prince Edward Island"."""
    heads = [word.lower() for word in words]
    return not ORGANIZATION_HEADS.isdisjoint(heads) or (
        heads[-1] in LOCATION_HEADS and heads[-1] not in SURNAME_HEADS
    )


def _is_common_noun(word: str) -> bool:
    """Whether the word says what kind of thing is meant: "the Guild", "Universities"."""
    folded = word.lower()
    forms = {folded, folded.removesuffix("s"), re.sub("ies$", "y", folded)}
    return not forms.isdisjoint(_KINDS) and folded not in SURNAME_HEADS


def _is_capitals(words: list[re.Match[str]], sentence: str) -> bool:
    """Whether this is a lone word in capitals, and those around it are not: WHO, US, IT; but no
    mark on a paper, which has the first line for itself: CONFIDENTIAL."""
    if len(words) != 1 or len(words[0][0]) < 2 or not words[0][0].isupper():
        return False
    if not sentence[: words[0].start()].strip() and _LINE_ENDS.match(sentence, words[0].end()):
        return False
    before, after = (
        sentence[: words[0].start()].split()[-1:],
        sentence[words[0].end() :].split(maxsplit=1)[:1],
    )
    return not any(len(word) > 1 and word.isupper() for word in (*before, *after))


def _can_be_name(words: list[str], doubted: bool = True) -> bool:
    """``doubted``: a lone word must be none of those that mean something else."""
    first = _POSSESSIVE.sub("", words[0])
    if not any(word[0].isalpha() and not (len(word) == 2 and word[1] == ".") for word in words):
        return False
    if len(words) == 1:
        letters = len(first) - first.count(".")
        ends = {first.lower().rstrip("."), first.lower().rpartition("-")[2]}
        common = not ends.isdisjoint(_NEVER_ALONE if doubted else _DATED) or _is_adjective(first)
        return letters > 1 and not common and not _ROMAN.match(first)
    if len(words) == 2 and words[1].lower() in DEMONYMS:
        return False
    numbered = len(words) == 2 and (words[1].isdigit() or _ROMAN.match(words[1]) is not None)
    return not (numbered and first.lower() in LABELS)


def _ending(word: str) -> int:
    """How many characters at the word's end are not the name's: a possessive, the stop after
    "Vitamin C"."""
    possessive = _POSSESSIVE.search(word)
    if possessive:
        return len(possessive[0])
    return int(len(word) == 2 and word[1] == ".")


def _with_year(sentence: str, start: int, end: int) -> tuple[int, int]:
    if before := _YEAR_BEFORE.search(sentence, max(0, start - 5), start):
        return before.start(), end
    after = _YEAR_AFTER.match(sentence, end)
    return start, after.end() if after else end


def _is_person(sentence: str, words: list[str], end: int) -> bool:
    initials = len(words) > 1 and any(len(word) == 2 and word[1] == "." for word in words[:-1])
    dated = _LIFE_DATES.match(sentence, end) is not None and not words[0].isupper()
    return initials or dated


def _character_before(sentence: str, place: int) -> str:
    while place > 0 and sentence[place - 1] in " \t":
        place -= 1
    return sentence[place - 1 : place]


def _after_preposition(sentence: str, place: int) -> bool:
    before = sentence[max(0, place - 12) : place].split()
    return bool(before) and (before[-1] in GERMAN_PREPOSITIONS or not before[-1][-1].isalnum())


def _on_one_line(text: str) -> str:
    return _JUNIOR_COMMA.sub("", _HYPHEN_AND_SPACE.sub("-", " ".join(text.split())))
