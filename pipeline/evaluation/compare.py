"""Two evaluations of the same questions: what changed, and whether it is more than chance."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import UsageError
from pipeline.evaluation.bootstrap import paired_bootstrap
from pipeline.evaluation.stored import Stored, Values

DIGITS = 6


@dataclass(frozen=True)
class Comparison:
    """``rows``: mode, metric, questions, a, b (means over the questions both have), difference (b minus a), low, high,
    p; see bootstrap.py. ``only_a`` and ``only_b``: questions that one of the two has alone."""

    a: str
    b: str
    against: str | None
    rows: pd.DataFrame
    only_a: int
    only_b: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rows": self.rows.to_dict("records")}


def compare(a: Stored, b: Stored, against: str | None = None) -> Comparison:
    """Each mode with itself, or each of b's with one of a's, ``against``. Questions are paired by id and text.

    Raises UsageError where the two share no mode, question or metric.
    """
    pairs = {
        mode: (a.rows.get(against or mode, {}), rows) for mode, rows in b.rows.items() if mode in a.rows or against
    }
    if against is not None and against not in a.rows:
        raise UsageError(f"{a.name}: has no mode '{against}'; it has {', '.join(a.rows)}")
    rows = [row for mode, (first, second) in pairs.items() for row in _compared(mode, first, second)]
    if not rows:
        raise UsageError(f"{a.name} and {b.name} share no mode, question or metric; evaluate the same questions")
    in_a, in_b = ({question for rows in side.rows.values() for question in rows} for side in (a, b))
    return Comparison(a.name, b.name, against, pd.DataFrame(rows), len(in_a - in_b), len(in_b - in_a))


def fallen(baseline: Mapping[str, Values], now: Mapping[str, Values], metric: str, points: float) -> list[str]:
    """What to say of each mode of the baseline whose metric is more than so many points (hundredths) lower now, or is
    there no more. Raises UsageError where the baseline has no such metric."""
    if not any(metric in values for values in baseline.values()):
        raise UsageError(f"baseline: no mode has {metric}; write it anew with the --k it shall be compared at")
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
        | {name: round(value, DIGITS) for name, value in ({"a": mean_a, "b": mean_b} | asdict(interval)).items()}
        for metric, mean_a, mean_b, interval in zip(
            metrics, first.mean(axis=0).tolist(), second.mean(axis=0).tolist(), intervals, strict=True
        )
    ]


def _values(
    side: Mapping[tuple[str, str], Values], questions: Sequence[tuple[str, str]], metrics: Sequence[str]
) -> np.ndarray:
    return np.array([[side[question][metric] for metric in metrics] for question in questions])
