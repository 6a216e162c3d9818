"""What people call a row."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pandas as pd

from pipeline.text import clean_name

SHOWN = 10
LONGEST = 60
NAMES = (
    ["title"], ["entity_name"], ["display_name"], ["name"], ["src_id", "tgt_id"], ["source", "target"],
    ["subject", "object"], ["content"], ["text"], ["entity_id"], ["id"],
)  # fmt: skip
"""Columns that name a row, in snapshots and stores; the first that a table has."""


@dataclass(frozen=True, order=True)
class Named:
    name: str
    id: str


def name_columns(columns: Collection[str]) -> list[str]:
    """Which of a table's columns name its rows."""
    return next(names for names in NAMES if set(names) <= set(columns))


def row_names(rows: pd.DataFrame) -> list[str]:
    """A short line for each row."""
    cells = zip(*(rows[column] for column in name_columns(rows.columns)), strict=True)
    return [_line(" -> ".join(str(cell) for cell in row)) for row in cells]


def first_named(rows: Iterable[Named]) -> tuple[Named, ...]:
    """The first few by name."""
    return tuple(sorted(rows)[:SHOWN])


def _line(name: str) -> str:
    line = clean_name(name)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
