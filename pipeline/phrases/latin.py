"""Find names in sentences of Latin and other scripts with capitals: runs of capitalised words."""

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

# Groups are repeated within (?>...) instead of by *+, which CPython before 3.11.5 matches wrongly
# (gh-106052).
# A name may go on behind a line break, as in "New\nYork", but not before a word such as "The".
_LINE_BREAK = (
    r"[ \t]*+\n[ \t]*+(?!(?:The|An?|I|In|On|At|It|He|She|They|This|That|For|By|But|And)\b)"
)
_SPACE = rf"(?:[ \t\xa0]++|{_LINE_BREAK})"
_ABBREVIATION = (
    "(?:St|Ste|Mt|Ft|Dr|Mr|Mrs|Ms|Prof|Capt|Col|Gen|Lt|Sgt|Rev|Sen|Gov|Jr|Sr|Bros|Inc|Ltd|Corp|Co)"
)
_INITIALS = rf"(?>(?:[{UPPER}]\.-?)+)(?![{LOWER}])"
# Small letters in front of a capital: "d'Arc", "al-Rashid", "iPhone".
_PREFIX = rf"(?:[dl]['’]|(?:al|el|ad|ar|as)-|[a-z]{{1,2}}(?=[{UPPER}][{LOWER}]))"
_AFTER_HYPHEN = "(?:based|born|winning|style|led|like|era|speaking|related|language)"
_HYPHEN = rf"[-‐‑–](?:(?!{_AFTER_HYPHEN}\b)(?=[^\W_])|[ ](?=[{UPPER}]))\w*+"
_WORD = (
    rf"(?:{_ABBREVIATION}\.|{_INITIALS}|"
    rf"{_PREFIX}?[{UPPER}]\w*+(?>(?:['’‘ʻ]\w++|&[{UPPER}]\w*+|{_HYPHEN})*))"
)
# A number behind a name belongs to it in "Apollo 11", but not in "Vale 11:30" or "Vale 3 May".
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
# More capitalised words in a row are no name, but a heading or a table.
_MAX_RUN = 40
# Signs behind which a capital letter says nothing, as at the start of a sentence.
_OPENERS = frozenset(':;•|#>*"“‘«')
_SUFFIXES = frozenset(("jr", "sr", "am", "pm", "co", "corp", "inc", "ltd", "bros"))
_NEVER_ALONE = STARTERS | CALENDAR | DEMONYMS | HONORIFICS | LABELS | _SUFFIXES
_KIND_WORDS = ORGANIZATION_HEADS.union(LOCATION_HEADS, EVENT_HEADS, CLASS_NOUNS) - SURNAME_HEADS
_BEFORE_PLACE = re.compile(r"\b(?:[Tt]he|[Ii]n|[Aa]t|[Nn]ear|[Oo]n|[Aa]cross|[Aa]long)\s$")
# Words that are no name alone even in capitals, in which other words of _NEVER_ALONE are acronyms.
_NEVER_NAMES = CALENDAR | _SUFFIXES | {"no", "vs"}
_JUNIOR_COMMA = re.compile(r",(?= [JS]r\b)")
_ORDINAL_WORD = re.compile(r"\d+(?:st|nd|rd|th)$")
# How many characters before a name are looked at: a year with a space, the longest word of
# _BEFORE_PLACE with a space and the character before it, a German preposition with some spaces.
_WIDTH_OF_YEAR, _WIDTH_BEFORE_PLACE, _WIDTH_OF_PREPOSITION = 5, 8, 12


def find_names(
    sentence: str, gazetteer: Gazetteer, language: str = "en", cells: bool = False
) -> list[Name]:
    """Return the names in the sentence in the order of their positions.

    Two names overlap only if a title of the gazetteer stands within a longer name, as in "Aldric
    II of Hallowfell". ``language`` is an ISO 639-1 code. ``cells`` is true for a row of a table,
    in which a capital at the beginning is no capital of a sentence.
    """
    works = _quoted_works(sentence)
    fixed = leftmost_longest([*gazetteer.find(sentence), *works])
    capitalised = list(_capitalised(sentence, language, cells))
    return _with_evidence(overlay(capitalised, fixed, sentence), sentence)


def _with_evidence(names: list[Name], sentence: str) -> list[Name]:
    """Return the names with a type from the sentence if their own words tell none.

    The names in a list behind words such as "starring" are people.
    """
    found: list[Name] = []
    in_cast = False
    last_end = 0
    for name in names:
        kind: str | None = None
        goes_on = in_cast and goes_on_in_list(sentence[last_end : name.start])
        in_cast = goes_on or opens_cast(sentence, name.start)
        last_end = name.end
        if name.type == "name":
            kind = kind_in_sentence(sentence, name.start, name.end)
            if not kind and in_cast:
                kind = "person"
        found.append(name._replace(type=kind) if kind else name)
    return found


