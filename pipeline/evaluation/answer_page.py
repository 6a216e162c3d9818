"""An evaluation of answers as one HTML page: figures, and the answers to each question.

The template is answer_page.html.j2; pipeline/pages renders it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.answer_results import AnswerEvaluation, GivenAnswer, measure_answer
from pipeline.evaluation.answer_table import COLUMNS, format_measure, shown_columns
from pipeline.evaluation.page import Table, unknown_gold
from pipeline.evaluation.questions import Question


def answer_page(evaluation: AnswerEvaluation) -> str:
    """Return the whole HTML page; questions, answers and titles are escaped."""
    from pipeline.pages.environment import environment, texts, whole_page

    words = texts()["answers"]
    setup = evaluation.setup
    judge = words["judged"].format(model=setup.judge) if setup.judge else words["not_judged"]
    n_questions = counted(len(evaluation.questions), "question")
    types: dict[str, Table] = {}
    for type, means in evaluation.by_type().items():
        types[type] = _mean_table(evaluation, means, words["mode"])
    about = words["about"].format(
        questions=n_questions, model=setup.model or "default", judge=judge
    )
    failed: list[tuple[str, str, str]] = []
    for mode, question, reason in evaluation.failed:
        line = words["line"].format(n=question.line)
        failed.append((line, mode, reason))
    title = words["title"].format(workflow=evaluation.stores.get("workflow", ""))
    figures = _mean_table(evaluation, evaluation.summary(), words["mode"])
    agreements = list(_agreement_texts(evaluation, words))
    unknown = unknown_gold(evaluation.left_out, words)
    unknown_in = counted(len(evaluation.left_out), "question")
    failed_in = counted(len(evaluation.failed), "question")
    return whole_page(
        environment(Path(__file__).parent),
        "answer_page.html.j2",
        title=title,
        about=about,
        unknown_in=unknown_in,
        unknown=unknown,
        failed_in=failed_in,
        failed=failed,
        figures=figures,
        agreements=agreements,
        by=setup.by,
        types=types,
        questions=list(_answers_by_question(evaluation, words)),
    )


def _mean_table(evaluation: AnswerEvaluation, means: pd.DataFrame, mode_column: str) -> Table:
    columns = shown_columns(evaluation)
    # A column has two lines of headings in a table of text; here they stand side by side.
    headings = [" ".join(COLUMNS[column]) for column in columns]
    head = [mode_column, *headings]
    rows: list[list[str]] = []
    for mode, row in zip(means.index, means.to_dict("records"), strict=True):
        measures = [format_measure(column, row[column]) for column in columns]
        rows.append([str(mode), *measures])
    return head, rows


def _agreement_texts(evaluation: AnswerEvaluation, words: Mapping[str, str]) -> Iterator[str]:
    if not evaluation.setup.judge:
        return
    for mode, agreed in evaluation.agreements().items():
        if not agreed["answers"]:
            continue
        kappa = "-" if agreed["kappa"] is None else f"{agreed['kappa']:.3f}"
        share = f"{agreed['agreement']:.3f}"
        judged = counted(agreed["answers"], "answer")
        yield words["agreement"].format(mode=mode, share=share, answers=judged, kappa=kappa)


def _answers_by_question(
    evaluation: AnswerEvaluation, words: Mapping[str, str]
) -> Iterator[tuple[Question, list[dict[str, Any]]]]:
    """Yield each question that was answered with its answers."""
    given_to: dict[str, list[dict[str, Any]]] = {}
    for given in evaluation.answers:
        shown = _shown_answer(evaluation, given, words)
        given_to.setdefault(given.question.id, []).append(shown)
    for question in evaluation.questions:
        if question.id in given_to:
            yield question, given_to[question.id]


def _shown_answer(
    evaluation: AnswerEvaluation, given: GivenAnswer, words: Mapping[str, str]
) -> dict[str, Any]:
    values = measure_answer(given, bool(evaluation.setup.judge))
    refused = bool(given.abstention)
    remarks: list[str] = []
    if refused:
        remarks.append(words["refused"])
    if given.verdict:
        remarks.append(words["verdict"].format(verdict=given.verdict))
    if values["f1"] is not None:
        remarks.append(f"f1 {values['f1']:.3f}")
    citations: list[tuple[str, bool]] = []
    for citation in given.citations:
        passage = _passage_title(evaluation, citation.document)
        citations.append((passage, citation.is_gold))
    return {
        "mode": given.mode,
        "text": given.text,
        "refused": refused,
        "good": _is_good(given, values),
        "remarks": remarks,
        "citations": citations,
    }


def _is_good(given: GivenAnswer, values: Mapping[str, float | None]) -> bool:
    """Return whether an answer counts as right on the page.

    The judge decides where there is a verdict, else the match with gold. Without gold answers any
    answer counts as right.
    """
    if not given.question.answerable:
        return bool(given.abstention)
    if given.abstention:
        return False
    if values["judged_right"] is not None:
        return values["judged_right"] == 1
    return values["contains_gold"] in (None, 1.0)


def _passage_title(evaluation: AnswerEvaluation, document: str) -> str:
    """Return title and source of the document with this id, or the id if it is unknown."""
    if document not in evaluation.documents.index:
        return document
    title = str(evaluation.documents.at[document, "title"])
    source = str(evaluation.documents.at[document, "source"])
    return f"{title} ({source})" if title and title != source else source
