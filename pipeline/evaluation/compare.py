"""Comparison of two evaluations of the same questions, and evaluations as tables of text.

A bootstrap tells whether a difference is more than chance. Percentile intervals: Efron and
Tibshirani, An Introduction to the Bootstrap (1993), sections 13.3 and 15.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipeline.errors import UsageError, counted
from pipeline.evaluation.results import (
    ANSWER_MEASURES,
    TOKEN_COLUMNS,
    Evaluation,
    StoredEvaluation,
    Values,
)

if TYPE_CHECKING:
    from pipeline.evaluation.answer_results import AnswerEvaluation

RESAMPLES = 10_000
AT_ONCE = 500
"""Resamples that are held in memory together."""
SEED = 20_240_229
BOUND_DIGITS = 12
"""Decimals of a resampled mean."""
DIGITS = 6
"""Decimals of a value in a comparison."""
MOST_TYPES = 12
"""Most types of questions in a table of text."""
MOST_LEFT_OUT = 5
"""Most questions with unknown gold that are listed."""


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


def paired_bootstrap(
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
    means = means.round(BOUND_DIGITS)
    return [_interval(column, means[:, place]) for place, column in enumerate(differences.T)]


def _interval(differences: np.ndarray, means: np.ndarray) -> Interval:
    """Return the interval of a column of differences from its resampled means."""
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    p = min(2 * (beyond + 1) / (len(means) + 1), 1.0)
    return Interval(float(differences.mean()), float(low), float(high), float(p))


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
    for mode, rows_of_b in b.rows.items():
        rows_of_a = a.rows.get(against or mode)
        if rows_of_a is not None:
            rows += _compare_mode(mode, rows_of_a, rows_of_b)
    if not rows:
        raise UsageError(
            f"{a.name} and {b.name} share no mode, question or metric; evaluate the same questions"
        )
    in_a = {question for rows_of_mode in a.rows.values() for question in rows_of_mode}
    in_b = {question for rows_of_mode in b.rows.values() for question in rows_of_mode}
    table = pd.DataFrame(rows)
    return Comparison(a.name, b.name, against, table, len(in_a - in_b), len(in_b - in_a))


def fallen(
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
        before = values[metric]
        present = now.get(mode, {}).get(metric)
        if present is None:
            messages.append(f"{mode}: {metric} was {before:.3f} and is not measured now")
        elif round(100 * (before - present), DIGITS) > points:
            messages.append(f"{mode}: {metric} fell from {before:.3f} to {present:.3f}")
    return messages


def _compare_mode(
    mode: str, a: Mapping[tuple[str, str], Values], b: Mapping[tuple[str, str], Values]
) -> list[dict[str, Any]]:
    """Return the rows of a comparison for one mode, one per metric that both have.

    A metric is compared over the questions that have it in both.
    """
    questions_of: dict[str, list[tuple[str, str]]] = {}
    for question in sorted(a.keys() & b.keys()):
        for metric in b[question]:
            if metric in a[question]:
                questions_of.setdefault(metric, []).append(question)
    # Metrics of the same questions share their resamples.
    metrics_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for metric, questions in questions_of.items():
        metrics_of.setdefault(tuple(questions), []).append(metric)
    rows: dict[str, dict[str, Any]] = {}
    for questions, metrics in metrics_of.items():
        for row in _compare_metrics(a, b, questions, metrics):
            rows[row["metric"]] = {"mode": mode, **row}
    return [rows[metric] for metric in sorted(questions_of, key=_place_of_metric)]


def _place_of_metric(metric: str) -> int:
    """Return the place of a metric in a comparison: tokens come last."""
    if metric in TOKEN_COLUMNS:
        return len(ANSWER_MEASURES)
    return ANSWER_MEASURES.index(metric) if metric in ANSWER_MEASURES else 0


def _compare_metrics(
    a: Mapping[tuple[str, str], Values],
    b: Mapping[tuple[str, str], Values],
    questions: Sequence[tuple[str, str]],
    metrics: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric; all questions have all of them."""
    values_a = _as_array(a, questions, metrics)
    values_b = _as_array(b, questions, metrics)
    intervals = paired_bootstrap(values_b - values_a)
    means_a = values_a.mean(axis=0).tolist()
    means_b = values_b.mean(axis=0).tolist()
    for metric, mean_a, mean_b, interval in zip(metrics, means_a, means_b, intervals, strict=True):
        row: dict[str, Any] = {"metric": metric, "questions": len(questions)}
        values = {"a": mean_a, "b": mean_b, **asdict(interval)}
        for name, value in values.items():
            row[name] = round(value, DIGITS)
        yield row


def _as_array(
    side: Mapping[tuple[str, str], Values],
    questions: Sequence[tuple[str, str]],
    metrics: Sequence[str],
) -> np.ndarray:
    """Return the values as an array with a row per question and a column per metric."""
    rows = [[side[question][metric] for metric in metrics] for question in questions]
    return np.array(rows)


