"""Reserve disk space for a SQLite cache before calls begin, so that paid replies can be stored.

A disk may become full while calls are under way. Their replies still arrive and are paid for.
Therefore each piece of work holds a file without a name, as large as the replies under way may
become. When the disk is full, this file is emptied, and the replies are stored in the freed space.
No further call begins. The operating system frees the space of such a file when the process ends,
however it ends.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pipeline.errors import CacheFullError, DiskFullError, StoreError, counted
from pipeline.files import NO_SPACE, tell

BYTES_OF_A_REPLY = 65_536
"""Space for a reply of about 10,000 tokens, and for the pages of table, index and journal that
SQLite writes with it."""
BYTES_PER_NUMBER, LIKELY_DIMENSIONS, BYTES_BESIDE_A_VECTOR = 4, 3072, 1024
"""A vector has 32-bit numbers. If the settings state no dimensions, those of the largest common
model are assumed."""


def bytes_of_vectors(texts: int, dimensions: int | None) -> int:
    """Return the bytes that the vectors of this many texts may take."""
    return texts * ((dimensions or LIKELY_DIMENSIONS) * BYTES_PER_NUMBER + BYTES_BESIDE_A_VECTOR)


@dataclass
class Reserves:
    """All reserves of this process for one database."""

    held: "list[Reserve]" = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, reserve: "Reserve") -> None:
        with self.lock:
            self.held.append(reserve)

    def remove(self, reserve: "Reserve") -> None:
        with self.lock:
            if reserve in self.held:
                self.held.remove(reserve)

    def give_back(self) -> bool:
        """Free the reserved space. Return whether there is any reserve.

        The space may already be free, because another thread has just freed it.
        """
        with self.lock:
            for reserve in self.held:
                reserve.give_back()
            return bool(self.held)


@dataclass(eq=False)
class Reserve:
    """Disk space reserved for the replies of one piece of work, shared by its threads.

    It is a context manager that frees the space at its end. ``path``: the database's file; None if
    it is not on a disk of this machine, and nothing is reserved. ``calls``: the number of calls
    that may be under way at once. ``size``: the bytes that one reply may take. ``where``: the
    model's place in settings.yaml.
    """

    reserves: Reserves
    path: Path | None
    calls: int
    size: int
    where: str
    lost: int = 0
    given_back: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    _file: IO[bytes] | None = None
    _tried: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the space, and report how many replies were lost.

        The calls under way have ended by now. An error of the store or the disk gets this number in
        its message; otherwise it is a warning.
        """
        self.reserves.remove(self)
        if self._file:
            self._file.close()
        if not self.lost:
            return
        lost = (
            f"{counted(self.lost, 'reply', 'replies')} under way could not be stored and must be"
            " paid for again"
        )
        if isinstance(error, StoreError | DiskFullError):
            raise type(error)(f"{error} ({lost})") from None
        tell(f"cache: {lost}")

    def begin(self) -> None:
        """Prepare for a call that is about to be made. The first call reserves the space.

        Raises CacheFullError if there is too little space, or if the reserve was already used up.
        The call is then not made.
        """
        if self.path is None:
            return
        with self.lock:
            if not self._tried:
                self._allocate(self.path)
                self._tried = True
        if self.given_back:
            raise CacheFullError(
                f"cache: {self.path} cannot be written (its disk is full); no further call was"
                " made; make space on that disk and run again"
            )

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Run a block that stores a reply, and count the reply as lost if that fails."""
        try:
            yield
        except StoreError:
            with self.lock:
                self.lost += 1
            raise

    def give_back(self) -> None:
        """Free the space. This itself needs no space."""
        if self._file and not self.given_back:
            os.ftruncate(self._file.fileno(), 0)
        self.given_back = True

    def _allocate(self, path: Path) -> None:
        """Reserve the space next to the database's file.

        Raises CacheFullError if the disk has too little. Other errors are ignored here, because the
        database will report them.
        """
        needed = self.calls * self.size
        file: IO[bytes] | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The file stays open until the work ends.
            file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
            _fill(file, needed)
        except OSError as error:
            if file:
                file.close()
            if error.errno not in NO_SPACE:
                # The file system cannot reserve space, or the folder is not writable. The database
                # will report that.
                return
            raise CacheFullError(
                f"{self.where}: {counted(self.calls, 'call')} at once may bring replies of"
                f" {needed / 1e6:,.1f} MB, and the disk of {path} has less; make space there, or"
                f" lower {self.where}.concurrency; no call was made"
            ) from None
        self._file = file
        self.reserves.add(self)


def _fill(file: IO[bytes], size: int) -> None:
    """Reserve the space on the disk. Raises OSError if there is too little."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.write(bytes(size))
        file.flush()
