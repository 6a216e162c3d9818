"""Evaluations and comparisons as tables of text."""

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.compare import Comparison
from pipeline.evaluation.evaluation import TOKEN_COLUMNS, Evaluation

MOST_TYPES = 12
MOST_LEFT_OUT = 5


def evaluation_table(evaluation: Evaluation) -> str:
    """A line a mode: recall and all-gold at each k, tokens of the prompt, latency; then the same for each type."""
    summary = evaluation.summary()
    questions = len(evaluation.questions)
    lines = [f"{counted(questions, 'question')}, {_built(evaluation)}", "", *_lines(summary, evaluation)]
    types = evaluation.by_type()
    for type, means in list(types.items())[:MOST_TYPES]:
        title = f"{evaluation.setup.by}: {type or 'none'}, {counted(int(means['questions'].iloc[0]), 'question')}"
        lines += ["", title, *_lines(means, evaluation)]
    if len(types) > MOST_TYPES:
        lines += ["", f"... and {len(types) - MOST_TYPES} more values of '{evaluation.setup.by}': --json has them"]
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
        lines.append(f"  line {left.question.line}, {left.question.id}: {gold.kind} '{_clipped(gold.name)}': {reason}")
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
        f"{'mode':<{modes}}  {'metric':<{metrics}} {'a':>10} {'b':>10} {'b - a':>10}  {'95 % interval':^21} {'p':>7}",
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
    lines.append(f"{both}{alone if comparison.only_a or comparison.only_b else ''}; *: the interval leaves 0 out")
    return "\n".join(lines)


def _built(evaluation: Evaluation) -> str:
    stores = evaluation.stores
    keywords = "the chat model's keywords" if evaluation.setup.keywords else "no chat model"
    return f"workflow {stores.get('workflow')}, embedding {stores.get('embedding', {}).get('model')}, {keywords}"


def _lines(means: pd.DataFrame, evaluation: Evaluation) -> list[str]:
    metrics = evaluation.metrics
    groups = {kind: [name for name in metrics if name.startswith(kind)] for kind in ("recall@", "all_gold@")}
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
