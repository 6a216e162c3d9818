from collections.abc import Collection
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.resolution.resolve import Clusters, Criteria, pinned_clusters

Pairs = set[frozenset[int]]


def criteria(passing: Pairs, forbidden: Collection[frozenset[int]] = ()) -> Criteria:
    return Criteria(
        lambda a, b: frozenset((a, b)) in passing, lambda a, b: frozenset((a, b)) in forbidden
    )


def pairs(*written: str) -> Pairs:
    return {frozenset(map(int, pair)) for pair in written}


def joined(
    passing: Pairs,
    same: Collection[frozenset[int]] = (),
    forbidden: Collection[frozenset[int]] = (),
) -> list[tuple[int, ...]]:
    pinned = pinned_clusters((min(pair), max(pair)) for pair in same)
    return pinned.join(
        ((min(pair), max(pair)) for pair in passing), criteria(passing | set(same), forbidden)
    ).of_several


def test_names_that_all_pass_with_each_other_are_merged():
    assert joined(pairs("12", "13", "23", "45")) == [(1, 2, 3), (4, 5)]


def test_two_names_are_not_merged_by_way_of_a_third():
    assert joined(pairs("12", "23")) == []
    assert joined(pairs("12", "13", "23", "34")) == [(1, 2)]


def test_a_pinned_group_passes_if_one_of_its_names_passes():
    assert joined(pairs("23"), same=pairs("12")) == [(1, 2, 3)]
    assert joined(pairs("23"), same=pairs("12"), forbidden=pairs("13")) == [(1, 2)]


NUMBERS = st.integers(0, 5)
GRAPHS = st.sets(st.frozensets(NUMBERS, min_size=2, max_size=2))


@given(GRAPHS)
def test_every_pair_within_a_cluster_passes(passing: Pairs):
    for members in joined(passing):
        assert all(frozenset(pair) in passing for pair in permutations(members, 2))


@given(GRAPHS, st.permutations(range(6)))
def test_the_order_of_the_names_does_not_change_the_clusters(passing: Pairs, order: list[int]):
    renamed = {frozenset(order[one] for one in pair) for pair in passing}
    expected = sorted(tuple(sorted(order[one] for one in members)) for members in joined(passing))
    assert joined(renamed) == expected


def test_without_pairs_there_are_no_clusters():
    assert Clusters().join([], criteria(set())).of_several == []
