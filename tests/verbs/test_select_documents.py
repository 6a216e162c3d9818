from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.verbs.select_documents import SelectParams, select_documents
from tests.verbs.documents import documents, metadata_of

CORPUS = documents(
    a={"jahr": 2019, "owner": "Ada", "note": "x"}, b={"owner": "Otto", "year": 1}, c={}
)


@pytest.mark.parametrize(
    ("params", "a", "b"),
    [
        ({}, {"jahr": 2019, "owner": "Ada", "note": "x"}, {"owner": "Otto", "year": 1}),
        ({"metadata": ["owner", "none"]}, {"owner": "Ada"}, {"owner": "Otto"}),
        ({"metadata": []}, {}, {}),
        ({"drop": ["owner", "note"]}, {"jahr": 2019}, {"year": 1}),
        ({"metadata": ["jahr"], "rename": {"jahr": "year"}}, {"year": 2019}, {}),
        ({"drop": ["note"], "rename": {"jahr": "year"}}, {"year": 2019, "owner": "Ada"},
            {"owner": "Otto", "year": 1}),
        ({"rename": {"owner": "year"}}, {"jahr": 2019, "year": "Ada", "note": "x"},
            {"year": "Otto"}),
        ({"metadata": ["owner", "year"], "rename": {"owner": "year", "year": "owner"}},
            {"year": "Ada"},
         {"year": "Otto", "owner": 1}),
    ],
)  # fmt: skip
def test_selected_metadata_are_kept_under_their_new_names(
    params: dict[str, Any], a: dict[str, Any], b: dict[str, Any]
):
    selected = select_documents(CORPUS, SelectParams.model_validate(params))
    assert metadata_of(selected) == {"a": a, "b": b, "c": {}}


def test_other_columns_stay_and_the_hash_follows_the_metadata():
    selected = select_documents(CORPUS, SelectParams(drop=("note",)))
    columns = ["id", "title", "text", "source"]
    assert selected[columns].equals(CORPUS[columns])
    changed = (selected["content_hash"] != CORPUS["content_hash"]).tolist()
    assert dict(zip(CORPUS["title"], changed, strict=True)) == {"A": True, "B": False, "C": False}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"metadata": ["a"], "drop": ["b"]}, "give one of them"),
        ({"metadata": ["a"], "rename": {"b": "c"}}, r"\['b'\] would be renamed but not kept"),
        ({"drop": ["b"], "rename": {"b": "c"}}, r"\['b'\] would be renamed but not kept"),
        ({"rename": {"a": "c", "b": "c"}}, "two keys would have one name"),
        ({"metadata": ["a", "c"], "rename": {"a": "c"}}, "two keys would have one name"),
        ({"keep": ["a"]}, "Extra inputs"),
    ],
)
def test_params_that_do_not_agree_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        SelectParams.model_validate(params)
