"""A verb as it would be called by who splits its table: law 11 says that nobody can tell."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pipeline.contract.registry import Verb


def called_in_slices(
    verb: Verb, tables: Mapping[str, pd.DataFrame], roles: Mapping[str, Any], rows: int | None
) -> dict[str, pd.DataFrame]:
    """``rows``: those of the rowwise input that it is given at once; None gives it the whole
    table."""
    results = [verb.call(part, roles) for part in _slices(verb, tables, rows)]
    return {
        name: pd.concat([result[name] for result in results], ignore_index=True)
        for name in verb.outputs
    }


def _slices(
    verb: Verb, tables: Mapping[str, pd.DataFrame], rows: int | None
) -> Iterator[Mapping[str, pd.DataFrame]]:
    if not verb.rowwise or not rows or tables[verb.rowwise].empty:
        yield tables
        return
    for start in range(0, len(tables[verb.rowwise]), rows):
        part = tables[verb.rowwise].iloc[start : start + rows].reset_index(drop=True)
        yield {**tables, verb.rowwise: part}
