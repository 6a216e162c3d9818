"""What a table's state is when all is as it should be: cypher.STATES, of rows at hand."""

from collections.abc import Mapping

from pipeline.stores.base import Delta, TableState

_DIGITS = str.maketrans("abcdef", "012345")


def state_of(hashes: Mapping[str, str]) -> TableState:
    """``hashes``: id -> row_hash."""
    of_hashes = sum(_number(row_hash[:12]) for row_hash in hashes.values())
    of_ids = sum(_number(id[-12:]) for id in hashes)
    return TableState(len(hashes), f"{of_hashes}-{of_ids}")


def after(hashes: Mapping[str, str], delta: Delta) -> dict[str, str]:
    """id -> row_hash when the delta is applied."""
    gone = set(delta.deleted)
    kept = {id: row_hash for id, row_hash in hashes.items() if id not in gone}
    for rows in (delta.inserted, delta.updated):
        kept.update(zip(rows["id"], rows["row_hash"], strict=True))
    return kept


def _number(digits: str) -> int:
    translated = digits.translate(_DIGITS)
    return int(translated) if translated.isascii() and translated.isdigit() else 0
