"""Two evaluations of the same questions: what changed, and is it more than chance? Also as tables
of text.

Percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap (1993), sections 13.3
and 15.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import UsageError, counted
from pipeline.evaluation.results import TOKEN_COLUMNS, Evaluation, StoredEvaluation, Values

RESAMPLES = 10_000
AT_ONCE = 500
SEED = 20_240_229
BOUND_DIGITS = 12
DIGITS = 6
MOST_TYPES = 12
MOST_LEFT_OUT = 5


@dataclass(frozen=True)
class Interval:
    """``difference``: of the means; ``low`` to ``high``: where 95 % of the resampled ones are;
    ``p``: two-sided, that there is no difference."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    differences: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED
) -> list[Interval]:
    """``differences``: a row a question, a column a metric. All columns are resampled by the same
    questions, so that which others are there makes no odds. The same for the same input, on any
    machine."""
    random = np.random.default_rng(seed)
    questions = len(differences)
    rounds = [AT_ONCE] * (resamples // AT_ONCE) + [resamples % AT_ONCE] * (resamples % AT_ONCE > 0)
    chances = np.full(questions, 1 / questions)
    means = (
        np.concatenate(
            [random.multinomial(questions, chances, size) @ differences for size in rounds]
        )
        / questions
    )
    means = means.round(BOUND_DIGITS)  # what is 0 must be 0, in whatever order a machine adds up
    return [_interval(column, means[:, place]) for place, column in enumerate(differences.T)]


def _interval(differences: np.ndarray, means: np.ndarray) -> Interval:
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    p = min(2 * (beyond + 1) / (len(means) + 1), 1.0)
    return Interval(float(differences.mean()), float(low), float(high), float(p))


@dataclass(frozen=True)
class Comparison:
    """``rows``: mode, metric, questions, a, b (means over the questions both have), difference (b
    minus a), low, high, p, as an Interval has them. ``only_a`` and ``only_b``: questions that one
    of the two has alone."""

    a: str
    b: str
    against: str | None
    rows: pd.DataFrame
    only_a: int
    only_b: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rows": self.rows.to_dict("records")}


def compare(a: StoredEvaluation, b: StoredEvaluation, against: str | None = None) -> Comparison:
    """Each mode with itself, or each of b's with one of a's, ``against``. Questions are paired by
    id and text.

    Raises UsageError where the two share no mode, question or metric.
    """
    pairs = {
        mode: (a.rows.get(against or mode, {}), rows)
        for mode, rows in b.rows.items()
        if mode in a.rows or against
    }
    if against is not None and against not in a.rows:
        raise UsageError(f"{a.name}: has no mode '{against}'; it has {', '.join(a.rows)}")
    rows = [
        row for mode, (first, second) in pairs.items() for row in _compared(mode, first, second)
    ]
    if not rows:
        raise UsageError(
            f"{a.name} and {b.name} share no mode, question or metric; evaluate the same questions"
        )
    in_a, in_b = ({question for rows in side.rows.values() for question in rows} for side in (a, b))
    return Comparison(
        a.name, b.name, against, pd.DataFrame(rows), len(in_a - in_b), len(in_b - in_a)
    )


def fallen(
    baseline: Mapping[str, Values], now: Mapping[str, Values], metric: str, points: float
) -> list[str]:
    """What to say of each mode of the baseline whose metric is more than so many points
    (hundredths) lower now, or is there no more. Raises UsageError where the baseline has no such
    metric."""
    if not any(metric in values for values in baseline.values()):
        raise UsageError(
            f"baseline: no mode has {metric}; write it anew with the --k it shall be compared at"
        )
    before = {mode: values[metric] for mode, values in baseline.items() if metric in values}
    said = []
    for mode, value in before.items():
        present = now.get(mode, {}).get(metric)
        if present is None:
            said.append(f"{mode}: {metric} was {value:.3f} and is not measured now")
        elif round(100 * (value - present), DIGITS) > points:
            said.append(f"{mode}: {metric} fell from {value:.3f} to {present:.3f}")
    return said


def _compared(
    mode: str, a: Mapping[tuple[str, str], Values], b: Mapping[tuple[str, str], Values]
) -> list[dict[str, Any]]:
    questions = sorted(a.keys() & b.keys())
    if not questions:
        return []
    metrics = [name for name in b[questions[0]] if name in a[questions[0]]]
    first, second = (_values(side, questions, metrics) for side in (a, b))
    intervals = paired_bootstrap(second - first)
    return [
        {"mode": mode, "metric": metric, "questions": len(questions)}
        | {
            name: round(value, DIGITS)
            for name, value in ({"a": mean_a, "b": mean_b} | asdict(interval)).items()
        }
        for metric, mean_a, mean_b, interval in zip(
            metrics,
            first.mean(axis=0).tolist(),
            second.mean(axis=0).tolist(),
            intervals,
            strict=True,
        )
    ]


def _values(
    side: Mapping[tuple[str, str], Values],
    questions: Sequence[tuple[str, str]],
    metrics: Sequence[str],
) -> np.ndarray:
    return np.array([[side[question][metric] for metric in metrics] for question in questions])


def evaluation_table(evaluation: Evaluation) -> str:
    """A line a mode: recall and all-gold at each k, tokens of the prompt, latency; then the same
    for each type."""
    summary = evaluation.summary()
    questions = len(evaluation.questions)
    lines = [
        f"{counted(questions, 'question')}, {_built(evaluation)}",
        "",
        *_lines(summary, evaluation),
    ]
    types = evaluation.by_type()
    for type, means in list(types.items())[:MOST_TYPES]:
        title = (
            f"{evaluation.setup.by}: {type or 'none'},"
            f" {counted(int(means['questions'].iloc[0]), 'question')}"
        )
        lines += ["", title, *_lines(means, evaluation)]
    if len(types) > MOST_TYPES:
        lines += [
            "",
            (
                f"... and {len(types) - MOST_TYPES} more values of '{evaluation.setup.by}': --json"
                " has them"
            ),
        ]
    return "\n".join(lines)


def left_out_lines(evaluation: Evaluation) -> list[str]:
    """What is in no figure, and why."""
    left_out = evaluation.left_out
    if not left_out:
        return []
    total = len(left_out) + len(evaluation.questions)
    lines = [f"unknown gold: {len(left_out):,} of {counted(total, 'question')} in no figure"]
    for left in left_out[:MOST_LEFT_OUT]:
        gold, reason = next(iter(left.unknown.items()))
        lines.append(
            f"  line {left.question.line}, {left.question.id}: {gold.kind} '{_clipped(gold.name)}':"
            f" {reason}"
        )
    more = len(left_out) - MOST_LEFT_OUT
    return [*lines, f"  ... and {more:,} more: --json has them"] if more > 0 else lines


def comparison_table(comparison: Comparison) -> str:
    """A line a mode and metric; of the tokens only those of the prompt, --json has the others."""
    rows = comparison.rows[~comparison.rows["metric"].isin(set(TOKEN_COLUMNS) - {"prompt_tokens"})]
    modes, metrics = (max(6, *rows[column].str.len()) for column in ("mode", "metric"))
    against = f" (mode {comparison.against})" if comparison.against else ""
    lines = [
        f"a: {comparison.a}{against}",
        f"b: {comparison.b}",
        (
            f"{'mode':<{modes}}  {'metric':<{metrics}} {'a':>10} {'b':>10} {'b - a':>10} "
            f" {'95 % interval':^21} {'p':>7}"
        ),
    ]
    for row in rows.to_dict("records"):
        digits = 3 if "@" in row["metric"] else 0
        numbers = " ".join(f"{row[name]:>10,.{digits}f}" for name in ("a", "b", "difference"))
        ends = " ".join(f"{row[name]:>+10,.{digits}f}" for name in ("low", "high"))
        star = " *" if row["low"] > 0 or row["high"] < 0 else ""
        name = f"{row['mode']:<{modes}}  {row['metric']:<{metrics}}"
        lines.append(f"{name} {numbers}  {ends} {row['p']:>7.4f}{star}")
    alone = f"; only in a: {comparison.only_a:,}, only in b: {comparison.only_b:,}"
    both = f"{counted(int(rows['questions'].max()), 'question')} in both"
    lines.append(
        f"{both}{alone if comparison.only_a or comparison.only_b else ''}; *: the interval leaves"
        " 0 out"
    )
    return "\n".join(lines)


def _built(evaluation: Evaluation) -> str:
    stores = evaluation.stores
    keywords = "the chat model's keywords" if evaluation.setup.keywords else "no chat model"
    return (
        f"workflow {stores.get('workflow')}, embedding {stores.get('embedding', {}).get('model')},"
        f" {keywords}"
    )


def _lines(means: pd.DataFrame, evaluation: Evaluation) -> list[str]:
    metrics = evaluation.metrics
    groups = {
        kind: [name for name in metrics if name.startswith(kind)]
        for kind in ("recall@", "all_gold@")
    }
    timed = "p50_ms" in means
    head, below = " " * 7, f"{'mode':<7}"
    for kind, names in groups.items():
        head += f"   {kind:<{7 * len(names) - 1}}"
        below += "  " + "".join(f"{name.removeprefix(kind):>7}" for name in names)
    lines = [
        head + f"   {'tokens':<14}" + ("     latency, ms" if timed else ""),
        below + f"{'prompt':>10}{'cut':>6}" + (f"{'p50':>9}{'p95':>9}" if timed else ""),
    ]
    for mode, row in zip(means.index, means.to_dict("records"), strict=True):
        shares = ["".join(f"{row[name]:>7.3f}" for name in names) for names in groups.values()]
        spent = f"{row['prompt_tokens']:>10,.0f}{row['cut']:>6.1f}"
        latency = f"{row['p50_ms']:>9,.1f}{row['p95_ms']:>9,.1f}" if timed else ""
        lines.append(f"{mode:<7}  {'  '.join(shares)}{spent}{latency}")
    return [line.rstrip() for line in lines]


def _clipped(name: str) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= 80 else f"{flat[:80]}..."
