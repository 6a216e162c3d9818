import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents.records import Fault, Record, read_csv, read_json, read_jsonl


def test_csv_rows_keep_their_line_and_drop_empty_fields() -> None:
    text = 'id,text,year\n1,"two\nlines, quoted ""so""",1931\n\n2,short\n'
    assert list(read_csv(text, "text")) == [
        Record(3, {"id": "1", "text": 'two\nlines, quoted "so"', "year": "1931"}),
        Record(5, {"id": "2", "text": "short"}),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_delimiter_is_that_of_the_header(delimiter: str) -> None:
    assert list(read_csv(f"id{delimiter}text\n1{delimiter}a\n", "text")) == [
        Record(2, {"id": "1", "text": "a"})
    ]


def test_csv_fields_may_be_long() -> None:
    limit = csv.field_size_limit()
    (record,) = read_csv("text\n" + "a" * 1_000_000, "text")
    assert isinstance(record, Record)
    assert len(str(record.fields["text"])) == 1_000_000
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    "text", ["id,body\n1,a\n", "text,text\na,b\n", 'text\n"open', 'text\n"a"b\n']
)
def test_invalid_csv_is_a_fault(text: str) -> None:
    faults = list(read_csv(text, "text"))
    assert [item.reason for item in faults if isinstance(item, Fault)] == ["parse"]


def test_a_csv_row_with_too_many_fields_is_a_fault() -> None:
    faulty, good = read_csv("id,text\n1,a,b\n2,c\n", "text")
    assert isinstance(faulty, Fault)
    assert (faulty.reason, faulty.line) == ("parse", 2)
    assert good == Record(3, {"id": "2", "text": "c"})


def test_a_json_object_or_array_gives_records() -> None:
    assert list(read_json('{"text": "a"}')) == [Record(1, {"text": "a"})]
    first, second = read_json('[{"text": "a"}, "b"]')
    assert first == Record(1, {"text": "a"})
    assert isinstance(second, Fault)
    assert (second.reason, second.line) == ("parse", 2)


@pytest.mark.parametrize(
    "text", ["{", "[1,", "[" * 100_000, '{"a": NaN}', "nil", '{"a": ' + "9" * 5000 + "}"]
)
def test_invalid_json_is_a_fault(text: str) -> None:
    *records, fault = read_json(text)
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.line) == ("parse", None)
    assert not any(isinstance(item, Record) for item in records)


def test_each_line_of_jsonl_is_a_record_or_a_fault() -> None:
    items = list(read_jsonl('{"text": "a\u2028b"}\n{oops\n\n[1]\n{"text": "c"}\n'))
    assert [item.line for item in items] == [1, 2, 4, 5]
    assert [isinstance(item, Fault) for item in items] == [False, True, True, False]


@given(st.text(max_size=200))
def test_no_text_raises_an_error(text: str) -> None:
    for items in (read_csv(text, "text"), read_json(text), read_jsonl(text)):
        assert all(isinstance(item, Record | Fault) for item in items)
