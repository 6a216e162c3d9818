"""Outlive the restart of a database."""

import math
import time
from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import LostConnectionError

Result = TypeVar("Result")
PAUSE_SECONDS = 0.5


def reconnecting(work: Callable[[], Result], patience: float) -> Result:
    """Do the work; after a lost connection do it again, for so many seconds from the first loss on.

    Raises LostConnectionError when the database does not come back.
    """
    deadline = math.inf
    while True:
        try:
            return work()
        except LostConnectionError:
            lost = time.monotonic()
            deadline = min(deadline, lost + patience)
            if lost > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
