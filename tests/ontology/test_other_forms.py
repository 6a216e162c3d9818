"""Ontologies of other tools become ontology.yaml."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import SettingsError, UsageError
from pipeline.ontology.other_forms import import_ontology
from pipeline.ontology.read import read_ontology
from pipeline.ontology.schema import Ontology

TURTLE = """\
@prefix : <http://example.org/ship#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

<http://example.org/ship> a owl:Ontology ; rdfs:comment "Of ships" .
:Person a owl:Class ; rdfs:label "person"@en, "Mensch"@de ; rdfs:comment "A human being" .
:Captain a owl:Class ; rdfs:subClassOf :Person ; owl:disjointWith :Ship .
:Ship a owl:Class .
:commands a owl:ObjectProperty ; rdfs:domain :Captain ; rdfs:range :Ship ; rdfs:label "captain of" .
:knows a owl:ObjectProperty, owl:SymmetricProperty ; rdfs:domain :Person .
:relatedTo a owl:ObjectProperty .
:launched a owl:DatatypeProperty ; rdfs:domain :Ship ; rdfs:range xsd:date .
:tons a owl:DatatypeProperty ; rdfs:domain :Ship ; rdfs:range xsd:integer .
"""
CLASSES = '''\
from datetime import date
from enum import Enum
from typing import Literal

from pydantic import BaseModel, Field

class Rank(Enum):
    MATE = "mate"
    MASTER = "master"

class Person(BaseModel):
    """A human
    being."""
    name: str
    born: date | None = None
    nicknames: list[str] = []

class Captain(Person):
    rank: Rank
    tonnage: float = Field(description="Of the largest ship")
    side: Literal["port", "starboard"] = "port"
'''


def imported(tmp_path: Path, name: str, text: str) -> tuple[Ontology, tuple[str, ...]]:
    source = tmp_path / name
    source.write_text(text, encoding="utf-8")
    report = import_ontology(source, tmp_path)
    ontology = read_ontology(tmp_path)
    assert ontology is not None
    assert report.entity_types == len(ontology.entity_types)
    return ontology, report.not_understood


def test_turtle_gives_types_properties_and_patterns_and_lists_the_rest(tmp_path: Path):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    ontology, not_understood = imported(tmp_path, "ship.ttl", TURTLE)
    captain, person, ship = ontology.entity_types
    assert (captain.name, captain.parent) == ("Captain", "Person")
    assert (person.synonyms, person.description) == (("Mensch",), "A human being")
    assert [(one.name, one.type) for one in ship.properties] == [
        ("launched", "date"),
        ("tons", "number"),
    ]
    commands, knows, related = ontology.relationship_types
    assert (commands.name, commands.synonyms) == ("commands", ("captain of",))
    assert (knows.symmetric, related.symmetric) == (True, False)
    assert set(ontology.patterns) == {("Captain", "commands", "Ship"), ("Person", "knows", "*")}
    assert ontology.otherwise.patterns == "keep"
    assert not_understood == ("Captain disjointWith Ship",)


def test_turtle_of_a_reasoner_and_of_rdf_alone_is_understood(tmp_path: Path):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    more = """\
:Captain rdfs:subClassOf :Captain .
:born a <http://www.w3.org/1999/02/22-rdf-syntax-ns#Property> ; rdfs:domain :Captain ;
    rdfs:range xsd:date .
