"""A text read sentence by sentence: the names and key phrases in each, and which entity each name
refers to."""

import re
from collections import defaultdict
from itertools import islice, pairwise
from typing import NamedTuple

from pipeline.phrases.evidence import kind_of_qualifier
from pipeline.phrases.keyphrases import Phrase, candidate_phrases
from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.phrases.lines import cut_spans, read_layout
from pipeline.phrases.names import Name, is_chinese, short_forms
from pipeline.phrases.statements import statement
from pipeline.phrases.titles import Gazetteer, title_aliases, title_name
from pipeline.text.ids import match_key
from pipeline.text.sentences import sentence_spans

_WORD = re.compile(r"[^\W\d_]+")
_LANGUAGE_SAMPLE = 1000
_BETWEEN_ALIASES = re.compile(r"[\"”»》」』]?\s?[(（]\s?[\"“«]?$")
_AFTER_ALIAS = re.compile(r"[\"”»]?\s?[)）,，;；]")
TITLE = "title"


class Sentence(NamedTuple):
    """Offsets of names and phrases are into ``text``; ``aliases`` are pairs of places in ``names``,
    ``stated`` the places of two neighbours with what the sentence says of them; ``row``: it is one
    of a table."""

    text: str
    names: list[Name]
    phrases: list[Phrase]
    aliases: list[tuple[int, int]]
    stated: list[tuple[int, int, str]]
    row: bool


def read_sentences(text: str, gazetteer: Gazetteer) -> list[Sentence]:
    """The text's sentences, white space around them taken off; blank ones are left out."""
    from pipeline.phrases.caseless import is_caseless, read_caseless
    from pipeline.phrases.chinese import read_chinese
    from pipeline.phrases.latin import (
        find_names,
    )  # its patterns take 0.1 s to compile: not for a plan

    layout = read_layout(text)
    spans = [
        _stripped(text, start, end) for start, end in cut_spans(sentence_spans(text), layout.cuts)
    ]
    sentences = [(start, text[start:end]) for start, end in spans if start < end]
    chinese = {start: sentence for start, sentence in sentences if is_chinese(sentence)}
    caseless = {
        start: sentence
        for start, sentence in sentences
        if start not in chinese and is_caseless(sentence)
    }
    read = dict(zip(chinese, read_chinese([*chinese.values()], gazetteer), strict=True))
    read |= zip(caseless, read_caseless([*caseless.values()], gazetteer), strict=True)
    language = guess_language(
        [word[0] for word in islice(_WORD.finditer(text.lower()), _LANGUAGE_SAMPLE)]
    )
    result = []
    for start, sentence in sentences:
        reading = layout.reading[start : start + len(sentence)]
        if start in read:
            names, phrases = read[start]
        else:
            names = find_names(reading, gazetteer, language, start in layout.cells)
            phrases = candidate_phrases(reading, names, stop_words(language))
        stated = _stated(reading, names) if language == "en" else []
        result.append(
            Sentence(
                sentence, names, phrases, _aliases(sentence, names), stated, start in layout.cells
            )
        )
    return result


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the white space around it."""
    span = text[start:end]
    return start + len(span) - len(span.lstrip()), start + len(span.rstrip())


def _stated(reading: str, names: list[Name]) -> list[tuple[int, int, str]]:
    """What the sentence states of names that are neighbours in it; nothing of two that overlap."""
    pairs = (
        (place, place + 1, statement(reading, name.start, name.end, other.start, other.end))
        for place, (name, other) in enumerate(pairwise(names))
        if other.start > name.end
    )
    return [(place, other, said) for place, other, said in pairs if said]


def _aliases(sentence: str, names: list[Name]) -> list[tuple[int, int]]:
    """Pairs "name (other name)": of two scripts, or an acronym and what it stands for."""
    return [
        (place, place + 1)
        for place, (name, other) in enumerate(pairwise(names))
        if other.start - name.end in range(1, 6)
        and _BETWEEN_ALIASES.match(sentence[name.end : other.start])
        and _AFTER_ALIAS.match(sentence, other.end)
        and (is_chinese(name.text) != is_chinese(other.text) or _is_acronym(other.text, name.text))
    ]


def _is_acronym(short: str, long: str) -> bool:
    initials = "".join(word[0] for word in _WORD.findall(long) if word[0].isupper())
    return len(short) > 1 and short.replace(".", "") == initials


class Referent(NamedTuple):
    """An entity as one text knows it; ``key`` is its match key."""

    key: str
    name: str
    type: str


class OwnTitle:
    """The title of the document that a text is from: its entity, and the other names it goes by."""

    def __init__(self, title: str) -> None:
        name = title_name(title)
        self.referent = (
            Referent(match_key(name), name, kind_of_qualifier(name) or TITLE)
            if name.strip()
            else None
        )
        aliases = [Referent(match_key(alias), alias, "name") for alias in title_aliases(title)]
        self.aliases = [
            alias for alias in aliases if self.referent and alias.key != self.referent.key
        ]

    def learn_type(self, names: list[Name]) -> None:
        """The type that the text's names give it, where its brackets tell none."""
        if self.referent and self.referent.type == TITLE:
            forms = {form.name for form in [self.referent, *self.aliases]}
            told = next(
                (name.type for name in names if name.type != "name" and name.text in forms), TITLE
            )
            self.referent = self.referent._replace(type=told)

    def by_key(self) -> dict[str, Referent]:
        """The title's referent by its match key and those of its aliases."""
        return {
            known.key: self.referent
            for known in [*self.aliases, self.referent]
            if known and self.referent
        }


