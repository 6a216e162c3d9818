import pytest

from pipeline.errors import UsageError
from pipeline.query.request import read_conditions, request_of
from pipeline.settings.query_options import QuerySettings
from tests.query.memory_stores import question


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        ("year=2020", {"year": {"=": "2020"}}),
        ("year >= 2020", {"year": {">=": "2020"}}),
        ("date<2024-01-31", {"date": {"<": "2024-01-31"}}),
        ("language=[en, de]", {"language": {"in": ["en", "de"]}}),
        ("language!=[en]", {"language": {"not in": ["en"]}}),
        ("source matches letters/*", {"source": {"matches": "letters/*"}}),
        ("title=a=b", {"title": {"=": "a=b"}}),
        ("note=[open", {"note": {"=": "[open"}}),
    ],
)
def test_a_condition_is_read_from_a_line(line: str, condition: dict[str, object]):
    assert read_conditions([line]) == condition
    assert question(where=read_conditions([line])).where == condition


def test_several_must_all_hold():
    assert read_conditions(["year>=2019", "year<2021"]) == {"year": {">=": "2019", "<": "2021"}}


@pytest.mark.parametrize("lines", [["year"], [""], ["=x"], ["year=1", "year=2"]])
def test_what_is_no_condition_is_refused(lines: list[str]):
    with pytest.raises(UsageError, match="--where"):
        read_conditions(lines)


@pytest.mark.parametrize("where", [{"a\0": 1}, {"a": "b\0"}, {"a": {"in": ["\ud800"]}}, {"a": {"matches": "\0*"}}])
def test_a_character_that_no_document_has_is_refused(where: dict[str, object]):
    with pytest.raises(UsageError, match="is in no document"):
        request_of("Who?", QuerySettings(), {"where": where})
