"""Find names and key nouns in Chinese sentences, by part-of-speech tags (jieba) and punctuation."""

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

# Tags of jieba: n noun, nr person, ns place, nt organization, nz other name, s location,
# j abbreviation, ng noun morpheme, nrt transliterated person, nis institution, v verb,
# vn verbal noun, uj particle 的, c conjunction, d adverb.
_KINDS = {"nr": "person", "ns": "location", "nt": "organization", "nz": "name"}
_NAME_PART_TAGS = ("n", "s", "j", "ng", "nrt")
"""Words that may belong to a name though the tagger takes them for none."""
_HEAD_TAGS = ("n", "s", "j", "nis")
"""Words that may be the head of a name, such as 灯塔."""
_CHARACTER = re.compile(f"[{CHINESE}]")
_WORK = re.compile(r"《([^《》]{1,60})》")
_FOREIGN_PERSON = re.compile(rf"[{TRANSLITERATION}]{{1,6}}(?:[·•‧][{TRANSLITERATION}]{{1,8}})+")
_OPENS_LATIN_NAME = re.compile(rf"[(（]\s?(?=[{UPPER}])")
_QUOTED_AT_END = re.compile(r"[“「『《]([^“”「」『』《》]{2,20})[”」』》]\s?$")
_FOREIGN_AT_END = re.compile(_FOREIGN_PERSON.pattern + r"\s?$")
_NAME_LENGTH = range(2, 21)
_LOOK_BACK = 6
"""The most words before a bracket with a Latin name that may be the Chinese name."""
_MOST_BEFORE_BRACKET = 30
"""The characters before such a bracket in which a quoted or a foreign name is looked for."""


class _Word(NamedTuple):
    """A word of a sentence with its position and its part-of-speech tag."""

    start: int
    text: str
    tag: str

    @property
    def kind(self) -> str | None:
        """The type of entity that the tag tells, or None."""
        kind = _KINDS.get(self.tag[:2])
        if kind != "location":
            return kind
        # Some verbs with a result, such as 做完, are tagged as places.
        is_verb = len(self.text) == 2 and self.text[1] in CHINESE_RESULTS
        return None if is_verb else kind


def read_chinese(
    sentences: list[str], gazetteer: Gazetteer
) -> list[tuple[list[Name], list[Phrase]]]:
    """Return the names of each sentence, in the order of their positions, and its key words.

    The sentences are of one text. A name that one of them marks is found in all: a work in 《》, a
    name with its Latin form, a foreign name with dots.
    """
    tagged = [_tag(sentence) for sentence in sentences]
    marked, likely = _collect_names(sentences, tagged)
    # Names that are marked are surer, so the others are only looked for beside them.
    marked_finder = Gazetteer(marked)
    likely_finder = Gazetteer(likely.keys() - marked.keys())
    result: list[tuple[list[Name], list[Phrase]]] = []
    for sentence, words in zip(sentences, tagged, strict=True):
        names = [title for title in gazetteer.find(sentence) if is_chinese(title.text)]
        for finder, kinds in ((marked_finder, marked), (likely_finder, likely)):
            found = [name._replace(type=kinds[name.text]) for name in finder.find(sentence)]
            names = _add_apart(names, found)
        # Each Chinese character becomes one of punctuation, so positions stay.
        without_chinese = _CHARACTER.sub("，", sentence)
        latin = find_latin_names(without_chinese, gazetteer, "zh")
        names = _add_apart(names, latin)
        key_words = list(_key_words(words, names))
        result.append((names, key_words))
    return result


