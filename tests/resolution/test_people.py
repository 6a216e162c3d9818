"""Check `people` against a slow implementation that compares each bearer with each other."""

from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.resolution.namesakes import Bearer, people
from tests.sizes import size

PLACES = (
    "",
    "bourbon",
    "spain",
    "spainn",
    "hesse",
    "hesse kassel",
    "wittenberg",
    "wittemberg",
    "the bold",
)
BEARER = st.builds(
    Bearer,
    st.sampled_from("abc"),
    st.sampled_from(PLACES),
    st.sampled_from(("", "1", "2")),
    st.sampled_from((0, 1600, 1700, 1702, 1703, 1705, 1800)),
    st.sampled_from((0, 1760, 1762, 1765, 1820)),
)


def each_with_each(counts: Mapping[Bearer, int]) -> dict[Bearer, Bearer]:
    """Assign each bearer, the surest first, to the first person that it may be."""
    if not any(one.clashes(two) for one, two in combinations(counts, 2)):
        return {}
    found: list[list[Bearer]] = []
    for bearer in sorted(counts, key=lambda one: (not one.place, -counts[one], one)):
        fits = [
            one
            for one in found
            if any(alike(bearer, other) for other in one) and not clashes(bearer, one)
        ]
        if not fits:
            found.append([])
        (fits or found[-1:])[0].append(bearer)
    return {bearer: one[0] for one in found for bearer in one}


def alike(one: Bearer, two: Bearer) -> bool:
    return bool((one.place and two.place) or (one.born and two.born) or (one.died and two.died))


def clashes(bearer: Bearer, others: list[Bearer]) -> bool:
    return any(map(bearer.clashes, others))


@settings(max_examples=size(300, 5_000), deadline=None)
@given(counts=st.dictionaries(BEARER, st.integers(1, 3), max_size=12))
def test_people_equals_the_comparison_of_each_with_each(counts: Mapping[Bearer, int]):
    assert people(counts) == each_with_each(counts)
    assert people(dict(reversed(list(counts.items())))) == people(counts)


def test_people_compares_few_pairs_for_a_name_of_thousands(monkeypatch: pytest.MonkeyPatch):
    """Check that each bearer is compared only with those who may be the same person."""
    asked: list[Bearer] = []
    clash = Bearer.clashes

    def watched(one: Bearer, two: Bearer) -> bool:
        asked.append(two)
        return clash(one, two)

    monkeypatch.setattr(Bearer, "clashes", watched)
    many = {Bearer(f" (born {year})", born=year): 1 for year in range(1000, 3000)}
    assert len(set(people(many).values())) == 667  # three years may be one
    assert len(asked) < 20 * len(many)
