"""benchmarks/gold_triples.py counts gold triples that a graph has."""

import pytest

from benchmarks.gold_triples import Extracted, share_found

GOLD = [
    ("Idra Vale", "born in", "Harmouth"),
    ("Idra Vale", "born on", "4 May 1871"),
    ("Skarrow Light", "height", "41"),
]


def test_a_triple_is_linked_by_a_relationship_in_either_direction():
    extracted = Extracted()
    extracted.add_relationship("HARMOUTH", "idra  vale", "She was born there.")
    assert share_found(GOLD, extracted) == pytest.approx(
        {"triples": 3, "linked": 1 / 3, "stated": 1 / 3}
    )


def test_a_triple_is_stated_where_a_description_of_its_subject_holds_its_object():
    extracted = Extracted()
    extracted.add_entity("Idra Vale", "Born on 4 May 1871, in the north.")
    extracted.add_entity("Skarrow Light", "It has 410 steps.")
    assert share_found(GOLD, extracted) == pytest.approx(
        {"triples": 3, "linked": 0, "stated": 1 / 3}
    )


def test_a_triple_that_is_given_twice_counts_once():
    assert share_found([GOLD[0], GOLD[0]], Extracted())["triples"] == 1
