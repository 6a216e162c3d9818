"""Run a verb in this process, a rowwise one in slices if asked: slices cannot change the result."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.registry import Verb


@dataclass(frozen=True)
class LocalEngine:
    """``batch_rows``: rows of the rowwise input given to the verb at once; None gives it the whole table."""

    batch_rows: int | None = None

    def run(self, verb: Verb, tables: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        results = [verb.call(batch, roles) for batch in self._batches(verb, tables)]
        if len(results) == 1:
            return results[0]
        return {name: pd.concat([result[name] for result in results], ignore_index=True) for name in verb.outputs}

    def _batches(self, verb: Verb, tables: Mapping[str, pd.DataFrame]) -> Iterator[Mapping[str, pd.DataFrame]]:
        rows = len(tables[verb.rowwise]) if verb.rowwise else 0
        if not verb.rowwise or not self.batch_rows or rows <= self.batch_rows:
            yield tables
            return
        for start in range(0, rows, self.batch_rows):
            batch = tables[verb.rowwise].iloc[start : start + self.batch_rows].reset_index(drop=True)
            yield {**tables, verb.rowwise: batch}
