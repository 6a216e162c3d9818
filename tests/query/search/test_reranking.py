"""The order of text units by a reranker, alone and fused with the order of the search."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pipeline.query.search.reranking import (
    FUSED_FIRST,
    LONGEST_HEADER,
    count_candidates,
    fuse_orders,
    rerank_chunks,
    text_to_rank,
)
from pipeline.stores.records import Passage


def passage(id: str, content: str = "", **names: str) -> Passage:
    """Return a passage without title or header; its content is its id by default."""
    made = Passage(id, "d", "d.txt", "", 0, 1, 1, content or id, None, 0.0)
    return replace(made, **names)


class Scores:
    """A reranker that gives the score of a text by a table."""

    identity: Mapping[str, str] = {"model": "scores"}

    def __init__(self, **scores: float) -> None:
        self.scores = scores

    def rerank(self, query: str, documents: Sequence[str], listener: object = None) -> list[float]:
        return [self.scores[text] for text in documents]

    def preflight(self) -> None: ...


def test_alone_the_scores_decide_and_ties_keep_the_order_of_the_search():
    chunks = [passage(id) for id in "abcd"]
    reranked, notes = rerank_chunks(chunks, "q", Scores(a=0, b=1, c=1, d=2))
    assert [(chunk.id, chunk.rerank_score) for chunk in reranked] == [
        ("d", 2.0), ("b", 1.0), ("c", 1.0), ("a", 0.0),
    ]  # fmt: skip
    assert notes == ()


def test_fused_a_passage_high_in_both_orders_is_before_one_that_is_first_in_one_of_them():
    chunks = [passage(id) for id in "abcd"]
    reranked, _ = rerank_chunks(chunks, "q", Scores(a=0, b=2, c=1, d=3), fused=True)
    # The ranks in both orders are: a 1 and 4, b 2 and 2, c 3 and 3, d 4 and 1.
    assert [chunk.id for chunk in reranked] == ["b", "a", "d", "c"]


def test_equal_orders_stay_and_opposite_orders_tie_as_the_search_has_them():
    assert fuse_orders([0, 1, 2]) == [0, 1, 2]
    assert fuse_orders([1, 0]) == [0, 1]
    assert fuse_orders([]) == []


def test_a_reranker_alone_chooses_among_three_times_the_shown_and_fused_among_twenty_or_more():
    assert count_candidates(10, fused=False) == 30
    assert [count_candidates(shown, fused=True) for shown in (1, 10, 20, 50)] == [20, 20, 20, 50]


def test_fused_text_units_behind_the_first_twenty_stay_and_are_not_scored():
    ids = [f"{place:02}" for place in range(FUSED_FIRST + 2)]
    scores = {id: float(place) for place, id in enumerate(ids[:FUSED_FIRST])}
    reranked, notes = rerank_chunks(list(map(passage, ids)), "q", Scores(**scores), fused=True)
    assert [chunk.id for chunk in reranked[FUSED_FIRST:]] == ids[FUSED_FIRST:]
    assert sorted(chunk.id for chunk in reranked) == ids
    assert notes == ()


def test_a_text_is_ranked_with_the_header_with_which_it_is_searched():
    named = passage("a", "It is white.", header="Skarrow Light\nthe Tower", title="Skarrow Light")
    scores = {"Skarrow Light\nthe Tower\n\nIt is white.": 2.0, "It is grey.": 1.0}
    reranked, _ = rerank_chunks([passage("b", "It is grey."), named], "q", Scores(**scores))
    assert [chunk.id for chunk in reranked] == ["a", "b"]


@pytest.mark.parametrize(
    ("names", "read"),
    [
        ({"title": "Manual", "heading": "Setup > Linux"}, "Manual > Setup > Linux\n\nApt is used."),
        ({"title": "Apt", "heading": "Linux"}, "Linux\n\nApt is used."),
        ({"title": "d.txt#12", "source": "in/d.txt#12"}, "Apt is used."),
        ({}, "Apt is used."),
    ],
)
def test_without_a_header_it_is_title_and_headings_that_the_text_does_not_begin_with(
    names: dict[str, str], read: str
):
    assert text_to_rank(passage("a", "Apt is used.", **names)) == read


def test_a_long_header_leaves_room_for_the_text_and_is_cut():
    read = text_to_rank(passage("a", "Apt is used.", header="x" * 1_000))
    assert read == f"{'x' * LONGEST_HEADER}\n\nApt is used."