def _collect_names(
    sentences: list[str], tagged: list[list[_Word]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Map the names that punctuation marks, and those that are only likely, to their types."""
    marked: dict[str, str] = {}
    # A dictionary, as a set would not keep the order in which the text has the names.
    guesses: dict[tuple[str, str], None] = {}
    evident: set[str] = set()
    for sentence, words in zip(sentences, tagged, strict=True):
        evident.update(_evident_persons(words))
        guesses.update(dict.fromkeys(_likely_names(words)))
        for name, kind in _marked_names(sentence, words):
            marked.setdefault(name, kind)
    likely = {name: kind for name, kind in guesses if _is_credible(name, kind, evident)}
    for name in marked:
        # A text may call a foreign person by a part of the name behind a dot.
        later_parts = re.split("[·•‧]", name)[1:]
        for part in later_parts:
            if len(part) in _NAME_LENGTH:
                likely[part] = "person"
    return marked, likely


def _tag(sentence: str) -> list[_Word]:
    """Split the sentence into words with part-of-speech tags."""
    import rjieba  # its dictionary takes 35 MB: only Chinese texts pay for it

    words: list[_Word] = []
    start = 0
    for text, tag in rjieba.tag(sentence):
        words.append(_Word(start, text, tag))
        start += len(text)
    return words


def _marked_names(sentence: str, words: list[_Word]) -> Iterator[tuple[str, str]]:
    """Yield (name, type) for names that punctuation marks: 《work》, dots, brackets behind them."""
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
    """Return the name that ends at ``end``, before a bracket with its Latin form, and its type.

    The name is empty if there is none.
    """
    text_before = sentence[max(0, end - _MOST_BEFORE_BRACKET) : end]
    quoted = _QUOTED_AT_END.search(text_before)
    if quoted:
        return quoted[1], "name"
    foreign = _FOREIGN_AT_END.search(text_before)
    if foreign:
        return foreign[0].strip(), "person"
    # Words are taken backwards from the bracket, as long as they can belong to a name.
    last = bisect_left(words, end, key=lambda word: word.start) - 1
    name_words: list[_Word] = []
    while last >= 0 and len(name_words) < _LOOK_BACK and _continues_name(words, last):
        word = words[last]
        name_words.insert(0, word)
        last -= 1
        begins_with_preposition = _without_preposition(word.text) != word.text
        if begins_with_preposition:
            break
    if not name_words:
        return "", "name"
    # The name begins with the first word that the tagger takes for one.
    first = next((place for place, word in enumerate(name_words) if word.kind), 0)
    text = _join_without_preposition(name_words[first:])
    return text, _more_precise_kind(text, name_words[first].kind or "name")


def _more_precise_kind(name: str, kind: str) -> str:
    """Return the type of a name, given the type ``kind`` that the tagger tells.

    A head such as 灯塔 is surer than the tagger. What the tagger takes for a person is one for sure
    only if it is short and begins with a surname.
    """
    if kind == "person" and len(name) <= 3 and name[0] in SURNAMES:
        return kind
    kind_of_head = chinese_head(name)
    if kind_of_head:
        return kind_of_head
    return "name" if kind == "person" else kind


def _continues_name(words: list[_Word], place: int) -> bool:
    """Return whether the word at ``place`` can belong to a name that goes on behind it."""
    word = words[place]
    if word.kind or word.tag in _NAME_PART_TAGS:
        return True
    is_character = len(word.text) == 1 and _CHARACTER.match(word.text) is not None
    if not is_character or word.tag in ("uj", "c", "d"):
        return False
    follows_person = place > 0 and words[place - 1].tag.startswith("nr")
    return follows_person


def _likely_names(words: list[_Word]) -> Iterator[tuple[str, str]]:
    """Yield (name, type) for words tagged as names, with the head behind them if there is one."""
    place = 0
    while place < len(words):
        start, kind = place, words[place].kind
        if kind is None:
            place += 1
            continue
        while place < len(words) and words[place].kind:
            place += 1
        place += _length_of_head(words, place)
        text = _join_without_preposition(words[start:place])
        may_be_name = len(text) in _NAME_LENGTH and _CHARACTER.match(text)
        if may_be_name and not _is_common(text):
            yield text, _more_precise_kind(text, kind)


def _length_of_head(words: list[_Word], place: int) -> int:
    """Return how many words from ``place`` on are the head of a name before them, 0 to 2.

    A head of one word is 灯塔, one of two is 潮汐 + 学会.
    """
    for length in (1, 2):
        next_words = words[place : place + length]
        if len(next_words) < length:
            return 0
        are_nouns = all(word.tag in _HEAD_TAGS for word in next_words)
        # A head alone is no name, so a character stands for the name before it.
        if are_nouns and chinese_head("〇" + next_words[-1].text):
            return length
    return 0


def _join_without_preposition(words: list[_Word]) -> str:
    text = "".join(word.text for word in words)
    return _without_preposition(text)


def _without_preposition(text: str) -> str:
    """Return the text without a preposition that the tagger has joined to its front."""
    has_preposition = len(text) > 2 and text[0] in CHINESE_PREPOSITIONS
    return text[1:] if has_preposition else text


def _evident_persons(words: list[_Word]) -> Iterator[str]:
    """Yield the people whom a neighbouring word confirms: 船长高明, 由高明设计, 高明说."""
    for place, word in enumerate(words):
        if word.kind != "person":
            continue
        is_confirmed = False
        if place > 0:
            previous = words[place - 1]
            is_title = previous.tag == "n" and previous.text[-1] in CHINESE_PERSON_ENDS
            is_confirmed = is_title or previous.text == "由"
        if not is_confirmed and place + 1 < len(words):
            is_confirmed = words[place + 1].text in CHINESE_AFTER_PERSON
        if is_confirmed:
            yield _without_preposition(word.text)


def _is_credible(name: str, kind: str, evident: set[str]) -> bool:
    """Return whether a likely name is kept.

    The tagger takes many rare words for people, however often they occur. Therefore a name of two
    characters, or with a word of time as its third, is kept only if it is among the ``evident``
    people.
    """
    if kind == "name":
        return len(name) > 2
    if kind != "person":
        return True
    if name[0] not in SURNAMES:
        return False
    ends_with_time = len(name) == 3 and name[-1] in CHINESE_TIMES
    may_be_a_word = len(name) == 2 or ends_with_time
    return name in evident or not may_be_a_word


def _is_common(text: str) -> bool:
    return text in stop_words("zh")


def _add_apart(names: list[Name], more: list[Name]) -> list[Name]:
    """Return ``names`` and those of ``more`` that overlap none of them, sorted by position."""
    taken = _places_of(names)
    apart: list[Name] = []
    for name in more:
        places = range(name.start, name.end)
        if taken.isdisjoint(places):
            apart.append(name)
    return sorted([*names, *apart])


def _places_of(names: list[Name]) -> set[int]:
    """Return the positions of all characters of the names."""
    places: set[int] = set()
    for name in names:
        places.update(range(name.start, name.end))
    return places


def _key_words(words: list[_Word], names: list[Name]) -> Iterator[Phrase]:
    """Yield nouns and verbs of two characters or more that are in no name and no stop words."""
    taken = _places_of(names)
    for start, text, tag in words:
        is_content = tag in ("n", "vn", "v") and len(text) > 1
        if not is_content or start in taken or _is_common(text):
            continue
        # A verb only describes a relationship; a verbal noun may stand for a concept.
        is_noun = tag != "v"
        yield Phrase(start, start + len(text), text, is_noun)
