"""Paired bootstrap: how sure a difference of means is, from the differences of the very same questions.

Percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap (1993), sections 13.3 and 15.4.
"""

from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
AT_ONCE = 500
SEED = 20_240_229
DIGITS = 12


@dataclass(frozen=True)
class Interval:
    """``difference``: of the means; ``low`` to ``high``: where 95 % of the resampled ones are; ``p``: two-sided, that
    there is no difference."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(differences: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED) -> list[Interval]:
    """``differences``: a row a question, a column a metric. All columns are resampled by the same questions, so that
    which others are there makes no odds. The same for the same input, on any machine."""
    random = np.random.default_rng(seed)
    questions = len(differences)
    rounds = [AT_ONCE] * (resamples // AT_ONCE) + [resamples % AT_ONCE] * (resamples % AT_ONCE > 0)
    chances = np.full(questions, 1 / questions)
    means = np.concatenate([random.multinomial(questions, chances, size) @ differences for size in rounds]) / questions
    means = means.round(DIGITS)  # what is 0 must be 0, in whatever order a machine adds up
    return [_interval(column, means[:, place]) for place, column in enumerate(differences.T)]


def _interval(differences: np.ndarray, means: np.ndarray) -> Interval:
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    p = min(2 * (beyond + 1) / (len(means) + 1), 1.0)
    return Interval(float(differences.mean()), float(low), float(high), float(p))
