"""How much of a heavy test runs: a reduced form, or under GRAPHMILL_FULL=1 (`make test-full`) the
whole of it."""

import os
from typing import TypeVar

import pytest

Size = TypeVar("Size")


def full() -> bool:
    return os.environ.get("GRAPHMILL_FULL") == "1"


def size(reduced: Size, whole: Size) -> Size:
    return whole if full() else reduced


def only_whole(reason: str) -> pytest.MarkDecorator:
    """Of a test that has no reduced form."""
    return pytest.mark.skipif(not full(), reason=f"{reason}: GRAPHMILL_FULL=1")
