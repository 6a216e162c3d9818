"""Cells as Python has them, and cells that can be compared: arrays cannot."""

from typing import Any

import numpy as np
import pandas as pd

from pipeline.schemas import as_json_text


def plain(cell: Any) -> Any:
    """A cell without numpy's types: lists for arrays, None for what is missing, a number that is NaN too."""
    if isinstance(cell, np.ndarray):
        return [plain(item) for item in cell.tolist()]
    if isinstance(cell, list | dict):
        return cell
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if pd.isna(cell) else cell


def plain_cells(cells: pd.Series) -> list[Any]:
    return [plain(cell) for cell in cells.tolist()]


def distinct_cells(cells: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Each different cell once, and for each row which of them it has; lists are not compared."""
    if _holds_lists(cells):
        return np.arange(len(cells)), plain_cells(cells)
    places, values = pd.factorize(cells, use_na_sentinel=False)
    return places, [plain(value) for value in values]


def comparable_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a text in place of every list, its rows numbered from 0."""
    nested = [name for name in table.columns if _holds_lists(table[name])]
    texts = {name: table[name].map(as_json_text, na_action="ignore") for name in nested}
    return table.assign(**texts).reset_index(drop=True)


def _holds_lists(cells: pd.Series) -> bool:
    return cells.dtype == object and any(isinstance(cell, np.ndarray | list | dict) for cell in cells)
