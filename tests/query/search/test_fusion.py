from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.query.search.evidence import interleave

rankings = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=4)


def test_lanes_take_turns_and_nothing_comes_twice():
    assert interleave(str, "abc", "xay", "") == ["a", "x", "b", "c", "y"]
    assert interleave(str, [], []) == []
    assert interleave(str) == []


@given(rankings)
def test_everything_is_kept_once_and_no_lane_is_starved(lanes: list[list[int]]):
    merged = interleave(int, *lanes)
    assert len(merged) == len(set(merged))
    assert set(merged) == {item for lane in lanes for item in lane}
    for lane in lanes:
        for place, item in enumerate(lane):
            assert merged.index(item) < (place + 1) * len(lanes)


def test_of_equal_items_the_one_that_came_up_first_is_kept():
    lanes = [("a", "one"), ("b", "one")], [("b", "two"), ("c", "two"), ("c", "again")]
    assert interleave(itemgetter(0), *lanes) == [("a", "one"), ("b", "two"), ("c", "two")]
