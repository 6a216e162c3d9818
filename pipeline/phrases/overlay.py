"""Titles laid over the names that capital letters tell."""

import re
from bisect import bisect_left, bisect_right
from operator import attrgetter

from pipeline.phrases.lexicon import CONNECTORS, ROYAL
from pipeline.phrases.name import Name

_JOINT_BEFORE = re.compile(rf"(?:\s(?:{CONNECTORS}|and|for|for the)|['’]s|\s\w+\.)\s$")
_JOINT_AFTER = re.compile(rf"\s(?:{CONNECTORS}|and|for)\s|['’]s")


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
