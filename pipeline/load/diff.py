"""What a table of a store needs to become what the snapshots say."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipeline.stores.base import Delta


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``row_hash``: a digest of every column."""
    cells = zip(*(rows[name] for name in sorted(rows.columns)), strict=True)
    return rows.assign(row_hash=[_row_hash(row) for row in cells])


def diff(rows: pd.DataFrame, stored: Mapping[str, str]) -> Delta:
    """``rows`` have ``id`` and ``row_hash``; ``stored`` maps the ids in the store to their row_hash."""
    before = rows["id"].map(stored)
    new = before.isna()
    changed = ~new & (before != rows["row_hash"])
    return Delta(
        inserted=rows[new],
        updated=rows[changed],
        deleted=sorted(set(stored) - set(rows["id"])),
        unchanged=int((~new & ~changed).sum()),
    )


def _row_hash(row: tuple[Any, ...]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for cell in row:
        encoded = (
            cell.tobytes()
            if isinstance(cell, np.ndarray) and cell.dtype == np.float32
            else json.dumps(cell, ensure_ascii=True, sort_keys=True, default=_plain).encode()
        )
        state.update(len(encoded).to_bytes(8, "big") + encoded)
    return state.hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist()
