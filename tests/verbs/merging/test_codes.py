import numpy as np

from pipeline.verbs.merging.codes import sum_by_group

GROUPS = 500


def test_a_group_alone_has_the_same_sum_to_the_last_bit():
    draw = np.random.default_rng(1)
    groups, amounts = draw.integers(0, GROUPS, 5_000), draw.choice([0.1, 0.3, 0.7, 1, 2.5], 5_000)
    together = sum_by_group(groups, amounts)
    for group in range(GROUPS):
        assert (
            sum_by_group(groups[groups == group], amounts[groups == group])[group]
            == together[group]
        )


def test_no_groups_have_no_sums():
    assert sum_by_group(np.array([], np.int64), np.array([])).empty
