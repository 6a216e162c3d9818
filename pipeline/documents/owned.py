"""The documents that graphmill itself writes: files in one folder of the input, which come over
HTTP or from a program.

A file is replaced as a whole or not at all. Its name is the document's id here. A text is kept as
Markdown, with its title and metadata as front matter.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from pipeline.documents.front_matter import split_front_matter
from pipeline.documents.metadata import as_json, cleaned
from pipeline.errors import UsageError
from pipeline.files import new_file
from pipeline.text.ids import clean, digest

TEXT = ".md"
"""The suffix of a text; an id without the suffix of a readable kind of file gets it."""
TEXTS = frozenset({".md", ".markdown", ".txt"})
"""Suffixes of texts that can have front matter."""
LONGEST_ID = 200
"""Bytes of an id. A file system takes 255 of a name, and a temporary name needs some."""
LONGEST_METADATA = 15_000
"""Characters of metadata in JSON. The end of front matter is searched in 20,000."""
_SAFE = re.compile(r"[^\W_](?:[\w .,()+&@'=-]*[\w)-])?")
"""A name of one file in the folder: no separator of paths, nothing hidden, neither # nor :, which
separate a file from its records."""
_DIGITS = 24


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
    are read from there, each with its dot."""

    input_folder: Path
    name: str
    readable: Collection[str]

    @property
    def path(self) -> Path:
        return self.input_folder / self.name

    def source_of(self, id: str) -> str:
        """Return the path of a document below the input folder, as tables name it."""
        return f"{self.name}/{id}"

    def id_of(self, given: str) -> str:
        """Return the name of the file for an id.

        Raises UsageError for an id that is no plain name of a file.
        """
        name = unicodedata.normalize("NFC", given)
        if len(name.encode(errors="replace")) > LONGEST_ID or not _SAFE.fullmatch(name):
            raise UsageError(
                "id: no plain name; write letters, digits, blanks and . _ - , ( ) + & @ ' =,"
                f" beginning with a letter or a digit, {LONGEST_ID} bytes at most"
            )
        return name if Path(name).suffix.lower() in self.readable else f"{name}{TEXT}"

    def text(
        self, text: str, id: str = "", title: str = "", metadata: Mapping[str, Any] | None = None
    ) -> OwnDocument:
        """Return a text as a document. Without an id, its content gives one.

        Raises UsageError for a text without a character, an id that cannot be one, and metadata
        that cannot be kept as front matter.
        """
        body = clean(text).strip("\n")
        if not body.strip():
            raise UsageError("text: empty; send a text, or delete the document")
        fields = _fields_of(title, metadata or {})
        name = self.id_of(id or digest(as_json(fields), body)[:_DIGITS])
        if Path(name).suffix.lower() not in TEXTS:
            raise UsageError(
                f"id: '{name}' names a file of another kind; leave the suffix out, or upload a file"
            )
        if not fields:
            return OwnDocument(name, f"{body}\n".encode())
        # One line for each value, so that the width of a line changes no text.
        block = yaml.safe_dump(fields, allow_unicode=True, sort_keys=True, width=2**31)
        whole = f"---\n{block}---\n{body}\n"
        if split_front_matter(whole)[0] != fields:
            raise _not_kept()
        return OwnDocument(name, whole.encode())

    def file(self, name: str, content: bytes) -> OwnDocument:
        """Return an uploaded file as a document; its name is its id.

        Raises UsageError for a name that is not plain, and for a kind of file that is not read.
        """
        given = self.id_of(name)
        if Path(name).suffix.lower() not in self.readable:
            known = ", ".join(sorted(suffix[1:] for suffix in self.readable))
            raise UsageError(f"file '{given}': its kind is not read; convert it to one of {known}")
        return OwnDocument(given, content)

    def write(self, document: OwnDocument) -> bool:
        """Write a document; return whether it is new or has changed. An equal file is not touched.

        Raises DiskFullError.
        """
        path = self.path / document.id
        if path.is_file() and path.read_bytes() == document.content:
            return False
        with new_file(path) as temporary:
            temporary.write_bytes(document.content)
        return True

    def remove(self, id: str) -> bool:
        """Delete a document; return whether there was one."""
        path = self.path / self.id_of(id)
        if not path.is_file():
            return False
        path.unlink()
        return True

    def kept(self) -> list[Kept]:
        """Return all documents of the folder, sorted by id."""
        return sorted(self._files(), key=lambda one: one.id)

    def find(self, id: str) -> Kept | None:
        """Return one document, or None if there is none of this id."""
        path = self.path / self.id_of(id)
        if not path.is_file():
            return None
        state = path.stat()
        return Kept(path.name, state.st_size, state.st_ctime)

    def _files(self) -> Iterator[Kept]:
        if not self.path.is_dir():
            return
        for path in self.path.iterdir():
            # A file that is being written is hidden.
            if path.name.startswith(".") or not path.is_file():
                continue
            state = path.stat()
            # The time of the last change of the entry: a rename sets it, a copied time does not.
            yield Kept(path.name, state.st_size, state.st_ctime)


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
