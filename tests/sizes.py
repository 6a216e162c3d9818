"""How much of a heavy test runs: a reduced form by default, the whole of it under GRAPHMILL_FULL=1 (`make test-full`)."""

import os
from typing import TypeVar

Size = TypeVar("Size")


def full() -> bool:
    return os.environ.get("GRAPHMILL_FULL") == "1"


def size(reduced: Size, whole: Size) -> Size:
    return whole if full() else reduced
