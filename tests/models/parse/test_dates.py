import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.parse.records import iso_date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1871", "1871"),
        ("1871-05", "1871-05"),
        ("1871-5-3", "1871-05-03"),
        ("1871/05/03", "1871-05-03"),
        (" 1871-05-03 ", "1871-05-03"),
        ("1871-05-03T00:00:00", "1871-05-03"),
        ("1871-05-03T14:30:00Z", "1871-05-03T14:30:00"),
        ("3 May 1871", "1871-05-03"),
        ("3rd of May, 1871", "1871-05-03"),
        ("May 3, 1871", "1871-05-03"),
        ("Sept. 1871", "1871-09"),
        ("1871年5月3日", "1871-05-03"),
        ("１８７１年５月３日", "1871-05-03"),
        ("１８７１", "1871"),
        ("1871-00-00", "1871"),
    ],
)
def test_dates_are_read_in_the_forms_that_models_write(text: str, expected: str):
    assert iso_date(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NONE",
        "1871-13-01",
        "1871-02-30",
        "03/04/1871",
        "May",
        "3 Mai 1871x",
        "0000",
        "1871-05-03T25:00:00",
    ],
)
def test_text_that_is_no_date_gives_an_empty_date(text: str):
    assert iso_date(text) == ""


@given(st.dates(), st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%Y/%m/%d"]))
def test_every_date_is_read_back(day, form: str):
    if day.year >= 1000:
        assert iso_date(day.strftime(form)) == day.isoformat()


@given(st.text())
def test_no_text_raises(text: str):
    assert isinstance(iso_date(text), str)
