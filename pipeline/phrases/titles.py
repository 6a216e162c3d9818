"""Titles of documents as names, and where a text has one of them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pipeline.phrases.lexicon import ARTICLES, CALENDAR, DEMONYMS, LABELS, STARTERS
from pipeline.phrases.names import CHINESE, UPPER, Name, is_chinese, leftmost_longest, without_article
from pipeline.text.ids import clean_name, match_key

_QUALIFIER = re.compile(r"\s*[(（](?P<within>[^()（）]*)[)）]$|,\s\d{4}(?:\s?[-–]\s?\d{2,4})?$")
_CATALOGUED_PERSON = re.compile(r"(?P<surname>[^,()]+), (?P<given>[^,()]+) \([^()]*\d{3,4}[^()]*\)")
_FIRST_WORD = re.compile(rf"(?<![\w'’&-])[{UPPER}\d]\w*")
_WORD_ENDS = re.compile(rf"(?![\w+#@]|[-'’&][{UPPER}])")
_CHINESE_CHARACTER = re.compile(rf"[{CHINESE}](?=\w)")
_NEVER_ALONE = STARTERS | ARTICLES | CALENDAR | DEMONYMS | LABELS


def title_name(title: str) -> str:
    """The title as the name of an entity: on one line, no leading article."""
    return without_article(clean_name(title))


def title_aliases(title: str) -> list[str]:
    """Other names of what the title is about.

    "Name (qualifier)" and "Name, 1826-1958" give the name, and the qualifier too where the two are of
    different scripts, as in a Chinese title with the English name; "Moor, Ann (1801-1866), engineer" gives
    "Ann Moor".
    """
    name = title_name(title)
    if person := _CATALOGUED_PERSON.match(name):
        return [f"{person['given']} {person['surname']}"]
    found = _QUALIFIER.search(name)
    if found is None or not name[: found.start()]:
        return []
    base, within = name[: found.start()], clean_name(found["within"] or "")
    return [base, within] if within and is_chinese(base) != is_chinese(within) else [base]


class Spellings:
    """Names by how they begin. Where a text begins so, it is compared once for each length that such names have, in a
    time that does not grow with how many of them there are."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """``names``: each with its beginning."""
        self._names: set[str] = set()
        lengths: dict[str, set[int]] = defaultdict(set)
        for beginning, name in names:
            self._names.add(name)
            lengths[beginning].add(len(name))
        self._lengths = {beginning: sorted(found, reverse=True) for beginning, found in lengths.items()}

    def at(self, beginning: str, text: str, start: int) -> Iterator[str]:
        """The names that the text, which has this beginning at ``start``, goes on with there, the longest first."""
        for length in self._lengths.get(beginning, ()):
            name = text[start : start + length]
            if name in self._names:
                yield name


class Gazetteer:
    """Finds names in a text by their exact spelling."""

    def __init__(self, names: Iterable[str]) -> None:
        distinct = frozenset(names)
        self._spellings = Spellings((beginning, name) for name in distinct if (beginning := _beginning(name)))
        self.keys = frozenset(map(match_key, distinct))

    @classmethod
    def of_titles(cls, titles: Iterable[str]) -> "Gazetteer":
        """Of the titles and what their brackets qualify."""
        return cls(form for title in titles for form in [title_name(title), *title_aliases(title)])

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


def _beginning(name: str) -> str | None:
    """What of a name is looked up: of a Chinese one two characters, of others the first word; None for what is never
    looked for."""
    if is_chinese(name[:2]):
        return name[:2]
    found = _FIRST_WORD.match(name)
    return found[0] if found and not name.isdigit() and name.lower() not in _NEVER_ALONE else None


def _ends_word(sentence: str, name: str, end: int) -> bool:
    return not name[-1].isalnum() or _WORD_ENDS.match(sentence, end) is not None
