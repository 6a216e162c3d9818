"""Names found in a sentence: their types by head words, and how titles and names are combined.

The head of a name is the word that says what kind of thing it names: "Guild", "River", "Treaty".
"""

import re
from bisect import bisect_left, bisect_right
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
"""The share of Chinese characters among the letters of a text from which on it is Chinese."""
_LAST_CASED = 0x2FFF
"""The last code point before the CJK blocks, which have no capitals."""
_HEADS = (
    dict.fromkeys(ORGANIZATION_HEADS, "organization")
    | dict.fromkeys(LOCATION_HEADS, "location")
    | dict.fromkeys(EVENT_HEADS, "event")
)
# The longest first, so that 大桥 is tried before 桥.
_CHINESE_KINDS = {head: kind for kind, heads in CHINESE_HEADS.items() for head in heads.split()}
_CHINESE_HEADS = sorted(_CHINESE_KINDS, key=lambda head: (-len(head), head))
_KINDS_WITH_HEADS = frozenset(("organization", "location", "event"))
_SEPARATOR = re.compile(r"[ ·•‧]")
_HEAD_BEFORE = frozenset(("of", "for", "de", "von", "du", "del", "della", "di", "do", "da"))
_JOINT_BEFORE = re.compile(rf"(?:\s(?:{CONNECTORS}|and|for|for the)|['’]s|\s\w+\.)\s$")
_JOINT_AFTER = re.compile(rf"\s(?:{CONNECTORS}|and|for)\s|['’]s")


def _ranges(wanted: str) -> str:
    """Return the characters of a Unicode category as the inside of a regular expression's [...].

    Only characters below the CJK blocks are included.
    """
    # Lists of the first and the last code point of a range.
    ranges: list[list[int]] = []
    for point in range(_LAST_CASED + 1):
        if category(chr(point)) != wanted:
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    inside_brackets = ""
    for first, last in ranges:
        inside_brackets += chr(first) if first == last else f"{chr(first)}-{chr(last)}"
    return inside_brackets


UPPER = _ranges("Lu")
LOWER = _ranges("Ll")


def is_chinese(text: str) -> bool:
    """Return whether at least three in ten of the text's letters are Chinese characters."""
    chinese = len(_CHINESE.findall(text))
    return chinese > 0 and chinese >= _CHINESE_SHARE * len(_LETTER.findall(text))


class Name(NamedTuple):
    """A name in a sentence.

    ``text`` is the name as it should be shown; ``start`` and ``end`` are its position in the
    sentence. ``type`` is person, organization, location, work, event, or "name" if unknown.
    ``doubtful`` is true for a word whose capital letter has another explanation, such as the start
    of the sentence or a heading. Such a word counts only if something else in the text confirms it.
    """

    start: int
    end: int
    text: str
    type: str = "name"
    doubtful: bool = False


def leftmost_longest(names: list[Name]) -> list[Name]:
    """Return the names in the order of their positions, none overlapping.

    Of overlapping names the one that begins first remains; of equal beginnings, the longest.
    """
    apart: list[Name] = []
    leftmost_first = sorted(names, key=lambda name: (name.start, -name.end))
    for name in leftmost_first:
        if not apart or name.start >= apart[-1].end:
            apart.append(name)
    return apart


def kind_of_words(words: list[str]) -> str:
    """Return "organization", "location" or "event" by the head of a name, or else "name".

    The head is the word before the first "of", or the last word. In "Lake X" and the like, it is
    the first word.
    """
    folded = [word.lower().rstrip(".") for word in words if not word.isdigit()]
    # A word alone is no head: "Guild" names nothing.
    if len(folded) < 2:
        return "name"
    head = folded[_place_of_preposition(folded) - 1]
    if head in _HEADS:
        return _HEADS[head]
    first = folded[0]
    if first in HEADS_IN_FRONT:
        return _HEADS.get(first, "name")
    return "name"


def _place_of_preposition(words: list[str]) -> int:
    """Return the position of the first "of" or the like behind a word, or the number of words."""
    for place, word in enumerate(words):
        if place > 0 and word in _HEAD_BEFORE:
            return place
    return len(words)


def short_forms(name: str, kind: str) -> list[str]:
    """Return the single words that a text may use for a name of several words.

    For a person, or a name of unknown type, they are the first and the last word. For an
    organization, a place or an event it is the head ("the Guild").
    """
    words = _SEPARATOR.split(name)
    if len(words) < 2:
        return []
    core: list[str] = []
    before_preposition = words[: _place_of_preposition(words)]
    for word in before_preposition:
        bare_word = word.rstrip(",;:")
        if bare_word:
            core.append(bare_word)
        if word.endswith(","):
            # The rest describes the name: "Ann Moor, engineer".
            break
    if not core:
        return []
    first, last = core[0], core[-1]
    if kind in _KINDS_WITH_HEADS:
        return [last] if last.lower() in _HEADS else []
    return [first] if first == last else [first, last]


def chinese_head(name: str) -> str | None:
    """Return the type that the last characters of a Chinese name tell, or None."""
    for head in _CHINESE_HEADS:
        if name.endswith(head) and name != head:
            return _CHINESE_KINDS[head]
    return None


def without_article(name: str) -> str:
    """Return the name without an English article in front, unless it is all there is."""
    first, _, rest = name.partition(" ")
    return rest if rest and first.lower() in ("the", "a", "an") else name


def overlay(names: list[Name], titles: list[Name], sentence: str) -> list[Name]:
    """Return names and titles of a sentence in one list, in the order of their positions.

    Neither list may have overlapping names. If a name and a title overlap, the longer one remains.
    A shorter title remains too if a connecting word joins it to the rest of the name: "Aldric II"
    in "Aldric II of Hallowfell", but not "England" in "New England".
    """
    kept_titles: set[Name] = set()
    replaced: set[Name] = set()
    for title in titles:
        # Names in order that do not overlap: both their starts and their ends are sorted.
        first = bisect_right(names, title.start, key=attrgetter("end"))
        first_behind = bisect_left(names, title.end, lo=first, key=attrgetter("start"))
        overlapping = names[first:first_behind]
        length = title.end - title.start
        longer: list[Name] = []
        others: list[Name] = []
        for name in overlapping:
            if name.end - name.start > length:
                longer.append(name)
            else:
                others.append(name)
        if all(_has_part(name, title, sentence) for name in longer):
            kept_titles.add(_with_type_of_same(title, overlapping))
            replaced.update(others)
    kept_names = set(names) - replaced
    return sorted(kept_titles | kept_names)


def _with_type_of_same(title: Name, names: list[Name]) -> Name:
    """Return the title with the type of a name at the same position, if its own is unknown."""
    if title.type != "name":
        return title
    for name in names:
        if (name.start, name.end) == (title.start, title.end):
            return title._replace(type=name.type)
    return title


def _has_part(name: Name, title: Name, sentence: str) -> bool:
    """Return whether a shorter title is a name of its own within the name."""
    if title.start < name.start or title.end > name.end:
        return False
    rest_in_front = sentence[name.start : title.start]
    rest_behind = sentence[title.end : name.end]
    if not rest_behind:
        follows_rank = rest_in_front.strip().lower() in ROYAL
        is_full_name_after_of = " of " in rest_in_front and " " in title.text
        if follows_rank or is_full_name_after_of:
            return True
    if rest_in_front and not _JOINT_BEFORE.search(rest_in_front):
        return False
    return not rest_behind or _JOINT_AFTER.match(rest_behind) is not None
