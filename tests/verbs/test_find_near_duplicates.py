"""Pairs of documents whose texts are nearly the same."""

import random
import tracemalloc
from importlib import import_module

import pandas as pd
import pytest

from pipeline.text.shingles import compute_resemblance, hash_shingles
from pipeline.verbs.find_near_duplicates import (
    MOST_PAIRED,
    N_BANDS,
    NEIGHBOURS,
    TEXTS,
    NearDuplicateParams,
    find_near_duplicates,
    hash_bands,
)

CHANCE = random.Random(1)
WORDS = [f"word{number}" for number in range(500)]
POLICY = [CHANCE.choice(WORDS) for _ in range(200)]


def documents(*texts: list[str]) -> pd.DataFrame:
    return TEXTS.frame([(f"doc-{number:03}", " ".join(text)) for number, text in enumerate(texts)])


def test_versions_with_other_figures_are_pairs_and_other_texts_are_not():
    newer = [*POLICY]
    newer[20], newer[120] = "40", "90"
    other = [CHANCE.choice(WORDS) for _ in range(200)]
    [row] = find_near_duplicates(documents(POLICY, newer, other)).to_dict("records")
    assert (row["left_id"], row["right_id"]) == ("doc-000", "doc-001")
    exact = compute_resemblance(hash_shingles(" ".join(POLICY)), hash_shingles(" ".join(newer)))
    assert abs(row["resemblance"] - exact) < 0.1


def test_a_pair_has_the_same_row_whatever_other_documents_there_are():
    other = [CHANCE.choice(WORDS) for _ in range(200)]
    alone = find_near_duplicates(documents(POLICY, POLICY))
    among = find_near_duplicates(documents(POLICY, POLICY, other, other[:150]))
    assert alone.to_dict("records")[0] in among.to_dict("records")


def test_short_texts_are_not_compared_unless_the_params_say_so():
    short = documents(POLICY[:10], POLICY[:10])
    assert find_near_duplicates(short).empty
    assert len(find_near_duplicates(short, NearDuplicateParams(min_shingles=5))) == 1


def test_of_many_equal_documents_each_is_paired_with_its_neighbours():
    count = MOST_PAIRED + 10
    found = find_near_duplicates(documents(*[POLICY] * count))
    within = sum(min(NEIGHBOURS, count - 1 - place) for place in range(count))
    assert len(found) == within
    assert set(found["resemblance"]) == {1.0}


def test_in_a_large_group_the_resemblance_of_neighbours_is_that_of_the_two_alone():
    edited: list[list[str]] = []
    for _ in range(3 * MOST_PAIRED):
        words = list(POLICY)
        words[CHANCE.randrange(len(words))] = CHANCE.choice(WORDS)
        edited.append(words)
    group = documents(*edited)
    found = find_near_duplicates(group).set_index(["left_id", "right_id"])["resemblance"]
    for place in range(0, len(group) - 1, 10):
        two = group.iloc[place : place + 2]
        (alone,) = find_near_duplicates(two)["resemblance"]
        assert found[tuple(two["id"])] == alone


def test_chinese_texts_are_compared_by_their_characters():
    text = "".join(chr(0x4E00 + CHANCE.randrange(3000)) for _ in range(80))
    found = find_near_duplicates(documents([text], [text.replace(text[40], "新")]))
    assert len(found) == 1


def test_a_long_text_takes_little_memory():
    long = documents([f"word{number}" for number in range(20_000)])
    tracemalloc.start()
    try:
        assert len(hash_bands(long)) == N_BANDS
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All shingles at once took 43 MB, and 2 kB more for each further one.
    assert peak < 25_000_000


def test_a_long_text_has_the_same_bands_however_many_shingles_are_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    text = documents(POLICY)
    at_once = hash_bands(text)
    # The package has the verb under the module's name.
    module = import_module(hash_bands.__module__)
    monkeypatch.setattr(module, "SHINGLES_AT_ONCE", 7)
    pd.testing.assert_frame_equal(hash_bands(text), at_once)
