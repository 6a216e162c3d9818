"""A folder that mirrors an object store, where the snapshots are: it may be deleted at any time.

Files of tables are immutable: one that is not here is fetched when it is read, one that was written
here goes up before anything points at it. JSON is read there and written there, on the condition
that nobody has written it since. Who writes holds the lease (snapshots/lease.py); what the store
has is listed once then, and known from there on.
"""

import math
import secrets
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DamagedError, DataError, LeaseLostError, ObjectStoreError
from pipeline.files import json_content, json_text, temporary_file
from pipeline.snapshots.folder import UNFINISHED, Folder, Kept
from pipeline.snapshots.lease import PERIOD, Lease, leased, process_named
from pipeline.snapshots.objects import Objects, StoredObject

CHECKED = "check-"
"""What the names of objects begin with that are written to see whether the server honours
conditions."""
SEEN_SECONDS = 10.0
"""For which who does not hold the lease goes by what it has seen in the store: others may delete
meanwhile."""
FORGOTTEN = 86_400.0
"""Seconds after which who wrote such an object is not at it any more, also by a clock that is
wrong."""
PARQUET = ".parquet"
FOOTER = 2**16
"""Bytes at the end of a file that are read for its columns; more where those have more."""


@dataclass
class Mirror(Folder):
    """``there``: what is known to be in the store, by name; with the lease that is all but what is
    noted of tasks. ``damaged``: files that are not what they are named by, there.
    ``tasks_at_large``: whether other processes may have noted tasks since the store was looked
    through. ``looked``: when that was."""

    objects: Objects = field(kw_only=True)
    period: float = field(default=PERIOD, kw_only=True)
    there: dict[str, StoredObject] = field(default_factory=dict, repr=False)
    damaged: set[str] = field(default_factory=set, repr=False)
    lease: Lease | None = field(default=None, repr=False)
    tasks_at_large: bool = field(default=True, repr=False)
    looked: float = field(default=-math.inf, repr=False)

    is_private = False

    @property
    def address(self) -> str:
        return self.objects.address.rstrip("/")

    @contextmanager
    def alone(self, place: str) -> Iterator[None]:
        """Holds the lease."""
        refuse_unconditional(self.objects)
        with leased(self.objects, process_named(place), self.root, self.period) as lease:
            self.lease = lease
            try:
                self.look_anew()
                self.tasks_at_large = any(map(_is_of_tasks, self.there))
                yield
            finally:
                self.lease = None

    def look_anew(self) -> None:
        """What the store does not have is deleted here too: another client may have purged it."""
        self._look()
        super().delete([kept.name for kept in self._only_here(self.there)])

    def _look(self) -> None:
        self.looked = time.monotonic()
        self.there = {found.name: found for found in self.objects.listed()}

    def _look_for(self, names: Collection[str]) -> None:
        """Where there may be more to know of these: who holds the lease knows all but what others
        put up for tasks."""
        is_old = time.monotonic() - self.looked > SEEN_SECONDS
        if self.lease:
            look = self.tasks_at_large and not self.there.keys() >= set(names)
        else:
            look = bool(names) and (is_old or not self.there.keys() >= set(names))
        if look:
            self._look()

    def _look_unless_listed(self, names: Iterable[str]) -> None:
        """Of what was put up since no more is known than that it is there."""
        if not all(name in self.there and self.there[name].e_tag for name in names):
            self._look()

    def _only_here(self, there: Container[str], below: str = "") -> list[Kept]:
        mirrored = (
            kept
            for kept in super().listed(below)
            if kept.name.endswith(PARQUET) or _is_of_tasks(kept.name)
        )
        return [kept for kept in mirrored if kept.name not in there]

    def _check(self) -> None:
        """Before what is put up for tasks, which who does not hold the lease may do too."""
        if self.lease:
            self.lease.check()

    def _may_write(self) -> None:
        if self.lease is None:
            raise LeaseLostError(
                f"{self.address}: nothing is written there by who does not hold its lease"
            )
        self.lease.check()

    def whole(self, name: str) -> Path:
        if not self.is_here(name):
            self._fetch(name)
        try:
            return super().whole(name)
        except DamagedError:  # here, or on the way
            (self.root / name).unlink()
            self._fetch(name)
        try:
            return super().whole(name)
        except DamagedError as error:
            self.damaged.add(name)
            raise DamagedError(self.told(name), error.fact) from error

    def _fetch(self, name: str) -> None:
        try:
            self._get(name)
        except FileNotFoundError as error:
            raise DataError(f"{self.told(name)}: not there; run the workflow again") from error

    def _get(self, name: str) -> None:
        """Raises FileNotFoundError."""
        path = self.root / name
        try:
            with temporary_file(path.parent) as temporary:
                self.objects.fetch(name, temporary)
                temporary.replace(path)
        except FileNotFoundError:
            self.there.pop(name, None)
            raise

    def bring(self, names: Iterable[str]) -> None:
        self.objects.each(
            self._fetch, [name for name in dict.fromkeys(names) if not self.is_here(name)]
        )

    def require(self, names: Iterable[str]) -> None:
        """That they are in the store, which keeps what it has as it was; of one that is damaged all
        the same is told when it is read."""
        for lacking in sorted(self.lacking(names)):
            raise DataError(f"{self.told(lacking)}: not there, or damaged; run the workflow again")

    def lacking(self, names: Iterable[str]) -> set[str]:
        asked = set(names)
        self._look_for(asked)
        return {name for name in asked if name not in self.there or name in self.damaged}

    def keep(self, names: Iterable[str]) -> None:
        lacking = {
            name: self.root / name
            for name in names
            if name not in self.there or name in self.damaged
        }
        if not lacking:
            return
        self.require([name for name in lacking if not self.is_here(name)])
        lacking = {name: path for name, path in lacking.items() if self.is_here(name)}
        whole = {name: path for name, path in lacking.items() if name not in self.damaged}
        self.objects.upload(whole, may=self._check)
        self.objects.upload(
            {name: lacking[name] for name in lacking.keys() - whole.keys()}, True, self._check
        )
        self.kept_by_others(lacking)
        self.damaged -= set(lacking)

    def kept_by_others(self, names: Iterable[str]) -> None:
        self.there |= {
            name: StoredObject(name, 0, "", time.time()) for name in names if name not in self.there
        }

    def columns(self, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """No more is fetched than where the file says it."""
        self._look_unless_listed(names)
        found = self.objects.each(self._columns, names)
        return (
            (name, columns)
            for name, columns in zip(names, found, strict=True)
            if columns is not None
        )

    def _columns(self, name: str) -> list[str] | None:
        try:
            if self.is_here(name):
                return pq.read_schema(self.whole(name)).names
            size = self.there[name].bytes
            footer = self.objects.read_end(name, size, FOOTER)
            needed = int.from_bytes(footer[-8:-4], "little") + 8
            if needed > len(footer):
                footer = self.objects.read_end(name, size, needed)
            return pq.read_schema(pa.BufferReader(footer)).names
        except (OSError, ValueError, KeyError, DataError):
            return None

    def read(self, name: str) -> dict[str, Any]:
        if self.lease and name not in self.there and not _is_of_tasks(name):
            raise FileNotFoundError(self.told(name))
        return json_content(self.objects.read(name)[0], self.told(name))

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Raises LeaseLostError where another client has written it since."""
        self._may_write()
        text, known = json_text(content).encode(), self.there.get(name)
        found = (
            self.objects.create(name, text)
            if known is None
            else self.objects.replace(name, text, known.e_tag)
        )
        self._noted(name, text, found if found is not None else self._written_before(name, text))

    def _noted(self, name: str, text: bytes, e_tag: str) -> None:
        self.there[name] = StoredObject(name, len(text), e_tag, time.time())

    def _written_before(self, name: str, text: bytes) -> str:
        """The e-tag of what is there already: of a request whose answer was lost, or by another
        client."""
        try:
            present, e_tag = self.objects.read(name)
        except FileNotFoundError:
            present, e_tag = b"", ""
        if present != text:
            raise LeaseLostError(
                f"{self.told(name)}: another client has written it meanwhile; run the same command"
                " again: it goes on from what is done"
            )
        return e_tag

    def note(self, name: str, content: Mapping[str, Any]) -> None:
        self._check()
        text, self.tasks_at_large = json_text(content).encode(), True
        self._noted(name, text, self.objects.overwrite(name, text))

    def share(self, files: Mapping[str, Path]) -> None:
        super().share(files)
        self.tasks_at_large = True
        self.objects.upload({name: self.root / name for name in files}, True, self._check)
        self.kept_by_others(files)

    def shared(self, name: str) -> Path:
        if not self.is_here(name):
            self._get(name)
        return self.root / name

    def listed(self, below: str = "") -> list[Kept]:
        """Also what is here alone: it is to be seen by who deletes."""
        start = f"{below}/" if below else ""
        self.tasks_at_large |= _is_of_tasks(start)
        if self.lease and not _is_of_tasks(start):
            self._look_unless_listed([name for name in self.there if name.startswith(start)])
            found = [each for name, each in sorted(self.there.items()) if name.startswith(start)]
        else:
            found = self.objects.listed(start)
        kept = {each.name: Kept(each.name, each.bytes, each.changed) for each in found}
        return [*kept.values(), *self._only_here(kept, below)]

    def top(self) -> list[str]:
        return (
            sorted(name for name in self.there if "/" not in name)
            if self.lease
            else self.objects.top()
        )

    def delete(self, names: Sequence[str]) -> None:
        """There and here."""
        self._may_write()
        if there := [name for name in names if name in self.there or _is_of_tasks(name)]:
            self.objects.delete(there, self._may_write)
        for name in names:
            self.there.pop(name, None)
        super().delete(names)

    def take_back(self, names: Sequence[str]) -> None:
        self.objects.delete(names)
        super().delete(names)

    def clear(self, below: str) -> None:
        if below != UNFINISHED or self.tasks_at_large:
            self.delete([kept.name for kept in self.listed(below)])
        super().clear(below)
        self.tasks_at_large &= below != UNFINISHED

    def sweep(self) -> None:
        """Also objects that were written to look at the server, once nobody can want them any
        more."""
        super().sweep()
        left = [name for name in self.top() if name.startswith(CHECKED)]
        self.delete([name for name in left if self.there[name].changed < time.time() - FORGOTTEN])


def refuse_unconditional(objects: Objects) -> bool:
    """Raises ObjectStoreError for a server that writes although it was told not to: two clients
    would overwrite what the other has written. Returns whether its bucket keeps what is overwritten
    or deleted."""
    name = f"{CHECKED}{secrets.token_hex(8)}"
    first = objects.create(name, b"first")
    try:
        if first is None or objects.create(name, b"second") is not None:
            raise _unconditional(objects, "If-None-Match")
        if objects.replace(name, b"third", '"another"') is not None:
            raise _unconditional(objects, "If-Match")
        if objects.replace(name, b"fourth", first) is None:
            raise _unconditional(objects, "If-Match")
        return objects.keeps_versions(name)
    finally:
        objects.delete([name])


def _unconditional(objects: Objects, header: str) -> ObjectStoreError:
    return ObjectStoreError(
        f"{objects.address}: the server does not honour {header}, without which two clients"
        " overwrite each other; use one that does, as Amazon S3 and Google Cloud Storage do, or a"
        " folder as 'snapshots'"
    )


def _is_of_tasks(name: str) -> bool:
    return name.startswith(f"{UNFINISHED}/")
