"""The part of the command eval that has the chat model answer, and measures its answers."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.console import print_bills
from pipeline.cli.options import print_aside, print_json

if TYPE_CHECKING:
    from pipeline.evaluation.answer_results import AnswerEvaluation, AnswerSetup
    from pipeline.project import Project


def print_plan(project: "Project", questions: Path, setup: "AnswerSetup", as_json: bool) -> None:
    """Print what an evaluation of answers would ask and cost."""
    estimates = project.forecast_answers(questions, setup)
    bills = {f"eval {kind}": asdict(estimate) for kind, estimate in estimates.items()}
    if as_json:
        print_json(bills)
    else:
        print_bills(bills)


def print_answers(found: "AnswerEvaluation", as_json: bool) -> None:
    """Print the evaluation; its price and what is in no figure on stderr."""
    from pipeline.evaluation.answer_table import answer_table, failure_lines, usage_line
    from pipeline.evaluation.tables import describe_left_out

    if as_json:
        print_json(found.to_json())
    else:
        print(answer_table(found))
    print_aside(*describe_left_out(found), *failure_lines(found), *found.notes, usage_line(found))
