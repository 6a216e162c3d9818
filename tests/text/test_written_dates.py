"""Months and days of a question, and the forms in which texts write them."""

import re
import time

import pytest

from pipeline.text.written_dates import WrittenDate, find_dates, names_of_month

MARCH, IDES = WrittenDate(2024, 3), WrittenDate(2024, 3, 15)


@pytest.mark.parametrize(
    ("question", "dates"),
    [
        ("What was decided in March 2024?", [MARCH]),
        ("Was wurde im März 2024 beschlossen?", [MARCH]),
        ("Qu'a-t-on décidé le 15 mars 2024 ?", [IDES]),
        ("on March 15th, 2024", [IDES]),
        ("el 15 de marzo de 2024", [IDES]),
        ("minutes of 2024-03-15 and of 03/2024", [IDES, MARCH]),
        ("Protokoll vom 15.03.2024.", [IDES]),
        ("2024年3月15日", [IDES]),
        ("2024년 3월", [MARCH]),
        ("the data set 2024, 03/04/2024, 2024-13, May 3, version 1.2024.3.5", []),
        ("March 2024, 2024-03 and märz 2024", [MARCH]),
    ],
)
def test_dates_of_a_question_are_months_and_days_with_a_year(
    question: str, dates: list[WrittenDate]
):
    assert set(find_dates(question)) == set(dates)


@pytest.mark.parametrize(
    "text",
    ["2024-03", "on 2024-03-15.", "15.03.2024", "5.3.2024", "15/03/2024", "03/15/2024", "3/2024",
     "Mar 2024", "15 March 2024", "MARCH 3rd, 2024", "am 3. März 2024", "15 de março de 2024",
     "15 марта 2024", "2024年3月15日", "2024년 3월"],
)  # fmt: skip
def test_a_month_is_in_texts_in_all_its_forms(text: str):
    assert re.search(MARCH.pattern, text, re.IGNORECASE)


@pytest.mark.parametrize(
    "text", ["2024-03-05", "March 2024", "5.3.2024", "2024-03-150", "16 March 2024"]
)
def test_another_day_of_the_month_is_not_the_day(text: str):
    assert re.search(IDES.pattern, text, re.IGNORECASE) is None


@pytest.mark.parametrize("text", ["2024-30", "04/03/2024", "2023-03", "March 20245", "12024-03"])
def test_other_numbers_are_not_the_month(text: str):
    assert re.search(MARCH.pattern, text, re.IGNORECASE) is None


def test_names_of_months_are_known_in_many_languages():
    assert {"march", "märz", "mars", "marzo", "марта", "března"} <= names_of_month(3)


def test_a_long_word_takes_little_time():
    begun = time.process_time()
    assert find_dates("a" * 10_000) == []
    # It is a millisecond. Where a name could begin at each letter, it was several seconds.
    assert time.process_time() - begun < 1
