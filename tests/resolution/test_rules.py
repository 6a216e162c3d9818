import pytest

from pipeline.resolution.name import read_name
from pipeline.resolution.pairs import Rules, named_pairs
from tests.resolution.labelled import labelled, score

PAIRS = labelled()
COUNTED = ("id", "version", "numeral", "date")


def test_there_are_enough_pairs_and_none_twice():
    assert len(PAIRS) >= 300
    assert len({frozenset((pair.a, pair.b, pair.type_a, pair.type_b)) for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("held_out", [False, True])
def test_what_is_joined_is_one(held_out: bool):
    found = score(pair for pair in PAIRS if pair.held_out == held_out)
    assert found.precision >= 0.98
    assert found.recall >= 0.9


@pytest.mark.parametrize("kind", COUNTED)
def test_what_counts_differently_is_never_joined(kind: str):
    assert not [pair for pair in PAIRS if pair.kind == kind and pair.label == "different" and pair.merged]


def test_a_comparison_is_symmetric():
    rules = Rules(0.88, {})
    for pair in PAIRS:
        one, two = read_name(pair.a, pair.type_a), read_name(pair.b, pair.type_b)
        assert rules.compare(one, two) == rules.compare(two, one), pair


def test_every_pair_that_a_rule_joins_is_among_the_candidates():
    missed = []
    for pair in PAIRS:
        names = [read_name(pair.a, pair.type_a), read_name(pair.b, pair.type_b)]
        if Rules(1.0, {}).compare(*names).outcome == "same" and not named_pairs(names):
            missed.append((pair.a, pair.b))
    assert not missed


def test_a_key_that_many_share_proposes_few_pairs():
    names = [read_name(f"Dr. Ann B{chr(97 + n % 26)}{chr(97 + n // 26)} Smith", "PERSON") for n in range(600)]
    assert len(named_pairs(names)) < 20 * len(names)


def test_names_that_are_hardly_names_are_compared_too():
    odd = ["", " ", "?!", "Inc.", "The", "Dr.", "()", "第", "ー", "&", "1", "II", "A. B.", "ー" * 40, "(A)", "株式会社"]
    for type in ("PERSON", "ORGANIZATION", ""):
        names = [read_name(name, type) for name in odd]
        assert {Rules(0.88, {}).compare(one, two).outcome for one in names for two in names if one is not two}
        named_pairs(names)
