import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.ids import (
    clean,
    clean_name,
    digest,
    document_id,
    entity_id,
    match_key,
    relationship_ends,
    relationship_id,
    text_unit_id,
)

SAME_NAME = [
    ["Electrons", "electrons", "ELECTRONS", "Ｅlectrons", "  Electrons\n"],
    [
        "Marie Skłodowska-Curie",
        "marie  skłodowska–curie",
        "MARIE SKŁODOWSKA CURIE",
        "'Marie Skłodowska‑Curie'",
    ],
    ["U.S. Army", "U S  Army", "u.s. army", "U．S． Army"],
    ["Straße", "STRASSE", "strasse"],
    ["O’Neill", "O'Neill", "O`Neill"],
    ["ﬁnance", "Finance"],
    ["電子", "「電子」", "電子。"],
    ["Café", "Cafe\u0301"],
]
DIFFERENT_NAMES = [
    ["C", "C++", "C#"],
    ["AT&T", "AT T"],
    ["A/B", "A B"],
    ["Apollo 11", "Apollo 12", "Apollo 1 1"],
    ["@home", "home"],
    ["電子", "電孑"],
]


@pytest.mark.parametrize("names", SAME_NAME, ids=lambda names: names[0])
def test_spellings_of_one_name_share_a_key(names: list[str]):
    assert len({match_key(name) for name in names}) == 1
    assert len({entity_id(name) for name in names}) == 1


@pytest.mark.parametrize("names", DIFFERENT_NAMES, ids=lambda names: names[0])
def test_signs_with_a_meaning_keep_names_apart(names: list[str]):
    assert len({match_key(name) for name in names}) == len(names)


@given(st.text())
def test_a_match_key_is_its_own_match_key(name: str):
    assert match_key(match_key(name)) == match_key(name)


@given(st.text())
def test_composed_and_decomposed_text_share_a_key(name: str):
    assert match_key(unicodedata.normalize("NFC", name)) == match_key(
        unicodedata.normalize("NFD", name)
    )


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1))
def test_a_name_of_signs_alone_still_has_a_key(name: str):
    assert match_key(name)


@given(st.text(st.characters()))
def test_clean_leaves_what_every_store_takes(text: str):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", cleaned)
    cleaned.encode("utf-8")


def test_clean_keeps_tabs_and_makes_line_ends_one_kind():
    assert clean("a\r\nb\rc\nd\te\x00f\ud800g\x0b") == "a\nb\nc\nd\tefg"


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        (' "Alan\n Turing" ', "Alan Turing"),
        ("«Le Monde»", "Le Monde"),
        ("''", "''"),
        ("rock 'n' roll", "rock 'n' roll"),
        ("Fog bell 'Old Margit'", "Fog bell 'Old Margit'"),
        ('"Weird Al" Yankovic', '"Weird Al" Yankovic'),
        ("“Tosca” and “Aida”", "“Tosca” and “Aida”"),
        ("„Tosca“", "Tosca"),
        ("Song „Tosca“", "Song „Tosca“"),
        ('"The Dogs\' Home"', "The Dogs' Home"),
        ("O'Brien'", "O'Brien"),
        ('Tosca"', "Tosca"),
    ],
)
def test_a_cleaned_name_is_one_line_without_quotes_around_it(name: str, cleaned: str):
    assert clean_name(name) == cleaned


@given(st.text(st.sampled_from("ab ('\"“”„«».,")))
def test_cleaning_a_name_twice_changes_nothing_more(name: str):
    assert clean_name(clean_name(name)) == clean_name(name)


def test_ids_never_change_between_versions():
    assert document_id("a.txt") == "doc-584b107cf255831700bca25f8eebb1fa"
    assert text_unit_id("doc-1", "text", 0) == "chunk-afa0dbd4f9187a3b62001f1eff2fdb8e"
    assert entity_id("Alan Turing") == "ent-0ab62f96182329895dc50d641e498cad"
    assert (
        relationship_id(entity_id("Alan Turing"), entity_id("London"))
        == "rel-0ab62f96182329895dc50d641e498cad-2b04f1707c303caf676d622affb9f102"
    )


def test_different_relationships_and_text_units_have_different_ids():
    assert relationship_id("ent-1", "ent-2") != relationship_id("ent-2", "ent-1")
    assert len({text_unit_id("doc-1", "same", ordinal) for ordinal in range(100)}) == 100
    assert text_unit_id("doc-1", "same", 0) != text_unit_id("doc-2", "same", 0)


@given(st.text(), st.text())
def test_a_relationship_id_gives_its_ends_back(source: str, target: str):
    ends = entity_id(source), entity_id(target)
    assert relationship_ends(relationship_id(*ends)) == ends


@pytest.mark.parametrize(
    "id",
    [
        "",
        "rel-unknown",
        f"rel-{'0' * 32}",
        f"rel-{'0' * 32}-{'0' * 31}",
        f"rel-{'0' * 32}-{'g' * 32}",
        f"rel-{'0' * 32}-{'0' * 32}\n",
        f"ent-{'0' * 32}-{'0' * 32}",
    ],
)
def test_another_id_has_no_ends(id: str):
    with pytest.raises(ValueError, match="no relationship id"):
        relationship_ends(id)


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_two_lists_of_parts_share_a_digest_only_when_equal(one: list[str], other: list[str]):
    assert (digest(*one) == digest(*other)) == (one == other)
    assert re.fullmatch("[0-9a-f]{32}", digest(*one))


def test_a_lone_surrogate_has_a_digest():
    assert digest("\ud800") != digest("\ud801")
