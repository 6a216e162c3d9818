"""Dates in numbers and in words."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import dates
from pipeline.text.dates import is_date, parse_date, range_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", "2024"),
        ("2024-5", "2024-05"),
        ("2024-05-03T23:30:00-05:00", "2024-05-03"),
        ("20240503", "2024-05-03"),
        ("5/2024", "2024-05"),
        ("3. Mai 2024", "2024-05-03"),
        ("May 2024", "2024-05"),
        ("1er mars 2024", "2024-03-01"),
        ("3 de mayo de 2024", "2024-05-03"),
        ("２０２４年５月３日", "2024-05-03"),
        ("Fri, 3 May 2024 10:00:00 +0200", "2024-05-03"),
        ("Q2 2024", "2024"),
    ],
)
def test_a_date_keeps_the_precision_that_is_known(text: str, expected: str):
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2 days ago", "10:30", "May 3", "3 May 24", "version 3", "spring 2024",
     "2024-13-45", "29.02.2023", "0203", "1234567890", "May 2024 draft", "x" * 100],
)  # fmt: skip
def test_a_text_without_a_whole_year_or_with_other_words_is_no_date(text: str):
    assert parse_date(text) == ""


@pytest.mark.parametrize(
    ("text", "day_first", "expected"),
    [
        ("03/04/2024", None, "2024"),
        ("03/04/2024", True, "2024-04-03"),
        ("03/04/2024", False, "2024-03-04"),
        ("13/04/2024", None, "2024-04-13"),
        ("04/13/2024", None, "2024-04-13"),
        ("05-05-2024", None, "2024-05-05"),
        ("03.04.2024", None, "2024-04-03"),
        ("03.04.2024", False, "2024-04-03"),
    ],
)
def test_of_an_unknown_order_of_day_and_month_only_the_year_is_taken(
    text: str, day_first: bool | None, expected: str
):
    assert parse_date(text, day_first) == expected


def test_texts_that_differ_by_the_time_of_day_are_read_once():
    dates._parse_words.cache_clear()  # pyright: ignore
    texts = [f"Fri, 3 May 2024 10:{minute}:00 +0200" for minute in range(10, 20)]
    assert {parse_date(text) for text in texts} == {"2024-05-03"}
    assert dates._parse_words.cache_info().misses == 1  # pyright: ignore


@given(st.dates(date(1000, 1, 1), date(2999, 12, 31)), st.sampled_from([4, 7, 10]))
def test_a_date_as_it_is_written_is_read_as_itself(day: date, length: int):
    text = day.isoformat()[:length]
    days = range_of(text)
    assert parse_date(text) == text
    assert is_date(text)
    assert days.first <= day.isoformat() <= days.last


@pytest.mark.parametrize(
    "text", ["3 May 1999", "May 3rd, 1999", "Fri, 3 May 1999", "Fri May 3 1999", "3. Mai 1999"]
)
def test_a_common_form_needs_no_parser(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.text.dates._parser", lambda: pytest.fail("parsed"))
    assert parse_date(text) == "1999-05-03"


@pytest.mark.parametrize("text", ["draft7 May 1987", "report 7 of 1987", "3 May 1987 12345"])
def test_a_text_with_another_word_or_number_needs_no_parser(
    text: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.text.dates._parser", lambda: pytest.fail("parsed"))
    assert parse_date(text) == ""
