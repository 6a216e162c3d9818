"""Find quoted names and key phrases in scripts without capital letters, which would mark a name.

Examples are Arabic, Hebrew, the scripts of India, Hangul and Thai. The letters of a sentence
decide, not a list of languages. Chinese has a reader of its own, in `chinese.py`.
"""

from collections import Counter
from collections.abc import Iterator
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
# Words of Japanese are split where the script changes between kanji, katakana and hiragana. In
# other scripts, vowel signs and joiners belong to the word.
_TOKEN = regex.compile(
    r"\p{Han}+|[\p{Katakana}ー]+|\p{Hiragana}+|[\p{L}\p{M}\u200c\u200d--[\p{Han}\p{Katakana}\p{Hiragana}]]+|[^\s]",
    regex.V1,
)
_THAI = regex.compile(r"\p{Thai}+")
_HIRAGANA = regex.compile(r"\p{Hiragana}")
_HANGUL = regex.compile(r"[가-힣]+")
_SYLLABLE = regex.compile(r"[\p{Hangul}\p{Han}]")
"""A letter that stands for a syllable or a word, so that few of them make a word."""
_LETTER = regex.compile(r"\p{L}")
_QUOTED = regex.compile(
    r"«([^«»]+)»|“([^“”„]+)”|„([^“”„]+)[“”]|\"([^\"]+)\"|「([^「」]+)」|『([^『』]+)』|《([^《》]+)》"
)
_NO_NAME = regex.compile(r"[.,;:!?،؛؟।。、\n]")
_NAME_LENGTH = range(2, 41)
_NAME_WORDS = 4
"""The most characters and words of a quotation that is taken for a name."""
_MIN_LETTERS = 3
_MIN_SYLLABLES = 2
"""The fewest letters of a content word, and the fewest in Hangul and Han."""
_MIN_STEM = {"Hangul": 2, "Arabic": 3, "Hebrew": 3}
"""The fewest letters that are left of a word without its particle or prefix, by script."""
_PREDICATE_ENDS = frozenset("다요까죠")
"""The last syllables of Korean predicates."""
_REPEATED = 2
"""The fewest occurrences of a key phrase in the text."""
# A Hangul syllable's code is a start plus 28 times its first sounds plus its final consonant: 0 is
# none, 8 is ㄹ.
_HANGUL_START, _FINALS, _FINAL_L = 0xAC00, 28, 8


class _Word(NamedTuple):
    """A word of a sentence. ``text`` may be shorter than the span: it has no particle or prefix."""

    start: int
    end: int
    text: str


def is_caseless(text: str) -> bool:
    """Return whether most letters of the text belong to a script without capitals, save Chinese."""
    if text.isascii() or not _CASELESS.search(text):
        return False
    return len(_CASELESS.findall(text)) > len(_CASED.findall(text))


def read_caseless(
    sentences: list[str], gazetteer: Gazetteer
) -> list[tuple[list[Name], list[Phrase]]]:
    """Return the names of each sentence, in the order of their positions, and its key phrases.

    The sentences are of one text. Names are texts in quotation marks, and names in Latin letters.
    Candidates for key phrases are the runs of words between stop words and punctuation, as in RAKE.
    Of a run, those parts of up to three words are key phrases that the text repeats, the longest
    first. A run that occurs once is seldom a term in a script without capitals.
    """
    if not sentences:
        return []
    script = _main_script("\n".join(sentences))
    words_of_sentences = [list(_split_words(sentence, script)) for sentence in sentences]
    texts = [word.text for words in words_of_sentences for word in words]
    language = best_language(texts, SCRIPTS.get(script, ()))
    stop = stop_words(language) if language else frozenset[str]()
    if script in _MIN_STEM:
        bare_forms = _bare_forms(Counter(texts), script, stop)
        words_of_sentences = [_to_bare_forms(words, bare_forms) for words in words_of_sentences]
    names_of_sentences = [_find_names(sentence, gazetteer) for sentence in sentences]
    runs_of_sentences: list[list[list[_Word]]] = []
    # The whole text is counted before any sentence is split, so that its repetitions are known.
    counts: Counter[str] = Counter()
    for words, names in zip(words_of_sentences, names_of_sentences, strict=True):
        runs = list(_runs(words, names, script, stop))
        runs_of_sentences.append(runs)
        for run in runs:
            counts.update(_join_words(part) for part in _parts_of_run(run))
    # Without stop words a lone word may be any word, not only a term.
    fewest_words = 1 if language else 2
    result: list[tuple[list[Name], list[Phrase]]] = []
    for names, runs in zip(names_of_sentences, runs_of_sentences, strict=True):
        phrases: list[Phrase] = []
        for run in runs:
            phrases.extend(_split_run(run, counts, fewest_words))
        result.append((names, phrases))
    return result


