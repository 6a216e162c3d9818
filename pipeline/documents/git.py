"""List the files of a git repository at a branch, tag or commit, and read them.

The files come from the repository's objects: a checkout is neither needed nor changed. Nothing is
fetched.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

_SECONDS = 120
_LINK, _MODULE = "120000", "160000"
_MOST_SAID = 200
_OF_ANOTHER = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_NAMESPACE", "GIT_PREFIX",
})  # fmt: skip
"""Variables that would lead git to another repository; git sets them for its hooks."""


class GitError(Exception):
    """An error of git, in its own words."""


@dataclass(frozen=True)
class Blob:
    """A file of a repository. ``id`` is the hash of its content, ``mode`` tells files from links.

    ``size`` is in bytes, 0 for what is no file.
    """

    path: str
    id: str
    mode: str
    size: int

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link."""
        return self.mode == _LINK

    @property
    def is_module(self) -> bool:
        """Return whether it is another repository within this one."""
        return self.mode == _MODULE


def list_blobs(repository: str, ref: str) -> list[Blob]:
    """Return the files at a branch, tag or commit. Raises GitError."""
    if _output_of(repository, "rev-parse", "--show-prefix").strip():
        # A colon in its path keeps git from the limit that `_environment` sets.
        raise GitError("a folder within a repository")
    named = f"{ref}^{{commit}}"
    found = _output_of(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", named)
    commit = found.decode().strip()
    listed = _output_of(repository, "ls-tree", "-r", "-z", "--long", "--full-tree", commit)
    blobs: list[Blob] = []
    for entry in listed.split(b"\0"):
        if entry:
            about, _, path = entry.partition(b"\t")
            mode, _, id, size = about.decode().split()
            number = int(size) if size.isdecimal() else 0
            blobs.append(Blob(os.fsdecode(path), id, mode, number))
    return blobs


def _output_of(repository: str, *arguments: str) -> bytes:
    """Return the output of git. Raises GitError."""
    try:
        done = subprocess.run(  # noqa: S603 - git, with a path of the settings
            _command(repository, *arguments), capture_output=True, timeout=_SECONDS, check=False,
            env=_environment(repository),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git cannot be run ({type(error).__name__})") from error
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise GitError(said[-_MOST_SAID:] or "no such branch, tag or commit")
    return done.stdout


def _command(repository: str, *arguments: str) -> Sequence[str]:
    """Return the words of a call of git for a repository, which runs none of its hooks."""
    return ["git", "-C", repository, "-c", "core.fsmonitor=false", *arguments]


def _environment(repository: str) -> dict[str, str]:
    """Return an environment in which git reads this repository, and none around it."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    above = os.path.dirname(os.path.realpath(repository))
    # The hash of a file must tell its content, which git may otherwise replace by another one.
    own = {"GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
    return {**inherited, **own, "GIT_CEILING_DIRECTORIES": above}


@contextmanager
def blob_reader(repository: str) -> Iterator["BlobReader"]:
    """Provide a reader of the repository's objects, all by one process. Raises GitError."""
    try:
        process = subprocess.Popen(  # noqa: S603 - as above
            _command(repository, "cat-file", "--batch"), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(repository),
        )  # fmt: skip
    except OSError as error:
        raise GitError(f"git cannot be run ({type(error).__name__})") from error
    try:
        assert process.stdin
        assert process.stdout
        yield BlobReader(process.stdin, process.stdout)
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class BlobReader:
    """A reader of the objects of a repository, from the pipes of git."""

    requests: IO[bytes]
    answers: IO[bytes]

    def read(self, id: str) -> bytes:
        """Return the content of an object. Raises GitError if it is not there, or not whole."""
        self.requests.write(f"{id}\n".encode())
        self.requests.flush()
        header = self.answers.readline().split()
        if len(header) != 3 or header[1] != b"blob":
            raise GitError("its content is not in the repository")
        size = int(header[2])
        content = self.answers.read(size)
        if len(content) != size:
            raise GitError("git ended while its content was read")
        # An end of line follows the content.
        self.answers.read(1)
        return content
