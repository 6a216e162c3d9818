from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.verbs.set_metadata import SetMetadataParams, set_metadata
from tests.verbs.documents import documents, metadata_of

CORPUS = documents(
    **{"hr/pay": {"group": "public", "year": 2024}, "@wiki/hr/new": {}, "b": {"group": "hr"}}
)


def params(*rules: tuple[str, dict[str, Any]]) -> SetMetadataParams:
    given = [{"pattern": pattern, "set": fields} for pattern, fields in rules]
    return SetMetadataParams.model_validate({"rules": given})


def test_the_first_rule_for_a_field_counts_and_a_document_cannot_set_it_itself():
    rules = params(
        ("hr/**", {"group": "hr"}),
        ("@wiki/**", {"group": ["staff", "hr"]}),
        ("**/*pay*", {"group": "all", "level": 2}),
    )
    assert metadata_of(set_metadata(CORPUS, rules)) == {
        "hr/pay": {"group": "hr", "level": 2, "year": 2024},
        "@wiki/hr/new": {"group": ["staff", "hr"]},
        "b": {},
    }


def test_a_pattern_matches_records_by_their_file():
    corpus = CORPUS.assign(source=["hr/pay.csv#a.b", "hr/pay.csv#a#b", "hr/pay.csv.txt"])
    marked = set_metadata(corpus, params(("**/*.csv", {"group": "hr"})))
    groups = [fields.get("group") for fields in metadata_of(marked).values()]
    assert groups == ["hr", "hr", None]
    assert marked["content_hash"].nunique() == 3
    assert marked["content_hash"].iloc[0] != corpus["content_hash"].iloc[0]


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [{"pattern": "", "set": {"group": "hr"}}],
        [{"pattern": "**/*", "set": {}}],
        [{"pattern": "**/*", "set": {"source": "hr"}}],
        [{"pattern": "**/*", "sets": {"group": "hr"}}],
    ],
)
def test_a_rule_that_sets_nothing_that_can_be_asked_for_is_refused(rules: list[dict[str, Any]]):
    with pytest.raises(ValidationError):
        SetMetadataParams.model_validate({"rules": rules})