def resolve_names(names: list[Name], title: OwnTitle, gazetteer: Gazetteer) -> dict[str, Referent]:
    """The referent of each name by the text of the name; a doubtful one that nothing confirms has
    none.

    A lone word is short for the one longer name of the text that begins or ends with it, before all
    for the document's title, unless it is a title of the gazetteer. A name that has more or fewer
    words between the title's first and last ("Ann B. Moor" where the title is "Ann Moor") is the
    title's. What the text calls a place is short for no person.
    """
    keys = {text: match_key(text) for text in dict.fromkeys(name.text for name in names)}
    known = _known(names, keys, title)
    owners = _owners_of_short_forms(known)
    resolved = {}
    for text, key in keys.items():
        possible = owners.get(key, []) if key not in gazetteer.keys else []
        if key in known and known[key].type == "location":
            possible = [owner for owner in possible if owner.type == "location"]
        if title.referent in possible or (key not in gazetteer.keys and _is_variant(text, title)):
            resolved[text] = title.referent
        elif len(possible) == 1:
            resolved[text] = possible[0]
        elif key in known:
            resolved[text] = known[key]
    return resolved


def _known(names: list[Name], keys: dict[str, str], title: OwnTitle) -> dict[str, Referent]:
    """Match keys of names that are beyond doubt; the first spelling is the name, the first type
    that says more than "name" the type."""
    known: dict[str, Referent] = {}
    for name in names:
        key = keys[name.text]
        if name.doubtful:
            continue
        first = known.setdefault(key, Referent(key, name.text, name.type))
        if first.type == "name" != name.type:
            known[key] = first._replace(type=name.type)
    return known | title.by_key()


def _owners_of_short_forms(known: dict[str, Referent]) -> dict[str, list[Referent]]:
    owners: dict[str, list[Referent]] = defaultdict(list)
    for referent in dict.fromkeys(known.values()):
        for short in short_forms(referent.name, referent.type):
            owners[match_key(short)].append(referent)
    return owners


def _is_variant(name: str, title: OwnTitle) -> bool:
    ends = _ends_of_person(name)
    forms = [form.name for form in [*title.aliases, title.referent] if form]
    return ends is not None and any(ends == _ends_of_person(form) for form in forms)


def _ends_of_person(name: str) -> tuple[str, str] | None:
    """First and last word of a name of two to four capitalised words."""
    words = name.split()
    personal = len(words) in range(2, 5) and all(
        word[0].isupper() and word[-1] != "," for word in words
    )
    return (words[0], words[-1]) if personal else None
