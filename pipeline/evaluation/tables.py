"""Format an evaluation of retrieval as tables of text, and list the questions left out of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.results import Evaluation

if TYPE_CHECKING:
    from pipeline.evaluation.answer_results import AnswerEvaluation

MOST_TYPES = 12
"""The greatest number of types of questions that a table of text shows."""
MOST_LEFT_OUT = 5
"""The greatest number of questions with unknown gold that are listed."""
LONGEST_NAME = 80
"""Characters of a question's gold that are shown."""
KINDS = ("recall@", "all_gold@")
"""The beginnings of metrics; the number of passages follows."""
MODE_WIDTH, METRIC_WIDTH, PROMPT_WIDTH, CUT_WIDTH, LATENCY_WIDTH = 7, 7, 10, 6, 9
"""Characters of the columns of a table; headings and lines must agree."""


def format_evaluation(evaluation: Evaluation) -> str:
    """Return the evaluation as text: a line for each mode, first over all questions, then by type.

    A line has recall and all-gold at each k, and tokens of the prompt. The lines over all questions
    also have the latency.
    """
    n_questions = counted(len(evaluation.questions), "question")
    lines = [f"{n_questions}, {_describe_setup(evaluation)}", ""]
    lines += _format_modes(evaluation.summary(), evaluation)
    lines += format_types(evaluation, lambda means: _format_modes(means, evaluation))
    return "\n".join(lines)


def format_types(
    evaluation: "Evaluation | AnswerEvaluation", format_means: Callable[[pd.DataFrame], list[str]]
) -> list[str]:
    """Return the lines of each type of question, of MOST_TYPES at most.

    ``format_means`` writes the means of one type, a row for each mode.
    """
    lines: list[str] = []
    types = evaluation.by_type()
    shown_types = list(types.items())[:MOST_TYPES]
    for type, means in shown_types:
        # Every mode has the same questions, so the number of the first one is that of all.
        of_type = counted(int(means["questions"].iloc[0]), "question")
        lines += ["", f"{evaluation.setup.by}: {type or 'none'}, {of_type}"]
        lines += format_means(means)
    n_more = len(types) - MOST_TYPES
    if n_more > 0:
        more = f"... and {n_more} more values of '{evaluation.setup.by}': --json has them"
        lines += ["", more]
    return lines


def describe_left_out(evaluation: "Evaluation | AnswerEvaluation") -> list[str]:
    """Return lines on the questions that are in no figure, and the reasons."""
    left_out = evaluation.left_out
    if not left_out:
        return []
    total = counted(len(left_out) + len(evaluation.questions), "question")
    lines = [f"unknown gold: {len(left_out):,} of {total} in no figure"]
    for left in left_out[:MOST_LEFT_OUT]:
        gold, reason = next(iter(left.unknown.items()))
        question = f"line {left.question.line}, {left.question.id}"
        name = _clip_to_line(gold.name)
        lines.append(f"  {question}: {gold.kind} '{name}': {reason}")
    n_more = len(left_out) - MOST_LEFT_OUT
    if n_more > 0:
        lines.append(f"  ... and {n_more:,} more: --json has them")
    return lines


def _describe_setup(evaluation: Evaluation) -> str:
    workflow = evaluation.stores.get("workflow")
    embedding = evaluation.stores.get("embedding", {}).get("model")
    keywords = "the chat model's keywords" if evaluation.setup.keywords else "no chat model"
    return f"workflow {workflow}, embedding {embedding}, {keywords}"


def _format_modes(means: pd.DataFrame, evaluation: Evaluation) -> list[str]:
    """Return two lines of headings and a line per mode; columns have fixed widths.

    Columns of the same kind of metric stand together. The first heading names the kind, the second
    one the number of passages: recall@ above 2 and 5 stands for recall@2 and recall@5.
    """
    metrics_of_kind: dict[str, list[str]] = {}
    for name in evaluation.metrics:
        for kind in KINDS:
            if name.startswith(kind):
                metrics_of_kind.setdefault(kind, []).append(name)
    is_timed = "p50_ms" in means
    lines = _format_headings(metrics_of_kind, is_timed)
    for mode, row in zip(means.index, means.to_dict("records"), strict=True):
        line = f"{mode:<{MODE_WIDTH}}"
        for metrics in metrics_of_kind.values():
            line += "  "
            for metric in metrics:
                line += f"{row[metric]:>{METRIC_WIDTH}.3f}"
        line += f"{row['prompt_tokens']:>{PROMPT_WIDTH},.0f}{row['cut']:>{CUT_WIDTH}.1f}"
        if is_timed:
            for latency in (row["p50_ms"], row["p95_ms"]):
                line += f"{latency:>{LATENCY_WIDTH},.1f}"
        lines.append(line)
    return [line.rstrip() for line in lines]


def _format_headings(metrics_of_kind: Mapping[str, Sequence[str]], is_timed: bool) -> list[str]:
    """Return the two lines of headings above the lines of modes."""
    upper = " " * MODE_WIDTH
    lower = f"{'mode':<{MODE_WIDTH}}"
    for kind, metrics in metrics_of_kind.items():
        # One less, since three spaces stand before a kind and two before its cells.
        kind_width = METRIC_WIDTH * len(metrics) - 1
        upper += f"   {kind:<{kind_width}}"
        lower += "  "
        for metric in metrics:
            lower += f"{metric.removeprefix(kind):>{METRIC_WIDTH}}"
    tokens_width = PROMPT_WIDTH + CUT_WIDTH - 2
    upper += f"   {'tokens':<{tokens_width}}"
    lower += f"{'prompt':>{PROMPT_WIDTH}}{'cut':>{CUT_WIDTH}}"
    if is_timed:
        upper += "     latency, ms"
        lower += f"{'p50':>{LATENCY_WIDTH}}{'p95':>{LATENCY_WIDTH}}"
    return [upper, lower]


def _clip_to_line(name: str) -> str:
    """Return a name on one line, cut if it is long."""
    line = " ".join(name.split())
    return line if len(line) <= LONGEST_NAME else f"{line[:LONGEST_NAME]}..."
