"""Compare two evaluations of the same questions.

A bootstrap tells whether a difference is more than chance. Percentile intervals: Efron and
Tibshirani, An Introduction to the Bootstrap (1993), sections 13.3 and 15.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import UsageError, counted
from pipeline.evaluation.results import (
    ANSWER_MEASURES,
    TOKEN_COLUMNS,
    StoredEvaluation,
    Values,
)

RESAMPLES = 10_000
"""The standard error of a two-sided p-value of 0.05 is then 0.003."""
AT_ONCE = 500
"""Resamples that are held in memory together."""
SEED = 20_240_229
"""Any number would do; it is fixed, so that a comparison can be repeated."""
MEAN_DIGITS = 12
"""Decimals of a resampled mean: fewer than a float has, more than a comparison shows."""
DIGITS = 6
"""Decimals of a value in a comparison."""
POINT_DIGITS = 6
"""Decimals of the points by which a metric fell."""
HIDDEN_METRICS = frozenset(TOKEN_COLUMNS) - {"prompt_tokens"}
"""Metrics that a comparison as text leaves out: the tokens of single sections."""
QuestionKey = tuple[str, str]
"""The id and the text of a question, by which the questions of two evaluations are paired."""


@dataclass(frozen=True)
class Interval:
    """The difference of two means with its confidence interval.

    ``low`` to ``high``: 95 % of the resampled differences. ``p``: two-sided p-value of the
    hypothesis that there is no difference.
    """

    difference: float
    low: float
    high: float
    p: float


def bootstrap_pairs(
    differences: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED
) -> list[Interval]:
    """Return an interval for each column of ``differences``, which has one row per question.

    Columns are metrics. All columns use the same resamples, so a result does not depend on the
    other columns. The same input gives the same result on every machine.
    """
    random = np.random.default_rng(seed)
    n_questions = len(differences)
    rounds = [AT_ONCE] * (resamples // AT_ONCE)
    if resamples % AT_ONCE:
        rounds.append(resamples % AT_ONCE)
    chances = np.full(n_questions, 1 / n_questions)
    sums: list[np.ndarray] = []
    for size in rounds:
        counts = random.multinomial(n_questions, chances, size)
        sums.append(counts @ differences)
    means = np.concatenate(sums) / n_questions
    # A mean of 0 must be exactly 0, in whatever order a machine adds the values.
    means = means.round(MEAN_DIGITS)
    columns = zip(differences.T, means.T, strict=True)
    return [
        _compute_interval(metric_differences, metric_means)
        for metric_differences, metric_means in columns
    ]


def _compute_interval(differences: np.ndarray, means: np.ndarray) -> Interval:
    """Return the interval of a column of differences from its resampled means."""
    low, high = np.quantile(means, [0.025, 0.975])
    n_not_above = (means <= 0).sum()
    n_not_below = (means >= 0).sum()
    # The observed difference counts as one more resample, so that no p-value is 0.
    rarer_side = min(n_not_above, n_not_below) + 1
    # Twice, as the test is two-sided. Means of exactly 0 are on both sides: hence the limit.
    p = min(2 * rarer_side / (len(means) + 1), 1.0)
    return Interval(
        difference=float(differences.mean()),
        low=float(low),
        high=float(high),
        p=float(p),
    )


@dataclass(frozen=True)
class Comparison:
    """The comparison of two evaluations, a and b, by mode and metric.

    ``rows`` has the columns mode, metric, questions, a and b (means over the questions of both),
    difference (b minus a), low, high and p, as in Interval. ``only_a`` and ``only_b``: number of
    questions that only one of them has. ``against``: the mode of a that all modes of b are compared
    with; None if each mode is compared with itself.
    """

    a: str
    b: str
    against: str | None
    rows: pd.DataFrame
    only_a: int
    only_b: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rows": self.rows.to_dict("records")}


def compare(a: StoredEvaluation, b: StoredEvaluation, against: str | None = None) -> Comparison:
    """Compare each mode of ``b`` with the same mode of ``a``, or with the mode ``against``.

    Questions are paired by id and text. Raises UsageError if the two share no mode, question or
    metric, or if ``a`` has no mode ``against``.
    """
    if against is not None and against not in a.rows:
        raise UsageError(f"{a.name}: has no mode '{against}'; it has {', '.join(a.rows)}")
    rows: list[dict[str, Any]] = []
    for mode, values_of_b in b.rows.items():
        values_of_a = a.rows.get(against or mode)
        if values_of_a is not None:
            rows += _compare_mode(mode, values_of_a, values_of_b)
    if not rows:
        raise UsageError(
            f"{a.name} and {b.name} share no mode, question or metric; evaluate the same questions"
        )
    questions_of_a = _collect_questions(a)
    questions_of_b = _collect_questions(b)
    return Comparison(
        a=a.name,
        b=b.name,
        against=against,
        rows=pd.DataFrame(rows),
        only_a=len(questions_of_a - questions_of_b),
        only_b=len(questions_of_b - questions_of_a),
    )


def _collect_questions(evaluation: StoredEvaluation) -> set[QuestionKey]:
    questions: set[QuestionKey] = set()
    for rows_of_mode in evaluation.rows.values():
        questions.update(rows_of_mode)
    return questions


def describe_falls(
    baseline: Mapping[str, Values], now: Mapping[str, Values], metric: str, points: float
) -> list[str]:
    """Return a message for each mode whose metric has fallen by more than ``points``.

    Points are hundredths. A mode that is not measured now has a message too. Raises UsageError if
    no mode of the baseline has the metric.
    """
    if not any(metric in values for values in baseline.values()):
        raise UsageError(
            f"baseline: no mode has {metric}; write the baseline again, with the --k to compare at"
        )
    messages: list[str] = []
    for mode, values in baseline.items():
        if metric not in values:
            continue
        baseline_value = values[metric]
        value_now = now.get(mode, {}).get(metric)
        was = f"{mode}: {metric} was {baseline_value:.3f}"
        if value_now is None:
            messages.append(f"{was} and is not measured now")
            continue
        # Rounded, so that a fall of exactly `points` is allowed in spite of binary fractions.
        points_fallen = round(100 * (baseline_value - value_now), POINT_DIGITS)
        if points_fallen > points:
            messages.append(f"{mode}: {metric} fell from {baseline_value:.3f} to {value_now:.3f}")
    return messages


def _compare_mode(
    mode: str, a: Mapping[QuestionKey, Values], b: Mapping[QuestionKey, Values]
) -> list[dict[str, Any]]:
    """Return the rows of a comparison for one mode, one per metric that both have.

    A metric is compared over the questions that have it in both.
    """
    questions_by_metric = _find_shared_questions(a, b)
    # Metrics of the same questions are compared together, as they share their resamples.
    metrics_by_questions: dict[tuple[QuestionKey, ...], list[str]] = {}
    for metric, questions in questions_by_metric.items():
        metrics_of_these = metrics_by_questions.setdefault(tuple(questions), [])
        metrics_of_these.append(metric)
    row_by_metric: dict[str, dict[str, Any]] = {}
    for questions, metrics in metrics_by_questions.items():
        for row in _compare_metrics(a, b, questions, metrics):
            row_by_metric[row["metric"]] = {"mode": mode, **row}
    metrics_in_order = sorted(questions_by_metric, key=_rank_metric)
    return [row_by_metric[metric] for metric in metrics_in_order]


def _find_shared_questions(
    a: Mapping[QuestionKey, Values], b: Mapping[QuestionKey, Values]
) -> dict[str, list[QuestionKey]]:
    """Return for each metric the questions that have it on both sides, sorted."""
    questions_by_metric: dict[str, list[QuestionKey]] = {}
    for question in sorted(a.keys() & b.keys()):
        for metric in b[question]:
            if metric in a[question]:
                questions = questions_by_metric.setdefault(metric, [])
                questions.append(question)
    return questions_by_metric


def _rank_metric(metric: str) -> int:
    """Return the key that sorts metrics: those of passages, of answers, and tokens at last.

    Measures of answers have the order of ANSWER_MEASURES.
    """
    if metric in TOKEN_COLUMNS:
        return len(ANSWER_MEASURES)
    return ANSWER_MEASURES.index(metric) if metric in ANSWER_MEASURES else -1


def _compare_metrics(
    a: Mapping[QuestionKey, Values],
    b: Mapping[QuestionKey, Values],
    questions: Sequence[QuestionKey],
    metrics: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric; all questions have all of them."""
    values_a = _make_array(a, questions, metrics)
    values_b = _make_array(b, questions, metrics)
    intervals = bootstrap_pairs(values_b - values_a)
    means_a = values_a.mean(axis=0).tolist()
    means_b = values_b.mean(axis=0).tolist()
    by_metric = zip(metrics, means_a, means_b, intervals, strict=True)
    for metric, mean_a, mean_b, interval in by_metric:
        row: dict[str, Any] = {"metric": metric, "questions": len(questions)}
        values = {"a": mean_a, "b": mean_b, **asdict(interval)}
        for name, value in values.items():
            row[name] = round(value, DIGITS)
        yield row


