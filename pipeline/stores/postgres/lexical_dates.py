"""The query of PostgreSQL's full text search for a date, in all forms in which texts write it.

PostgreSQL reads 2024-03-15 as 2024, -03 and -15, and 15.03.2024 or 15/03/2024 as one word. The
query finds at least all texts that have the date. BM25 counts the date by its pattern.
"""

from collections.abc import Iterable

from pipeline.text.ids import is_syllabic
from pipeline.text.written_dates import WrittenDate, names_of_month


def date_query(date: WrittenDate) -> str:
    """Return the tsquery of a month or a day; it has letters, digits and punctuation only."""
    year = str(date.year)
    months = _spell(date.month)
    one_day = None if date.day is None else _spell(date.day)
    month_behind_dash = _either(f"-{month}" for month in months)
    with_dashes = [f"'{year}'", month_behind_dash]
    dashes_behind = [f"'-{year}'", month_behind_dash]
    in_words = [_either((year, f"{year}년")), _either(sorted(names_of_month(date.month)))]
    syllables = [f"'{year}'", "'年'", "'月'", _either(months)]
    korean = [f"'{year}년'", _either(f"{month}월" for month in months)]
    if one_day is not None:
        with_dashes.append(_either(f"-{day}" for day in one_day))
        dashes_behind.append(_either(one_day))
        with_endings = [f"{date.day}{ending}" for ending in ("st", "nd", "rd", "th", "er")]
        in_words.append(_either([*one_day, *with_endings]))
        syllables.append(_either(one_day))
        korean.append(_either(f"{day}일" for day in one_day))
    parts: list[str] = []
    for needed in (with_dashes, dashes_behind, in_words, syllables, korean):
        all_needed = " & ".join(needed)
        parts.append(f"({all_needed})")
    single_words = _list_single_words(date)
    parts.append(_either(single_words))
    return " | ".join(parts)


def _list_single_words(date: WrittenDate) -> list[str]:
    """Return the dates in numbers that PostgreSQL reads as one word."""
    year = date.year
    found: list[str] = []
    for month in _spell(date.month):
        if date.day is None:
            for mark in "./":
                found.append(f"{month}{mark}{year}")
                found.append(f"{year}{mark}{month}")
        for number in date.days:
            for day in _spell(number):
                found.append(f"{day}.{month}.{year}")
                found.append(f"{year}/{month}/{day}")
                found.append(f"{year}.{month}.{day}")
        for number in date.slashed_days:
            for day in _spell(number):
                found.append(f"{day}/{month}/{year}")
                found.append(f"{month}/{day}/{year}")
    return found


def _spell(number: int) -> list[str]:
    """Return the number with a zero before it and without."""
    return list(dict.fromkeys((f"{number:02}", str(number))))


def _either(words: Iterable[str]) -> str:
    """Return the tsquery that finds any of the words; none of them is syllabic."""
    quoted = [f"'{word}'" for word in words if not is_syllabic(word)]
    return f"({' | '.join(quoted)})"
