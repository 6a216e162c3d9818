"""The files of snapshots in a folder on disk: those of tables, named by their content, and JSON."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.errors import DamagedError, DataError
from pipeline.files import PARTIAL, read_json, sha256_of, sweep_partials, write_json

UNFINISHED = "steps/unfinished"
"""The folder of notes on finished tasks of an unfinished step, and of files that its processes
share."""


@dataclass(frozen=True)
class Kept:
    """A file, by its name below the folder; ``changed`` is in seconds since 1970."""

    name: str
    bytes: int
    changed: float


@dataclass
class Folder:
    """The files of snapshots in a folder on disk.

    ``intact`` remembers the files that this process has found undamaged, as (name, size, times of
    change).
    """

    root: Path
    intact: set[tuple[str, int, int, int]] = field(default_factory=set, repr=False)

    is_private = True
    """The folder can be read only by whoever can read its disk; an object store is shared."""

    @property
    def address(self) -> str:
        return str(self.root)

    def describe(self, name: str) -> str:
        """Return the path or URL of a file for messages."""
        return f"{self.address}/{name}"

    @contextmanager
    def alone(self, place: str) -> Iterator[None]:
        """Hold the folder alone, as writers must. Here the caller ensures this, by a lock of the
        project.

        ``place`` names the caller in messages.
        """
        yield

    def refresh(self) -> None:
        """Forget what may have changed since the process started; it may be older than the present
        run."""

    def find_undamaged(self, name: str) -> Path:
        """Return the path of a file of a table, after checking its content against its name.

        The check is repeated only if the file has changed since this process last checked it.
        Raises DataError if the file is missing, DamagedError if it is damaged.
        """
        path = self.root / name
        try:
            seen = _file_state(name, path)
            if seen not in self.intact and sha256_of(path) != path.stem:
                raise DamagedError(path, "damaged")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; run the workflow again") from error
        self.intact.add(seen)
        return path

    def note_written(self, name: str) -> None:
        """Note that a file of a table was just written, and needs no check."""
        self.intact.add(_file_state(name, self.root / name))

    def is_here(self, name: str) -> bool:
        return (self.root / name).exists()

    def fetch(self, names: Iterable[str]) -> None:
        """Make sure that files that are about to be read are on disk."""

    def require(self, names: Iterable[str]) -> None:
        """Check files of tables. Raises DataError if one is missing or damaged."""
        for name in names:
            self.find_undamaged(name)

    def lacking(self, names: Iterable[str]) -> set[str]:
        """Return the files of tables that are missing or damaged."""
        return {name for name in names if not self._is_undamaged(name)}

    def _is_undamaged(self, name: str) -> bool:
        with suppress(DataError):
            return bool(self.find_undamaged(name))
        return False

    def keep(self, names: Iterable[str]) -> None:
        """Make sure that files of tables written here are kept, before anything points at them."""

    def note_kept(self, names: Iterable[str]) -> None:
        """Note that another process has already made sure that these files are kept."""

    def columns(self, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each file of a table that can be read, with the names of its columns; no row is
        read."""
        for name in names:
            try:
                yield name, pq.read_schema(self.root / name).names
            except (OSError, ValueError):
                continue

    def read(self, name: str) -> dict[str, Any]:
        """Return the content of a file that `write` has written. Raises FileNotFoundError,
        DamagedError."""
        return read_json(self.root / name)

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file atomically. The caller must hold the folder alone.

        Raises DiskFullError and leaves what was there.
        """
        write_json(self.root / name, content)

    def note(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file atomically, as `write` does; any process that does tasks may call
        it."""
        write_json(self.root / name, content)

    def share(self, files: Mapping[str, Path]) -> None:
        """Move these files to where every process finds them by these names."""
        for name, file in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            file.replace(self.root / name)

    def find_shared(self, name: str) -> Path:
        """Return the path of a shared file. If it is missing, its reader gets a
        FileNotFoundError."""
        return self.root / name

    def listed(self, below: str = "") -> list[Kept]:
        """Return every file at any depth below, sorted by name, without those that are half
        written."""
        found: list[Kept] = []
        for path in sorted((self.root / below).rglob("*")):
            is_half_written = path.name.endswith(PARTIAL)
            if path.is_file() and not is_half_written:
                found.append(kept_of(self.root, path))
        return found

    def top(self) -> list[str]:
        """Return the names of the files directly in the folder, sorted."""
        files = [path for path in self.root.glob("*") if path.is_file()]
        return sorted(path.name for path in files)

    def delete(self, names: Sequence[str]) -> None:
        """Delete the files that are there. The caller must hold the folder alone."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def withdraw(self, names: Sequence[str]) -> None:
        """Delete files that this process shared under names of its own. Any process may call it."""
        self.delete(names)

    def clear(self, below: str) -> None:
        """Delete everything below. The caller must hold the folder alone."""
        shutil.rmtree(self.root / below, ignore_errors=True)

    def sweep(self) -> None:
        """Remove files that killed processes left half written. The caller must hold the folder
        alone."""
        sweep_partials(self.root)


def kept_of(root: Path, path: Path) -> Kept:
    """Return what is known of a file below the root."""
    state = path.stat()
    name = path.relative_to(root).as_posix()
    return Kept(name, state.st_size, state.st_mtime)


def _file_state(name: str, path: Path) -> tuple[str, int, int, int]:
    """Return the name and values that change whenever anything writes to the file."""
    state = path.stat()
    return name, state.st_size, state.st_mtime_ns, state.st_ctime_ns
