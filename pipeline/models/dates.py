"""Dates as models write them, as ISO 8601."""

import re
from datetime import date, time

_TIME = (
    r"(?:[T ](?P<hours>\d{1,2}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}))?(?:\.\d{1,9})?\s?(?:Z|[+-]\d{2}:?\d{2})?)?"
)
_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {form: number for number, name in enumerate(_NAMES, 1) for form in (name, name[:3], name[:4])}
_MONTH = r"(?P<name>[A-Za-z]{3,9})\.?"
_FORMS = [
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?P<year>\d{{4}})(?:[-/.](?P<month>\d{{1,2}})(?:[-/.](?P<day>\d{{1,2}}){_TIME})?)?",
        r"(?P<year>\d{4})年(?:(?P<month>\d{1,2})月(?:(?P<day>\d{1,2})日)?)?",
        rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?)?{_MONTH},?\s(?P<year>\d{{4}})",
        rf"{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<year>\d{{4}})",
    )
]


def iso_date(text: str) -> str:
    """``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, with ``THH:MM:SS`` where the text has a time other than midnight; zones
    are left out. Empty for what is no date, or may be read in two ways (``03/04/1871``)."""
    found = next((match for form in _FORMS if (match := form.fullmatch(" ".join(text.split())))), None)
    if found is None:
        return ""
    parts = found.groupdict()
    try:
        month = _month(parts)
        day = int(parts["day"]) if parts.get("day") else None
        date(int(parts["year"]), month or 1, day or 1)
        clock = time(int(parts.get("hours") or 0), int(parts.get("minutes") or 0), int(parts.get("seconds") or 0))
    except ValueError:
        return ""
    pieces = [f"{int(parts['year']):04}", *(f"{number:02}" for number in (month, day) if number)]
    return "-".join(pieces) + (f"T{clock.isoformat()}" if clock != time() else "")


def _month(parts: dict[str, str | None]) -> int | None:
    """Raises ValueError for a word that is no month."""
    name, number = parts.get("name"), parts.get("month")
    if name is None:
        return int(number) if number else None
    if name.casefold() not in _MONTHS:
        raise ValueError(name)
    return _MONTHS[name.casefold()]
