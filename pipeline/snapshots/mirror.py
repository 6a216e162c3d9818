"""A folder that mirrors an object store with the snapshots; it may be deleted at any time.

Files of tables are immutable. One that is not here is fetched when it is read; one that was written
here is uploaded before anything points at it. JSON is read from and written to the store, on the
condition that nobody else has written it since. A writer holds the lease (snapshots/lease.py). It
lists the store once, and from then on knows what the store has.
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
"""Prefix of the objects that are written to test whether the server honours conditions."""
SEEN_SECONDS = 10.0
"""Seconds for which a listing of the store is trusted by a process without the lease. Others may
delete objects meanwhile."""
FORGOTTEN = 86_400.0
"""Seconds after which such a test object is no longer in use, even if a clock is wrong."""
PARQUET = ".parquet"
FOOTER = 2**16
"""Bytes at the end of a Parquet file that are read for its columns; more if its footer is
larger."""


@dataclass
class Mirror(Folder):
    """A folder on disk and the object store that it mirrors.

    - ``there`` maps the names of objects known to be in the store. With the lease these are all
      objects except notes on tasks.
    - ``damaged`` has the files whose content in the store does not match their name.
    - ``tasks_at_large`` is true if other processes may have noted tasks since the store was listed.
    - ``looked`` is the time of that listing, on the monotonic clock.
    """

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
        """Hold the lease of the object store, as writers must.

        Raises LockedError if another client writes there. After another client has taken the lease
        over, writing raises LeaseLostError.
        """
        refuse_unconditional(self.objects)
        with leased(self.objects, process_named(place), self.root, self.period) as lease:
            self.lease = lease
            try:
                self.refresh()
                self.tasks_at_large = any(map(_is_of_tasks, self.there))
                yield
            finally:
                self.lease = None

    def refresh(self) -> None:
        """List the store again, and delete here what it no longer has: another client may have
        purged it."""
        self._list_store()
        super().delete([kept.name for kept in self._only_here(self.there)])

    def _list_store(self) -> None:
        self.looked = time.monotonic()
        self.there = {found.name: found for found in self.objects.listed()}

    def _list_store_for(self, names: Collection[str]) -> None:
        """List the store again if it may have more to say about these objects.

        The holder of the lease knows everything except what others upload for tasks.
        """
        is_old = time.monotonic() - self.looked > SEEN_SECONDS
        some_are_unknown = not self.there.keys() >= set(names)
        if self.lease:
            must_list = self.tasks_at_large and some_are_unknown
        else:
            must_list = bool(names) and (is_old or some_are_unknown)
        if must_list:
            self._list_store()

    def _list_store_unless_known(self, names: Iterable[str]) -> None:
        """List the store again unless size and time are known of all these objects.

        Of an object uploaded since the last listing, only the name is known.
        """
        for name in names:
            if name not in self.there or not self.there[name].e_tag:
                self._list_store()
                return

    def _only_here(self, there: Container[str], below: str = "") -> list[Kept]:
        """Return the mirrored files on disk below that are not in ``there``."""
        found: list[Kept] = []
        for kept in super().listed(below):
            is_mirrored = kept.name.endswith(PARQUET) or _is_of_tasks(kept.name)
            if is_mirrored and kept.name not in there:
                found.append(kept)
        return found

    def _check_lease(self) -> None:
        """Check the lease, if this process holds it, before an upload for tasks; others may do that
        too."""
        if self.lease:
            self.lease.check()

    def _may_write(self) -> None:
        """Check that this process holds the lease. Raises LeaseLostError otherwise."""
        if self.lease is None:
            raise LeaseLostError(
                f"{self.address}: nothing is written there by who does not hold its lease"
            )
        self.lease.check()

    def find_undamaged(self, name: str) -> Path:
        if not self.is_here(name):
            self._fetch(name)
        try:
            return super().find_undamaged(name)
        except DamagedError:
            # It was damaged on this disk, or while it was fetched: fetch it once more.
            (self.root / name).unlink()
            self._fetch(name)
        try:
            return super().find_undamaged(name)
        except DamagedError as error:
            self.damaged.add(name)
            raise DamagedError(self.describe(name), error.fact) from error

    def _fetch(self, name: str) -> None:
        try:
            self._get(name)
        except FileNotFoundError as error:
            raise DataError(f"{self.describe(name)}: not there; run the workflow again") from error

    def _get(self, name: str) -> None:
        """Fetch an object into the folder. Raises FileNotFoundError."""
        path = self.root / name
        try:
            with temporary_file(path.parent) as temporary:
                self.objects.fetch(name, temporary)
                temporary.replace(path)
        except FileNotFoundError:
            self.there.pop(name, None)
            raise

    def fetch(self, names: Iterable[str]) -> None:
        missing = [name for name in dict.fromkeys(names) if not self.is_here(name)]
        self.objects.each(self._fetch, missing)

    def require(self, names: Iterable[str]) -> None:
        """Check that the files are in the store. Raises DataError otherwise.

        Objects are immutable, so damage is only found when a file is read.
        """
        for lacking in sorted(self.lacking(names)):
            raise DataError(
                f"{self.describe(lacking)}: not there, or damaged; run the workflow again"
            )

    def lacking(self, names: Iterable[str]) -> set[str]:
        asked = set(names)
        self._list_store_for(asked)
        return {name for name in asked if name not in self.there or name in self.damaged}

    def keep(self, names: Iterable[str]) -> None:
        new: dict[str, Path] = {}
        damaged: dict[str, Path] = {}
        elsewhere: list[str] = []
        for name in dict.fromkeys(names):
            is_damaged = name in self.damaged
            if name in self.there and not is_damaged:
                continue
            if not self.is_here(name):
                elsewhere.append(name)
            elif is_damaged:
                damaged[name] = self.root / name
            else:
                new[name] = self.root / name
        if elsewhere:
            # A file that is not here may have been uploaded by another process.
            self.require(elsewhere)
        self.objects.upload(new, may=self._check_lease)
        # Only a damaged object is replaced: others are immutable.
        self.objects.upload(damaged, True, self._check_lease)
        self.note_kept([*new, *damaged])
        self.damaged -= set(damaged)

    def note_kept(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.there:
                self.there[name] = StoredObject(name, 0, "", time.time())

    def columns(self, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each file of a table that can be read, with the names of its columns.

        Of a file that is not here, only the footer is fetched.
        """
        self._list_store_unless_known(names)
        found = self.objects.each(self._read_columns, names)
        readable: list[tuple[str, list[str]]] = []
        for name, columns in zip(names, found, strict=True):
            if columns is not None:
                readable.append((name, columns))
        return iter(readable)

    def _read_columns(self, name: str) -> list[str] | None:
        try:
            if self.is_here(name):
                return pq.read_schema(self.find_undamaged(name)).names
            size = self.there[name].bytes
            footer = self.objects.read_end(name, size, FOOTER)
            # A Parquet file ends with its metadata, their length (4 bytes) and a mark (4 bytes).
            needed = int.from_bytes(footer[-8:-4], "little") + 8
            if needed > len(footer):
                footer = self.objects.read_end(name, size, needed)
            return pq.read_schema(pa.BufferReader(footer)).names
        except (OSError, ValueError, KeyError, DataError):
            return None

    def read(self, name: str) -> dict[str, Any]:
        # The holder of the lease knows all objects but the notes on tasks.
        if self.lease and name not in self.there and not _is_of_tasks(name):
            raise FileNotFoundError(self.describe(name))
        content, _ = self.objects.read(name)
        return json_content(content, self.describe(name))

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON object. Raises LeaseLostError if another client has written it since."""
        self._may_write()
        text = json_text(content).encode()
        known = self.there.get(name)
        if known is None:
            e_tag = self.objects.create(name, text)
        else:
            e_tag = self.objects.replace(name, text, known.e_tag)
        if e_tag is None:
            e_tag = self._written_before(name, text)
        self._remember(name, text, e_tag)

    def _remember(self, name: str, text: bytes, e_tag: str) -> None:
        self.there[name] = StoredObject(name, len(text), e_tag, time.time())

    def _written_before(self, name: str, text: bytes) -> str:
        """Return the e-tag of the object if it has this content already.

        It has it if the answer to an earlier attempt was lost. Raises LeaseLostError if another
        client has written something else.
        """
        try:
            present, e_tag = self.objects.read(name)
        except FileNotFoundError:
            present, e_tag = b"", ""
        if present != text:
            raise LeaseLostError(
                f"{self.describe(name)}: another client has written it meanwhile; run the same"
                " command again: it goes on from what is done"
            )
        return e_tag

    def note(self, name: str, content: Mapping[str, Any]) -> None:
        self._check_lease()
        text = json_text(content).encode()
        self.tasks_at_large = True
        e_tag = self.objects.overwrite(name, text)
        self._remember(name, text, e_tag)

    def share(self, files: Mapping[str, Path]) -> None:
        super().share(files)
        self.tasks_at_large = True
        # The files are now at their names in this folder.
        moved = {name: self.root / name for name in files}
        self.objects.upload(moved, True, self._check_lease)
        self.note_kept(files)

    def find_shared(self, name: str) -> Path:
        if not self.is_here(name):
            self._get(name)
        return self.root / name

    def listed(self, below: str = "") -> list[Kept]:
        """Return every file below, also those that are only here, so that they can be deleted."""
        prefix = f"{below}/" if below else ""
        lists_tasks = _is_of_tasks(prefix)
        if lists_tasks:
            self.tasks_at_large = True
        if self.lease and not lists_tasks:
            known_names = [name for name in self.there if name.startswith(prefix)]
            self._list_store_unless_known(known_names)
            names = sorted(name for name in self.there if name.startswith(prefix))
            objects = [self.there[name] for name in names]
        else:
            objects = self.objects.listed(prefix)
        in_store = [Kept(each.name, each.bytes, each.changed) for each in objects]
        names_in_store = {each.name for each in in_store}
        return [*in_store, *self._only_here(names_in_store, below)]

    def top(self) -> list[str]:
        if self.lease is None:
            return self.objects.top()
        return sorted(name for name in self.there if "/" not in name)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files in the store and here."""
        self._may_write()
        maybe_in_store = [name for name in names if name in self.there or _is_of_tasks(name)]
        if maybe_in_store:
            self.objects.delete(maybe_in_store, self._may_write)
        for name in names:
            self.there.pop(name, None)
        super().delete(names)

    def withdraw(self, names: Sequence[str]) -> None:
        self.objects.delete(names)
        super().delete(names)

    def clear(self, below: str) -> None:
        clears_tasks = below == UNFINISHED
        if self.tasks_at_large or not clears_tasks:
            names = [kept.name for kept in self.listed(below)]
            self.delete(names)
        super().clear(below)
        if clears_tasks:
            self.tasks_at_large = False

    def sweep(self) -> None:
        """Remove half-written files, and test objects of `refuse_unconditional` that were left
        behind."""
        super().sweep()
        still_in_use = time.time() - FORGOTTEN
        tests = [name for name in self.top() if name.startswith(CHECKED)]
        left_behind = [name for name in tests if self.there[name].changed < still_in_use]
        self.delete(left_behind)


def refuse_unconditional(objects: Objects) -> bool:
    """Check that the server honours conditional writes; return whether the bucket keeps old
    versions.

    Without conditions two clients would overwrite each other. Raises ObjectStoreError for such a
    server.
    """
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
