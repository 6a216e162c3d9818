"""An evaluation of answers as tables of text."""

from collections.abc import Iterator, Mapping

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.answer_results import AnswerEvaluation
from pipeline.evaluation.tables import MODE_WIDTH, MOST_LEFT_OUT, format_types

COLUMNS: Mapping[str, tuple[str, str]] = {
    "exact_match": ("answer", "exact"),
    "f1": ("answer", "f1"),
    "contains_gold": ("answer", "holds"),
    "judged_right": ("judge", "right"),
    "judged_partly": ("judge", "partly"),
    "citation_precision": ("citations", "prec."),
    "citation_recall": ("citations", "recall"),
    "supported": ("citations", "supp."),
    "answerable": ("answerable", "n"),
    "wrongly_refused": ("answerable", "refused"),
    "unanswerable": ("unanswerable", "n"),
    "refused": ("unanswerable", "refused"),
}
"""Column of the means -> its two lines of headings, in the order of a table."""
JUDGE = ("judged_right", "judged_partly")
COUNTS = ("answerable", "unanswerable")
WIDTH = 8
"""Characters of a column."""


def shown_columns(evaluation: AnswerEvaluation) -> list[str]:
    """Return the columns of a table; those of the judge only if there is one."""
    has_judge = bool(evaluation.setup.judge)
    return [name for name in COLUMNS if has_judge or name not in JUDGE]


def format_measure(column: str, value: float) -> str:
    """Return a value as text; "-" if no question has the measure."""
    if pd.isna(value):
        return "-"
    return f"{value:,.0f}" if column in COUNTS else f"{value:.3f}"


def answer_table(evaluation: AnswerEvaluation) -> str:
    """Return the evaluation as text, a line per mode, in all and then by type of question."""
    columns = shown_columns(evaluation)
    n_questions = counted(len(evaluation.questions), "question")
    model = evaluation.setup.model or "default"
    lines = [f"{n_questions}, workflow {evaluation.stores.get('workflow')}, chat model {model}", ""]
    lines += _table_lines(evaluation.summary(), columns)
    lines += format_types(evaluation, lambda means: _table_lines(means, columns))
    agreed = list(_agreement_lines(evaluation))
    if agreed:
        lines += ["", *agreed]
    return "\n".join(lines)


def _table_lines(means: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return two lines of headings and a line per mode; columns have fixed widths."""
    headings = f"{'mode':<{MODE_WIDTH}}"
    for column in columns:
        _, heading = COLUMNS[column]
        headings += f"{heading:>{WIDTH}}"
    lines = [_group_line(columns), headings]
    for mode, row in zip(means.index, means.to_dict("records"), strict=True):
        line = f"{mode:<{MODE_WIDTH}}"
        for column in columns:
            cell = format_measure(column, row[column])
            line += f"{cell:>{WIDTH}}"
        lines.append(line)
    return [line.rstrip() for line in lines]


def _group_line(columns: list[str]) -> str:
    """Return the names of groups of columns, each above the first column of its group."""
    line = ""
    last_group = ""
    for place, column in enumerate(columns):
        group, _ = COLUMNS[column]
        if group != last_group:
            # Headings are aligned to the right: two characters in, the name stands above the first.
            start = MODE_WIDTH + place * WIDTH + 2
            line = f"{line:<{start}}{group}"
        last_group = group
    return line


def _agreement_lines(evaluation: AnswerEvaluation) -> Iterator[str]:
    """Yield a line per mode on how far the judge and the match with gold agree."""
    if not evaluation.setup.judge:
        return
    for mode, agreed in evaluation.agreements().items():
        if not agreed["answers"]:
            continue
        kappa = "-" if agreed["kappa"] is None else f"{agreed['kappa']:.3f}"
        judged = counted(agreed["answers"], "answer")
        share = f"{agreed['agreement']:.3f}"
        yield f"{mode}: judge and gold match agree on {share} of {judged}, Cohen's kappa {kappa}"


def usage_line(evaluation: AnswerEvaluation) -> str:
    """Return calls, tokens and price of the evaluation as text."""
    usage = evaluation.usage
    calls = f"{counted(usage['calls'], 'call')} ({usage['known']:,} known)"
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    cost = usage["cost"]
    price = "no price" if cost is None else f"price {cost:.4f}"
    return f"{calls}, {tokens}: {price}"


def failure_lines(evaluation: AnswerEvaluation) -> list[str]:
    """Return lines on the questions without a reply, which are in no figure."""
    failed = evaluation.failed
    if not failed:
        return []
    lines = [f"no reply: {counted(len(failed), 'question')} in no figure"]
    for mode, question, reason in failed[:MOST_LEFT_OUT]:
        lines.append(f"  line {question.line}, {question.id}, {mode}: {reason}")
    n_more = len(failed) - MOST_LEFT_OUT
    if n_more > 0:
        lines.append(f"  ... and {n_more:,} more: --json has them")
    return lines
