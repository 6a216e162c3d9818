"""Names of months, and the other words of dates, in the languages in which dates are read.

They are dateparser's data. Only the data is imported: importing the parser takes longer.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

LANGUAGES = (
    "en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "sv", "da", "nb", "fi", "cs", "tr", "zh",
    "ja", "ko",
)  # fmt: skip
"""The languages in which words of dates are known. Each further one takes time for every text that
is no date."""
_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
"""The keys of dateparser's names of months."""
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ORDINARY = frozenset(("set", "out", "ago", "ara", "gen", "lip", "lis", "sie", "mag"))
"""Short names of months that are ordinary words in other languages."""
_ANY_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[^\W\d_]{2,}")
IN_WORDS = re.compile(
    r"(?<!\d)(?:(?P<before>\d{1,2})(?:[.]|st|nd|rd|th|er)?\s+(?:of\s+|de\s+)?)?"
    r"(?<![^\W\d_])(?P<name>[^\W\d_]{2,})[.,]?\s+(?:(?P<after>\d{1,2})(?:st|nd|rd|th)?,?\s+)?"
    r"(?:of\s+|de\s+|del\s+)?(?P<year>\d{4})(?!\d)"
)
"""A date with the name of its month: 3 May 2024, May 3rd, 2024, 3 de mayo de 2024, May 2024.

The name begins where a word begins. If it could begin at each letter, the time for a word of 10,000
letters would grow with the square of its length: it took 20 s.
"""


@lru_cache(maxsize=12)
def names_of_month(month: int) -> frozenset[str]:
    """Return the names of a month, 1 to 12, in all languages, in lower case and letters only."""
    key = _MONTH_NAMES[month - 1]
    names: set[str] = set()
    for language in LANGUAGES:
        names.update(name.lower() for name in _data_of(language)[key])
    return frozenset(name for name in names if _NAME.fullmatch(name))


@lru_cache(maxsize=1)
def months_by_name() -> Mapping[str, int]:
    """Return the month of each name that means one month only and is no ordinary word."""
    months: dict[str, set[int]] = {}
    for month in range(1, len(_MONTH_NAMES) + 1):
        for name in names_of_month(month):
            months.setdefault(name.casefold(), set()).add(month)
    return {
        name: min(of_name)
        for name, of_name in months.items()
        if len(of_name) == 1 and name not in _ORDINARY
    }


@lru_cache(maxsize=1)
def names_of_weekdays() -> frozenset[str]:
    """Return the names of the days of the week in all languages, in lower case."""
    names: set[str] = set()
    for language in LANGUAGES:
        for day in _WEEKDAYS:
            names.update(name.lower() for name in _data_of(language)[day])
    return frozenset(names)


@lru_cache(maxsize=1)
def words_of_dates() -> frozenset[str]:
    """Return all words that dateparser knows in these languages, in lower case.

    A text with another word is no date.
    """
    found: set[str] = set()
    for language in LANGUAGES:
        for values in _data_of(language).values():
            texts = values if isinstance(values, list) else ()
            for text in texts:
                if isinstance(text, str):
                    found.update(_ANY_WORD.findall(text.lower()))
    return frozenset(found)


def _data_of(language: str) -> Mapping[str, Any]:
    return import_module(f"dateparser.data.date_translation_data.{language}").info
