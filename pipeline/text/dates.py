"""Read dates as ISO 8601 with the precision that is known: 2024, 2024-05 or 2024-05-03.

Dates in numbers are read here, those with words (3 May 2024, 3. Mai 2024, 2024年5月3日) by
dateparser. Nothing depends on the clock: a date without a year of four digits is none.

The library is imported when it is first needed: importing it takes a tenth of a second.
"""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from pipeline.text.month_names import (
    IN_WORDS,
    LANGUAGES,
    months_by_name,
    names_of_weekdays,
    words_of_dates,
)

LONGEST = 60
"""The most characters of a text that is read as a date."""
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?:(?P<separator>[-/.])(?P<month>\d{1,2})"
    r"(?:(?P=separator)(?P<day>\d{1,2}))?)?"
)
_COMPACT = re.compile(r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})")
_WEEK = re.compile(r"(?P<year>\d{4})-?[Ww]\d{2}(?:-?\d)?")
"""A week of ISO 8601. Only its year is read: dateparser would take the week for a month."""
_YEAR_LAST = re.compile(
    r"(?:(?P<first>\d{1,2})(?P<separator>[-/.]) ?)?(?P<second>\d{1,2})(?:(?<=\d)[-/.]) ?"
    r"(?P<year>\d{4})"
)
_TIME = re.compile(r"[T ]\d{1,2}:\d{2}.*")
"""The time of day behind a date, which is left out."""
_A_YEAR = re.compile(r"\d{4}")
_YEARS = range(1000, 3000)
_LAST_MONTH = 12
FIRST_DAY, LAST_DAY = "0000-01-01", "0000-12-31"
"""The ends of these texts complete a date to the first or the last day that it may mean."""
_NUMBER, _WORD = re.compile(r"\d+"), re.compile(r"[^\W\d_]{2,}")
_UNSEPARATED = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_FORM = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
_LENGTHS = {"year": 4, "month": 7, "day": 10, "time": 10}
"""The number of characters of a date in ISO 8601 that are known, by the periods of dateparser."""


@dataclass(frozen=True)
class DateRange:
    """The first and the last day that a date of some precision may mean.

    The last day of every month is 31: the days are compared as texts only.
    """

    first: str
    last: str


def is_date(text: str) -> bool:
    """Return whether the text is a date as `parse_date` writes it."""
    return _FORM.fullmatch(text) is not None


def range_of(iso: str) -> DateRange:
    """Return the days that a date as `parse_date` writes it may mean."""
    return DateRange(iso + FIRST_DAY[len(iso) :], iso + LAST_DAY[len(iso) :])


@lru_cache(maxsize=4096)
def parse_date(text: str, day_first: bool | None = None) -> str:
    """Return the date that the text is, or "" if it is none.

    ``day_first`` says how a date such as 03/04/2024 is read; None leaves month and day out, so that
    the year alone is known. Where one of the numbers is above 12, or a point stands between them,
    the day is known in any case.
    """
    text = _normalize(text)
    if len(text) > LONGEST:
        return ""
    for pattern in (_YEAR_FIRST, _COMPACT):
        found = pattern.fullmatch(text)
        if found:
            return iso_date(found["year"], found["month"], found["day"])
    week = _WEEK.fullmatch(text)
    if week:
        return iso_date(week["year"], None, None)
    found = _YEAR_LAST.fullmatch(text)
    if found:
        return _year_last(found, day_first)
    has_words = any(character.isalpha() for character in text)
    return _parse_words(text) if has_words and _A_YEAR.search(text) else ""


def iso_date(year: str | int, month: str | int | None, day: str | int | None) -> str:
    """Return the date of these numbers, "" if there is no such day; month and day may be None."""
    if int(year) not in _YEARS:
        return ""
    try:
        whole = date(int(year), int(month or 1), int(day or 1)).isoformat()
    except ValueError:
        return ""
    if day is not None:
        return whole
    precision = "year" if month is None else "month"
    return whole[: _LENGTHS[precision]]


def _year_last(found: re.Match[str], day_first: bool | None) -> str:
    """Return the date of a text such as 03.05.2024, 03/05/2024 or 05/2024."""
    first, second, year = found["first"], found["second"], found["year"]
    if first is None:
        return iso_date(year, second, None)
    if found["separator"] == "." or int(first) > _LAST_MONTH:
        return iso_date(year, second, first)
    if int(second) > _LAST_MONTH or first == second:
        return iso_date(year, first, second)
    if day_first is None:
        return iso_date(year, None, None)
    if day_first:
        return iso_date(year, second, first)
    return iso_date(year, first, second)


def _normalize(text: str) -> str:
    """Return the text with single blanks, and without the time of day if a year remains.

    Texts that differ by the time of day alone are then read once.
    """
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    without_time = _TIME.sub("", text)
    return without_time if _A_YEAR.search(without_time) else text


def is_uncommon_date(text: str) -> bool:
    """Return whether the text may be a date in words of a less common form.

    `parse_date` takes milliseconds for each of these, and microseconds for other texts.
    """
    text = _normalize(text)
    if len(text) > LONGEST or not _A_YEAR.search(text):
        return False
    has_words = any(character.isalpha() for character in text)
    return has_words and _read_common(text) is None and _may_be_date(text)


@lru_cache(maxsize=4096)
def _parse_words(text: str) -> str:
    """Return the date of a text with words, such as "3 May 2024" or "Mai 2024".

    dateparser takes a millisecond for a text or two, so it reads those alone that may be a date in
    a less common form.
    """
    common = _read_common(text)
    if common is not None:
        return common
    if not _may_be_date(text):
        return ""
    try:
        found = _parser().get_date_data(text)
    except (ValueError, OverflowError):
        return ""
    if found.date_obj is None:
        return ""
    year = str(found.date_obj.year)
    # A year that the text does not have was made up of a number of two digits.
    if year not in text:
        return ""
    known_length = _LENGTHS.get(found.period, _LENGTHS["year"])
    whole = found.date_obj.date().isoformat()
    return whole[:known_length]


def _read_common(text: str) -> str | None:
    """Return the date of a text of the form "3 May 2024", "" for a day that does not exist.

    Returns None if the text has another form.
    """
    weekday, _, day = text.partition(" ")
    common = IN_WORDS.fullmatch(text)
    if common is None and weekday.rstrip(",.").lower() in names_of_weekdays():
        common = IN_WORDS.fullmatch(day)
    if common is None:
        return None
    month = months_by_name().get(common["name"].casefold())
    before, after = common["before"], common["after"]
    has_two_days = before and after
    if month is None or has_two_days:
        return None
    return iso_date(common["year"], month, before or after)


def _may_be_date(text: str) -> bool:
    """Return whether all words of the text belong to dates, and its numbers have their lengths.

    Where words are not separated nothing is said of words.
    """
    lengths = [len(digits) for digits in _NUMBER.findall(text)]
    lengths_beside_years = [length for length in lengths if length != 4]
    if lengths.count(4) != 1 or any(length > 2 for length in lengths_beside_years):
        return False
    if _UNSEPARATED.search(text):
        return True
    known = words_of_dates()
    return all(word in known for word in _WORD.findall(text.lower()))


@lru_cache(maxsize=1)
def _parser() -> Any:
    """Return the parser of dates with words.

    It knows absolute dates only, and takes nothing from the clock: "yesterday" is no date.
    """
    from dateparser.date import DateDataParser

    settings = {
        "PARSERS": ["absolute-time"],
        "REQUIRE_PARTS": ["year"],
        "RELATIVE_BASE": datetime(2000, 1, 1),
    }
    return DateDataParser(languages=list(LANGUAGES), settings=settings)
