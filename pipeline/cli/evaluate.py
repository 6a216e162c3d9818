"""The command eval, which measures retrieval and answers by mode, and whether they have changed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.build import MaxCost, MaxTokens
from pipeline.cli.options import (
    STOPPED,
    Folder,
    Json,
    Overrides,
    find_root,
    open_project,
    print_aside,
    print_json,
    report_errors,
    split_list,
)
from pipeline.cli.progress import counting
from pipeline.cli.run_pages import refuse_page, refuse_unwritable
from pipeline.errors import FAILED

if TYPE_CHECKING:
    from pipeline.evaluation.answer_results import AnswerEvaluation
    from pipeline.evaluation.results import Evaluation

RETRIEVAL_METRIC, ANSWER_METRIC = "recall@10", "f1"
"""Metrics that --baseline looks at if none is named."""

Questions = Annotated[
    Path | None, typer.Argument(metavar="QUESTIONS.jsonl", help="Questions with their gold.")
]
Modes = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="By default all that retrieve; with --answers query.mode."),
]
Ks = Annotated[
    str | None,
    typer.Option("--k", metavar="N,N", help="How many passages to look at; else 2,5,10,20."),
]
Budget = Annotated[
    int | None,
    typer.Option(metavar="TOKENS", help="Also look at what a prompt of this size shows."),
]
By = Annotated[str, typer.Option(metavar="KEY", help="Count apart by this key of the questions.")]
Keywords = Annotated[
    bool,
    typer.Option("--keywords", help="Ask the chat model for keywords: costs a call a question."),
]
Rerank = Annotated[bool, typer.Option("--rerank", help="Use models.rerank too, which may cost.")]
Answers = Annotated[
    bool, typer.Option("--answers", help="Have the chat model answer, and measure the answers.")
]
Model = Annotated[
    str, typer.Option(metavar="NAME", help="With --answers: which of models.chat answers.")
]
Judge = Annotated[
    str, typer.Option(metavar="NAME", help="With --answers: which of models.chat judges them.")
]
OnlyPlan = Annotated[
    bool,
    typer.Option("--plan", help="With --answers: only say what would be asked, and its cost."),
]
Output = Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write all of it there.")]
Page = Annotated[
    Path | None, typer.Option("--html", metavar="FILE.html", help="Write a page to look at.")
]
Compare = Annotated[
    tuple[Path, Path] | None,
    typer.Option(metavar="A.json B.json", help="Of two evaluations, instead of a new one."),
]
Against = Annotated[
    str | None, typer.Option(metavar="MODE", help="With --compare: B's modes with this one of A.")
]
Baseline = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="End with 1 where a mode is worse than there."),
]
Metric = Annotated[
    str | None,
    typer.Option(help="With --baseline: what is looked at; recall@10, or f1 of answers."),
]
Drop = Annotated[
    float, typer.Option(metavar="POINTS", help="With --baseline: how much lower it may be, of 100.")
]


def evaluate(
    context: typer.Context, questions: Questions = None, modes: Modes = None, ks: Ks = None,
    budget: Budget = None, by: By = "type", keywords: Keywords = False, rerank: Rerank = False,
    answers: Answers = False, model: Model = "", judge: Judge = "", only_plan: OnlyPlan = False,
    max_cost: MaxCost = None, max_tokens: MaxTokens = None,
    output: Output = None,
    html: Page = None, baseline: Baseline = None, metric: Metric = None,
    max_drop: Drop = 2.0,
    compare: Compare = None, against: Against = None, folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Measure retrieval, or answers, by questions with their gold (what should be found), or
    compare two such measurements."""
    if (questions is None) == (compare is None):
        raise typer.BadParameter(
            "a file of questions, or --compare A.json B.json", param_hint="QUESTIONS.jsonl"
        )
    if against is not None and compare is None:
        raise typer.BadParameter("goes with --compare", param_hint="--against")
    if compare is not None:
        _compare(find_root(context, folder), compare, against, output, as_json)
        return
    assert questions is not None
    limits = {"--max-cost": max_cost, "--max-tokens": max_tokens}
    of_answers = {"--model": model, "--judge": judge, "--plan": only_plan, **limits}
    of_retrieval = {"--k": ks, "--budget": budget}
    _refuse_options(of_retrieval if answers else of_answers, answers)
    with open_project(context, folder, overrides, as_json, STOPPED) as project:
        from pipeline.evaluation.results import read_evaluation

        if output is not None:
            refuse_unwritable(output, "--output")
        if html is not None:
            refuse_page(html, "--html", project.root)

        names = None if modes is None else split_list(modes)
        before = None if baseline is None else read_evaluation(baseline).modes
        setup = None
        if answers:
            from pipeline.evaluation.answer_results import AnswerSetup

            setup = AnswerSetup(
                tuple(names or ()), by, keywords, rerank, model, judge, max_cost, max_tokens
            )
        if setup is not None and only_plan:
            from pipeline.cli.evaluate_answers import print_plan

            print_plan(project, questions, setup, as_json)
            return
        found: Evaluation | AnswerEvaluation
        with counting("eval") as advanced:
            if setup is not None:
                found = project.evaluate_answers(questions, setup, advanced)
            else:
                found = project.evaluate(
                    questions, names, _read_numbers(ks), budget, by, keywords, rerank, advanced
                )
        if html is not None:
            _write_page(found, html)
        if output is not None:
            _write_json(output, found.to_json())
        looked_at = metric or (ANSWER_METRIC if answers else RETRIEVAL_METRIC)
        worse = [] if before is None else _find_worse(before, found, looked_at, max_drop)
    _show(found, as_json)
    print_aside(*(f"eval: {line}" for line in worse))
    if worse:
        raise typer.Exit(FAILED)


