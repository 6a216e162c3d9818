"""Records of the query stage, compared field by field."""

from collections.abc import Iterable
from typing import Any


def column(records: Iterable[Any], name: str) -> list[Any]:
    """A field of each."""
    return [getattr(record, name) for record in records]
