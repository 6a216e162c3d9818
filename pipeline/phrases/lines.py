"""What the end of a line means in a text: that the page was full, that a line of its own ends, or a
row or an item."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

_LINE = re.compile(r"[^\n]+")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪●]|\(?\d{1,3}[.)]|\(?[a-z]\))\s+\S")
_RULE = re.compile(r"\s*+(?:[|+]\s*+)?:?-{2,}+[-:|+\s]*+$")
_GAP = re.compile(r"(?<=\S)(?: {3,}| ?\t\s*)(?=\S)|(?<=\S) {2}(?=\S)")
_DELIMITER = re.compile(r"[,;]")
_FIRST_WORD = re.compile(r"\s*(\S+)")
_SHORT = 40
"""Characters of a line that ends because it is at its end, where nothing tells how wide the page
is."""
_MUCH_SHORTER = 0.7
_WRAPPED = 0.25
"""Of all line ends those before a lower-case letter, from which on the text is one that was broken
to a width."""
_MIN_ROWS = 3


class _Line(NamedTuple):
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Layout:
    """``reading`` is as long as the text: in it ``|`` stands for the end of a line that the width
    of the page did not end, and a comma for what divides the cells of a row, but for one of
    headings. ``cuts``: where rows of tables and items of lists begin and end, in order. ``cells``:
    where the rows begin that are none of headings."""

    reading: str
    cuts: list[int]
    cells: frozenset[int]


def read_layout(text: str) -> Layout:
    """Decided in the whole text, by the lines around each."""
    if "\n" not in text.strip():
        return Layout(text, [], frozenset())
    reading = list(text)
    cuts: set[int] = set()
    cells: set[int] = set()
    prose: list[list[_Line]] = []
    for block in _blocks(text):
        rows = _rows(block)
        items = _items(block, rows)
        for place in rows:
            line = block[place]
            cuts.update((line.start, line.end))
            if not any(_RULE.match(other.text) for other in block[place : place + 2]):
                _divide(reading, line)
                cells.add(line.start)
        cuts.update(block[place].start for place in items)
        prose.append([line for place, line in enumerate(block) if place not in rows])
    for end in _ends_of_lines(prose):
        reading[end] = "|"
    for found in re.finditer(r"(?<=\w[-‐‑])\n(?=\w)", text):
        reading[found.start()] = " "
    return Layout("".join(reading), sorted(cuts), frozenset(cells))


def cut_spans(spans: list[tuple[int, int]], cuts: list[int]) -> Iterator[tuple[int, int]]:
    """The spans, cut at those of the places that are inside of them."""
    for start, end in spans:
        inside = cuts[bisect_left(cuts, start + 1) : bisect_left(cuts, end)]
        yield from pairwise([start, *inside, end])


def _blocks(text: str) -> Iterator[list[_Line]]:
    """Lines with nothing blank between them."""
    block: list[_Line] = []
    for found in _LINE.finditer(text):
        line = _Line(found.start(), found.end(), found[0])
        if not line.text.strip() or (block and line.start > block[-1].end + 1):
            yield block
            block = []
        if line.text.strip():
            block.append(line)
    yield block


def _rows(block: list[_Line]) -> frozenset[int]:
    """Places of the lines that are rows of a table: with bars, tabs or wide gaps, or each with as
    many commas."""
    barred = {
        place
        for place, line in enumerate(block)
        if line.text.count("|") > 1 or _RULE.match(line.text)
    }
    gapped = {place for place, line in enumerate(block) if _is_gapped(line.text)}
    found = barred | (gapped if len(gapped) > 1 else set())
    for shape, places in groupby(range(len(block)), key=lambda place: _shape(block[place].text)):
        alike = list(places)
        if shape is not None and len(alike) >= _MIN_ROWS:
            found.update(alike)
    return frozenset(found)


def _is_gapped(line: str) -> bool:
    gaps = [found[0] for found in _GAP.finditer(line)]
    return any(len(gap) > 2 or "\t" in gap for gap in gaps) or len(gaps) > 1


def _shape(line: str) -> tuple[int, int] | None:
    """How many commas and semicolons; None where there are too few, or the line goes on."""
    counts = Counter(_DELIMITER.findall(line))
    goes_on = line.rstrip()[-1:] in (",", ";")
    return None if goes_on or max(counts.values(), default=0) < 2 else (counts[","], counts[";"])


def _items(block: list[_Line], rows: frozenset[int]) -> list[int]:
    """Places of the lines that begin an item of a list."""
    items = [
        place for place, line in enumerate(block) if place not in rows and _ITEM.match(line.text)
    ]
    return items if len(items) > 1 or items == [0] else []


def _divide(reading: list[str], row: _Line) -> None:
    for found in _GAP.finditer(row.text):
        reading[row.start + found.start()] = ","
    for place in range(row.start, row.end):
        if reading[place] == "|":
            reading[place] = ","


def _ends_of_lines(blocks: list[list[_Line]]) -> Iterator[int]:
    """Where a line ends that the width of the page did not end. A line that the page has broken is
    too long for the first word of the next one: the longest of those that surely are broken tells
    how wide it is at least."""
    pairs = [
        pair for block in blocks for pair in pairwise(block) if pair[1].start == pair[0].end + 1
    ]
    goes_on = [_first_word(after)[:1].islower() for _, after in pairs]
    width = max(
        (len(line.text) for (line, _), so in zip(pairs, goes_on, strict=True) if so), default=0
    )
    wrapped = sum(goes_on) >= _WRAPPED * len(goes_on)
    longest = max((len(line.text) for block in blocks for line in block), default=0)
    for (line, after), so in zip(pairs, goes_on, strict=True):
        filled = len(line.text.rstrip()) + 1 + len(_first_word(after))
        full = (
            filled > width
            if wrapped
            else filled > _MUCH_SHORTER * longest and len(line.text) > _SHORT
        )
        if _ITEM.match(after.text) or not (so or full):
            yield line.end


def _first_word(line: _Line) -> str:
    found = _FIRST_WORD.match(line.text)
    return found[1] if found else ""
