import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.query.search.evidence import UnitChoice, choose_by_weight
from tests.query.memory_stores import letters, village

sources = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=5)


def test_by_relation_a_relationships_sources_come_in_its_order():
    choice = UnitChoice("RELATION", 5, letters("x"), village())
    assert choice.choose_among([["c2"], ["c1", "c2"]]) == {"c2": 2, "c1": 1}


def test_by_weight_the_first_names_most_the_last_one():
    assert list(choose_by_weight([list("abc"), list("def"), list("ghi")], 3)) == [
        "a",
        "b",
        "c",
        "d",
        "e",
        "g",
    ]


def test_by_weight_what_is_left_goes_to_those_that_have_more():
    assert list(choose_by_weight([["a"], list("def")], 3)) == ["a", "d", "e", "f"]


def test_by_weight_shared_text_units_come_first_and_count_for_the_first():
    assert choose_by_weight([["a", "b"], ["b", "c"]], 2) == {"b": 2, "a": 1, "c": 1}


@given(sources, st.integers(1, 6))
def test_by_weight_each_has_at_least_one_and_none_is_chosen_twice(
    found: list[list[str]], most: int
):
    chosen = choose_by_weight(found, most)
    seen: set[str] = set()
    for units in found:
        own = [unit for unit in units if unit not in seen]
        assert not own or set(own) & set(chosen)
        seen.update(units)
    assert set(chosen) <= seen
    assert all(count == sum(unit in units for units in found) for unit, count in chosen.items())


def test_by_vector_the_nearest_half_of_the_number_for_each():
    stores = village()
    choice = UnitChoice("VECTOR", 2, letters("Cid sued Dov."), stores)
    assert list(choice.choose_among([["c1", "c2"], ["c2", "c3"]])) == ["c3", "c2"]
    assert stores.reads == ["nearest_of"]


@pytest.mark.parametrize("question", ["", "zzz"])
def test_by_vector_falls_back_to_weight(question: str):
    """Test a question without a vector, and text units that the store does not know."""
    found = [["c1", "c2"], ["c3"]] if not question else [["gone"], ["lost"]]
    choice = UnitChoice("VECTOR", 2, letters(question), village())
    assert choice.choose_among(found) == choose_by_weight(found, 2)
