"""Properties in replies: read where they were asked for, and else as if they were not there."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.parse.graph import parse_graph_json, parse_records

PERSON = '("entity"<|>Ada Holm<|>person<|>A builder.)'
BUILT = '("relationship"<|>Ada Holm<|>Lamp<|>She built it.<|>built<|>8)'
BORN = '("property"<|>Ada Holm<|>born<|>1850)'
SINCE = '("property"<|>ada holm<|>Lamp<|>year<|>May 1871)'
END = "<|COMPLETE|>"


def attributes_of(reply: str) -> list[str]:
    return [record.attributes for record in parse_records(reply, True).records]


def test_a_record_of_a_property_belongs_to_the_record_with_its_names():
    reply = "##\n".join([SINCE, PERSON, BUILT, BORN]) + END
    assert attributes_of(reply) == ['{"born": "1850"}', '{"year": "May 1871"}']


def test_a_property_that_is_given_twice_has_a_list_of_values():
    again = BORN.replace("1850", "1851")
    assert attributes_of("##\n".join([PERSON, BORN, again]) + END) == ['{"born": ["1850", "1851"]}']


def test_a_property_of_an_entity_that_an_earlier_reply_described_is_a_record_without_a_type():
    (record,) = parse_records(BORN + END, True).entities
    assert (record.name, record.type, record.attributes) == ("Ada Holm", "", '{"born": "1850"}')


def test_a_property_of_no_relationship_of_the_reply_is_a_problem():
    parsed = parse_records("##\n".join([PERSON, SINCE]) + END, True)
    assert [problem.reason for problem in parsed.problems] == ["kind"]
    assert [record.attributes for record in parsed.records] == [""]


def test_a_property_without_a_value_is_a_problem_and_its_entity_stays():
    parsed = parse_records("##\n".join([PERSON, '("property"<|>Ada Holm<|>born)']) + END, True)
    assert ([one.reason for one in parsed.problems], len(parsed.records)) == (["fields"], 1)


@pytest.mark.parametrize(
    "properties", [{"born": "1850", "died": None}, [{"name": "born", "value": "1850"}]]
)
def test_properties_in_json_are_an_object_or_a_list_of_names_and_values(properties: object):
    entity = {"name": "Ada", "type": "person", "description": "", "properties": properties}
    reply = json.dumps({"entities": [entity], "relationships": []})
    assert parse_graph_json(reply, True).records[0].attributes == '{"born": "1850"}'
    assert parse_graph_json(reply).records[0].attributes == ""


def test_records_of_properties_that_nothing_asked_for_are_read_as_by_earlier_versions():
    parsed = parse_records("##\n".join([PERSON, BORN]) + END)
    assert [record.attributes for record in parsed.records] == [""]
    assert [problem.reason for problem in parsed.problems] == ["kind"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), values, max_size=3) | st.lists(values, max_size=3))
def test_whatever_the_properties_are_the_record_is_there_and_its_attributes_are_json(
    properties: object,
):
    entity = {"name": "Ada", "type": "person", "description": "", "properties": properties}
    (record,) = parse_graph_json(json.dumps({"entities": [entity]}), True).records
    content = json.loads(record.attributes or "{}", parse_constant=pytest.fail)
    assert isinstance(content, dict)
    assert "\\u0000" not in record.attributes
