"""Titles of documents as names: which of them are any, and where a text has one."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from pipeline.contract.schemas import NAMING
from pipeline.phrases.lexicon import ARTICLES, CALENDAR, DEMONYMS, LABELS, STARTERS
from pipeline.phrases.names import (
    CHINESE,
    UPPER,
    Name,
    is_chinese,
    leftmost_longest,
    without_article,
)
from pipeline.text.ids import clean_name, match_key

_QUALIFIER = re.compile(r"\s*[(（](?P<within>[^()（）]*)[)）]$|,\s\d{4}(?:\s?[-–]\s?\d{2,4})?$")
_CATALOGUED_PERSON = re.compile(r"(?P<surname>[^,()]+), (?P<given>[^,()]+) \([^()]*\d{3,4}[^()]*\)")
_FIRST_WORD = re.compile(rf"(?<![\w'’&-])[{UPPER}\d]\w*")
_WORD_ENDS = re.compile(rf"(?![\w+#@]|[-'’&][{UPPER}])")
_CHINESE_CHARACTER = re.compile(rf"[{CHINESE}](?=\w)")
_NEVER_ALONE = STARTERS | ARTICLES | CALENDAR | DEMONYMS | LABELS
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def naming_titles(documents: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """By document the title that names what it is about: one that was given or is a heading, and
    that no other document has, were it as its first line: a letterhead is nobody's name.
    ``documents``: id, title and title_from (nothing counts as given)."""
    titled = [
        (id, title, found, match_key(title_name(title)))
        for id, title, found in documents
        if title.strip() and found != "file_name"
    ]
    sharing = Counter(key for *_, key in titled)
    return {id: title for id, title, found, key in titled if found in NAMING and sharing[key] == 1}


def title_name(title: str) -> str:
    """The title as the name of an entity: on one line, no leading article."""
    return without_article(clean_name(title))


def title_aliases(title: str) -> list[str]:
    """Other names of what the title is about.

    "Name (qualifier)" and "Name, 1826-1958" give the name, and the qualifier too where the two are
    of different scripts, as in a Chinese title with the English name; "Moor, Ann (1801-1866),
    engineer" gives "Ann Moor".
    """
    name = title_name(title)
    if person := _CATALOGUED_PERSON.match(name):
        return [f"{person['given']} {person['surname']}"]
    found = _QUALIFIER.search(name)
    if found is None or not name[: found.start()]:
        return []
    base, within = name[: found.start()], clean_name(found["within"] or "")
    return [base, within] if within and is_chinese(base) != is_chinese(within) else [base]


def title_forms(title: str) -> list[str]:
    """The title as a name, and its aliases."""
    return [title_name(title), *title_aliases(title)]


class Spellings:
    """Names by how they begin. Where a text begins so, it is compared once for each length that
    such names have, in a time that does not grow with how many of them there are."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """``names``: each with its beginning."""
        self._names: set[str] = set()
        lengths: dict[str, set[int]] = defaultdict(set)
        for beginning, name in names:
            self._names.add(name)
            lengths[beginning].add(len(name))
        self._lengths = {
            beginning: sorted(found, reverse=True) for beginning, found in lengths.items()
        }

    def at(self, beginning: str, text: str, start: int) -> Iterator[str]:
        """The names that the text, which has this beginning at ``start``, goes on with there, the
        longest first."""
        for length in self._lengths.get(beginning, ()):
            name = text[start : start + length]
            if name in self._names:
                yield name


class Gazetteer:
    """Finds names in a text by their exact spelling."""

    def __init__(self, names: Iterable[str]) -> None:
        distinct = frozenset(names)
        self._spellings = Spellings(
            (beginning, name) for name in distinct if (beginning := _beginning(name))
        )
        self.keys = frozenset(map(match_key, distinct))

    @classmethod
    def of_titles(cls, titles: Iterable[str]) -> "Gazetteer":
        """Of the titles and what their brackets qualify."""
        return cls(form for title in titles for form in title_forms(title))

    def find(self, sentence: str) -> list[Name]:
        """The names in the sentence, disjoint; line breaks count as spaces."""
        return leftmost_longest(list(self._all(sentence.replace("\n", " "))))

    def _all(self, sentence: str) -> Iterator[Name]:
        for found in _FIRST_WORD.finditer(sentence):
            start = found.start()
            for name in self._spellings.at(found[0], sentence, start):
                if _ends_word(sentence, name, start + len(name)):
                    yield Name(start, start + len(name), name)
                    break
        for found in _CHINESE_CHARACTER.finditer(sentence):
            start = found.start()
            for name in self._spellings.at(sentence[start : start + 2], sentence, start):
                yield Name(start, start + len(name), name)
                break


class TitleSearch:
    """Tells fast whether a text may have one of the names: whether its letters and digits, whatever
    stands between them, go on with those of one. That is so wherever a Gazetteer finds the name,
    and wherever a name of the text has the name's match key."""

    def __init__(self, names: Iterable[str]) -> None:
        letters = {"".join(_words(name)) for name in names}
        self._spellings = Spellings((name[:2], name) for name in letters)

    def may_find(self, text: str) -> bool:
        words = _words(text)
        letters = "".join(words)
        start = 0
        for word in words:
            for length in (2, 1):
                beginning = letters[start : start + length]
                if next(self._spellings.at(beginning, letters, start), None):
                    return True
            start += len(word)
        return False


def _words(text: str) -> list[str]:
    """Letters and digits as ``match_key`` folds them, in pieces at whose beginnings a name may
    begin: each character where there is another than those of ASCII."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return [character for character in decomposed if character.isalnum()]


def _beginning(name: str) -> str | None:
    """What of a name is looked up: of a Chinese one two characters, of others the first word; None
    for what is never looked for."""
    if is_chinese(name[:2]):
        return name[:2]
    found = _FIRST_WORD.match(name)
    return found[0] if found and not name.isdigit() and name.lower() not in _NEVER_ALONE else None


def _ends_word(sentence: str, name: str, end: int) -> bool:
    return not name[-1].isalnum() or _WORD_ENDS.match(sentence, end) is not None
