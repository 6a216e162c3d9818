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
"""What tasks are done of a step that is not, and what the processes share that do them."""


@dataclass(frozen=True)
class Kept:
    """A file, by its name below the folder. ``changed``: when, in seconds since 1970."""

    name: str
    bytes: int
    changed: float


@dataclass
class Folder:
    """``intact`` remembers the files this process has found whole, as (name, size, times of
    change)."""

    root: Path
    intact: set[tuple[str, int, int, int]] = field(default_factory=set, repr=False)

    is_private = True
    """Whether nobody has it who has not this folder."""

    @property
    def address(self) -> str:
        return str(self.root)

    def told(self, name: str) -> str:
        """Where the file is, for people."""
        return f"{self.address}/{name}"

    @contextmanager
    def alone(self, place: str) -> Iterator[None]:
        """For one process at a time; here that is the caller's to see to. ``place``: where that is,
        for people."""
        yield

    def look_anew(self) -> None:
        """For a process that has been here since before the present run: what it knew may not be so
        any more."""

    def whole(self, name: str) -> Path:
        """A table's file, found undamaged: by its hash, once for each state of the file that this
        process meets. Raises DataError, DamagedError."""
        path = self.root / name
        try:
            seen = _state(name, path)
            if seen not in self.intact and sha256_of(path) != path.stem:
                raise DamagedError(path, "damaged")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; run the workflow again") from error
        self.intact.add(seen)
        return path

    def made(self, name: str) -> None:
        """A table's file has been written."""
        self.intact.add(_state(name, self.root / name))

    def is_here(self, name: str) -> bool:
        return (self.root / name).exists()

    def bring(self, names: Iterable[str]) -> None:
        """Files that are to be read soon."""

    def require(self, names: Iterable[str]) -> None:
        """Raises DataError when a table's file is gone or damaged."""
        for name in names:
            self.whole(name)

    def lacking(self, names: Iterable[str]) -> set[str]:
        """Those of tables' files that are gone or damaged."""
        return {name for name in names if not self._is_undamaged(name)}

    def _is_undamaged(self, name: str) -> bool:
        with suppress(DataError):
            return bool(self.whole(name))
        return False

    def keep(self, names: Iterable[str]) -> None:
        """See that tables' files which were written here are kept, before anything points at
        them."""

    def kept_by_others(self, names: Iterable[str]) -> None:
        """These are kept already: another process has seen to it."""

    def columns(self, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Of tables' files the names of their columns, without a look at the rows; of those that
        can be read."""
        for name in names:
            try:
                yield name, pq.read_schema(self.root / name).names
            except (OSError, ValueError):
                continue

    def read(self, name: str) -> dict[str, Any]:
        """What ``write`` has written. Raises FileNotFoundError, DamagedError."""
        return read_json(self.root / name)

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """JSON, at once; only for a caller who is alone here. Raises DiskFullError, and leaves what
        was there."""
        write_json(self.root / name, content)

    def note(self, name: str, content: Mapping[str, Any]) -> None:
        """As ``write``, for any process that does tasks."""
        write_json(self.root / name, content)

    def share(self, files: Mapping[str, Path]) -> None:
        """Make these files those that every process finds by these names."""
        for name, file in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            file.replace(self.root / name)

    def shared(self, name: str) -> Path:
        """Raises FileNotFoundError where it is read."""
        return self.root / name

    def listed(self, below: str = "") -> list[Kept]:
        """Every file at any depth, by its name."""
        paths = sorted(path for path in (self.root / below).rglob("*") if path.is_file())
        return [kept_of(self.root, path) for path in paths if not path.name.endswith(PARTIAL)]

    def top(self) -> list[str]:
        """The files that are in no folder below."""
        return sorted(path.name for path in self.root.glob("*") if path.is_file())

    def delete(self, names: Sequence[str]) -> None:
        """Those that are there; only for a caller who is alone here."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def take_back(self, names: Sequence[str]) -> None:
        """What was shared by names that nobody else has: for any process."""
        self.delete(names)

    def clear(self, below: str) -> None:
        """Delete all that is below; only for a caller who is alone here."""
        shutil.rmtree(self.root / below, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what killed processes have left half written. Only for a caller who is alone
        here."""
        sweep_partials(self.root)


def kept_of(root: Path, path: Path) -> Kept:
    state = path.stat()
    return Kept(path.relative_to(root).as_posix(), state.st_size, state.st_mtime)


def _state(name: str, path: Path) -> tuple[str, int, int, int]:
    """What changes when anything writes to the file."""
    state = path.stat()
    return name, state.st_size, state.st_mtime_ns, state.st_ctime_ns
