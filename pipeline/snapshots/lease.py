"""Who writes to an object store: one client at a time, by an object that it renews.

No clocks are compared. A client holds the lease as long as it has renewed it within PERIOD by its
own clock; another takes it over when the object has stayed the same for a whole period while it
looked on, which began later. Each change is a write on the condition that nobody else has written
since. A client that was asleep for longer finds out before it writes anything, and what it writes
then is on conditions too. To delete there is no condition: it writes and deletes only in the first
half of a period, and no such request is tried for longer than the other half.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import LeaseLostError, LockedError, ObjectStoreError
from pipeline.files import tell, write_text
from pipeline.snapshots.objects import LONGEST_CHANGE, Objects

LEASE = "lease.json"
TOKEN = "lease-token"  # noqa: S105 - the name of a file
"""The file, in the folder that mirrors the objects, with what the lease of its client says: who
holds that folder alone and finds it in the lease knows that its holder is dead."""
PERIOD = 2.0 * (LONGEST_CHANGE + 1)
"""Seconds."""
RENEWALS = 4
"""In a period."""
FREE = ""


@dataclass
class Lease:
    objects: Objects
    token: str
    place: str
    period: float
    e_tag: str = ""
    turn: int = 0
    renewed: float = 0.0
    lost: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Before each change. In the second half of a period it waits for the lease to be renewed.

        Raises LeaseLostError where somebody else may write."""
        while not self._is_over and _now() - self.renewed > self.period / 2:
            time.sleep(self.period / 100)
        if self._is_over:
            raise LeaseLostError(
                f"{self.objects.address}: another client may have taken it over while this one did"
                " not answer; run the same command again: it goes on from what is done"
            )

    @property
    def _is_over(self) -> bool:
        return self.lost or _now() - self.renewed > self.period

    def content(self) -> bytes:
        return json.dumps({"token": self.token, "place": self.place, "turn": self.turn}).encode()

    def keep_on(self) -> None:
        """Renew it until it is lost or has ended."""
        while not self.ended.wait(self.period / RENEWALS):
            with suppress(ObjectStoreError):  # it may answer again in time
                self.renew()
            if self._is_over:
                self.lost = True
                return

    def renew(self) -> None:
        began, self.turn = _now(), self.turn + 1
        found = self.objects.replace(LEASE, self.content(), self.e_tag) or self._written_before()
        if found is None:
            self.lost = True
        else:
            self.e_tag, self.renewed = found, began

    def _written_before(self) -> str | None:
        """The e-tag where it is ours after all: of a request whose answer was lost, and which was
        sent again."""
        with suppress(FileNotFoundError):
            content, e_tag = self.objects.read(LEASE)
            return e_tag if content == self.content() else None
        return None

    def give_back(self) -> None:
        """Whoever comes next need not wait. Nothing is deleted: that cannot be done on a
        condition."""
        self.token = FREE
        with suppress(ObjectStoreError):
            self.objects.replace(LEASE, self.content(), self.e_tag)


@contextmanager
def leased(objects: Objects, place: str, folder: Path, period: float = PERIOD) -> Iterator[Lease]:
    """``place``: whose it is, for people; ``folder``: that mirrors the objects, which the caller
    holds alone.

    Raises LockedError when another client holds it."""
    former = _token(folder)
    lease = Lease(objects, secrets.token_hex(16), place, period)
    write_text(folder / TOKEN, lease.token)
    _take(lease, former)
    renewing = threading.Thread(target=lease.keep_on, name="lease", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        lease.ended.set()
        renewing.join()
        if not lease.lost:
            lease.give_back()


def _take(lease: Lease, former: str) -> None:
    """``former``: the token of a client that has ended."""
    objects, since, seen = lease.objects, _now(), ""
    while True:
        began = _now()
        if e_tag := objects.create(LEASE, lease.content()):
            break
        try:
            found, e_tag = objects.read(LEASE)
        except FileNotFoundError:  # somebody has deleted it meanwhile
            time.sleep(lease.period / 100)
            continue
        holder = _holder(found)
        if seen and e_tag != seen:
            raise LockedError(
                f"{objects.address}: {_told(holder)} writes there; wait for it to end"
            )
        if holder.get("token") in (FREE, former, lease.token) or (
            seen and _now() - since > lease.period
        ):
            if e_tag := objects.replace(LEASE, lease.content(), e_tag):
                break
            raise LockedError(
                f"{objects.address}: another client has just begun to write there; wait for it"
                " to end"
            )
        if not seen:
            seen, since = e_tag, _now()
            tell(
                f"{objects.address}: {_told(holder)} has it; looking on for {lease.period:.0f} s"
                " whether it lives"
            )
        time.sleep(lease.period / RENEWALS / 4)
    lease.e_tag, lease.renewed = e_tag, began


def _holder(content: bytes) -> dict[str, Any]:
    """Nobody's where it cannot be read."""
    with suppress(ValueError):
        found = json.loads(content)
        return found if isinstance(found, dict) else {}
    return {}


def _told(holder: dict[str, Any]) -> str:
    return f"the client of {holder.get('place') or 'another project'}"


def _token(folder: Path) -> str:
    """That of no client, where there is none."""
    with suppress(OSError):
        return (folder / TOKEN).read_text(encoding="utf-8").strip() or "none"
    return "none"


def _now() -> float:
    """Also of the time that the machine was asleep."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


def process_named(place: str) -> str:
    return f"{place}, process {os.getpid()}"
