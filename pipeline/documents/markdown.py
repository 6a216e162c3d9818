"""Write and read tables in Markdown."""

import re
from collections.abc import Sequence

_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\A-{4,}\Z")


def as_table(rows: Sequence[Sequence[str | None]]) -> str:
    """Return the rows as a table in Markdown.

    The first row is the header. Shorter rows are filled with empty cells; None is empty.
    """
    width = max(map(len, rows))
    lines: list[str] = []
    for row in rows:
        cells = [_escape(cell or "") for cell in row]
        padding = [""] * (width - len(row))
        lines.append(_join_cells(cells + padding))
    rule = _join_cells(["---"] * width)
    return "\n".join([lines[0], rule, *lines[1:]])


def cells_of(line: str) -> list[str]:
    """Return the cells of a line if it is a row of a table, else an empty list."""
    if not (line.startswith("|") and line.rstrip().endswith("|")):
        return []
    return [cell.strip() for cell in _BAR.split(line.strip())[1:-1]]


def without_padding(text: str) -> str:
    """Return the text without the blanks that align the columns of its tables.

    They serve the eye only, and a model is paid for each of them.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        cells = cells_of(line)
        if not cells:
            lines.append(line)
            continue
        short_cells = ["---" if _RULE.fullmatch(cell) else cell for cell in cells]
        lines.append(_join_cells(short_cells))
    return "\n".join(lines)


def n_cells(text: str) -> int:
    """Count the cells of the text's tables that are not empty."""
    count = 0
    for line in text.split("\n"):
        count += sum(1 for cell in cells_of(line) if cell)
    return count


def _join_cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(cell: str) -> str:
    return " ".join(cell.split()).replace("|", r"\|")