:colour a owl:DatatypeProperty ; rdfs:label "paint" .
"""
    ontology, not_understood = imported(tmp_path, "ship.ttl", TURTLE + more)
    captain = ontology.entity_types[0]
    assert captain.parent == "Person"
    assert [(one.name, one.type) for one in captain.properties] == [("born", "date")]
    assert "born" not in {one.name for one in ontology.relationship_types}
    # A property of no class has no place in the file, so it is listed.
    assert {"colour label paint", "colour type DatatypeProperty"} <= set(not_understood)


def test_what_the_file_cannot_say_is_listed_as_not_understood(tmp_path: Path):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    more = """\
:Person rdfs:comment "Ein Mensch" .
:tons rdfs:label "tons", "tonnage" ; rdfs:range xsd:date .
"""
    ontology, not_understood = imported(tmp_path, "ship.ttl", TURTLE + more)
    person, ship = ontology.entity_types[1:]
    assert person.description == "A human being"
    # Values of two types are texts.
    assert [(one.name, one.type) for one in ship.properties][1] == ("tons", "string")
    assert set(not_understood) == {
        "Captain disjointWith Ship",
        "Person comment Ein Mensch",
        "tons label tonnage",
        "tons range date",
        "tons range integer",
    }


@pytest.mark.parametrize("type", ["unsignedInt", "byte", "negativeInteger", "double"])
def test_numbers_of_any_size_are_numbers(tmp_path: Path, type: str):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    ontology, _ = imported(tmp_path, "ship.ttl", TURTLE.replace("xsd:integer", f"xsd:{type}"))
    tons = ontology.entity_types[2].properties[1]
    assert (tons.name, tons.type) == ("tons", "number")


def test_two_classes_of_one_name_are_refused(tmp_path: Path):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    with pytest.raises(SettingsError, match="Ship"):
        imported(tmp_path, "ship.ttl", TURTLE + "<http://b.org/Ship> a owl:Class .")


def test_a_file_that_is_no_turtle_is_refused_and_nothing_is_written(tmp_path: Path):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    with pytest.raises(SettingsError, match="no RDF"):
        imported(tmp_path, "ship.ttl", "this is no turtle")
    assert read_ontology(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        {"@context": "http://127.0.0.1:9/context.json"},
        {"@graph": [{"@context": [{}, "file:///etc/hostname"]}]},
        {"@context": {"@import": "near.jsonld"}},
        {"@context": [[["file:///etc/hostname"]]]},
    ],
)
def test_a_context_that_stands_elsewhere_is_refused_and_not_fetched(
    tmp_path: Path, content: dict[str, Any]
):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    with pytest.raises(SettingsError, match="nothing is fetched"):
        imported(tmp_path, "o.jsonld", json.dumps(content))


# The parser of rdflib uses what rdflib will drop some day.
@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")
def test_what_the_check_of_contexts_cannot_read_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    parsed: list[Any] = []
    monkeypatch.setattr("rdflib.plugins.parsers.jsonld.source_to_json", parsed.append)
    # Python reads no number of so many digits, other readers of JSON may.
    content = f'{{"@context": "http://127.0.0.1:9/context.json", "n": {"1" * 5_000}}}'
    with pytest.raises(SettingsError, match="no RDF"):
        imported(tmp_path, "o.jsonld", content)
    assert not parsed


HARMLESS = '<!ENTITY q "http://example.org/?a=1&amp;b=2">'
RDF_XML = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY owl "http://www.w3.org/2002/07/owl#">{entities}]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:owl="&owl;">
  <owl:Class rdf:about="http://example.org/Ship"><rdfs:label>{label}</rdfs:label></owl:Class>
</rdf:RDF>"""


@pytest.mark.parametrize("suffix", [".rdf", ".owl"])
def test_entities_of_xml_that_refer_to_each_other_are_refused(tmp_path: Path, suffix: str):
    pytest.importorskip("rdflib")
    levels = ['<!ENTITY a0 "aaaaaaaaaa">']
    levels += [f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 10)]
    content = RDF_XML.format(entities="".join(levels), label="&a9;")
    with pytest.raises(SettingsError, match="the entity 'a1' refers to another one"):
        imported(tmp_path, f"o{suffix}", content)


def test_entities_of_xml_that_shorten_addresses_are_followed(tmp_path: Path):
    pytest.importorskip("rdflib")
    ontology, _ = imported(tmp_path, "o.owl", RDF_XML.format(entities=HARMLESS, label="Ship"))
    assert [one.name for one in ontology.entity_types] == ["Ship"]


# The parser of rdflib uses what rdflib will drop some day.
@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")
def test_a_context_in_the_file_is_followed(tmp_path: Path):
    pytest.importorskip("rdflib", reason="the extra ontology is not installed")
    node = {"@id": "http://a/Ship", "@type": "owl:Class"}
    content = {"@context": {"owl": "http://www.w3.org/2002/07/owl#"}, "@graph": [node]}
    ontology, _ = imported(tmp_path, "o.jsonld", json.dumps(content))
    assert [one.name for one in ontology.entity_types] == ["Ship"]


def test_classes_of_pydantic_are_types_and_their_fields_are_properties(tmp_path: Path):
    ontology, _ = imported(tmp_path, "types.py", CLASSES)
    person, captain = ontology.entity_types
    assert (person.description, captain.parent) == ("A human being.", "Person")
    assert [(one.name, one.type, one.required) for one in person.properties] == [
        ("born", "date", False),
        ("nicknames", "list", False),
    ]
    rank, tonnage, side = captain.properties
    names = tuple(value.name for value in rank.values)
    assert (rank.type, names, rank.required) == ("enum", ("mate", "master"), True)
    assert (tonnage.type, tonnage.description) == ("number", "Of the largest ship")
    assert tuple(value.name for value in side.values) == ("port", "starboard")


def test_a_file_that_raises_is_named_with_its_error(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"types.py: ZeroDivisionError: division by zero"):
        imported(tmp_path, "types.py", "1 / 0\n")


def test_a_schema_is_checked_and_copied(tmp_path: Path):
    ontology, _ = imported(tmp_path, "schema.json", '{"node_types": ["Person"]}')
    assert [one.name for one in ontology.entity_types] == ["Person"]


def test_an_ontology_that_is_there_stays(tmp_path: Path):
    (tmp_path / "ontology.yaml").write_text("entity_types: [Ship]\n")
    with pytest.raises(UsageError, match="--force"):
        imported(tmp_path, "schema.json", '{"node_types": ["Person"]}')
    ontology = read_ontology(tmp_path)
    assert ontology is not None
    assert ontology.entity_types[0].name == "Ship"


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"\.ttl"):
        imported(tmp_path, "types.docx", "")
