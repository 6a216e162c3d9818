"""Words name types in any spelling."""

import pytest

from pipeline.ontology.type_names import TypeNames, type_key


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("PERSON", "person"),
        ("Persons", "person"),
        ("cities", "city"),
        ("City", "city"),
        ("classes", "class"),
        ("class", "class"),
        ("boxes", "box"),
        ("Diseases", "disease"),
        ("prizes", "prize"),
        ("MOVIES", "movie"),
        ("worksAt", "works at"),
        ("WORKS_AT", "works at"),
        ("news", "news"),
        ("spaceship", None),
        ("", None),
        ("***", None),
    ],
)
def test_find(word: str, name: str | None):
    types = ("person", "city", "class", "box", "disease", "prize", "movie", "works at", "news")
    names = TypeNames.of([(one, ()) for one in types])
    assert names.find(word) == name


def test_a_name_goes_before_a_synonym_and_an_exact_word_before_a_plural():
    names = TypeNames.of([("goods", ["good"]), ("species", ["kind"]), ("kinds", [])])
    assert names.find("good") == "goods"
    assert names.find("kind") == "species"
    assert names.find("kinds") == "kinds"


def test_a_plural_that_two_types_share_names_neither():
    names = TypeNames.of([("order", []), ("Orders", [])])
    assert names.find("order") == "order"
    assert names.find("orders") == "Orders"
    assert type_key("Orders") != type_key("order")
