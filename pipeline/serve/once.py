"""Answer a request that is sent again with the same Idempotency-Key as the first time, without
doing its work again."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Any

from fastapi import Header

from pipeline.errors import DamagedError, UsageError
from pipeline.files import alone_in, read_json, write_json
from pipeline.runs.requested import FOLDER
from pipeline.serve.access import Access
from pipeline.text.ids import digest

MOST_KEYS = 10_000
"""Answers of a day that are kept for one caller."""
IdempotencyKey = Annotated[
    str,
    Header(
        max_length=255,
        description="Sent again with the same body within a day, it gets the same answer.",
    ),
]


def once(
    access: Access,
    what: str,
    key: str,
    body: Sequence[str],
    work: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Return what ``work`` returns, or what it has returned for this key of this caller.

    ``what`` names the kind of request, and ``body`` is what it asks for. Answers are kept until
    the end of the next day (UTC). Raises UsageError for a key that was sent with another body, and
    for more than ``MOST_KEYS`` in a day.
    """
    if not key:
        return work()
    folder = access.served.root / FOLDER / "keys"
    # A front end could make users up, so its keys are counted together.
    caller = digest(access.caller.name)
    name, asked = f"{caller}/{digest(access.turns_key, what, key)}.json", digest(*body)
    with alone_in(folder):
        days = _days()
        for day in days:
            known = _read_answer(folder / day / name)
            if known is None:
                continue
            if known["body"] != asked:
                raise UsageError(
                    "Idempotency-Key: it was sent with another body before; send a new key"
                )
            return known["answer"]
        if sum(1 for _ in (folder / days[0] / caller).glob("*.json")) >= MOST_KEYS:
            raise UsageError(
                f"Idempotency-Key: {MOST_KEYS:,} were sent today; send the request without one"
            )
        answer = work()
        for old in folder.iterdir():
            # A later day is that of a process whose clock is ahead.
            if old.name < days[-1]:
                rmtree(old, ignore_errors=True)
        write_json(folder / days[0] / name, {"body": asked, "answer": answer})
        return answer


def _days() -> list[str]:
    """Return today and yesterday (UTC)."""
    now = datetime.now(UTC)
    return [f"{day:%Y-%m-%d}" for day in (now, now - timedelta(days=1))]


def _read_answer(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except (FileNotFoundError, DamagedError):
        return None
