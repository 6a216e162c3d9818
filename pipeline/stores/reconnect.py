"""Outlive the restart of a database."""

import time
from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import LostConnectionError

Result = TypeVar("Result")
PAUSE_SECONDS = 0.5


def reconnecting(work: Callable[[], Result], patience: float) -> Result:
    """Do the work; after a lost connection do it again, for so many seconds.

    Raises LostConnectionError when the database does not come back.
    """
    started = time.monotonic()
    while True:
        try:
            return work()
        except LostConnectionError:
            if time.monotonic() - started > patience:
                raise
            time.sleep(PAUSE_SECONDS)
