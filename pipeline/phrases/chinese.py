"""Names and key nouns in Chinese sentences, by part-of-speech tags (jieba) and the marks that
writers set."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.phrases.keyphrases import Phrase
from pipeline.phrases.latin import find_names as find_latin_names
from pipeline.phrases.lexicon import (
    CHINESE_AFTER_PERSON,
    CHINESE_PERSON_ENDS,
    CHINESE_PREPOSITIONS,
    CHINESE_RESULTS,
    CHINESE_TIMES,
    SURNAMES,
    TRANSLITERATION,
    stop_words,
)
from pipeline.phrases.names import CHINESE, UPPER, Name, chinese_head, is_chinese
from pipeline.phrases.titles import Gazetteer

_KINDS = {"nr": "person", "ns": "location", "nt": "organization", "nz": "name"}
_CHARACTER = re.compile(f"[{CHINESE}]")
_WORK = re.compile(r"《([^《》]{1,60})》")
_FOREIGN_PERSON = re.compile(rf"[{TRANSLITERATION}]{{1,6}}(?:[·•‧][{TRANSLITERATION}]{{1,8}})+")
_OPENS_LATIN_NAME = re.compile(rf"[(（]\s?(?=[{UPPER}])")
_QUOTED_AT_END = re.compile(r"[“「『《]([^“”「」『』《》]{2,20})[”」』》]\s?$")
_FOREIGN_AT_END = re.compile(_FOREIGN_PERSON.pattern + r"\s?$")
_NAME_LENGTH = range(2, 21)
_LOOK_BACK = 6


class _Word(NamedTuple):
    start: int
    text: str
    tag: str

    @property
    def kind(self) -> str | None:
        found = _KINDS.get(self.tag[:2])
        verb = found == "location" and len(self.text) == 2 and self.text[1] in CHINESE_RESULTS
        return None if verb else found


def read_chinese(
    sentences: list[str], gazetteer: Gazetteer
) -> list[tuple[list[Name], list[Phrase]]]:
    """Each sentence's names, in order of place, and key words.

    The sentences are of one text: a name that one of them makes plain (a work in 《》, a name with
    its Latin form, a dotted foreign name) is found in all.
    """
    tagged = [_tag(sentence) for sentence in sentences]
    plain: dict[str, str] = {}
    guesses: list[tuple[str, str]] = []
    evident = {name for words in tagged for name in _evident_persons(words)}
    for sentence, words in zip(sentences, tagged, strict=True):
        for name, kind in _plain_names(sentence, words):
            plain.setdefault(name, kind)
        guesses.extend(_likely_names(words))
    likely = {
        name: kind for name, kind in dict.fromkeys(guesses) if _is_credible(name, kind, evident)
    }
    for name in plain:
        likely.update(
            {part: "person" for part in re.split("[·•‧]", name)[1:] if len(part) in _NAME_LENGTH}
        )
    finders = [(Gazetteer(plain), plain), (Gazetteer(likely.keys() - plain.keys()), likely)]
    result = []
    for sentence, words in zip(sentences, tagged, strict=True):
        names = [name for name in gazetteer.find(sentence) if is_chinese(name.text)]
        for finder, kinds in finders:
            names = _added(
                names, [name._replace(type=kinds[name.text]) for name in finder.find(sentence)]
            )
        names = _added(names, find_latin_names(_CHARACTER.sub("，", sentence), gazetteer, "zh"))
        result.append((names, list(_key_words(words, names))))
    return result


def _tag(sentence: str) -> list[_Word]:
    words, start = [], 0
    import rjieba  # its dictionary takes 35 MB: only Chinese texts pay for it

    for text, tag in rjieba.tag(sentence):
        words.append(_Word(start, text, tag))
        start += len(text)
    return words


def _plain_names(sentence: str, words: list[_Word]) -> Iterator[tuple[str, str]]:
    """(name, type) where the writing itself marks a name."""
    for found in _WORK.finditer(sentence):
        if is_chinese(found[1]):
            yield found[1].strip(), "work"
    for found in _FOREIGN_PERSON.finditer(sentence):
        yield found[0], "person"
    for found in _OPENS_LATIN_NAME.finditer(sentence):
        name, kind = _name_before(sentence, words, found.start())
        if len(name) in _NAME_LENGTH:
            yield name, kind


def _name_before(sentence: str, words: list[_Word], end: int) -> tuple[str, str]:
    before = sentence[max(0, end - 30) : end]
    if quoted := _QUOTED_AT_END.search(before):
        return quoted[1], "name"
    if foreign := _FOREIGN_AT_END.search(before):
        return foreign[0].strip(), "person"
    last = bisect_left(words, end, key=lambda word: word.start) - 1
    run: list[_Word] = []
    while last >= 0 and len(run) < _LOOK_BACK and _continues_name(words, last):
        run.insert(0, words[last])
        last -= 1
        if _without_preposition(run[0].text) != run[0].text:
            break
    first = next((place for place, word in enumerate(run) if word.kind), 0)
    text = _without_preposition("".join(word.text for word in run[first:]))
    return text, _refined(text, run[first].kind or "name") if run else "name"


def _refined(name: str, kind: str) -> str:
    """The tagger's word for it, save that a head like 灯塔 says more, and that of what it takes for
    persons only short names that begin with a surname are sure to be."""
    personal = kind == "person" and len(name) <= 3 and name[0] in SURNAMES
    return kind if personal else chinese_head(name) or ("name" if kind == "person" else kind)


def _continues_name(words: list[_Word], place: int) -> bool:
    """Whether the word can be part of a name that goes on behind it."""
    word = words[place]
    if word.kind or word.tag in ("n", "s", "j", "ng", "nrt"):
        return True
    lone = len(word.text) == 1 and _CHARACTER.match(word.text) is not None
    return (
        lone
        and place > 0
        and words[place - 1].tag.startswith("nr")
        and word.tag not in ("uj", "c", "d")
    )


def _likely_names(words: list[_Word]) -> Iterator[tuple[str, str]]:
    """(name, type) of runs of words tagged as names, with a noun behind them that says what they
    name."""
    place = 0
    while place < len(words):
        start, kind = place, words[place].kind
        while place < len(words) and words[place].kind:
            place += 1
        if kind is None or place == start:
            place += 1
            continue
        place += _length_of_head(words, place)
        text = _without_preposition("".join(word.text for word in words[start:place]))
        if len(text) in _NAME_LENGTH and _CHARACTER.match(text) and not _is_common(text):
            yield text, _refined(text, kind)


def _length_of_head(words: list[_Word], place: int) -> int:
    """How many of the next words are the head of a name that begins before them: 灯塔, or 潮汐 + 学会."""  # noqa: E501
    for length in (1, 2):
        after = words[place : place + length]
        nouns = len(after) == length and all(word.tag in ("n", "s", "j", "nis") for word in after)
        if nouns and chinese_head("〇" + after[-1].text):
            return length
    return 0


def _without_preposition(text: str) -> str:
    return text[1:] if len(text) > 2 and text[0] in CHINESE_PREPOSITIONS else text


def _evident_persons(words: list[_Word]) -> Iterator[str]:
    """What is tagged as a person beside a word that says so: 船长高明, 由高明设计, 高明说."""
    for place, word in enumerate(words):
        before, after = (
            words[place - 1] if place else None,
            words[place + 1] if place + 1 < len(words) else None,
        )
        called = before and (
            before.text == "由" or (before.tag == "n" and before.text[-1] in CHINESE_PERSON_ENDS)
        )
        if word.kind == "person" and (called or (after and after.text in CHINESE_AFTER_PERSON)):
            yield _without_preposition(word.text)


def _is_credible(name: str, kind: str, evident: set[str]) -> bool:
    """The tagger takes many a rare word for a person, however often it is used: one of two
    characters, or with a word of time for its third, is a person where the text says so."""
    if kind == "person":
        rare = len(name) == 2 or (len(name) == 3 and name[-1] in CHINESE_TIMES)
        return name[0] in SURNAMES and (not rare or name in evident)
    return kind != "name" or len(name) > 2


def _is_common(text: str) -> bool:
    return text in stop_words("zh")


def _added(names: list[Name], more: list[Name]) -> list[Name]:
    """Both in order of place, of ``more`` only what overlaps none of ``names``."""
    taken = {place for name in names for place in range(name.start, name.end)}
    return sorted(
        [*names, *(name for name in more if taken.isdisjoint(range(name.start, name.end)))]
    )


def _key_words(words: list[_Word], names: list[Name]) -> Iterator[Phrase]:
    taken = {place for name in names for place in range(name.start, name.end)}
    for word in words:
        content = word.tag in ("n", "vn", "v") and len(word.text) > 1 and word.start not in taken
        if content and not _is_common(word.text):
            yield Phrase(word.start, word.start + len(word.text), word.text, word.tag != "v")
