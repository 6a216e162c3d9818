"""The documents that graphmill itself writes: files in one folder of the input, which come over
HTTP or from a program.

A file is replaced as a whole or not at all. Its name is the document's id here. A text is kept as
Markdown, with its title and metadata as front matter.
"""

import os
import re
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from stat import S_ISREG
from typing import Any

import yaml

from pipeline.documents.conversations import LISTS_OF_EXPORT
from pipeline.documents.files import is_match
from pipeline.documents.front_matter import SUFFIXES as FRONT_MATTER
from pipeline.documents.front_matter import split_front_matter
from pipeline.documents.metadata import as_json, cleaned
from pipeline.errors import UsageError
from pipeline.files import PARTIAL, flush_folder, new_file
from pipeline.text.ids import clean, digest

TEXT = ".md"
"""The suffix of a text; an id without the suffix of a readable kind of file gets it."""
LONGEST_ID = 200
"""Bytes of an id. A file system takes 255 of a name, and a temporary name needs some."""
LONGEST_METADATA = 15_000
"""Characters of metadata in JSON. The end of front matter is searched in 20,000."""
BYTE_ORDER_MARK = "\ufeff"
_SAFE = re.compile(r"[^\W_](?:[\w .,()+&@'=-]*[\w)-])?")
"""A name of one file in the folder: no separator of paths, nothing hidden, neither # nor :, which
separate a file from its records."""
_DIGITS = 24
_OLD_SECONDS = 86_400.0
"""The age at which a file that was never finished is deleted; no request takes so long."""


@dataclass(frozen=True)
class OwnDocument:
    """A document to write: the name of its file and the bytes in it."""

    id: str
    content: bytes


