"""What a table's state is when all is as it should be: cypher.STATES, of rows at hand."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.stores.base import TableState
from pipeline.stores.lists import to_arrow

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

DIGITS = 12


def state_of(rows: pd.DataFrame) -> TableState:
    """``rows``: id and row_hash."""
    of_hashes = _total(pc.utf8_slice_codeunits(to_arrow(rows["row_hash"], pa.large_string()), 0, DIGITS))
    of_ids = _total(pc.utf8_slice_codeunits(to_arrow(rows["id"], pa.large_string()), -DIGITS))
    return TableState(len(rows), f"{of_hashes}-{of_ids}")


def _total(texts: pa.StringArray) -> int:
    """The sum of the numbers that they are with a to f as 0 to 5; what is no such number counts as 0."""
    numbers = texts.filter(pc.match_substring_regex(texts, f"^[0-9a-f]{{{DIGITS}}}$")).cast(pa.binary(DIGITS))
    if not len(numbers):
        return 0
    whole = np.frombuffer(numbers.buffers()[1], np.uint8, len(numbers) * DIGITS, numbers.offset * DIGITS)
    digits = whole - np.where(whole >= ord("a"), np.uint8(ord("a")), np.uint8(ord("0")))
    return int((digits.reshape(-1, DIGITS) @ 10 ** np.arange(DIGITS - 1, -1, -1)).sum())
