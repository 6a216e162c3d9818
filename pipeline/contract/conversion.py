"""Conversion of files that are not plain text to Markdown: results, rules, and the role
``Converter`` of a verb."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pipeline.models.base import Repeats

OwnConverter = str | tuple[str, ...]
"""``file.py:function``, or a command's words, in which ``{file}`` stands for the file."""
OwnConverters = OwnConverter | dict[str, OwnConverter]
"""One converter for all files, or one by suffix; "" stands for none."""
FILE = "{file}"


def own_converters(setting: OwnConverters) -> dict[str, OwnConverter]:
    """Return the user's own converters by suffix, such as ".pdf"; the key "" stands for every
    suffix.

    Raises ValueError for a setting that is no converter. The message does not show it, since a word
    of a command may be a secret.
    """
    if not setting:
        return {}
    by_suffix = setting if isinstance(setting, dict) else {"": setting}
    found: dict[str, OwnConverter] = {}
    for suffix, own in by_suffix.items():
        _check_converter(own)
        found[f".{suffix.lower().removeprefix('.')}" if suffix else ""] = own
    return found


def _check_converter(own: OwnConverter) -> None:
    """Raise ValueError for a text without file and function, or a command without ``{file}``."""
    if isinstance(own, str):
        file, _, function = own.rpartition(":")
        if not file or not function:
            raise ValueError(
                "a text that is no converter; write file.py:function, or the words of a command as"
                " a list"
            )
    elif not any(FILE in word for word in own):
        raise ValueError(
            f"a command without {FILE} among its words, which stands for the file; add it"
        )


PAGES = "pages"
"""The key of a document's metadata with the positions in its text, in characters, at which its
pages begin."""


@dataclass(frozen=True)
class PartFault:
    """A part of a file that was not read, with the reason and message of its reject.

    ``page`` is counted from 1; None for a part that is no page. ``line`` is the position of one of
    many documents in the file, counted from 1.
    """

    reason: str
    message: str
    page: int | None = None
    line: int | None = None


@dataclass(frozen=True)
class PartDocument:
    """A document in a file that has many, such as a mail of a mailbox.

    ``key`` names it within the file, ``line`` is its position there, counted from 1. The others are
    as in `Conversion`.
    """

    key: str
    line: int
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""


@dataclass(frozen=True)
class Conversion:
    """The result of converting a file.

    ``text``: Markdown. ``converter``: name and version of what made it. ``title``: the one that the
    file itself declares (a property, ``<title>``). ``pages``: the position in the text, in
    characters, at which each page begins. ``metadata``: further properties of the document.
    ``faults``: pages and other parts that could not be read, while the rest was. ``date``: the one
    that the file declares, as it stands in the property. ``documents``: those of a file that has
    many, which has no text of its own.
    """

    text: str
    converter: str
    title: str = ""
    pages: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[PartFault, ...] = ()
    date: str = ""
    documents: tuple[PartDocument, ...] = ()


@dataclass(frozen=True)
class NotConverted:
    """The reason and message of the reject of a file that could not be converted."""

    reason: str
    message: str


Converted = Conversion | NotConverted


@dataclass(frozen=True)
class ConversionRules:
    """Limits of a conversion, and converters of the user's own.

    ``seconds`` and ``megabytes`` of memory: what one file may take. ``own``: suffix, or "" for
    every suffix, -> the converter used in place of this package's. ``folder``: the folder of the
    files that contain such converters. ``articles``: of a web page, the article alone is read.
    """

    seconds: float = 900
    megabytes: int = 768
    own: Mapping[str, OwnConverter] = field(default_factory=dict)
    folder: str = "."
    articles: bool = False

    def own_for(self, suffix: str) -> OwnConverter | None:
        return self.own.get(suffix) or self.own.get("")

    @property
    def limits(self) -> str:
        return f"{self.seconds:g} s, {self.megabytes} MB"


@dataclass(frozen=True)
class FileToConvert:
    """A file to convert. ``name``: its name in documents and rejects."""

    path: Path
    name: str

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()


class ConversionListener(Protocol):
    """Receives progress: each file that was converted, in any order."""

    def expect(self, rows: int) -> None:
        """Note that ``rows`` more files will be converted."""
        ...

    def converted(
        self, kept: bool, by_another: str = "", failed: bool = False, size: int = 0
    ) -> None:
        """Note that one file is done.

        ``kept``: the result was kept from an earlier run. ``by_another``: the converter of that
        run, if it is not today's. ``failed``: the file could not be converted. ``size``: bytes of a
        file that was converted now.
        """
        ...


@runtime_checkable
class Converter(Protocol):
    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: ConversionListener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        """Return the conversion of each file, in the order of the files. A file that fails does not
        affect others.

        ``repeats``: returns whether the file of this name is converted again though its conversion
        is kept.
        """
        ...

    def known(
        self, files: Sequence[FileToConvert], rules: ConversionRules
    ) -> list[Converted | None]:
        """Return what ``convert`` would return without converting, None for a file that it would
        convert."""
        ...

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        """Return the keys under which conversions of these files are cached; empty without a
        cache."""
        ...