def _quoted_works(sentence: str) -> Iterator[Name]:
    """Yield the titles of works in quotation marks, with positions inside the marks.

    A straight mark opens a quotation if the number of straight marks before it is even.
    """
    place = 0
    # The number of straight marks before `counted_to`: no part of the sentence is counted twice.
    n_marks = 0
    counted_to = 0
    while True:
        found = _QUOTED.search(sentence, place)
        if not found:
            return
        n_marks += sentence.count('"', counted_to, found.start())
        counted_to = found.start()
        closes = sentence[counted_to] == '"' and n_marks % 2 == 1
        if closes:
            place = counted_to + 1
            continue
        name = without_article(_on_one_line(found["work"]))
        yield Name(found.end("work") - len(name), found.end("work"), name, "work")
        place = found.end()


def _capitalised(sentence: str, language: str, cells: bool) -> Iterator[Name]:
    """Yield the names that capital letters alone tell; they do not overlap."""
    first_letter = _LETTER.search(sentence)
    # A Chinese sentence has no capital at its beginning, so one there is that of a Latin name.
    opens_with_capital = language != "zh" and not cells
    opening = first_letter.start() if first_letter and opens_with_capital else -1
    starters = STARTERS if language == "en" else STARTERS | stop_words(language)
    all_capitals = sentence.isupper()
    for run in _runs(sentence):
        start = run[0].start()
        at_start = start <= opening or _character_before(sentence, start) in _OPENERS
        words = _without_opening(run, starters if at_start else ARTICLES)
        starts_run = words[:1] == run[:1]
        capital_explained = at_start and starts_run and not _is_lone_acronym(words, sentence)
        if language == "de" and words and not capital_explained:
            # German nouns have capitals too; a preposition before one makes a name likely.
            capital_explained = not _after_preposition(sentence, words[0].start())
        name = _name(sentence, words, capital_explained, all_capitals)
        if name:
            yield name


def _runs(sentence: str) -> Iterator[list[re.Match[str]]]:
    """Yield runs of words, each of which may be one name; very long runs are left out."""
    for found in _SPAN.finditer(sentence):
        words = list(islice(_PART.finditer(sentence, found.start(), found.end()), _MAX_RUN + 1))
        if len(words) <= _MAX_RUN:
            yield from _split_run(words)


