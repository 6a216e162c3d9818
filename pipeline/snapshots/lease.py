"""The lease of an object store: an object that one client at a time holds by renewing it.

No clocks are compared. A client holds the lease as long as it has renewed it within PERIOD by its
own clock. Another client takes it over if it has watched the object stay the same for a whole
period, which necessarily began later. Every change is a write on the condition that nobody else has
written since. So a client that was suspended for longer finds out before it writes anything.
Deletion has no such condition. Therefore a client writes and deletes only in the first half of a
period, and no such request is retried for longer than the other half.
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
"""The file, in the folder that mirrors the objects, with the token of the client's lease. Whoever
holds that folder alone and finds the same token in the lease knows that its holder is dead."""
PERIOD = 2.0 * (LONGEST_CHANGE + 1)
"""Seconds for which a lease holds without renewal."""
RENEWALS = 4
"""Renewals per period."""
FREE = ""
"""The token of a lease that nobody holds."""


@dataclass
class Lease:
    """A lease that this client holds, with ``e_tag`` and ``renewed`` of its last renewal.

    ``turn`` counts the renewals, so that each one changes the object.
    """

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
        """Check that the lease still holds; called before each change.

        In the second half of a period, wait for the renewal. Raises LeaseLostError if another
        client may write.
        """
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
        """Renew the lease until it is lost or has ended; runs in a thread of its own."""
        while not self.ended.wait(self.period / RENEWALS):
            # The store may answer again before the period is over.
            with suppress(ObjectStoreError):
                self.renew()
            if self._is_over:
                self.lost = True
                return

    def renew(self) -> None:
        """Write the next turn. If another client has written the object, the lease is lost."""
        began = _now()
        self.turn += 1
        e_tag = self.objects.replace(LEASE, self.content(), self.e_tag) or self._written_before()
        if e_tag is None:
            self.lost = True
        else:
            self.e_tag, self.renewed = e_tag, began

    def _written_before(self) -> str | None:
        """Return the e-tag if the object is ours after all, else None.

        A request whose answer was lost is sent again, and then fails because its first attempt
        succeeded.
        """
        with suppress(FileNotFoundError):
            content, e_tag = self.objects.read(LEASE)
            return e_tag if content == self.content() else None
        return None

    def give_back(self) -> None:
        """Mark the lease as free, so that the next client need not wait for a period.

        The object is not deleted, because deletion cannot be conditional.
        """
        self.token = FREE
        with suppress(ObjectStoreError):
            self.objects.replace(LEASE, self.content(), self.e_tag)


@contextmanager
def leased(objects: Objects, place: str, folder: Path, period: float = PERIOD) -> Iterator[Lease]:
    """Hold the lease while the block runs.

    ``place`` names the holder in messages. ``folder`` mirrors the objects, and the caller holds it
    alone. Raises LockedError if another client holds the lease.
    """
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
    """Take the lease, waiting for a period if its holder may be dead.

    ``former`` is the token of the previous client of this folder, which has ended. Raises
    LockedError if another client renews the lease meanwhile.
    """
    objects = lease.objects
    since = _now()
    # The e-tag of the lease when this client began to watch it.
    seen = ""
    while True:
        began = _now()
        if e_tag := objects.create(LEASE, lease.content()):
            break
        try:
            found, e_tag = objects.read(LEASE)
        except FileNotFoundError:
            # Somebody has deleted it meanwhile.
            time.sleep(lease.period / 100)
            continue
        holder = _holder(found)
        if seen and e_tag != seen:
            raise LockedError(
                f"{objects.address}: {_describe_holder(holder)} writes there; wait for it to end"
            )
        is_free = holder.get("token") in (FREE, former, lease.token)
        is_expired = seen and _now() - since > lease.period
        if is_free or is_expired:
            if e_tag := objects.replace(LEASE, lease.content(), e_tag):
                break
            raise LockedError(
                f"{objects.address}: another client has just begun to write there; wait for it"
                " to end"
            )
        if not seen:
            seen, since = e_tag, _now()
            tell(
                f"{objects.address}: {_describe_holder(holder)} has it; looking on for"
                f" {lease.period:.0f} s whether it lives"
            )
        time.sleep(lease.period / RENEWALS / 4)
    lease.e_tag, lease.renewed = e_tag, began


def _holder(content: bytes) -> dict[str, Any]:
    """Return what a lease says about its holder; empty if it cannot be read."""
    with suppress(ValueError):
        found = json.loads(content)
        return found if isinstance(found, dict) else {}
    return {}


def _describe_holder(holder: dict[str, Any]) -> str:
    return f"the client of {holder.get('place') or 'another project'}"


def _token(folder: Path) -> str:
    """Return the token of the previous client of the folder; "none" if there was none."""
    with suppress(OSError):
        return (folder / TOKEN).read_text(encoding="utf-8").strip() or "none"
    return "none"


def _now() -> float:
    """Return seconds of a clock that goes on while the machine is suspended, if the system has
    one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


def process_named(place: str) -> str:
    return f"{place}, process {os.getpid()}"
