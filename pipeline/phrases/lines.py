"""Read the layout of a text: rows of tables, items of lists, and the meaning of line ends.

A line ends because the width of the page broke it, or because a title, a row or an item ends.
"""

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
_BROKEN_WORD = re.compile(r"(?<=\w[-‐‑])\n(?=\w)")
_FIRST_WORD = re.compile(r"\s*(\S+)")
_SHORT = 40
"""The most characters of a line that is taken to end on purpose if the page's width is unknown."""
_MUCH_SHORTER = 0.7
"""A line below this share of the longest line ends on purpose if the page's width is unknown."""
_WRAPPED = 0.25
"""A text is broken to a width if this share of its lines goes on with a lower-case letter."""
_MIN_ROWS = 3
"""The fewest lines with equally many commas that are a table."""


class _Line(NamedTuple):
    """A line with its position in the text, without the line break."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Layout:
    """The layout of a text.

    ``reading`` is the text with some characters replaced, so positions stay. ``|`` replaces the
    break behind a line that ends on purpose. A comma replaces what divides the cells of a row that
    is no heading. ``cuts`` holds the positions, in order, at which rows of tables begin and end and
    items of lists begin. ``cells`` holds the positions at which rows that are no headings begin.
    """

    reading: str
    cuts: list[int]
    cells: frozenset[int]


def read_layout(text: str) -> Layout:
    """Return the layout of a text; each line is judged by the lines around it."""
    if "\n" not in text.strip():
        return Layout(text, [], frozenset())
    reading = list(text)
    cuts: set[int] = set()
    cells: set[int] = set()
    prose: list[list[_Line]] = []
    for block in _blocks(text):
        rows = _find_rows(block)
        for place in rows:
            line = block[place]
            cuts.update((line.start, line.end))
            # A row of headings has a rule below it: |---|---|. The rule itself is no row of cells.
            line_and_next = block[place : place + 2]
            is_heading = any(_RULE.match(row.text) for row in line_and_next)
            if not is_heading:
                _divide_cells(reading, line)
                cells.add(line.start)
        for place in _find_items(block, rows):
            cuts.add(block[place].start)
        prose.append([line for place, line in enumerate(block) if place not in rows])
    # A line break is one character, so the position of the end of a line is that of its break.
    for end in _ends_on_purpose(prose):
        reading[end] = "|"
    for broken_word in _BROKEN_WORD.finditer(text):
        reading[broken_word.start()] = " "
    return Layout("".join(reading), sorted(cuts), frozenset(cells))


def cut_spans(spans: list[tuple[int, int]], cuts: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the spans, divided at the positions ``cuts`` (in order) that are inside of them."""
    for start, end in spans:
        first_inside = bisect_left(cuts, start + 1)
        first_behind = bisect_left(cuts, end)
        inside = cuts[first_inside:first_behind]
        yield from pairwise([start, *inside, end])


def _blocks(text: str) -> Iterator[list[_Line]]:
    """Yield blocks of lines without a blank line between them; blocks may be empty."""
    block: list[_Line] = []
    for found in _LINE.finditer(text):
        line = _Line(found.start(), found.end(), found[0])
        is_blank = not line.text.strip()
        # An empty line is no match of the pattern; it shows as a gap between two lines.
        follows_empty_line = bool(block) and line.start > block[-1].end + 1
        if is_blank or follows_empty_line:
            yield block
            block = []
        if not is_blank:
            block.append(line)
    yield block


def _find_rows(block: list[_Line]) -> frozenset[int]:
    """Return the indexes of the lines that are rows of a table.

    They have bars, tabs or wide gaps, or follow each other with equally many commas.
    """
    rows: set[int] = set()
    with_gaps: set[int] = set()
    for place, line in enumerate(block):
        if line.text.count("|") > 1 or _RULE.match(line.text):
            rows.add(place)
        if _has_gaps(line.text):
            with_gaps.add(place)
    # A single line with gaps may be prose that was typed carelessly.
    if len(with_gaps) > 1:
        rows |= with_gaps
    delimiters = [_count_delimiters(line.text) for line in block]
    for counts, neighbours in groupby(range(len(block)), delimiters.__getitem__):
        places = list(neighbours)
        if counts is not None and len(places) >= _MIN_ROWS:
            rows.update(places)
    return frozenset(rows)


def _has_gaps(line: str) -> bool:
    """Return whether a tab or three spaces divide the line, or two spaces more than once."""
    gaps = [found[0] for found in _GAP.finditer(line)]
    if len(gaps) > 1:
        return True
    return any(len(gap) > 2 or "\t" in gap for gap in gaps)


def _count_delimiters(line: str) -> tuple[int, int] | None:
    """Return the numbers of commas and semicolons in a line.

    Returns None if there are fewer than two of each, or if the line ends with one and so goes on.
    """
    if line.rstrip().endswith((",", ";")):
        return None
    counts = Counter(_DELIMITER.findall(line))
    if counts[","] < 2 and counts[";"] < 2:
        return None
    return counts[","], counts[";"]


def _find_items(block: list[_Line], rows: frozenset[int]) -> list[int]:
    """Return the indexes of the lines that begin an item of a list.

    A single item counts only in the first line of the block.
    """
    items: list[int] = []
    for place, line in enumerate(block):
        if place not in rows and _ITEM.match(line.text):
            items.append(place)
    are_list = len(items) > 1 or items == [0]
    return items if are_list else []


def _divide_cells(reading: list[str], row: _Line) -> None:
    """Replace the gaps and bars between the cells of a row by commas."""
    for found in _GAP.finditer(row.text):
        reading[row.start + found.start()] = ","
    for place in range(row.start, row.end):
        if reading[place] == "|":
            reading[place] = ","


def _ends_on_purpose(blocks: list[list[_Line]]) -> Iterator[int]:
    """Yield the ends of lines that the width of the page did not break.

    A line is broken if the first word of the next one would not have fitted. In a text that is
    broken to a width, the width is at least that of the longest line that surely goes on: the next
    line begins with a lower-case letter.
    """
    longest = 0
    broken_lengths: list[int] = []
    neighbours: list[tuple[_Line, _Line, str]] = []
    for block in blocks:
        longest = max([longest, *(len(line.text) for line in block)])
        for line, next_line in pairwise(block):
            # Rows of tables are left out of a block; the lines around them are no neighbours.
            if next_line.start != line.end + 1:
                continue
            next_word = _first_word(next_line)
            neighbours.append((line, next_line, next_word))
            if next_word[:1].islower():
                broken_lengths.append(len(line.text))
    width = max(broken_lengths, default=0)
    is_wrapped = len(broken_lengths) >= _WRAPPED * len(neighbours)
    for line, next_line, next_word in neighbours:
        surely_goes_on = next_word[:1].islower()
        length_with_next_word = len(line.text.rstrip()) + 1 + len(next_word)
        if is_wrapped:
            is_full = length_with_next_word > width
        else:
            is_long = length_with_next_word > _MUCH_SHORTER * longest
            is_full = is_long and len(line.text) > _SHORT
        begins_item = _ITEM.match(next_line.text)
        if begins_item or not (surely_goes_on or is_full):
            yield line.end


def _first_word(line: _Line) -> str:
    """Return the first word of the line with its punctuation."""
    found = _FIRST_WORD.match(line.text)
    return found[1] if found else ""
