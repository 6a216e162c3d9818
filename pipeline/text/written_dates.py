"""Find months and days in a question, and describe how texts write the same month or day.

"March 2024" in a question is written 2024-03-15, 15.03.2024, März 2024 or 2024年3月 in texts. A
date without a year of four digits is none, as in `pipeline.text.dates`, whose languages count here
too. The names of months are dateparser's.
"""

import re
from dataclasses import dataclass

from pipeline.text.dates import iso_date, parse_date
from pipeline.text.month_names import IN_WORDS, months_by_name, names_of_month

LONGEST_READ = 10_000
"""Characters of a question in which dates are searched."""
MOST_DATES = 4
"""Most dates of a question that are searched for."""
LATER_THAN_MONTHS = range(13, 32)
"""The days that no reader takes for a month."""
_IN_NUMBERS = re.compile(
    r"(?<![\d.,/-])(?:\d{4}([-/.])\d{1,2}(?:\1\d{1,2})?|(?:\d{1,2}[-/.])?\d{1,2}[-/.]\d{4})"
    r"(?![\d/-]|[.,]\d)"
)
_SYLLABIC = re.compile(
    r"(?<!\d)(?P<year>\d{4})[年년]\s*(?P<month>\d{1,2})[月월](?:\s*(?P<day>\d{1,2})[日일])?"
)


@dataclass(frozen=True)
class WrittenDate:
    """A month, or a day if ``day`` is not None."""

    year: int
    month: int
    day: int | None = None

    @property
    def days(self) -> range:
        """The days of the month that the date may mean."""
        return range(1, 32) if self.day is None else range(self.day, self.day + 1)

    @property
    def iso(self) -> str:
        """The date in ISO 8601."""
        return iso_date(self.year, self.month, self.day)

    @property
    def slashed_days(self) -> list[int]:
        """The days that 15/03/2024 and 03/15/2024 say without doubt, whichever order is meant."""
        return [day for day in self.days if day in LATER_THAN_MONTHS or day == self.month]

    @property
    def pattern(self) -> str:
        """The regular expression of the date in a text, for Python and for PostgreSQL.

        Case is ignored.
        """
        year = self.year
        month = f"0?{self.month}"
        day = _any_of(self.days)
        if self.day is None:
            # A text may say the month alone, or any day of it.
            behind_month = f"([-/.]{day})?"
            behind_name = rf"({day}[a-z]*,?\s+)?"
            behind_syllable = ""
        else:
            behind_month = f"[-/.]{day}"
            behind_name = rf"{day}[a-z]*,?\s+"
            behind_syllable = rf"\s*{day}[日일]"
        all_names = "|".join(sorted(names_of_month(self.month)))
        name = f"({all_names})"
        between = r"[.,]?\s+"
        of_year = rf"((of|de|del)\s+)?{year}"
        forms: list[str] = []
        if self.day is None:
            forms.append(rf"{month}[/.]{year}")
        forms.append(rf"{year}[-/.]{month}{behind_month}")
        forms.append(f"{day}[.]{month}[.]{year}")
        forms.append(rf"{name}{between}{behind_name}{of_year}")
        if self.slashed_days:
            later_day = _any_of(self.slashed_days)
            forms.append(f"{later_day}[/-]{month}[/-]{year}")
            forms.append(f"{month}/{later_day}/{year}")
        if self.day is None:
            forms.append(rf"{year},?\s+{name}")
        else:
            before_name = rf"{day}[a-z]*[.]?\s+((of|de)\s+)?"
            forms.append(rf"{before_name}{name}{between}{of_year}")
        any_form = "|".join(forms)
        # Where there are no spaces between words, letters and digits stand beside the date.
        syllabic = rf"(?<!\d){year}[年년]\s*{month}[月월]{behind_syllable}"
        return rf"(?<![\w./-])({any_form})(?!\d)|{syllabic}"


def find_dates(question: str) -> list[WrittenDate]:
    """Return the months and days of the question, each once.

    Numbers such as 03/04/2024, whose order is unknown, are left out.
    """
    question = question[:LONGEST_READ]
    found: dict[str, WrittenDate] = {}
    for numbers in _IN_NUMBERS.finditer(question):
        _add(found, parse_date(numbers[0]))
    for syllabic in _SYLLABIC.finditer(question):
        _add(found, iso_date(syllabic["year"], syllabic["month"], syllabic["day"]))
    for written in IN_WORDS.finditer(question):
        month = months_by_name().get(written["name"].casefold())
        if month is not None:
            day = written["before"] or written["after"]
            _add(found, iso_date(written["year"], month, day))
    return list(found.values())[:MOST_DATES]


def _add(found: dict[str, WrittenDate], iso: str) -> None:
    """Add a date in ISO 8601 that has a month."""
    numbers = [int(digits) for digits in iso.split("-") if digits]
    has_month = len(numbers) > 1
    if has_month and iso not in found:
        # The fields of a date are in the order of ISO 8601; the day may be missing.
        found[iso] = WrittenDate(*numbers)


def _any_of(days: range | list[int]) -> str:
    """Return the pattern of one of the days, with a zero before it or without."""
    spellings = "|".join(f"0?{day}" for day in days)
    return f"({spellings})"
