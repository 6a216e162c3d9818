"""A name found in a sentence, its type by its head word, and titles laid over names."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from unicodedata import category

from pipeline.phrases.lexicon import (
    ARTICLES,
    CALENDAR,
    CHINESE_HEADS,
    CONNECTORS,
    DEMONYMS,
    EVENT_HEADS,
    HEADS_IN_FRONT,
    LABELS,
    LOCATION_HEADS,
    ORGANIZATION_HEADS,
    ROYAL,
    STARTERS,
)
from pipeline.text.ids import clean_name, match_key

CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CHINESE = re.compile(f"[{CHINESE}]")
_LETTER = re.compile(r"[^\W\d_]")
_CHINESE_SHARE = 0.3
_LAST_CASED = 0x2FFF
_HEADS = {
    head: kind
    for kind, heads in (
        ("organization", ORGANIZATION_HEADS),
        ("location", LOCATION_HEADS),
        ("event", EVENT_HEADS),
    )
    for head in heads
}
_CHINESE_HEADS = sorted(
    ((head, kind) for kind, heads in CHINESE_HEADS.items() for head in heads.split()),
    key=lambda pair: (-len(pair[0]), pair[0]),
)
_KINDS_WITH_HEADS = frozenset(("organization", "location", "event"))
_SEPARATOR = re.compile(r"[ ·•‧]")
_HEAD_BEFORE = frozenset(("of", "for", "de", "von", "du", "del", "della", "di", "do", "da"))
_CHINESE_CHARACTER = re.compile(rf"[{CHINESE}](?=\w)")
_QUALIFIER = re.compile(r"\s*[(（](?P<within>[^()（）]*)[)）]$|,\s\d{4}(?:\s?[-–]\s?\d{2,4})?$")
_CATALOGUED_PERSON = re.compile(r"(?P<surname>[^,()]+), (?P<given>[^,()]+) \([^()]*\d{3,4}[^()]*\)")
_NEVER_ALONE = STARTERS | ARTICLES | CALENDAR | DEMONYMS | LABELS
_JOINT_BEFORE = re.compile(rf"(?:\s(?:{CONNECTORS}|and|for|for the)|['’]s|\s\w+\.)\s$")
_JOINT_AFTER = re.compile(rf"\s(?:{CONNECTORS}|and|for)\s|['’]s")


def _ranges(wanted: str) -> str:
    """The characters of a Unicode category below the CJK blocks, as the inside of a character class."""
    points = [point for point in range(_LAST_CASED + 1) if category(chr(point)) == wanted]
    runs = [[point for _, point in run] for _, run in groupby(enumerate(points), key=lambda pair: pair[1] - pair[0])]
    return "".join(chr(run[0]) if len(run) == 1 else f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


UPPER = _ranges("Lu")
LOWER = _ranges("Ll")


def is_chinese(text: str) -> bool:
    """Whether at least three in ten of the text's letters are Chinese characters."""
    chinese = len(_CHINESE.findall(text))
    return chinese > 0 and chinese >= _CHINESE_SHARE * len(_LETTER.findall(text))


class Name(NamedTuple):
    """``text`` is the name as it should be shown, ``start:end`` where in the sentence it was found.

    ``doubtful``: a lone word whose capital letter the sentence's start (or a heading) explains as well;
    a name only when something else in the text says so.
    """

    start: int
    end: int
    text: str
    type: str = "name"
    doubtful: bool = False


def leftmost_longest(names: list[Name]) -> list[Name]:
    """The names in order of place, without those that overlap an earlier or longer one."""
    kept: list[Name] = []
    for name in sorted(names, key=lambda found: (found.start, -found.end)):
        if not kept or name.start >= kept[-1].end:
            kept.append(name)
    return kept


def kind_of_words(words: list[str]) -> str:
    """organization, location, event, or "name" when the head word tells nothing.

    The head is the word before the first "of", or the last word; the first one in "Lake X" and the like.
    """
    folded = [word.lower().rstrip(".") for word in words if not word.isdigit()]
    if len(folded) < 2:
        return "name"
    stop = next((place for place, word in enumerate(folded) if word in _HEAD_BEFORE and place), len(folded))
    in_front = folded[0] if folded[0] in HEADS_IN_FRONT else ""
    return _HEADS.get(folded[stop - 1]) or _HEADS.get(in_front) or "name"


def short_forms(name: str, kind: str) -> list[str]:
    """The single words that a text may use for a name of several: of a person (or a name of unknown type) the
    first and the last one, of an organization, a place or an event its head ("the Guild")."""
    words = _SEPARATOR.split(name)
    stop = next((place for place, word in enumerate(words) if word in _HEAD_BEFORE and place), len(words))
    core = [word.rstrip(",;:") for word in words[:stop] if word]
    core = core[: next((place for place, word in enumerate(words[:stop], 1) if word.endswith(",")), None)]
    if len(words) < 2 or not core:
        return []
    if kind in _KINDS_WITH_HEADS:
        return [core[-1]] if core[-1].lower() in _HEADS else []
    return list(dict.fromkeys([core[0], core[-1]]))


def chinese_head(name: str) -> str | None:
    """The type that the last characters of a Chinese name tell, None when they tell nothing."""
    return next((kind for head, kind in _CHINESE_HEADS if name.endswith(head) and name != head), None)


_FIRST_WORD = re.compile(rf"(?<![\w'’&-])[{UPPER}\d]\w*")
_WORD_ENDS = re.compile(rf"(?![\w+#@]|[-'’&][{UPPER}])")


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


def overlay(names: list[Name], titles: list[Name], sentence: str) -> list[Name]:
    """Both lists, each of disjoint names, in one.

    Where two overlap the longer one stays; a title within a name stays too where a connector joins the parts
    ("Aldric II" in "Aldric II of Hallowfell"; not "England" in "New England").
    """
    laid: set[Name] = set()
    covered: set[Name] = set()
    for title in titles:
        first = bisect_right(names, title.start, key=attrgetter("end"))
        overlapping = names[first : bisect_left(names, title.end, lo=first, key=attrgetter("start"))]
        if all(_gives_way(name, title) or _has_part(name, title, sentence) for name in overlapping):
            laid.add(_with_type_of_same(title, overlapping))
            covered.update(name for name in overlapping if _gives_way(name, title))
    return sorted(laid.union(set(names) - covered))


def _with_type_of_same(title: Name, names: list[Name]) -> Name:
    same = [name.type for name in names if (name.start, name.end) == (title.start, title.end)]
    return title._replace(type=same[0]) if same and title.type == "name" else title


def _gives_way(name: Name, title: Name) -> bool:
    return name.end - name.start <= title.end - title.start


def _has_part(name: Name, title: Name, sentence: str) -> bool:
    """Whether a shorter title is a name of its own within the name."""
    before, after = sentence[name.start : title.start], sentence[title.end : name.end]
    if title.start < name.start or title.end > name.end:
        return False
    if not after and (before.strip().lower() in ROYAL or (" of " in before and " " in title.text)):
        return True
    return (not before or _JOINT_BEFORE.search(before) is not None) and (
        not after or _JOINT_AFTER.match(after) is not None
    )
