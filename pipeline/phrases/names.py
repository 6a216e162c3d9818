"""The documents' titles as names to look for in any text."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pipeline.phrases.lexicon import ARTICLES, CALENDAR, DEMONYMS, LABELS, STARTERS
from pipeline.phrases.name import Name, leftmost_longest
from pipeline.phrases.script import CHINESE, UPPER, is_chinese
from pipeline.text import clean_name, match_key

_FIRST_WORD = re.compile(rf"(?<![\w'’&-])[{UPPER}\d]\w*")
_CHINESE_CHARACTER = re.compile(rf"[{CHINESE}](?=\w)")
_WORD_ENDS = re.compile(rf"(?![\w+#@]|[-'’&][{UPPER}])")
_QUALIFIER = re.compile(r"\s*[(（](?P<within>[^()（）]*)[)）]$|,\s\d{4}(?:\s?[-–]\s?\d{2,4})?$")
_CATALOGUED_PERSON = re.compile(r"(?P<surname>[^,()]+), (?P<given>[^,()]+) \([^()]*\d{3,4}[^()]*\)")
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


def without_article(name: str) -> str:
    first, _, rest = name.partition(" ")
    return rest if rest and first.lower() in ("the", "a", "an") else name


class Gazetteer:
    """Finds names in a text by their exact spelling."""

    def __init__(self, names: Iterable[str]) -> None:
        distinct = set(names)
        self._by_first: dict[str, list[str]] = defaultdict(list)
        for name in sorted(distinct, key=lambda name: (-len(name), name)):
            if is_chinese(name[:2]):
                self._by_first[name[:2]].append(name)
            elif (found := _FIRST_WORD.match(name)) and not name.isdigit() and name.lower() not in _NEVER_ALONE:
                self._by_first[found[0]].append(name)
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
            for name in self._by_first.get(found[0], ()):
                end = found.start() + len(name)
                if sentence.startswith(name, found.start()) and _ends_word(sentence, name, end):
                    yield Name(found.start(), end, name)
                    break
        for found in _CHINESE_CHARACTER.finditer(sentence):
            start = found.start()
            for name in self._by_first.get(sentence[start : start + 2], ()):
                if sentence.startswith(name, start):
                    yield Name(start, start + len(name), name)
                    break


def _ends_word(sentence: str, name: str, end: int) -> bool:
    return not name[-1].isalnum() or _WORD_ENDS.match(sentence, end) is not None