@dataclass(frozen=True)
class Kept:
    """A file of the folder. ``changed`` is when it got its content, in seconds since 1970."""

    id: str
    size: int
    changed: float

    @property
    def since(self) -> str:
        """The time at which the file got its content, in ISO 8601."""
        return f"{datetime.fromtimestamp(self.changed, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class OwnFolder:
    """The folder ``name`` below the input folder. ``readable`` has the suffixes of all files that
    are read from there, each with its dot. ``encoding`` is that in which runs read texts, "" if
    they detect it. ``was_mounted``: the last run found the folder to be a mount point.
    ``find_pattern`` returns the pattern of the files below the input folder which runs read."""

    input_folder: Path
    name: str
    readable: Collection[str]
    encoding: str = ""
    was_mounted: bool = False
    find_pattern: Callable[[], str] = lambda: "**/*"

    @cached_property
    def pattern(self) -> str:
        """The pattern, found when it is first needed: it may be in a workflow, which is read."""
        return self.find_pattern()

    @property
    def path(self) -> Path:
        return self.input_folder / self.name

    def source_of(self, id: str) -> str:
        """Return the path of a document below the input folder, as tables name it."""
        return f"{self.name}/{id}"

    def unread(self, id: str) -> str:
        """Return why no run reads a document of this id, or "" if the next one does."""
        if is_match(self.source_of(id), self.pattern):
            return ""
        return (
            f"'{self.source_of(id)}' does not match the files that runs read ('{self.pattern}');"
            " give it another name, or change input.file_pattern"
        )

    def _taken(self, id: str) -> str:
        """Return why a document of this id would overwrite another one, or ""."""
        other = self._other_spelling(id)
        if not other:
            return ""
        return (
            f"'{id}' would overwrite '{other}': the file system of {self.path} takes upper case"
            " for lower case; give it another id"
        )

    def _other_spelling(self, id: str) -> str:
        """Return the id of another document whose file the file system takes for that of this id,
        or "".

        Some file systems, such as those of macOS, tell no upper case from lower case in names.
        """
        path, swapped = self.path / id, self.path / id.swapcase()
        try:
            is_one_file = path.name != swapped.name and path.samefile(swapped)
        except FileNotFoundError:
            return ""
        if not is_one_file:
            return ""
        # The names of the folder are read on such a file system alone.
        names = os.listdir(self.path)
        if id in names:
            return ""
        return next((name for name in names if name.casefold() == id.casefold()), "")

    def id_of(self, given: str) -> str:
        """Return the name of the file for an id.

        Raises UsageError for an id that is no plain name of a file.
        """
        name = unicodedata.normalize("NFC", given)
        is_plain = _SAFE.fullmatch(name)
        if Path(name).suffix.lower() not in self.readable:
            name = f"{name}{TEXT}"
        if len(name.encode(errors="replace")) > LONGEST_ID or not is_plain:
            raise UsageError(
                "id: no plain name; write letters, digits, blanks and . _ - , ( ) + & @ ' =,"
                f" beginning with a letter or a digit, {LONGEST_ID} bytes at most"
            )
        return name

    def text(
        self, text: str, id: str = "", title: str = "", metadata: Mapping[str, Any] | None = None
    ) -> OwnDocument:
        """Return a text as a document. Without an id, its content gives one.

        Raises UsageError for a text without a character or with front matter of its own, an id that
        cannot be one or that no run reads, and metadata that cannot be kept as front matter.
        """
        # Readers take a byte order mark away, so that front matter behind it would be read.
        body = clean(text).strip(f"{BYTE_ORDER_MARK}\n")
        if not body.strip():
            raise UsageError("text: empty; send a text, or delete the document")
        fields = _fields_of(title, metadata or {})
        name = self.id_of(id or digest(as_json(fields), body)[:_DIGITS])
        if Path(name).suffix.lower() not in FRONT_MATTER:
            raise UsageError(
                f"id: '{name}' names a file of another kind; leave the suffix out, or upload a file"
            )
        if fact := self.unread(name) or self._taken(name):
            raise UsageError(f"id: {fact}")
        if not fields:
            if split_front_matter(body)[0]:
                raise UsageError(
                    "text: begins with front matter; send its fields as title and metadata, or"
                    " upload it as a file"
                )
            return OwnDocument(name, self._encoded(f"{body}\n"))
        # One line for each value, so that the width of a line changes no text.
        block = yaml.safe_dump(fields, allow_unicode=True, sort_keys=True, width=2**31)
        whole = f"---\n{block}---\n{body}\n"
        if split_front_matter(whole)[0] != fields:
            raise _not_kept()
        return OwnDocument(name, self._encoded(whole))

    def file(self, name: str, content: bytes) -> OwnDocument:
        """Return an uploaded file as a document; its name is its id.

        Raises UsageError for a name that is not plain, and for a file that no run reads.
        """
        given = self.id_of(name)
        if Path(name).suffix.lower() not in self.readable:
            known = ", ".join(sorted(suffix[1:] for suffix in self.readable))
            raise UsageError(f"file '{name}': its kind is not read; convert it to one of {known}")
        if given.lower() in LISTS_OF_EXPORT:
            # With both lists, all files of the folder would be read as channels of Slack.
            raise UsageError(f"file '{given}': a name of a Slack export's list; give it another")
        if fact := self.unread(given) or self._taken(given):
            raise UsageError(f"file: {fact}")
        return OwnDocument(given, content)

    def write(self, document: OwnDocument) -> bool:
        """Write a document; return whether it is new or has changed. An equal file is not touched.

        Raises DiskFullError, and UsageError if the folder's file system is not mounted.
        """
        if self.was_mounted and not os.path.ismount(self.path):
            raise UsageError(
                f"{self.path}: its file system is not mounted, as it was at the last run; mount it"
            )
        path = self.path / document.id
        with suppress(FileNotFoundError):
            if path.read_bytes() == document.content:
                return False
        self._sweep()
        with new_file(path) as temporary:
            temporary.write_bytes(document.content)
        return True

    def remove(self, id: str) -> bool:
        """Delete a document; return whether there was one."""
        name = self.id_of(id)
        if self._other_spelling(name):
            return False
        path = self.path / name
        # Another request may delete it at the same time.
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        flush_folder(self.path)
        return True

    def kept(self) -> list[Kept]:
        """Return all documents of the folder, sorted by id."""
        return sorted(self._files(), key=lambda one: one.id)

    def find(self, id: str) -> Kept | None:
        """Return one document, or None if there is none of this id."""
        name = self.id_of(id)
        return None if self._other_spelling(name) else _kept(self.path / name)

    def _files(self) -> Iterator[Kept]:
        if not self.path.is_dir():
            return
        for path in self.path.iterdir():
            # A file that is being written is hidden.
            found = None if path.name.startswith(".") else _kept(path)
            if found is not None:
                yield found

    def _sweep(self) -> None:
        """Delete the files that a process which has ended has not finished."""
        for path in self.path.glob(f".*{PARTIAL}"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime + _OLD_SECONDS < time.time():
                    path.unlink()

    def _encoded(self, text: str) -> bytes:
        """Return the bytes of a text, which runs read as this text."""
        encoding = self.encoding or "utf-8"
        try:
            content = text.encode(encoding)
            if content.decode(encoding) == text:
                return content
        except UnicodeError:
            pass
        raise UsageError(
            f"text: has characters that input.encoding ({encoding}) lacks; leave them out, or have"
            " the setting emptied"
        )


def refuse_twice(documents: Iterable[OwnDocument]) -> None:
    """Raise UsageError for two documents of one id that have different contents."""
    seen: dict[str, OwnDocument] = {}
    for one in documents:
        # Some file systems take names that differ in case for the same.
        if seen.setdefault(one.id.casefold(), one) != one:
            raise UsageError(f"documents: '{one.id}' is there twice; send each once")


def _kept(path: Path) -> Kept | None:
    """Return a document by its path; None if there is none, or no more."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    if not S_ISREG(state.st_mode):
        return None
    # The time of the last change of the entry: a rename sets it, a copied time does not.
    return Kept(path.name, state.st_size, state.st_ctime)


def _fields_of(title: str, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the front matter. Raises UsageError for metadata that it cannot hold."""
    try:
        fields = cleaned(dict(metadata))
        if title.strip():
            fields["title"] = clean(title)
        is_short = len(as_json(fields)) <= LONGEST_METADATA
    except (ValueError, RecursionError):
        raise _not_kept() from None
    if not is_short:
        raise _not_kept()
    return fields


def _not_kept() -> UsageError:
    return UsageError(
        "metadata: not values of JSON, too long or too deep to be kept as front matter; send fewer"
    )