def _to_bare_forms(words: list[_Word], bare_forms: dict[str, str]) -> list[_Word]:
    """Return the words with their bare forms as texts; their positions stay."""
    return [word._replace(text=bare_forms.get(word.text, word.text)) for word in words]


def _main_script(text: str) -> str:
    """Return the script of `SCRIPTS` that at least half of the letters belong to, or ""."""
    counts: dict[str, int] = {}
    for script, letter in _SCRIPT.items():
        counts[script] = len(letter.findall(text))
    most_frequent = max(counts, key=counts.__getitem__)
    n_letters = len(_CASELESS.findall(text))
    is_half = 2 * counts[most_frequent] >= n_letters
    return most_frequent if is_half else ""


def _split_words(sentence: str, script: str) -> Iterator[_Word]:
    """Yield the words and punctuation marks of a sentence."""
    for found in _TOKEN.finditer(sentence):
        if script == "Thai" and _THAI.fullmatch(found[0]):
            # Thai writes words without spaces between them.
            start = found.start()
            for text in _thai_parser().parse(found[0]):
                yield _Word(start, start + len(text), text)
                start += len(text)
        else:
            yield _Word(found.start(), found.end(), found[0])


@cache
def _thai_parser() -> "Parser":
    from budoux import load_default_thai_parser  # it reads its model: only Thai texts pay for it

    return load_default_thai_parser()


def _bare_forms(counts: Counter[str], script: str, stop: frozenset[str]) -> dict[str, str]:
    """Map words of a text to their forms without particle or prefix, where this is sure enough.

    ``counts`` holds the words of the text, ``stop`` the stop words of its language. In Arabic and
    Hebrew, a prefix is removed if the rest is a word of the text too, or a stop word. In Korean, a
    particle is removed if it agrees with the sound before it: 는 follows a vowel, 은 a consonant.
    The word must not be one that takes a particle itself elsewhere in the text.
    """
    shorten = _without_particle if script == "Hangul" else _without_prefix
    bare_forms: dict[str, str] = {}
    for word in counts:
        bare_form = shorten(word, script)
        if bare_form and len(bare_form) >= _MIN_STEM[script]:
            bare_forms[word] = bare_form
    stems = set(bare_forms.values())
    sure_forms: dict[str, str] = {}
    for word, bare_form in bare_forms.items():
        if script == "Hangul":
            is_sure = word not in stems
        else:
            is_sure = bare_form in counts or bare_form in stop
        if is_sure:
            sure_forms[word] = bare_form
    return sure_forms


def _without_particle(word: str, script: str) -> str | None:
    """Return a Korean word without its particle, or None if it has none."""
    if not _HANGUL.fullmatch(word):
        return None
    for particle, after in KOREAN_PARTICLES:
        stem = _stem_before(word, particle, after)
        if stem:
            return stem
    return None


def _stem_before(word: str, particle: str, after: str) -> str | None:
    """Return the word without the particle, or None if it does not end with it.

    ``after`` is the kind of sound that the particle follows: "vowel", "consonant" or "any".
    """
    stem = word.removesuffix(particle)
    if not stem or stem == word:
        return None
    final = (ord(stem[-1]) - _HANGUL_START) % _FINALS
    # Behind ㄹ, 로 and its compounds stand as behind a vowel.
    counts_as_vowel = final == 0 or (final == _FINAL_L and particle.startswith("로"))
    sound = "vowel" if counts_as_vowel else "consonant"
    return stem if after in ("any", sound) else None


def _without_prefix(word: str, script: str) -> str | None:
    """Return a word of Arabic or Hebrew without its joined prefix, or None if it has none."""
    for prefix in JOINED_PREFIXES[script]:
        if word.startswith(prefix):
            return word.removeprefix(prefix)
    return None


