"""A name found in a sentence, its type by its head word, and titles laid over names."""

import re
from bisect import bisect_left, bisect_right
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from unicodedata import category

from pipeline.phrases.lexicon import (
    CHINESE_HEADS,
    CONNECTORS,
    EVENT_HEADS,
    HEADS_IN_FRONT,
    LOCATION_HEADS,
    ORGANIZATION_HEADS,
    ROYAL,
)

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
_JOINT_BEFORE = re.compile(rf"(?:\s(?:{CONNECTORS}|and|for|for the)|['’]s|\s\w+\.)\s$")
_JOINT_AFTER = re.compile(rf"\s(?:{CONNECTORS}|and|for)\s|['’]s")


def _ranges(wanted: str) -> str:
    """The characters of a Unicode category below the CJK blocks, as the inside of a character
    class."""
    points = [point for point in range(_LAST_CASED + 1) if category(chr(point)) == wanted]
    runs = [
        [point for _, point in run]
        for _, run in groupby(enumerate(points), key=lambda pair: pair[1] - pair[0])
    ]
    return "".join(
        chr(run[0]) if len(run) == 1 else f"{chr(run[0])}-{chr(run[-1])}" for run in runs
    )


UPPER = _ranges("Lu")
LOWER = _ranges("Ll")


def is_chinese(text: str) -> bool:
    """Whether at least three in ten of the text's letters are Chinese characters."""
    chinese = len(_CHINESE.findall(text))
    return chinese > 0 and chinese >= _CHINESE_SHARE * len(_LETTER.findall(text))


class Name(NamedTuple):
    """``text`` is the name as it should be shown, ``start:end`` where in the sentence it was found.

    ``doubtful``: a lone word whose capital letter the sentence's start (or a heading) explains as
    well; a name only when something else in the text says so.
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

    The head is the word before the first "of", or the last word; the first one in "Lake X" and the
    like.
    """
    folded = [word.lower().rstrip(".") for word in words if not word.isdigit()]
    if len(folded) < 2:
        return "name"
    stop = next(
        (place for place, word in enumerate(folded) if word in _HEAD_BEFORE and place), len(folded)
    )
    in_front = folded[0] if folded[0] in HEADS_IN_FRONT else ""
    return _HEADS.get(folded[stop - 1]) or _HEADS.get(in_front) or "name"


def short_forms(name: str, kind: str) -> list[str]:
    """The single words that a text may use for a name of several: of a person (or a name of unknown
    type) the first and the last one, of an organization, a place or an event its head ("the
    Guild")."""
    words = _SEPARATOR.split(name)
    stop = next(
        (place for place, word in enumerate(words) if word in _HEAD_BEFORE and place), len(words)
    )
    core = [word.rstrip(",;:") for word in words[:stop] if word]
    core = core[
        : next((place for place, word in enumerate(words[:stop], 1) if word.endswith(",")), None)
    ]
    if len(words) < 2 or not core:
        return []
    if kind in _KINDS_WITH_HEADS:
        return [core[-1]] if core[-1].lower() in _HEADS else []
    return list(dict.fromkeys([core[0], core[-1]]))


def chinese_head(name: str) -> str | None:
    """The type that the last characters of a Chinese name tell, None when they tell nothing."""
    return next(
        (kind for head, kind in _CHINESE_HEADS if name.endswith(head) and name != head), None
    )


def without_article(name: str) -> str:
    first, _, rest = name.partition(" ")
    return rest if rest and first.lower() in ("the", "a", "an") else name


def overlay(names: list[Name], titles: list[Name], sentence: str) -> list[Name]:
    """Both lists, each of disjoint names, in one.

    Where two overlap the longer one stays; a title within a name stays too where a connector joins
    the parts ("Aldric II" in "Aldric II of Hallowfell"; not "England" in "New England").
    """
    laid: set[Name] = set()
    covered: set[Name] = set()
    for title in titles:
        first = bisect_right(names, title.start, key=attrgetter("end"))
        overlapping = names[
            first : bisect_left(names, title.end, lo=first, key=attrgetter("start"))
        ]
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
