"""A text read sentence by sentence: the names and key phrases in each."""

import re
from itertools import islice, pairwise
from typing import NamedTuple

from pipeline.phrases.chinese import read_chinese
from pipeline.phrases.gazetteer import Gazetteer
from pipeline.phrases.keyphrases import Phrase, candidate_phrases
from pipeline.phrases.latin import find_names
from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.phrases.name import Name
from pipeline.phrases.script import is_chinese
from pipeline.sentences import sentence_spans

_WORD = re.compile(r"[^\W\d_]+")
# A line that the page's width did not end: a heading, an address, a signature.
_SHORT_LINE = re.compile(r"^(.{0,40})\n", re.MULTILINE)
_LANGUAGE_SAMPLE = 1000
_BETWEEN_ALIASES = re.compile(r"[\"”»》」』]?\s?[(（]\s?[\"“«]?$")
_AFTER_ALIAS = re.compile(r"[\"”»]?\s?[)）,，;；]")


class Sentence(NamedTuple):
    """Offsets of names and phrases are into ``text``; ``aliases`` are pairs of places in ``names``."""

    text: str
    names: list[Name]
    phrases: list[Phrase]
    aliases: list[tuple[int, int]]


def read_sentences(text: str, gazetteer: Gazetteer) -> list[Sentence]:
    """The text's sentences, white space around them taken off; blank ones are left out."""
    sentences = [text[start:end].strip() for start, end in sentence_spans(text)]
    sentences = [sentence for sentence in sentences if sentence]
    chinese = [sentence for sentence in sentences if is_chinese(sentence)]
    readings = iter(read_chinese(chinese, gazetteer))
    language = guess_language([word[0] for word in islice(_WORD.finditer(text.lower()), _LANGUAGE_SAMPLE)])
    result = []
    for sentence in sentences:
        if is_chinese(sentence):
            names, phrases = next(readings)
        else:
            divided = _SHORT_LINE.sub(r"\1|", sentence)
            names = find_names(divided, gazetteer, language)
            phrases = candidate_phrases(divided, names, stop_words(language))
        result.append(Sentence(sentence, names, phrases, _aliases(sentence, names)))
    return result


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
