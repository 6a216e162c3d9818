"""What a table's state is when all is as it should be: cypher.STATES, of rows at hand."""

import numpy as np
import pandas as pd

from pipeline.stores.base import TableState

DIGITS = 12


def state_of(rows: pd.DataFrame) -> TableState:
    """``rows``: id and row_hash."""
    of_hashes = _total(rows["row_hash"].str[:DIGITS])
    of_ids = _total(rows["id"].str[-DIGITS:])
    return TableState(len(rows), f"{of_hashes}-{of_ids}")


def _total(texts: pd.Series) -> int:
    """The sum of the numbers that they are with a to f as 0 to 5; what is no such number counts as 0."""
    texts = texts[texts.str.fullmatch(f"[0-9a-f]{{{DIGITS}}}")]
    characters = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8).reshape(-1, DIGITS).astype(np.int64)
    digits = characters - np.where(characters >= ord("a"), ord("a"), ord("0"))
    return int((digits @ 10 ** np.arange(DIGITS - 1, -1, -1)).sum())