def _make_array(
    side: Mapping[QuestionKey, Values],
    questions: Sequence[QuestionKey],
    metrics: Sequence[str],
) -> np.ndarray:
    """Return the values as an array with a row per question and a column per metric."""
    rows: list[list[float]] = []
    for question in questions:
        values = side[question]
        rows.append([values[metric] for metric in metrics])
    return np.array(rows)


def format_comparison(comparison: Comparison) -> str:
    """Return the comparison as text, a line per mode and metric.

    Of the tokens only those of the prompt are shown, unless nothing else was compared; --json has
    the others.
    """
    rows = comparison.rows
    is_hidden = rows["metric"].isin(HIDDEN_METRICS)
    if not is_hidden.all():
        rows = rows[~is_hidden]
    # A column is at least as wide as its heading.
    mode_width = max(len("mode"), *rows["mode"].str.len())
    metric_width = max(len("metric"), *rows["metric"].str.len())
    against = f" (mode {comparison.against})" if comparison.against else ""
    head = (
        f"{'mode':<{mode_width}}  {'metric':<{metric_width}} {'a':>10} {'b':>10} {'b - a':>10} "
        f" {'95 % interval':^21} {'p':>7}"
    )
    # Measures of answers are compared over different numbers of questions.
    shows_questions = rows["questions"].nunique() > 1
    if shows_questions:
        head += "   questions"
    lines = [f"a: {comparison.a}{against}", f"b: {comparison.b}", head]
    for row in rows.to_dict("records"):
        line = f"{row['mode']:<{mode_width}}  {row['metric']:<{metric_width}}"
        line += _format_numbers(row)
        if shows_questions:
            line += f"{row['questions']:>10,}"
        lines.append(line.rstrip())
    n_questions = counted(int(rows["questions"].max()), "question")
    alone = ""
    if comparison.only_a or comparison.only_b:
        alone = f"; only in a: {comparison.only_a:,}, only in b: {comparison.only_b:,}"
    lines.append(f"{n_questions} in both{alone}; *: the interval leaves 0 out")
    return "\n".join(lines)


def _format_numbers(row: Mapping[Any, Any]) -> str:
    """Return the columns of numbers of a row, and the star if its interval leaves 0 out."""
    digits = 0 if row["metric"] in TOKEN_COLUMNS else 3
    columns = ""
    for column in ("a", "b", "difference"):
        columns += f" {row[column]:>10,.{digits}f}"
    columns += " "
    for column in ("low", "high"):
        columns += f" {row[column]:>+10,.{digits}f}"
    leaves_zero_out = row["low"] > 0 or row["high"] < 0
    star = " *" if leaves_zero_out else ""
    return f"{columns} {row['p']:>7.4f}{star:<2}"