def _refuse_options(given: Mapping[str, Any], answers: bool) -> None:
    """Raise BadParameter if one of the options has a value.

    They belong to the other kind of evaluation than that of ``answers``.
    """
    for option, value in given.items():
        # A limit of 0 is a value too.
        if value is not None and value is not False and value != "":
            reason = "does not go with --answers" if answers else "goes with --answers"
            raise typer.BadParameter(reason, param_hint=option)


def _compare(
    root: Path, files: tuple[Path, Path], against: str | None, output: Path | None, as_json: bool
) -> None:
    with report_errors(root, as_json):
        from pipeline.evaluation.compare import compare, format_comparison
        from pipeline.evaluation.results import read_evaluation

        a, b = map(read_evaluation, files)
        compared = compare(a, b, against)
        if output is not None:
            _write_json(output, compared.to_json())
    if as_json:
        print_json(compared.to_json())
    else:
        print(format_comparison(compared))


def _show(found: "Evaluation | AnswerEvaluation", as_json: bool) -> None:
    from pipeline.evaluation.results import Evaluation
    from pipeline.evaluation.tables import describe_left_out, format_evaluation

    if not isinstance(found, Evaluation):
        from pipeline.cli.evaluate_answers import print_answers

        print_answers(found, as_json)
        return
    if as_json:
        print_json(found.to_json())
    else:
        print(format_evaluation(found))
    print_aside(*describe_left_out(found), *found.notes)


def _write_page(found: "Evaluation | AnswerEvaluation", html: Path) -> None:
    from pipeline.evaluation.results import Evaluation
    from pipeline.files import write_text

    if isinstance(found, Evaluation):
        from pipeline.evaluation.page import page

        content = page(found)
    else:
        from pipeline.evaluation.answer_page import answer_page

        content = answer_page(found)
    write_text(html.resolve(), content)


def _write_json(path: Path, content: Any) -> None:
    from pipeline.files import write_text

    write_text(path.resolve(), json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _find_worse(
    before: Any, found: "Evaluation | AnswerEvaluation", metric: str, points: float
) -> list[str]:
    """Return a line for each mode whose metric fell by more than ``points`` hundredths, or is
    missing now. ``before`` has the metrics of the baseline by mode."""
    from pipeline.evaluation.compare import describe_falls
    from pipeline.evaluation.results import stored

    return describe_falls(before, stored("", found.to_json()).modes, metric, points)


def _read_numbers(ks: str | None) -> list[int] | None:
    """Return the numbers of the option; None if it was not given."""
    if ks is None:
        return None
    try:
        return [int(k) for k in split_list(ks)]
    except ValueError:
        raise typer.BadParameter("whole numbers, as in 2,5,10,20", param_hint="--k") from None
