"""Read which versions and dates a question names: v1, Version 1.2, the 2023 edition, March 2023.

A number is a version only beside a word that says so, or directly behind a "v". Behind a word as
"since" or "before" a number is a bound: "What changed since v1?" does not ask for v1.
"""

import re
from dataclasses import dataclass

from pipeline.text.written_dates import LONGEST_READ, find_dates

Version = tuple[int, ...]
_NUMBER = r"\d{1,4}(?:\.\d{1,4}){0,3}"
_NUMBERS = rf"{_NUMBER}(?:\s*(?:,|&|and|or|und|oder|to|bis|vs\.?|和|与|與)\s*v?{_NUMBER})*"
_BEFORE = r"(?<![^\W_])"
"""No letter or digit stands before: "ipv4" names no version."""
_BEHIND = r"(?![A-Za-z\d]|\.\d)"
"""No letter of the Latin script or digit follows, and no further part of the number."""
_KIND = r"(?:version|edition|edición|édition|revision|release|fassung|ausgabe|auflage)"
_NAMED_VERSION = re.compile(
    rf"{_BEFORE}v(?P<short>{_NUMBER}){_BEHIND}"
    rf"|{_BEFORE}(?:{_KIND}(?:s|en|n)?\s+(?:(?:no|nr)\.?\s*)?|版本\s*)v?(?P<listed>{_NUMBERS}){_BEHIND}"
    rf"|(?<![^\W_])(?<!\.)(?P<first>{_NUMBER})(?:st|nd|rd|th|er|\.)?\s+{_KIND}\b"
    rf"|(?<![\d.])(?P<syllabic>{_NUMBER})\s*年?版",
    re.IGNORECASE,
)
YEAR = re.compile(r"(?<![A-Za-z_\d])[12]\d{3}(?=er\b|[^A-Za-z_\d]|$)")
"""A year. In Chinese no space stands around it."""
_BOUND = re.compile(
    r"\b(?:since|after|before|until|till|seit|nach|vor|(?<!\d )bis)\s+"
    r"(?:[^\W\d]+\s+){0,3}v?\d[\d./-]*",
    re.IGNORECASE,
)
"""A number behind a word of time. Behind a number, "bis" joins two versions: "Version 1 bis 3"."""
_AS_OF = re.compile(r"\b(?:as (?:of|at)|stand)\b", re.IGNORECASE)


@dataclass(frozen=True)
class NamedVersions:
    """The versions that a question names.

    ``versions``: their numbers, as they are written. ``dates``: years, months and days in ISO 8601.
    ``as_of``: whether it asks for what held on these dates.
    """

    versions: tuple[Version, ...] = ()
    dates: tuple[str, ...] = ()
    as_of: bool = False


def read_named_versions(question: str) -> NamedVersions:
    """Return the versions and dates that a question names."""
    text = _BOUND.sub(" ", question[:LONGEST_READ])
    days_and_months: list[str] = []
    for date in find_dates(text):
        month = f"{date.year}-{date.month:02}"
        days_and_months.append(month if date.day is None else f"{month}-{date.day:02}")
    years = dict.fromkeys(YEAR.findall(text))
    # The year of a month that the question names is not meant as a whole.
    whole_years = [
        year for year in years if not any(date.startswith(year) for date in days_and_months)
    ]
    return NamedVersions(
        versions=tuple(find_versions(text)),
        dates=(*days_and_months, *whole_years),
        as_of=_AS_OF.search(text) is not None,
    )


def find_versions(text: str) -> list[Version]:
    """Return the numbers of the versions that a text names, each once."""
    found: dict[Version, None] = {}
    for match in _NAMED_VERSION.finditer(text):
        for number in re.findall(_NUMBER, match[match.lastgroup or 0]):
            found[read_numbers(number)] = None
    return list(found)


def read_numbers(version: str) -> Version:
    """Return the numbers of a version such as 1.10."""
    return tuple(int(number) for number in version.split("."))


def strip_zeros(version: Version) -> Version:
    """Return the version without zeros at its end: 1 and 1.0 are one version."""
    length = len(version)
    while length > 1 and version[length - 1] == 0:
        length -= 1
    return version[:length]
