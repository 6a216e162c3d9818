"""The command eval, which measures retrieval by mode, and whether it has changed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.options import (
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
    from pipeline.evaluation.results import Evaluation

Questions = Annotated[
    Path | None, typer.Argument(metavar="QUESTIONS.jsonl", help="Questions with their gold.")
]
Modes = Annotated[str | None, typer.Option(metavar="A,B", help="By default all that retrieve.")]
Ks = Annotated[str, typer.Option("--k", metavar="N,N", help="How many passages to look at.")]
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
Metric = Annotated[str, typer.Option(help="With --baseline: what is looked at.")]
Drop = Annotated[
    float, typer.Option(metavar="POINTS", help="With --baseline: how much lower it may be, of 100.")
]


def evaluate(
    context: typer.Context, questions: Questions = None, modes: Modes = None, ks: Ks = "2,5,10,20",
    budget: Budget = None, by: By = "type", keywords: Keywords = False, rerank: Rerank = False,
    output: Output = None,
    html: Page = None, baseline: Baseline = None, metric: Metric = "recall@10",
    max_drop: Drop = 2.0,
    compare: Compare = None, against: Against = None, folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Measure retrieval against questions whose gold is known, or compare two such measurements."""
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
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.evaluation.results import read_evaluation

        if output is not None:
            refuse_unwritable(output, "--output")
        if html is not None:
            refuse_page(html, "--html", project.root)

        names = None if modes is None else split_list(modes)
        before = None if baseline is None else read_evaluation(baseline).modes
        with counting("eval") as advanced:
            found = project.evaluate(
                questions, names, _read_numbers(ks), budget, by, keywords, rerank, advanced
            )
        _write_results(found, output, html)
        worse = [] if before is None else _find_worse(before, found, metric, max_drop)
    _show(found, as_json)
    print_aside(*(f"eval: {line}" for line in worse))
    if worse:
        raise typer.Exit(FAILED)


def _compare(
    root: Path, files: tuple[Path, Path], against: str | None, output: Path | None, as_json: bool
) -> None:
    with report_errors(root, as_json):
        from pipeline.evaluation.compare import compare, comparison_table
        from pipeline.evaluation.results import read_evaluation

        a, b = map(read_evaluation, files)
        compared = compare(a, b, against)
        if output is not None:
            _write_json(output, compared.to_json())
    if as_json:
        print_json(compared.to_json())
    else:
        print(comparison_table(compared))


def _show(found: "Evaluation", as_json: bool) -> None:
    from pipeline.evaluation.compare import evaluation_table, left_out_lines

    if as_json:
        print_json(found.to_json())
    else:
        print(evaluation_table(found))
    print_aside(*left_out_lines(found), *found.notes)


def _write_results(found: "Evaluation", output: Path | None, html: Path | None) -> None:
    if output is not None:
        _write_json(output, found.to_json())
    if html is not None:
        from pipeline.evaluation.page import page
        from pipeline.files import write_text

        write_text(html.resolve(), page(found))


def _write_json(path: Path, content: Any) -> None:
    from pipeline.files import write_text

    write_text(path.resolve(), json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _find_worse(before: Any, found: "Evaluation", metric: str, points: float) -> list[str]:
    """Return a line for each mode whose metric fell by more than ``points`` hundredths, or is
    missing now. ``before`` has the metrics of the baseline by mode."""
    from pipeline.evaluation.compare import fallen
    from pipeline.evaluation.results import stored

    return fallen(before, stored("", found.to_json()).modes, metric, points)


def _read_numbers(ks: str) -> list[int]:
    try:
        return [int(k) for k in split_list(ks)]
    except ValueError:
        raise typer.BadParameter("whole numbers, as in 2,5,10,20", param_hint="--k") from None
