import math

from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.questions import Passage, compute_metrics, metric_names, rank_gold

RANKING = [
    Passage("c1", "d1"),
    Passage("c2", "d1"),
    Passage("c3", "d2"),
    Passage("c4", "d3"),
]
KS = (1, 2, 3, 5, 10)


def document(*ids: str):
    return ("document", frozenset(ids))


def chunk(*ids: str):
    return ("chunk", frozenset(ids))


def test_documents_are_ranked_by_their_first_chunk_and_chunks_by_themselves():
    gold = [
        document("d1"),
        document("d2"),
        chunk("c3"),
        ("text", frozenset({"c4", "c2"})),
        document("none"),
    ]
    assert rank_gold(gold, RANKING) == [1, 2, 3, 2, math.inf]


def test_metrics_are_as_computed_by_hand():
    gold = [document("d1"), document("d3")]
    assert compute_metrics(rank_gold(gold, RANKING), (1, 2, 3), rank_gold(gold, RANKING[:3])) == {
        "recall@1": 0.5, "recall@2": 0.5, "recall@3": 1.0, "recall@budget": 0.5,
        "all_gold@1": 0.0, "all_gold@2": 0.0, "all_gold@3": 1.0, "all_gold@budget": 0.0,
    }  # fmt: skip
    assert compute_metrics([1.0], (1,), rank_gold(gold, RANKING))["all_gold@budget"] == 1
    assert compute_metrics(rank_gold(gold, []), KS, rank_gold(gold, [])) == dict.fromkeys(
        metric_names(KS, with_budget=True), 0.0
    )


rankings = st.lists(st.integers(0, 12), unique=True, max_size=13).map(
    lambda ids: [Passage(f"c{id}", f"d{id // 2}") for id in ids]
)
chunk_ids = st.integers(0, 14).map("c{}".format)
golds = st.lists(
    st.builds(document, st.integers(0, 7).map("d{}".format))
    | st.builds(chunk, chunk_ids, chunk_ids),
    min_size=1,
    max_size=5,
)


@given(golds, rankings)
def test_more_passages_never_find_less(gold, ranking):
    found = compute_metrics(rank_gold(gold, ranking), KS)
    for metric in ("recall", "all_gold"):
        values = [found[f"{metric}@{k}"] for k in KS]
        assert values == sorted(values)
        assert all(0 <= value <= 1 for value in values)


@given(golds, rankings, st.integers(0, 13))
def test_all_gold_is_found_only_where_recall_is_whole(gold, ranking, shown):
    found = compute_metrics(rank_gold(gold, ranking), KS, rank_gold(gold, ranking[:shown]))
    for limit in (*map(str, KS), "budget"):
        assert found[f"all_gold@{limit}"] <= found[f"recall@{limit}"]
        assert (found[f"all_gold@{limit}"] == 1) == (found[f"recall@{limit}"] == 1)


@given(golds, rankings, st.data())
def test_the_order_of_the_gold_makes_no_odds(gold, ranking, data):
    other = data.draw(st.permutations(gold))
    assert compute_metrics(rank_gold(gold, ranking), KS) == compute_metrics(
        rank_gold(other, ranking), KS
    )


@given(golds, rankings, st.integers(1, 13), st.data())
def test_the_order_of_ties_within_the_first_k_makes_no_odds_at_k(gold, ranking, k, data):
    """Each passage is a document of its own."""
    single = [Passage(passage.id, passage.id) for passage in ranking]
    other = data.draw(st.permutations(single[:k])) + single[k:]
    wanted = [(kind, frozenset(id.replace("d", "c") for id in ids)) for kind, ids in gold]
    assert compute_metrics(rank_gold(wanted, single), (k,)) == compute_metrics(
        rank_gold(wanted, other), (k,)
    )


@given(golds, rankings)
def test_a_document_is_met_no_later_than_any_chunk_of_it(gold, ranking):
    for passage in ranking:
        whole, part = rank_gold([document(passage.document_id), chunk(passage.id)], ranking)
        assert whole <= part
