"""ontology.yaml is read; a mistake names the file, the line and the key."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import SettingsError
from pipeline.ontology.read import parse_ontology, read_ontology
from pipeline.ontology.schema import Ontology
from pipeline.ontology.step_args import check_args, conform_args

EXAMPLE = Path(__file__).parents[2] / "examples" / "ontology"
WHOLE = """\
entity_types:
  - PERSON
  - name: COMPANY
    synonyms: [firm]
    parent: ORGANIZATION
    properties:
      - {name: founded, type: date}
      - {name: revenue, type: number, unit: EUR}
  - name: ORGANIZATION
relationship_types:
  - name: WORKS_AT
    synonyms: [employment]
  - name: KNOWS
    symmetric: true
patterns:
  - [person, works at, firm]
"""


def parsed(text: str) -> Ontology:
    ontology = parse_ontology(text, "ontology.yaml")
    assert ontology is not None
    return ontology


def refused(text: str) -> str:
    with pytest.raises(SettingsError) as error:
        parse_ontology(text, "ontology.yaml")
    return str(error.value)


def test_a_project_without_the_file_has_no_ontology(tmp_path: Path):
    assert read_ontology(tmp_path) is None


def test_the_file_of_init_changes_nothing_until_it_is_edited():
    commented = (EXAMPLE.parents[1] / "pipeline" / "ontology" / "commented.yaml").read_text("utf-8")
    assert parse_ontology(commented, "ontology.yaml") is None
    lines = re.sub("^# (?=[a-z ]|-)", "", commented, flags=re.MULTILINE).splitlines()
    is_yaml = re.compile(r"(entity_types|relationship_types|patterns|otherwise):|  ")
    used = parsed("\n".join(line for line in lines if is_yaml.match(line)))
    assert len(used.patterns) == 3
    assert used.otherwise.entity_types == "other"


def test_the_example_is_read_and_has_eight_and_ten_types():
    ontology = read_ontology(EXAMPLE)
    assert ontology is not None
    assert len(ontology.entity_types) == 8
    assert len(ontology.relationship_types) == 10


def test_patterns_may_name_types_by_any_spelling_and_synonym():
    args = check_args(parsed(WHOLE))
    assert args["patterns"] == [("PERSON", "WORKS_AT", "COMPANY")]
    assert args["parents"] == {"COMPANY": "ORGANIZATION"}
    assert args["symmetric"] == ["KNOWS"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "parent: ORGANIZATION",
            "parent: ORGANISATION",
            "ontology.yaml:5: entity_types[1].parent: no entity type 'ORGANISATION'; did you mean"
            " 'ORGANIZATION'?",
        ),
        (
            "symmetric: true",
            "symetric: true",
            "ontology.yaml:14: relationship_types[1].symetric: unknown key; did you mean"
            " 'symmetric'?",
        ),
        (
            "[person, works at, firm]",
            "[person, works for, firm]",
            "ontology.yaml:16: patterns[0][1]: no relationship type 'works for'; have: KNOWS,"
            " WORKS_AT",
        ),
        (
            "synonyms: [firm]",
            "synonyms: [person]",
            "ontology.yaml:4: entity_types[1].synonyms: 'person' is a name of 'PERSON' already;"
            " remove one of them",
        ),
        (
            "  - name: ORGANIZATION\n",
            "  - name: ORGANIZATION\n    parent: COMPANY\n",
            "ontology.yaml:5: entity_types[1].parent: 'COMPANY' is its own parent, directly or by"
            " others; remove it",
        ),
        (
            "type: date}",
            "type: dates}",
            "ontology.yaml:7: entity_types[1].properties[0].type: Input should be 'string',"
            " 'number', 'date', 'enum' or 'list'",
        ),
        (
            "type: date}",
            "type: enum}",
            "ontology.yaml:7: entity_types[1].properties[0].type: an enum needs values; list those"
            " that are allowed",
        ),
        (
            "type: date}",
            'pattern: "["}',
            "ontology.yaml:7: entity_types[1].properties[0].pattern: no regular expression"
            " (unclosed character class); correct it",
        ),
        (
            "type: date}",
            "type: enum, values: [{name: open, synonyms: [Used]}, used]}",
            "ontology.yaml:7: entity_types[1].properties[0].values[1].name: 'used' is a name of"
            " 'open' already; remove one of them",
        ),
        (
            "type: date}",
            "type: date}\n      - {name: built, synonyms: [Founded]}",
            "ontology.yaml:8: entity_types[1].properties[1].synonyms: 'Founded' is a name of"
            " 'founded' already; remove one of them",
        ),
        (
            "[person, works at, firm]",
            "[person, works at]",
            "ontology.yaml:16: patterns[0]: a pattern is [source type, relationship type, target"
            " type]; write three",
        ),
        (
            "patterns:",
            "pattern:",
            "ontology.yaml:15: pattern: unknown key; did you mean 'patterns'?",
        ),
    ],
)
def test_a_mistake_names_file_line_and_key(old: str, new: str, message: str):
    assert old in WHOLE
    assert refused(WHOLE.replace(old, new, 1)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected entity_types or relationship_types; write them"),
        ("a: [", "not YAML at line 2, column 1; correct it, or quote the value"),
        (
            "entity_types: {PERSON: {}}",
            "ontology.yaml:1: entity_types: no list; write each entry in a line of its own, after"
            " '- '",
        ),
        (
            "entity_types: [A]\npatterns:\n- [A, KNOWS, A]",
            "patterns[0][1]: no relationship type 'KNOWS'; have: none",
        ),
        ("patterns: []", "neither entity_types nor relationship_types; name some types"),
    ],
)
def test_a_file_of_something_else_is_refused(text: str, message: str):
    assert refused(text).endswith(message)


def test_one_word_decides_for_everything_outside():
    ontology = parsed(f"{WHOLE}otherwise: other\n")
    assert set(ontology.otherwise.model_dump().values()) == {"other"}


def test_other_may_stand_in_a_pattern_if_entities_get_it():
    other = WHOLE.replace("[person, works at, firm]", "[person, works at, OTHER]")
    assert "no entity type 'OTHER'" in refused(other)
    assert parsed(f"{other}otherwise: {{entity_types: other}}\n")


def test_other_in_another_spelling_is_refused_where_entities_get_it():
    text = "entity_types: [A, Other]\notherwise: {otherwise}\n"
    assert parsed(text.replace("{otherwise}", "reject")).entity_types[1].name == "Other"
    assert refused(text.replace("{otherwise}", "other")).endswith("write OTHER")


def test_a_step_depends_on_its_own_part_of_the_file_alone():
    """A description, or the order of types, runs neither step again."""
    one = parsed(WHOLE)
    described = WHOLE.replace("- PERSON\n", "- {name: PERSON, description: A human}\n")
    turned = described.replace("  - name: KNOWS\n    symmetric: true\n", "").replace(
        "relationship_types:\n", "relationship_types:\n  - name: KNOWS\n    symmetric: true\n"
    )
    other = parsed(turned)
    assert conform_args(one) == conform_args(other)
    assert check_args(one) == check_args(other)


SCHEMA: dict[str, Any] = {
    "node_types": [
        "Person",
        {
            "label": "Company",
            "description": "A firm",
            "properties": [
                {"name": "name", "type": "STRING"},
                {"name": "founded", "type": "DATE"},
                {"name": "employees", "type": "INTEGER"},
            ],
            "additional_properties": False,
        },
    ],
    "relationship_types": [{"label": "WORKS_AT", "properties": []}],
    "patterns": [{"source": "Person", "relationship": "WORKS_AT", "target": "Company"}],
    "constraints": [
        {"type": "EXISTENCE", "node_type": "Company", "property_name": "founded"},
        {"type": "UNIQUENESS", "node_type": "Company", "property_name": "name"},
    ],
}


def of_schema(**changes: Any) -> Ontology:
    return parsed(json.dumps({**SCHEMA, **changes}))


def test_a_schema_of_neo4j_graphrag_is_read_as_it_is():
    ontology = of_schema()
    person, company = ontology.entity_types
    assert (person.name, company.name, company.description) == ("Person", "Company", "A firm")
    kinds = [(one.name, one.type, one.required) for one in company.properties]
    assert kinds == [("founded", "date", True), ("employees", "number", False)]
    assert ontology.patterns == (("Person", "WORKS_AT", "Company"),)
    assert ontology.otherwise.entity_types == "reject"
    assert ontology.otherwise.relationship_types == "reject"
    assert ontology.otherwise.patterns == "reject"


def test_patterns_of_a_schema_may_be_lists():
    assert of_schema(patterns=[["Person", "WORKS_AT", "Company"]]) == of_schema()


def test_a_schema_that_allows_more_keeps_it():
    ontology = of_schema(additional_node_types=True, patterns=[], additional_patterns=True)
    assert ontology.otherwise.entity_types == "keep"
    assert ontology.otherwise.patterns == "keep"
    assert ontology.otherwise.relationship_types == "reject"


def test_a_schema_that_lists_no_patterns_allows_all():
    assert of_schema(patterns=[]).otherwise.patterns == "keep"


def test_a_mistake_in_a_schema_names_its_own_line():
    text = json.dumps({**SCHEMA, "patterns": [["Person", "WORKS_AT", "Firm"]]}, indent=1)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "Firm" in line)
    assert refused(text).startswith(f"ontology.yaml:{line}: patterns[0][2]: no entity type 'Firm'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entity_types: [A]\nentity_types: [B]\n", "ontology.yaml:2: entity_types: the key is"),
        ('entity_types: ["A\\0B"]', "the name has a control character"),
        (
            "node_types: [{label: A, properties: 3}]\nconstraints: [x]",
            "label: A|unknown|properties",
        ),
        ("node_types: [{label: [x], properties: [{name: [y]}]}]", "name"),
    ],
)
def test_a_file_that_would_lose_types_or_fail_a_load_is_refused(text: str, message: str):
    assert re.search(message, refused(text))


@pytest.mark.parametrize(
    "pattern",
    ["a{99999999999999}", "(" * 5000, "(", "a)(b", "(a{1000}){1000}", "(?=a)a", r"(a)\1", "[[a]"],
)
def test_a_pattern_that_cannot_be_compared_in_linear_time_is_refused(pattern: str):
    text = json.dumps({"entity_types": [{"name": "A", "properties": [
        {"name": "p", "pattern": pattern}]}]})  # fmt: skip
    assert "no regular expression" in refused(text)


def test_thousands_of_types_are_checked_in_time_that_grows_with_their_number():
    chain = [{"name": f"T{n}x", "parent": f"T{n + 1}x"} for n in range(500)]
    types = [*chain, "T500x", *(f"U{n}x" for n in range(9000))]
    start = time.process_time()
    assert len(parsed(json.dumps({"entity_types": types})).entity_types) == 9501
    assert time.process_time() - start < 4
