"""A name found in a sentence."""

from typing import NamedTuple


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