def _split_run(words: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Split a run of words into the names it holds.

    Examples with "|" between the names: "Mira Vale's | Harbour Guild", "Mira Vale of the | Harbour
    Guild", "U.S. | President Ann Moor". "Schindler's List", "St. Mary's Abbey" and "Bank of the
    South" are one name each.
    """
    start = place = 0
    while place < len(words):
        next_start = _start_of_next_name(words, start, place)
        if next_start is not None:
            yield words[start:place]
            start = place = next_start
        place += 1
    yield words[start:]


def _start_of_next_name(words: list[re.Match[str]], start: int, place: int) -> int | None:
    """Decide whether the name that begins at ``start`` ends before the word at ``place``.

    Return where the next name begins if it ends, or None if it goes on. Words such as "of the"
    between two names belong to neither.
    """
    if place == start or place == len(words) - 1:
        return None
    texts = [word[0] for word in words]
    word, before, after = texts[place], texts[start:place], texts[place + 1 :]
    has_several_before = len(before) > 1
    folded = word.lower().rstrip(".")
    if has_several_before and _POSSESSIVE.search(before[-1]) and not before[-2].endswith("."):
        return place
    if folded in HONORIFICS and before[-1].lower() not in RANKS and after[0][0].isupper():
        return place if len(after) > 1 or folded in COURTESIES else None
    if word == "the" and before[-1][0].isupper() and not _is_byname(after):
        return place + 1
    if word == "&" and has_several_before and len(after) > 1:
        belongs_to_name = kind_of_words(texts[start:]) != "name"
        return None if belongs_to_name else place + 1
    if word == "of" and has_several_before and _ends_before_of(before):
        return place + 2 if after[0] == "the" else place + 1
    return None


def _is_byname(words: list[str]) -> bool:
    """Return whether the words behind "the" are a byname, as in "Alexander the Great".

    They are none in "The Diet gave the Institute".
    """
    is_one_word = len(words) == 1 or words[1].isdigit()
    return is_one_word and words[0].lower() not in ORGANIZATION_HEADS


def _ends_before_of(words: list[str]) -> bool:
    """Return whether the words are a whole name, so that an "of" behind them does not belong to it.

    "Mira Vale" is a whole name; "Hall" and "Aldric II" go on through "of".
    """
    last = words[-1]
    folded = last.lower()
    if folded in OF_NOUNS or folded in HONORIFICS or _ROMAN.match(last):
        return False
    return last[0].isupper() and kind_of_words(words) == "name"


def _without_opening(words: list[re.Match[str]], openers: frozenset[str]) -> list[re.Match[str]]:
    """Return the words from the first that can open a name on.

    ``openers`` are the words that open a sentence but no name. Any number of them may stand in
    front. Behind a word that is none, in small letters or "I", only articles count as such.
    """
    for place, word in enumerate(words):
        text = word[0]
        folded = text.lower()
        is_acronym = len(folded) > 1 and text.isupper()
        opens_no_name = folded in openers and not is_acronym
        is_lower_case = text[0].islower() and text.islower()
        if not is_lower_case and not opens_no_name and folded != "i":
            return words[place:]
        if folded not in openers:
            openers = ARTICLES
    return []


def _name(
    sentence: str, words: list[re.Match[str]], capital_explained: bool, all_capitals: bool
) -> Name | None:
    """Return the name that the words make, or None.

    ``capital_explained`` is true if the first word would have its capital letter without being a
    name, ``all_capitals`` if the whole sentence is in capitals.
    """
    words, addressed = _without_honorific(_without_date(words))
    if not words:
        return None
    texts = [word[0] for word in words]
    # A lone acronym may be a word that usually means something else, such as WHO.
    strict = all_capitals or not _is_lone_acronym(words, sentence)
    if not _can_be_name(texts, strict):
        return None
    start = words[0].start()
    end = words[-1].end() - _length_of_ending(texts[-1])
    kind = kind_of_words(texts)
    may_be_surname = texts[-1].lower() in SURNAME_HEADS and texts[0].lower() not in HEADS_IN_FRONT
    before = max(0, start - _WIDTH_BEFORE_PLACE)
    if may_be_surname and not _BEFORE_PLACE.search(sentence, before, start):
        kind = "name"
    if kind == "event":
        start, end = _with_year(sentence, start, end)
    elif kind == "name" and (addressed or _is_person(sentence, texts, end)):
        kind = "person"
    # A word behind a title of address is a name for sure; another lone word may not be.
    is_lone = len(texts) == 1 and not addressed
    doubtful = all_capitals or (is_lone and (capital_explained or _is_common_noun(texts[0])))
    return Name(start, end, _on_one_line(sentence[start:end]), kind, doubtful)


def _without_date(words: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the words without dates at the front and the end, unless they belong to a name.

    A date is a weekday or a month, with its number if it has one, or a lone "21st Century".
    """
    if len(words) > 1 and _ORDINAL_WORD.match(words[0][0]):
        is_century = words[1][0] == "Century" and len(words) == 2
        if _is_date(words[1]) or is_century:
            words = words[1:]
    while words and _is_date(words[0]):
        if len(words) == 1:
            return []
        has_number = words[1][0].isdigit()
        if not has_number and not _is_date(words[1]):
            break
        words = words[2:] if has_number else words[1:]
    if len(words) > 2 and _is_date(words[-2]) and words[-1][0].isdigit():
        words = words[:-2]
    return words


def _is_date(word: re.Match[str]) -> bool:
    """Return whether the word is a weekday, a month or an era."""
    return word[0].lower() in CALENDAR


def _without_honorific(words: list[re.Match[str]]) -> tuple[list[re.Match[str]], bool]:
    """Return the words without titles of address, and whether there was a title.

    A title stays if too little of a name would be left.
    """
    addressed = False
    while len(words) > 1:
        title, rest = words[0], words[1:]
        if len(words) > 2 and title[0].lower() in RANKS and rest[0][0].lower() in HONORIFICS:
            title, rest = words[1], words[2:]
        folded = title[0].lower().rstrip(".")
        if folded not in HONORIFICS or rest[0][0].islower():
            break
        if _is_no_person([word[0] for word in rest]):
            break
        addressed = True
        if len(rest) == 1 and folded not in COURTESIES:
            break
        words = rest
    return words, addressed


def _is_adjective(word: str) -> bool:
    """Return whether the word joins origins or dates, as "German-Ukrainian" and "May–June" do."""
    parts = re.split("[-‐‑–]", word.lower())
    return len(parts) > 1 and all(part in DEMONYMS or part in CALENDAR for part in parts)


def _is_no_person(words: list[str]) -> bool:
    """Return whether the words behind a title of address are no person's name.

    They are none in "Major League Baseball" and "Prince Edward Island".
    """
    folded = [word.lower() for word in words]
    if not ORGANIZATION_HEADS.isdisjoint(folded):
        return True
    return folded[-1] in LOCATION_HEADS and folded[-1] not in SURNAME_HEADS


def _is_common_noun(word: str) -> bool:
    """Return whether the word only says what kind of thing it is: "the Guild", "Universities"."""
    folded = word.lower()
    forms = {folded, folded.removesuffix("s"), re.sub("ies$", "y", folded)}
    return not forms.isdisjoint(_KIND_WORDS) and folded not in SURNAME_HEADS


def _is_lone_acronym(words: list[re.Match[str]], sentence: str) -> bool:
    """Return whether the words are one word in capitals between words that are not: WHO, US, IT.

    A word alone on the first line is a mark on the paper, such as CONFIDENTIAL, and does not count.
    """
    if len(words) != 1 or len(words[0][0]) < 2 or not words[0][0].isupper():
        return False
    before = sentence[: words[0].start()]
    after = sentence[words[0].end() :]
    if not before.strip() and _LINE_ENDS.match(sentence, words[0].end()):
        return False
    neighbours = before.split()[-1:] + after.split(maxsplit=1)[:1]
    return not any(len(word) > 1 and word.isupper() for word in neighbours)


def _can_be_name(words: list[str], strict: bool) -> bool:
    """Return whether the words can be a name.

    If ``strict``, a lone word must not be one that usually means something else.
    """
    if not any(word[0].isalpha() and not _is_initial(word) for word in words):
        return False
    first = _POSSESSIVE.sub("", words[0])
    if len(words) == 1:
        letters = len(first) - first.count(".")
        folded = first.lower()
        forms = {folded.rstrip("."), folded.rpartition("-")[2]}
        excluded = _NEVER_ALONE if strict else _NEVER_NAMES
        is_common = not forms.isdisjoint(excluded) or _is_adjective(first)
        return letters > 1 and not is_common and not _ROMAN.match(first)
    if len(words) == 2:
        if words[1].lower() in DEMONYMS:
            return False
        has_number = words[1].isdigit() or _ROMAN.match(words[1]) is not None
        return not (has_number and first.lower() in LABELS)
    return True


def _is_initial(word: str) -> bool:
    """Return whether the word is one letter with a full stop."""
    return len(word) == 2 and word[1] == "."


def _length_of_ending(word: str) -> int:
    """Return how many characters at the end of the last word do not belong to the name.

    They are a possessive "'s", or the full stop behind "Vitamin C".
    """
    possessive = _POSSESSIVE.search(word)
    if possessive:
        return len(possessive[0])
    return 1 if _is_initial(word) else 0


def _with_year(sentence: str, start: int, end: int) -> tuple[int, int]:
    """Extend the span of an event to the year before or behind it, if there is one."""
    before = _YEAR_BEFORE.search(sentence, max(0, start - _WIDTH_OF_YEAR), start)
    if before:
        return before.start(), end
    after = _YEAR_AFTER.match(sentence, end)
    return start, after.end() if after else end


def _is_person(sentence: str, words: list[str], end: int) -> bool:
    """Return whether a name has initials of given names, or the dates of a life behind it."""
    if any(_is_initial(word) for word in words[:-1]):
        return True
    return _LIFE_DATES.match(sentence, end) is not None and not words[0].isupper()


def _character_before(sentence: str, place: int) -> str:
    """Return the last character before ``place`` that is no space, or "" at the beginning."""
    while place > 0 and sentence[place - 1] in " \t":
        place -= 1
    return sentence[place - 1 : place]


def _after_preposition(sentence: str, place: int) -> bool:
    """Return whether a German preposition or a punctuation mark stands before ``place``."""
    before = sentence[max(0, place - _WIDTH_OF_PREPOSITION) : place].split()
    if not before:
        return False
    return before[-1] in GERMAN_PREPOSITIONS or not before[-1][-1].isalnum()


def _on_one_line(text: str) -> str:
    """Return the name with single spaces, no space behind a hyphen and no comma before "Jr"."""
    spaced = " ".join(text.split())
    return _JUNIOR_COMMA.sub("", _HYPHEN_AND_SPACE.sub("-", spaced))
