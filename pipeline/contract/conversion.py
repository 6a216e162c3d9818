"""What files say that are no plain text, and whom a verb may ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pipeline.models.base import Anew

OwnConverter = str | tuple[str, ...]
"""``file.py:function``, or a command's words, in which ``{file}`` stands for the file."""
OwnConverters = OwnConverter | dict[str, OwnConverter]
"""One for all files that are converted, or by suffix; "" for none."""
FILE = "{file}"


def own_converters(setting: OwnConverters) -> dict[str, OwnConverter]:
    """By suffix, "" for all that are converted. Raises ValueError for what is no converter, which
    it does not show: a word may be a secret."""
    found = setting if isinstance(setting, dict) else {"": setting} if setting else {}
    return {
        f".{suffix.lower().removeprefix('.')}" if suffix else "": _checked(own)
        for suffix, own in found.items()
    }


def _checked(own: OwnConverter) -> OwnConverter:
    if isinstance(own, str) and not all(own.rpartition(":")[::2]):
        raise ValueError(
            "a text that is no converter; write file.py:function, or the words of a command as a"
            " list"
        )
    if not isinstance(own, str) and not any(FILE in word for word in own):
        raise ValueError(
            f"a command without {FILE} among its words, which stands for the file; add it"
        )
    return own


PAGES = "pages"
"""The key of a document's metadata under which the places stand at which its pages begin in its
text."""


@dataclass(frozen=True)
class PageFault:
    """A page, counted from 1, that says nothing: reason and message of a reject."""

    page: int
    reason: str
    message: str


@dataclass(frozen=True)
class Conversion:
    """What a file says. ``text``: Markdown. ``converter``: what made it, and its version.
    ``title``: the one the file itself declares (a property, ``<title>``). ``pages``: where in the
    text each page begins, in characters. ``metadata``: further properties of the document.
    ``faults``: what of it could not be read, while the rest was."""

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


Converted = Conversion | NotConverted


@dataclass(frozen=True)
class ConversionRules:
    """``seconds``, and ``megabytes`` of memory, that a file may take; ``own``: suffix, or "" for
    all that are converted, -> what converts such files in place of this package, from files below
    ``folder``."""

    seconds: float = 900
    megabytes: int = 768
    own: Mapping[str, OwnConverter] = field(default_factory=dict)
    folder: str = "."

    def own_for(self, suffix: str) -> OwnConverter | None:
        return self.own.get(suffix) or self.own.get("")

    @property
    def limits(self) -> str:
        return f"{self.seconds:g} s, {self.megabytes} MB"


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

    def converted(
        self, kept: bool, by_another: str = "", failed: bool = False, size: int = 0
    ) -> None:
        """Hear of one file.

        ``kept``: the result is from an earlier time. ``by_another``: the converter of that time,
        where it is not that of today. ``failed``: the file could not be converted. ``size``: bytes
        of a file that was converted now.
        """
        ...


@runtime_checkable
class Converter(Protocol):
    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: ConversionListener | None = None,
        anew: Anew | None = None,
    ) -> list[Converted]:
        """What each file says, in their order; no file hinders another. ``anew``: whether the file
        of a name is to be converted again though there is a conversion of it."""
        ...

    def known(
        self, files: Sequence[FileToConvert], rules: ConversionRules
    ) -> list[Converted | None]:
        """What ``convert`` would give without converting; None for a file that it would convert."""
        ...

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        """Under which the conversions of the files are kept, if they are."""
        ...
