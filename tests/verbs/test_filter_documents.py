from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.verbs.filter_documents import FilterParams, filter_documents
from tests.verbs.documents import documents

CORPUS = documents(
    a={"language": "en", "year": 2019, "tags": ["red", "blue"], "draft": True},
    b={"language": "de", "year": "2020", "tags": [], "draft": "False"},
    c={"language": "fr", "year": 2020.0, "published": "2021-05-01", "tags": "red"},
    d={"year": "n/a", "language": None, "published": "2020-12-31"},
)


def kept(where: dict[str, Any]) -> str:
    frame = filter_documents(CORPUS, FilterParams(where=where))
    return "".join(frame["source"].str.removesuffix(".txt"))


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ({"language": "de"}, "b"),
        ({"language": ["en", "de"]}, "ab"),
        ({"language": {"in": ["en", "de"]}}, "ab"),
        ({"language": {"not in": ["en", "de"]}}, "cd"),
        ({"language": {"=": "en"}}, "a"),
        ({"language": {"!=": "en"}}, "bcd"),
        ({"language": {"exists": True}}, "abc"),
        ({"language": {"exists": False}}, "d"),
        ({"nothing": "x"}, ""),
        ({"year": 2020}, "bc"),
        ({"year": "2020"}, "bc"),
        ({"year": 2020.0}, "bc"),
        ({"year": {">=": 2020}}, "bc"),
        ({"year": {">": "2019"}}, "bc"),
        ({"year": {"<": 2020}}, "a"),
        ({"year": {">=": 2019, "<=": 2019.5}}, "a"),
        ({"published": {">=": date(2021, 1, 1)}}, "c"),
        ({"published": {"<": "2021-01-01"}}, "d"),
        ({"tags": "red"}, "ac"),
        ({"tags": {"!=": "red"}}, "bd"),
        ({"tags": ["blue", "green"]}, "a"),
        ({"draft": True}, "a"),
        ({"draft": False}, "b"),
        ({"title": ["A", "B"], "source": {"matches": "[b-d].*"}}, "b"),
        ({"source": {"matches": "*.md"}}, ""),
        ({"language": {"matches": "?[er]"}}, "bc"),
    ],
)
def test_documents_that_meet_the_condition_are_kept(condition: dict[str, Any], names: str):
    assert sorted(kept(condition)) == sorted(names)


def test_kept_documents_are_unchanged():
    frame = filter_documents(CORPUS, FilterParams(where={"title": ["A", "B", "C", "D"]}))
    assert frame.equals(CORPUS)


def test_a_value_and_its_operator_are_one_condition():
    assert FilterParams(where={"year": 2020}) == FilterParams(where={"year": {"=": 2020}})


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({}, "at least 1 item"),
        ({"year": {"=>": 2020}}, r"'year' has no operator '=>'; have: =, !=, <"),
        ({"year": {}}, "'year' names no operator"),
        ({"year": []}, "'year' in: no list of values"),
        ({"year": {"in": "2020"}}, "'year' in: no list of values"),
        ({"year": {"exists": "yes"}}, "'year' exists: no truth value"),
        ({"year": None}, "'year' =: NoneType is no value .* for a missing one use exists"),
        ({"year": [2020, [2021]]}, "'year' in: list is no value"),
        ({"year": {"<": float("nan")}}, "'year' <: not a finite number"),
        ({"entity.built": 1850}, "'entity.built': documents are chosen before anything is extr"),
    ],
)
def test_an_invalid_condition_is_refused(where: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        FilterParams(where=where)
