import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pipeline.query.search.evidence import Evidence, merge_frames, round_robin

rankings = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=4)


def test_lanes_take_turns_and_nothing_comes_twice():
    assert round_robin("abc", "xay", "") == ["a", "x", "b", "c", "y"]
    assert round_robin([], []) == []
    assert round_robin() == []


@given(rankings)
def test_everything_is_kept_once_and_no_lane_is_starved(lanes: list[list[int]]):
    merged = round_robin(*lanes)
    assert len(merged) == len(set(merged))
    assert set(merged) == {item for lane in lanes for item in lane}
    for lane in lanes:
        for place, item in enumerate(lane):
            assert merged.index(item) < (place + 1) * len(lanes)


@given(rankings.filter(bool))
def test_frames_are_merged_as_lists_are(lanes: list[list[int]]):
    frames = [pd.DataFrame({"id": lane, "lane_name": f"lane {number}"}) for number, lane in enumerate(lanes)]
    merged = merge_frames(frames, "id")
    assert merged["id"].tolist() == round_robin(*lanes)
    assert list(merged.columns) == ["id", "lane_name"]
    assert merged.index.tolist() == list(range(len(merged)))


def test_a_row_found_twice_is_the_one_that_came_up_first():
    frames = [pd.DataFrame({"id": ["a", "b"], "from": "one"}), pd.DataFrame({"id": ["b"], "from": "two"})]
    assert merge_frames(frames, "id").to_dict("list") == {"id": ["a", "b"], "from": ["one", "two"]}


def test_empty_evidence_merges_with_evidence():
    some = pd.DataFrame([{**dict.fromkeys(Evidence().entities.columns), "name": "Ada", "degree": 1}])
    for frames in ([Evidence().entities, some], [some, Evidence().entities], [some]):
        merged = merge_frames(frames, "name")
        assert (merged["name"].tolist(), merged["degree"].tolist()) == (["Ada"], [1])
    assert merge_frames([Evidence().entities], "name").empty
