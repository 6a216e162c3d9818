"""Quoted names and key phrases in scripts that have no capital letters, which would tell a name.

Arabic, Hebrew, the scripts of India, Hangul, Thai and the like: decided by the letters of a
sentence, not by a list of languages. Chinese has a reader of its own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import regex

from pipeline.phrases.keyphrases import MAX_WORDS, Phrase
from pipeline.phrases.latin import find_names as find_latin_names
from pipeline.phrases.lexicon import (
    JOINED_PREFIXES,
    KOREAN_PARTICLES,
    SCRIPTS,
    best_language,
    stop_words,
)
from pipeline.phrases.names import Name
from pipeline.phrases.titles import Gazetteer

if TYPE_CHECKING:
    from budoux import Parser

_CASELESS = regex.compile(r"[\p{Lo}--[\p{Han}\p{Latin}]]", regex.V1)
_CASED = regex.compile(r"[\p{Lu}\p{Ll}\p{Lt}]")
_NOT_LATIN = regex.compile(r"[\p{Lo}\p{Lm}\p{M}]")
_SCRIPT = {name: regex.compile(rf"\p{{{name}}}") for name in SCRIPTS}
# What stands between kana is a word of Japanese. Elsewhere vowel signs and joiners belong to the
# word.
_TOKEN = regex.compile(
    r"\p{Han}+|[\p{Katakana}ー]+|\p{Hiragana}+|[\p{L}\p{M}\u200c\u200d--[\p{Han}\p{Katakana}\p{Hiragana}]]+|[^\s]",
    regex.V1,
)
_THAI = regex.compile(r"\p{Thai}+")
_HIRAGANA = regex.compile(r"\p{Hiragana}")
_HANGUL = regex.compile(r"[가-힣]+")
_LETTER = regex.compile(r"\p{L}")
_QUOTED = regex.compile(
    r"«([^«»]+)»|“([^“”„]+)”|„([^“”„]+)[“”]|\"([^\"]+)\"|「([^「」]+)」|『([^『』]+)』|《([^《》]+)》"
)
_NO_NAME = regex.compile(r"[.,;:!?،؛؟।。、\n]")
_NAME_LENGTH = range(2, 41)
_NAME_WORDS = 4
_MIN_LETTERS = 3
_MIN_SYLLABLES = 2
_MIN_STEM = {"Hangul": 2, "Arabic": 3, "Hebrew": 3}
_PREDICATE_ENDS = frozenset("다요까죠")
_REPEATED = 2
_HANGUL_START, _FINALS, _FINAL_L = 0xAC00, 28, 8


class _Word(NamedTuple):
    """``text``: without what the script joins to it."""

    start: int
    end: int
    text: str


def is_caseless(text: str) -> bool:
    """Whether more of the text's letters belong to a script without capitals, save Chinese, than to
    one with them."""
    if text.isascii() or not _CASELESS.search(text):
        return False
    return len(_CASELESS.findall(text)) > len(_CASED.findall(text))


def read_caseless(
    sentences: list[str], gazetteer: Gazetteer
) -> list[tuple[list[Name], list[Phrase]]]:
    """Each sentence's names, in order of place, and key phrases.

    The sentences are of one text. Names are what stands in quotation marks, and names in Latin
    letters. Key phrases are, of the runs of words between stop words and punctuation (as RAKE has
    them), those pieces of up to three words that the text repeats, the longest first: without
    capitals a run that stands there once is seldom a term.
    """
    if not sentences:
        return []
    whole = "\n".join(sentences)
    script = _script(whole)
    tokens = [list(_tokens(sentence, script)) for sentence in sentences]
    language = best_language(
        [word.text for words in tokens for word in words], SCRIPTS.get(script, ())
    )
    stop = stop_words(language) if language else frozenset()
    if script in _MIN_STEM:
        bare = _bare_forms(Counter(word.text for words in tokens for word in words), script, stop)
        tokens = [
            [word._replace(text=bare.get(word.text, word.text)) for word in words]
            for words in tokens
        ]
    names = [_names(sentence, gazetteer) for sentence in sentences]
    runs = [
        list(_runs(words, found, script, stop)) for words, found in zip(tokens, names, strict=True)
    ]
    counts = Counter(_joined(piece) for found in runs for run in found for piece in _pieces(run))
    shortest = 1 if language else 2  # without stop words a lone word may be any
    return [
        (found, [phrase for run in some for phrase in _phrases(run, counts, shortest)])
        for found, some in zip(names, runs, strict=True)
    ]


def _script(text: str) -> str:
    """That of SCRIPTS which at least half of the letters belong to, "" where none does."""
    counts = {name: len(letters.findall(text)) for name, letters in _SCRIPT.items()}
    most = max(counts, key=counts.__getitem__)
    return most if 2 * counts[most] >= len(_CASELESS.findall(text)) else ""


def _tokens(sentence: str, script: str) -> Iterator[_Word]:
    for found in _TOKEN.finditer(sentence):
        if script == "Thai" and _THAI.fullmatch(found[0]):
            start = found.start()
            for piece in _thai_parser().parse(found[0]):
                yield _Word(start, start + len(piece), piece)
                start += len(piece)
        else:
            yield _Word(found.start(), found.end(), found[0])


@cache
def _thai_parser() -> "Parser":
    from budoux import load_default_thai_parser  # it reads its model: only Thai texts pay for it

    return load_default_thai_parser()


def _bare_forms(counts: Counter[str], script: str, stop: frozenset[str]) -> dict[str, str]:
    """Words without the particle (Korean) or the joined prefix (Arabic, Hebrew), where that is sure
    enough.

    A prefix goes where the rest is a word of the text too, or a stop word; a particle where it
    agrees with the sound before it (는 after a vowel, 은 after a consonant) and the word takes no
    particle itself elsewhere in the text.
    """
    split = _without_particle if script == "Hangul" else _without_prefix
    rest = {
        word: bare
        for word in counts
        if (bare := split(word, script)) and len(bare) >= _MIN_STEM[script]
    }
    if script == "Hangul":
        stems = set(rest.values())
        return {word: bare for word, bare in rest.items() if word not in stems}
    return {word: bare for word, bare in rest.items() if bare in counts or bare in stop}


def _without_particle(word: str, script: str) -> str | None:
    if not _HANGUL.fullmatch(word):
        return None
    return next(
        (stem for particle, after in KOREAN_PARTICLES if (stem := _stem(word, particle, after))),
        None,
    )


def _stem(word: str, particle: str, after: str) -> str | None:
    stem = word.removesuffix(particle)
    if not stem or stem == word:
        return None
    final = (ord(stem[-1]) - _HANGUL_START) % _FINALS
    closed = bool(final) and not (particle.startswith("로") and final == _FINAL_L)
    return stem if after == "any" or (after == "consonant") == closed else None


def _without_prefix(word: str, script: str) -> str | None:
    return next(
        (word[len(prefix) :] for prefix in JOINED_PREFIXES[script] if word.startswith(prefix)), None
    )


def _names(sentence: str, gazetteer: Gazetteer) -> list[Name]:
    quoted = []
    for found in _QUOTED.finditer(sentence):
        group = found.lastindex or 0
        text = found[group].strip()
        words = len(text.split()) <= _NAME_WORDS and len(text) in _NAME_LENGTH
        if words and _LETTER.search(text) and not _NO_NAME.search(text):
            start = found.start(group) + found[group].index(text)
            quoted.append(Name(start, start + len(text), text))
    taken = [(name.start, name.end) for name in quoted]
    latin = find_latin_names(_NOT_LATIN.sub("，", sentence), gazetteer, "en")
    apart = [
        name
        for name in latin
        if all(name.end <= start or end <= name.start for start, end in taken)
    ]
    return sorted([*quoted, *apart])


def _runs(
    words: list[_Word], names: list[Name], script: str, stop: frozenset[str]
) -> Iterator[list[_Word]]:
    """Content words that follow each other; the predicate that ends a Korean sentence is none. A
    particle ends a run, a joined prefix begins one."""
    predicate = _predicate(words) if script == "Hangul" else None
    run: list[_Word] = []
    for word in words:
        named = any(name.start < word.end and word.start < name.end for name in names)
        cut = len(word.text) < word.end - word.start
        if named or word == predicate or not _is_content(word.text, stop):
            yield run
            run = []
        elif cut and script == "Hangul":
            yield [*run, word]
            run = []
        elif cut:
            yield run
            run = [word]
        else:
            run.append(word)
    yield run


def _predicate(words: list[_Word]) -> _Word | None:
    last = next((word for word in reversed(words) if _LETTER.search(word.text)), None)
    return last if last and last.text[-1] in _PREDICATE_ENDS else None


def _is_content(word: str, stop: frozenset[str]) -> bool:
    if word in stop or not _NOT_LATIN.search(word) or _HIRAGANA.search(word):
        return False
    short = _MIN_SYLLABLES if regex.match(r"[\p{Hangul}\p{Han}]", word) else _MIN_LETTERS
    return len(word) >= short


def _pieces(run: list[_Word]) -> Iterator[list[_Word]]:
    for start in range(len(run)):
        for length in range(1, MAX_WORDS + 1):
            if start + length <= len(run):
                yield run[start : start + length]


def _phrases(run: list[_Word], counts: Counter[str], shortest: int) -> Iterator[Phrase]:
    """The run in pieces: from its start on always the longest one that is repeated."""
    start = 0
    while start < len(run):
        lengths = range(min(MAX_WORDS, len(run) - start), 0, -1)
        length = next(
            (size for size in lengths if counts[_joined(run[start : start + size])] >= _REPEATED), 1
        )
        piece = run[start : start + length]
        text = _joined(piece)
        noun = length >= shortest and counts[text] >= _REPEATED
        yield Phrase(piece[0].start, piece[-1].end, text, noun)
        start += length


def _joined(words: Iterable[_Word]) -> str:
    """The words with a space where the text has one."""
    words = list(words)
    gaps = [" " if after.start > word.end else "" for word, after in pairwise(words)]
    return "".join(word.text + gap for word, gap in zip(words, [*gaps, ""], strict=True))