def _find_names(sentence: str, gazetteer: Gazetteer) -> list[Name]:
    """Return quoted names and names in Latin letters in the order of their positions."""
    quoted: list[Name] = []
    for found in _QUOTED.finditer(sentence):
        # The pattern has one group for each kind of quotation marks; one of them has matched.
        group = found.lastindex or 0
        text = found[group].strip()
        is_short = len(text.split()) <= _NAME_WORDS and len(text) in _NAME_LENGTH
        if is_short and _LETTER.search(text) and not _NO_NAME.search(text):
            start = found.start(group) + found[group].index(text)
            quoted.append(Name(start, start + len(text), text))
    # Letters of other scripts become punctuation of the same length, so positions stay.
    only_latin = _NOT_LATIN.sub("，", sentence)
    latin = find_latin_names(only_latin, gazetteer, "en")
    unquoted = [name for name in latin if not _overlaps(name, quoted)]
    return sorted([*quoted, *unquoted])


def _overlaps(span: Name | _Word, names: list[Name]) -> bool:
    """Return whether a name or word has a character that is also in one of the names."""
    return any(span.start < name.end and name.start < span.end for name in names)


def _runs(
    words: list[_Word], names: list[Name], script: str, stop: frozenset[str]
) -> Iterator[list[_Word]]:
    """Yield runs of content words that follow each other without a name between them.

    A Korean particle ends a run; a joined prefix begins one. The predicate that ends a Korean
    sentence is no content word. Runs may be empty.
    """
    predicate = _predicate(words) if script == "Hangul" else None
    run: list[_Word] = []
    for word in words:
        is_in_name = _overlaps(word, names)
        # The text of a word lacks its particle or prefix; its span has it.
        is_shortened = len(word.text) < word.end - word.start
        if is_in_name or word == predicate or not _is_content(word.text, stop):
            yield run
            run = []
        elif is_shortened and script == "Hangul":
            yield [*run, word]
            run = []
        elif is_shortened:
            yield run
            run = [word]
        else:
            run.append(word)
    yield run


def _predicate(words: list[_Word]) -> _Word | None:
    """Return the last word of a Korean sentence if it is a predicate, else None."""
    for word in reversed(words):
        if _LETTER.search(word.text):
            return word if word.text[-1] in _PREDICATE_ENDS else None
    return None


def _is_content(word: str, stop: frozenset[str]) -> bool:
    """Return whether the word may belong to a key phrase.

    Excluded are stop words, short words, words in Latin letters, and words with hiragana, which
    writes the grammar of Japanese.
    """
    if word in stop or not _NOT_LATIN.search(word) or _HIRAGANA.search(word):
        return False
    fewest_letters = _MIN_SYLLABLES if _SYLLABLE.match(word) else _MIN_LETTERS
    return len(word) >= fewest_letters


def _parts_of_run(run: list[_Word]) -> Iterator[list[_Word]]:
    """Yield all parts of the run with up to `MAX_WORDS` words."""
    for start in range(len(run)):
        longest = min(MAX_WORDS, len(run) - start)
        for length in range(1, longest + 1):
            yield run[start : start + length]


def _split_run(run: list[_Word], counts: Counter[str], fewest_words: int) -> Iterator[Phrase]:
    """Split the run into phrases: from its start on, each is the longest part that is repeated.

    ``counts`` says how often the text has each part. A phrase may stand for a concept only if it
    is repeated and has ``fewest_words`` words or more.
    """
    start = 0
    while start < len(run):
        length = _length_of_repeated(run, start, counts)
        part = run[start : start + length]
        text = _join_words(part)
        noun = length >= fewest_words and counts[text] >= _REPEATED
        yield Phrase(part[0].start, part[-1].end, text, noun)
        start += length


def _length_of_repeated(run: list[_Word], start: int, counts: Counter[str]) -> int:
    """Return the length of the longest repeated part from ``start`` on, or 1 if there is none."""
    longest = min(MAX_WORDS, len(run) - start)
    for length in range(longest, 0, -1):
        part = _join_words(run[start : start + length])
        if counts[part] >= _REPEATED:
            return length
    return 1


def _join_words(words: list[_Word]) -> str:
    """Join the words with a space wherever the text has one."""
    texts = [words[0].text]
    for previous, word in pairwise(words):
        if word.start > previous.end:
            texts.append(" ")
        texts.append(word.text)
    return "".join(texts)
