import json

import pandas as pd
import pytest

from pipeline.contract.schemas import ATTRIBUTES
from pipeline.verbs.gather_properties import gather_properties


def gathered(*values: tuple[str, str, str, str]) -> dict[str, dict]:
    """Return the properties by entity; ``values`` are (entity, name, type, value)."""
    rows = [
        (f"attr-{place}", entity, name, type, value, "", f"chunk-{place}", "doc-1")
        for place, (entity, name, type, value) in enumerate(values)
    ]
    found = gather_properties(ATTRIBUTES.frame(rows))
    return dict(zip(found["id"], map(json.loads, found["properties"]), strict=True))


def test_each_entity_has_its_values_once():
    assert gathered(
        ("ent-a", "founded", "date", "1850"),
        ("ent-b", "founded", "date", "1851"),
        ("ent-a", "founded", "date", "1850"),
        ("ent-a", "state", "enum", "open"),
    ) == {"ent-a": {"founded": "1850", "state": "open"}, "ent-b": {"founded": "1851"}}


def test_values_that_contradict_each_other_are_a_sorted_list():
    values = [("ent-a", "founded", "date", value) for value in ("1851", "1850-05", "1850")]
    assert gathered(*values) == {"ent-a": {"founded": ["1850", "1850-05", "1851"]}}


def test_a_property_of_type_list_is_a_list_with_one_value_too():
    assert gathered(("ent-a", "colours", "list", "red")) == {"ent-a": {"colours": ["red"]}}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["12"], 12),
        (["-0.5"], -0.5),
        (["10", "9"], [9, 10]),
        (["10", "9.5"], [9.5, 10.0]),
        (["10", "10.0"], 10),
        (["1" + "0" * 30], 1e30),
    ],
)
def test_numbers_are_numbers_of_one_kind(texts: list[str], expected: object):
    """Neo4j has no list of whole numbers and fractions, and no whole number of 30 digits."""
    found = gathered(*[("ent-a", "height", "number", text) for text in texts])["ent-a"]["height"]
    assert (found, repr(found)) == (expected, repr(expected))


def test_a_number_beside_a_text_is_a_text():
    values = ("ent-a", "height", "number", "12"), ("ent-a", "height", "string", "high")
    assert gathered(*values) == {"ent-a": {"height": ["12", "high"]}}


def test_without_values_there_are_no_rows():
    assert gathered() == {}
    assert list(gather_properties(pd.DataFrame(columns=ATTRIBUTES.columns))) == ["id", "properties"]
