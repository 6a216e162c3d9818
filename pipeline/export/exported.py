"""What an export has written, and where it may write."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.files import publish_file, temporary_file


@dataclass(frozen=True)
class Exported:
    """``files``: name -> rows (of GraphML: nodes and edges). ``command``: what reads them in, if one command does."""

    kind: str
    folder: Path
    files: Mapping[str, int]
    command: str = ""


def check_folder(folder: Path, force: bool) -> None:
    """Raises UsageError for a folder that holds something, unless ``force``, and for what is no folder."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"export: {folder} is a file; name a folder")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"export: {folder} is not empty; name another folder, or use --force to write over its files")


@contextmanager
def new_file(folder: Path, name: str) -> Iterator[Path]:
    """A file to write, which gets its name when the block has ended well."""
    with temporary_file(folder) as temporary:
        yield temporary
        publish_file(temporary, folder / name)
