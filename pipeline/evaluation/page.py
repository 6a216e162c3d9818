"""An evaluation as one HTML page: figures, charts, and what each mode retrieved per question.

The template is page.html.j2; pipeline/pages renders it.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.questions import Question
from pipeline.evaluation.results import Evaluation, SkippedQuestion, rank_or_none

DIGITS = {"cut": 1, "p50_ms": 1, "p95_ms": 1}
"""Column -> decimals; metrics have 3, other columns none."""
Table = tuple[list[str], list[list[str]]]
"""The head and the rows of a table."""


class Passage(NamedTuple):
    """A retrieved passage; ``number`` is its place on the page."""

    number: int
    document: str
    title: str
    excerpt: str


def page(evaluation: Evaluation) -> str:
    """Return the whole HTML page; titles, questions and texts of the corpus are escaped."""
    from pipeline.pages.environment import environment, texts, whole_page

    words = texts()["evaluation"]
    setup = evaluation.setup
    summary = evaluation.summary()
    passages = _passages_by_id(evaluation)
    title = words["title"].format(workflow=evaluation.stores.get("workflow", ""))
    types: dict[str, Table] = {}
    for type, means in evaluation.by_type().items():
        types[type] = _figures(means, words["mode"])
    recall_columns = [f"recall@{k}" for k in setup.ks]
    all_gold_columns = [f"all_gold@{k}" for k in setup.ks]
    return whole_page(
        environment(Path(__file__).parent),
        "page.html.j2",
        title=title,
        about=_about(evaluation, words),
        unknown_in=counted(len(evaluation.left_out), "question"),
        unknown=unknown_gold(evaluation.left_out, words),
        figures=_figures(summary, words["mode"]),
        by=setup.by,
        types=types,
        modes=setup.modes,
        ks=setup.ks,
        recall=_values_by_mode(summary, *recall_columns),
        all_gold=_values_by_mode(summary, *all_gold_columns),
        tokens=_values_by_mode(summary, "prompt_tokens"),
        latency=_values_by_mode(summary, "p50_ms", "p95_ms"),
        questions=_results_by_question(evaluation, passages),
        passages=passages,
    )


def _passages_by_id(evaluation: Evaluation) -> dict[str, Passage]:
    passages: dict[str, Passage] = {}
    rows = evaluation.passages.itertuples()
    for number, (id, document, excerpt) in enumerate(rows):
        title = _document_title(evaluation, str(document))
        passages[str(id)] = Passage(number, str(document), title, excerpt)
    return passages


def unknown_gold(
    questions: Iterable[SkippedQuestion], words: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Return line of the question, gold and reason for all gold that is unknown."""
    unknown: list[tuple[str, str, str]] = []
    for left_out in questions:
        line = words["line"].format(n=left_out.question.line)
        for gold, reason in left_out.unknown.items():
            unknown.append((line, f"{gold.kind}: {gold.name}", reason))
    return unknown


def _about(evaluation: Evaluation, words: Mapping[str, str]) -> str:
    """Return the paragraph on the setup of the evaluation."""
    setup = evaluation.setup
    budget = words["budget"].format(tokens=setup.budget) if setup.budget else ""
    embedding = evaluation.stores.get("embedding", {})
    return words["about"].format(
        questions=counted(len(evaluation.questions), "question"),
        embedding=embedding.get("model"),
        asked=words["asked"] if setup.keywords else words["not_asked"],
        passages=evaluation.chunk_top_k,
        budget=budget,
    )


def _figures(means: pd.DataFrame, mode_column: str) -> Table:
    """Return the means as a table of texts, a row per mode."""
    columns = [str(column) for column in means.columns]
    head = [mode_column, *(column.replace("_", " ") for column in columns)]
    rows: list[list[str]] = []
    for mode, *values in means.itertuples():
        cells = map(_format_value, columns, values)
        rows.append([str(mode), *cells])
    return head, rows


def _format_value(column: str, value: float) -> str:
    digits = 3 if "@" in column else DIGITS.get(column, 0)
    return f"{value:,.{digits}f}"


def _values_by_mode(summary: pd.DataFrame, *columns: str) -> dict[str, list[float]]:
    rows = summary[list(columns)].itertuples()
    return {str(mode): values for mode, *values in rows}


def _results_by_question(
    evaluation: Evaluation, passages: Mapping[str, Passage]
) -> Iterator[tuple[Question, list[dict[str, Any]]]]:
    """Yield each question with the result of each mode.

    A result holds the recall at the greatest k, the ranks of the gold (None for gold not found),
    and the passages, each with whether it is gold.
    """
    recall_column = f"recall@{max(evaluation.setup.ks)}"
    rows_by_question = dict(list(evaluation.results.groupby("id")))
    for question in evaluation.questions:
        gold_ids = set[str]()
        for gold in question.gold:
            gold_ids |= evaluation.targets[gold]
        results: list[dict[str, Any]] = []
        rows = rows_by_question[question.id]
        for row in rows.to_dict("records"):
            ranks = [rank_or_none(rank) for rank in row["ranks"]]
            chunks: list[tuple[Passage, bool]] = []
            for id in row["chunks"]:
                passage = passages[id]
                # Gold is a chunk, or the document that the chunk is from.
                is_gold = id in gold_ids or passage.document in gold_ids
                chunks.append((passage, is_gold))
            result = {
                "mode": row["mode"],
                "recall": row[recall_column],
                "ranks": ranks,
                "chunks": chunks,
            }
            results.append(result)
        yield question, results


def _document_title(evaluation: Evaluation, document: str) -> str:
    """Return title and source of the document with this id, or the id if it is unknown."""
    if document not in evaluation.documents.index:
        return document
    title = str(evaluation.documents.at[document, "title"])
    source = str(evaluation.documents.at[document, "source"])
    return f"{title} ({source})" if title and title != source else source