def evaluation_table(evaluation: Evaluation) -> str:
    """Return the evaluation as text, a line per mode, in all and then by type of question.

    A line has recall and all-gold at each k, tokens of the prompt and, in all, the latency.
    """
    summary = evaluation.summary()
    n_questions = counted(len(evaluation.questions), "question")
    lines = [f"{n_questions}, {_describe_setup(evaluation)}", "", *_mode_lines(summary, evaluation)]
    types = evaluation.by_type()
    for type, means in list(types.items())[:MOST_TYPES]:
        of_type = counted(int(means["questions"].iloc[0]), "question")
        title = f"{evaluation.setup.by}: {type or 'none'}, {of_type}"
        lines += ["", title, *_mode_lines(means, evaluation)]
    n_more = len(types) - MOST_TYPES
    if n_more > 0:
        more = f"... and {n_more} more values of '{evaluation.setup.by}': --json has them"
        lines += ["", more]
    return "\n".join(lines)


def left_out_lines(evaluation: "Evaluation | AnswerEvaluation") -> list[str]:
    """Return lines on the questions that are in no figure, and the reasons."""
    left_out = evaluation.left_out
    if not left_out:
        return []
    total = len(left_out) + len(evaluation.questions)
    lines = [f"unknown gold: {len(left_out):,} of {counted(total, 'question')} in no figure"]
    for left in left_out[:MOST_LEFT_OUT]:
        gold, reason = next(iter(left.unknown.items()))
        question = f"line {left.question.line}, {left.question.id}"
        lines.append(f"  {question}: {gold.kind} '{_clipped(gold.name)}': {reason}")
    n_more = len(left_out) - MOST_LEFT_OUT
    if n_more > 0:
        lines.append(f"  ... and {n_more:,} more: --json has them")
    return lines


def comparison_table(comparison: Comparison) -> str:
    """Return the comparison as text, a line per mode and metric.

    Of the tokens only those of the prompt are shown; --json has the others.
    """
    hidden = set(TOKEN_COLUMNS) - {"prompt_tokens"}
    rows = comparison.rows[~comparison.rows["metric"].isin(hidden)]
    mode_width = max(6, *rows["mode"].str.len())
    metric_width = max(6, *rows["metric"].str.len())
    against = f" (mode {comparison.against})" if comparison.against else ""
    head = (
        f"{'mode':<{mode_width}}  {'metric':<{metric_width}} {'a':>10} {'b':>10} {'b - a':>10} "
        f" {'95 % interval':^21} {'p':>7}"
    )
    # Measures of answers are compared over different numbers of questions.
    n_differ = rows["questions"].nunique() > 1
    if n_differ:
        head += "   questions"
    lines = [f"a: {comparison.a}{against}", f"b: {comparison.b}", head]
    for row in rows.to_dict("records"):
        digits = 0 if row["metric"] in TOKEN_COLUMNS else 3
        name = f"{row['mode']:<{mode_width}}  {row['metric']:<{metric_width}}"
        numbers = " ".join(f"{row[column]:>10,.{digits}f}" for column in ("a", "b", "difference"))
        ends = " ".join(f"{row[column]:>+10,.{digits}f}" for column in ("low", "high"))
        star = " *" if row["low"] > 0 or row["high"] < 0 else ""
        n_questions = f"{row['questions']:>10,}" if n_differ else ""
        lines.append(f"{name} {numbers}  {ends} {row['p']:>7.4f}{star:<2}{n_questions}".rstrip())
    both = f"{counted(int(rows['questions'].max()), 'question')} in both"
    alone = ""
    if comparison.only_a or comparison.only_b:
        alone = f"; only in a: {comparison.only_a:,}, only in b: {comparison.only_b:,}"
    lines.append(f"{both}{alone}; *: the interval leaves 0 out")
    return "\n".join(lines)


def _describe_setup(evaluation: Evaluation) -> str:
    workflow = evaluation.stores.get("workflow")
    embedding = evaluation.stores.get("embedding", {}).get("model")
    keywords = "the chat model's keywords" if evaluation.setup.keywords else "no chat model"
    return f"workflow {workflow}, embedding {embedding}, {keywords}"


def _mode_lines(means: pd.DataFrame, evaluation: Evaluation) -> list[str]:
    """Return two lines of headings and a line per mode; columns have fixed widths."""
    recall = [name for name in evaluation.metrics if name.startswith("recall@")]
    all_gold = [name for name in evaluation.metrics if name.startswith("all_gold@")]
    is_timed = "p50_ms" in means
    head, below = " " * 7, f"{'mode':<7}"
    for kind, names in (("recall@", recall), ("all_gold@", all_gold)):
        head += f"   {kind:<{7 * len(names) - 1}}"
        below += "  " + "".join(f"{name.removeprefix(kind):>7}" for name in names)
    head += f"   {'tokens':<14}"
    below += f"{'prompt':>10}{'cut':>6}"
    if is_timed:
        head += "     latency, ms"
        below += f"{'p50':>9}{'p95':>9}"
    lines = [head, below]
    for mode, row in zip(means.index, means.to_dict("records"), strict=True):
        line = f"{mode:<7}"
        for names in (recall, all_gold):
            line += "  " + "".join(f"{row[name]:>7.3f}" for name in names)
        line += f"{row['prompt_tokens']:>10,.0f}{row['cut']:>6.1f}"
        if is_timed:
            line += f"{row['p50_ms']:>9,.1f}{row['p95_ms']:>9,.1f}"
        lines.append(line)
    return [line.rstrip() for line in lines]


def _clipped(name: str) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= 80 else f"{flat[:80]}..."
