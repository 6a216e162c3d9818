"""Values of properties are read as the ontology declares them, or are faults that say why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ontology.property_values import (
    Fault,
    number_text,
    parse_attributes,
    read_values,
    with_values,
)
from pipeline.ontology.schema import Property


def read(given: Any, **declared: Any) -> list[Any]:
    """Return the values that were read, and of the others the reasons."""
    property = Property.model_validate({"name": "p", **declared})
    values = read_values(property, given)
    return [value.reason if isinstance(value, Fault) else value for value in values]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (12, 12),
        ("12 m", 12),
        ("12m", 12),
        ("12,5 km", 12500),
        ("1,200 ft", 365.76),
        ("1 200 metres", 1200),
        ("1.234,5", 1234.5),
        ("-3", -3),
        ("3 million", 3_000_000),
        ({"value": 3, "unit": "km"}, 3000),
        ("12 mm", 0.012),
    ],
)
def test_a_number_is_converted_to_the_declared_unit(given: Any, value: float):
    assert read(given, type="number", unit="m") == [value]


@pytest.mark.parametrize("given", ["12 kg", "$12", "5 furlongs", "12 m2"])
def test_a_number_in_another_dimension_has_a_wrong_unit(given: str):
    assert read(given, type="number", unit="m") == ["wrong_unit"]


@pytest.mark.parametrize("given", ["about 12", "tall", "1e400", ".5.", "12-15", "1,23,4", True])
def test_a_text_that_is_no_number_is_a_bad_value(given: Any):
    assert read(given, type="number", unit="m") == ["bad_value"]


def test_a_number_without_a_declared_unit_takes_none():
    assert read("12 m", type="number") == ["wrong_unit"]
    assert read("12 pages", type="number", unit="pages") == [12]
    assert read("€ 12", type="number", unit="EUR") == [12]
    assert read("12 mW", type="number", unit="MW") == ["wrong_unit"]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("1850", "1850"),
        (1850, "1850"),
        ("March 1850", "1850-03"),
        ("2 March 1850", "1850-03-02"),
        ("2024-W05", "2024"),
        ("2024-W05-3", "2024"),
    ],
)
def test_a_date_keeps_the_precision_that_is_known(given: Any, value: str):
    assert read(given, type="date") == [value]


@pytest.mark.parametrize("given", ["2023-02-30", "31 April 1999", "1850-13", "long ago", True])
def test_a_date_that_does_not_exist_is_a_bad_value(given: Any):
    assert read(given, type="date") == ["bad_value"]


def test_an_enum_is_found_in_any_case_and_by_its_synonyms():
    values = [{"name": "In use", "synonyms": ["open"]}, "Closed"]
    for spelling in ("in_use", "IN USE", "Open"):
        assert read(spelling, type="enum", values=values) == ["In use"]
    assert read("burnt", type="enum", values=values) == ["bad_value"]


def test_values_of_an_enum_that_differ_by_a_sign_are_told_apart():
    for value in ("A", "A+", "A-"):
        assert read(value.lower(), type="enum", values=["A", "A+", "A-"]) == [value]


def test_a_pattern_holds_for_a_text_and_for_each_text_of_a_list():
    assert read("AB-1", pattern=r"[A-Z]+-\d") == ["AB-1"]
    assert read("AB", pattern=r"[A-Z]+-\d") == ["bad_value"]
    assert read("AB-1; x; CD-2", type="list", pattern=r"[A-Z]+-\d") == ["AB-1", "bad_value", "CD-2"]
    assert read(["a", "b"], type="list") == ["a", "b"]


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*b", r"(\w+\s*)+:"])
def test_no_pattern_takes_more_than_linear_time(pattern: str):
    assert read("a" * 400 + "!", pattern=pattern) == ["bad_value"]


@pytest.mark.parametrize("type", ["string", "number", "date", "list"])
@pytest.mark.parametrize("given", [None, "", "unknown", "N/A", [], [None]])
def test_words_that_say_nothing_are_no_value_and_no_fault(type: str, given: Any):
    assert read(given, type=type) == []


def test_a_value_longer_than_any_store_could_index_is_a_bad_value():
    assert read("x" * 501) == ["bad_value"]


def test_values_are_kept_once_and_in_one_order():
    assert with_values({"b": [2, 1, 2], "a": ["x"], "c": []}) == '{"a": "x", "b": [1, 2]}'
    assert with_values({}) is None
    assert parse_attributes('{"a": 1}') == {"a": 1}
    assert parse_attributes(None) == {}
    assert parse_attributes("[1]") is None


def test_digits_of_a_number_have_no_exponent():
    assert [number_text(one) for one in (1e16, 1850.0, 0.1, 1e-7)] == [
        "10000000000000000",
        "1850",
        "0.1",
        "0.0000001",
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(json_values, st.sampled_from(["string", "number", "date", "list"]))
def test_no_value_of_json_raises_an_error(given: Any, type: str):
    for value in read(given, type=type):
        assert isinstance(value, str | int | float)
