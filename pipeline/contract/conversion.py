"""What files say that are no plain text, and whom a verb may ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

Own = Mapping[str, str | tuple[str, ...]]
"""Suffix, "" for any, -> what converts such files in place of this package: a command, in which ``{file}`` stands for
the file, or ``file.py:function``."""


PAGES = "pages"
"""The key of a document's metadata under which the places stand at which its pages begin in its text."""


@dataclass(frozen=True)
class PageFault:
    """A page, counted from 1, that says nothing: reason and message of a reject."""

    page: int
    reason: str
    message: str


@dataclass(frozen=True)
class Conversion:
    """What a file says. ``text``: Markdown. ``converter``: what made it, and its version. ``title``: the one the file
    itself declares (a property, ``<title>``). ``pages``: where in the text each page begins, in characters.
    ``metadata``: further properties of the document. ``faults``: what of it could not be read, while the rest was."""

    text: str
    converter: str
    title: str = ""
    pages: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[PageFault, ...] = ()


@dataclass(frozen=True)
class NotConverted:
    """Why there is no conversion of a file: reason and message of a reject."""

    reason: str
    message: str


@dataclass(frozen=True)
class ConversionRules:
    """How a file is converted: ``own`` converters, whose files are below ``folder``, and what one file may take:
    ``seconds``, and ``megabytes`` of memory."""

    seconds: float = 300
    megabytes: int = 768
    own: Own = field(default_factory=dict)
    folder: str = "."

    def own_for(self, suffix: str) -> str | tuple[str, ...] | None:
        return self.own.get(suffix) or self.own.get("")


@dataclass(frozen=True)
class FileToConvert:
    """``name``: as documents and rejects call it."""

    path: Path
    name: str

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()


class ConversionListener(Protocol):
    """Hears of each file, in any order."""

    def expect(self, rows: int) -> None:
        """So many files are to come."""
        ...

    def converted(self, result: Conversion | NotConverted, kept: bool) -> None:
        """``kept``: from an earlier time."""
        ...


@runtime_checkable
class Converter(Protocol):
    def convert(
        self, files: Sequence[FileToConvert], rules: ConversionRules, listener: ConversionListener | None = None
    ) -> list[Conversion | NotConverted]:
        """What each file says, in their order. No file hinders another."""
        ...
