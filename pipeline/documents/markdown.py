"""Tables in Markdown."""

import re
from collections.abc import Sequence

_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\A-{4,}\Z")


def as_table(rows: Sequence[Sequence[str | None]]) -> str:
    """The first row is the header; rows may be of different lengths."""
    width = max(map(len, rows))
    lines = [
        _line([_escaped(cell or "") for cell in row] + [""] * (width - len(row))) for row in rows
    ]
    return "\n".join([lines[0], _line(["---"] * width), *lines[1:]])


def cells_of(line: str) -> list[str]:
    """Of a table's row; no cells for any other line."""
    if not (line.startswith("|") and line.rstrip().endswith("|")):
        return []
    return [cell.strip() for cell in _BAR.split(line.strip())[1:-1]]


def without_padding(text: str) -> str:
    """The text, its tables without the blanks that align columns for the eye: a model pays for each
    of them."""
    lines = [(line, cells_of(line)) for line in text.split("\n")]
    return "\n".join(
        _line(["---" if _RULE.fullmatch(cell) else cell for cell in cells]) if cells else line
        for line, cells in lines
    )


def n_cells(text: str) -> int:
    """How many filled cells its tables have."""
    return sum(bool(cell) for line in text.split("\n") for cell in cells_of(line))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(cell: str) -> str:
    return " ".join(cell.split()).replace("|", r"\|")
