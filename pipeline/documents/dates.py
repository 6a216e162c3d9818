"""Choose the date of a document, and find dates in metadata, mail headers and names of files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import HeaderParser
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal

from pipeline.text.dates import iso_date, parse_date
from pipeline.text.written_dates import find_dates

DateFrom = Literal["front_matter", "metadata", "properties", "mail", "file_name", "file_time"]
"""The origins of a document's date."""
DEFAULT_ORDER: tuple[DateFrom, ...] = (
    "front_matter", "metadata", "properties", "mail", "file_name",
)  # fmt: skip
"""The origins that are used if the settings do not name others.

Times of files are not among them: a copy of a file has a new one.
"""
FILE_TIME: DateFrom = "file_time"
DEFAULT_FIELDS = ("date", "updated", "modified", "lastmod", "published", "created")
"""The fields of metadata that hold the date, the best first."""
_HEADERS = re.compile(r"\s*(?P<headers>(?:[A-Za-z][A-Za-z-]*:.*\n(?:[ \t]+\S.*\n)*)+)")
"""Lines "Name: value" at the beginning of a text, with their continuations."""
_LONGEST_HEADERS = 20_000
"""The number of characters in which headers of a mail are searched."""
_YEAR = r"(?P<year>19\d\d|20\d\d)"
_IN_NAME = (
    re.compile(rf"(?<!\d){_YEAR}(?P<mark>[-_. ]?)(?P<month>\d\d)(?P=mark)(?P<day>\d\d)(?!\d)"),
    re.compile(rf"(?<!\d)(?P<day>\d\d)\.(?P<month>\d\d)\.{_YEAR}(?!\d)"),
    re.compile(rf"(?<!\d){_YEAR}[-_.](?P<month>\d\d)(?!\d)"),
)
"""The patterns of a date in a file's name, the most exact first."""
_YEAR_AT_THE_BEGINNING = re.compile(rf"{_YEAR}(?:[-_. ]\D.*)?")
_YEAR_AT_THE_END = re.compile(rf"(?=.*[^\W\d_A-Z]).*\D[-_. ]{_YEAR}")
"""A year behind other words; behind capitals alone it may be a number, as in IMG_2031."""
_BETWEEN_WORDS = re.compile(r"_|(?<=[^\W\d])[-.]|[-.](?=[^\W\d])")
"""A line or a dot beside a letter; those between numbers belong to a date."""
_NO_DAY = re.compile(r"(?<=[A-Za-z])\d+(?:\.\d+)*|(?<![\d.])\d+\.\d+(?![\d.])")
"""A number behind a letter, as in v2 and Q1, or with a fraction: no day of the month behind it."""
_OF_PDF = re.compile(
    r"(?:D:)?(?P<year>\d{4})(?P<month>\d\d)?(?P<day>\d\d)?(?:\d{2,6}(?:[Z+-].*)?)?"
)
_OF_TEMPLATES = frozenset({"1601-01-01", "1970-01-01", "1980-01-01", "2013-01-27", "2013-12-23"})
"""Days that programs write into files by themselves: the beginnings of their calendars, and the
dates of the templates of python-pptx and python-docx."""


@dataclass(frozen=True)
class DocumentDate:
    """A date in ISO 8601 with the precision that is known, and its origin; both are "" if there is
    none."""

    text: str = ""
    found: DateFrom | Literal[""] = ""


NO_DATE = DocumentDate()


@dataclass(frozen=True)
class Dating:
    """Chooses the dates of the documents of a file.

    ``of_file`` are the dates of its name and its time. ``order`` are the origins that are used, the
    best first. ``fields`` and ``day_first`` are the parameters of `date_in_fields`.
    """

    of_file: Mapping[DateFrom, str]
    order: Sequence[DateFrom] = DEFAULT_ORDER
    fields: Sequence[str] = DEFAULT_FIELDS
    day_first: bool | None = None

    def date_of(
        self, origin: DateFrom, fields: Mapping[str, Any], *, properties: str = "", mail: str = ""
    ) -> DocumentDate:
        """Return the date of a document whose ``fields`` come from ``origin``.

        ``properties`` and ``mail`` are the dates of these origins.
        """
        candidates: dict[DateFrom, str] = {
            origin: date_in_fields(fields, self.fields, self.day_first),
            "properties": properties,
            "mail": mail,
            **self.of_file,
        }
        for found in self.order:
            text = candidates.get(found, "")
            if text:
                return DocumentDate(text, found)
        return NO_DATE


def date_in_fields(
    fields: Mapping[str, Any], names: Sequence[str], day_first: bool | None = None
) -> str:
    """Return the date in the first of the named fields that has one, or "".

    Case does not count in names of fields. A number is a date if it is a year.
    """
    by_name = {name.casefold(): value for name, value in fields.items()}
    for name in names:
        value = by_name.get(name.casefold())
        is_readable = isinstance(value, str | int) and not isinstance(value, bool)
        date = parse_date(str(value), day_first) if is_readable else ""
        if date:
            return date
    return ""


def date_of_mail(text: str) -> str:
    """Return the date that the headers of a mail at the beginning of a text have, or "".

    A text begins with a mail if From and Date are among its headers. The day is that of the sender.
    """
    block = _HEADERS.match(text, 0, _LONGEST_HEADERS)
    if block is None:
        return ""
    headers = HeaderParser().parsestr(block["headers"])
    if not headers["from"] or not headers["date"]:
        return ""
    try:
        day = parsedate_to_datetime(str(headers["date"])).date()
        return iso_date(day.year, day.month, day.day)
    except (ValueError, IndexError, OverflowError):
        return parse_date(str(headers["date"]))


def date_in_name(stem: str) -> str:
    """Return the date in a file's name without its suffix, or "".

    It is a day (2024-05-03, 20240503, 03.05.2024, 3 May 2024), a month (2024-05, May 2024), or a
    year that begins or ends the name. Of several days and months in words the first counts.
    """
    for pattern in _IN_NAME:
        for found in pattern.finditer(stem):
            parts = found.groupdict()
            date = iso_date(parts["year"], parts["month"], parts.get("day"))
            if date:
                return date
    # Names of files often have a line between words, which texts do not have.
    words = _BETWEEN_WORDS.sub(" ", _NO_DAY.sub(" ", stem))
    in_words = find_dates(words)
    if in_words:
        return in_words[0].iso
    year = _YEAR_AT_THE_BEGINNING.fullmatch(stem) or _YEAR_AT_THE_END.fullmatch(stem)
    return year["year"] if year else ""


def date_of_property(value: str) -> str:
    """Return the date of a property of a PDF or Office file, or "".

    It is written D:20240503104500Z or 2024-05-03T10:45:00Z. A date that a program writes by itself
    is none.
    """
    date = parse_date(value)
    of_pdf = _OF_PDF.fullmatch(value.strip())
    if of_pdf:
        date = iso_date(of_pdf["year"], of_pdf["month"], of_pdf["day"])
    return "" if date in _OF_TEMPLATES else date


def date_of_file(path: Path) -> str:
    """Return the day (UTC) on which a file was last written, or "" if it cannot be found out."""
    try:
        seconds = path.stat().st_mtime
    except OSError:
        return ""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
