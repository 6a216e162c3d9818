"""An evaluation as one HTML page: figures, charts, and what each mode retrieved for each question.

What it looks like is in page.html.j2, a page such as pipeline/pages makes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.questions import Question
from pipeline.evaluation.results import Evaluation, told_rank


class Passage(NamedTuple):
    """``number``: its place on the page."""

    number: int
    document: str
    title: str
    excerpt: str


def page(evaluation: Evaluation) -> str:
    """The whole page. Titles, questions and texts of the corpus stand in it as they are,
    escaped."""
    from pipeline.pages.environment import environment, texts, whole_page

    said = texts()["evaluation"]
    summary, ks = evaluation.summary(), evaluation.setup.ks
    passages = {
        str(id): Passage(number, str(document), _title(evaluation, str(document)), excerpt)
        for number, (id, document, excerpt) in enumerate(evaluation.passages.itertuples())
    }
    return whole_page(
        environment(Path(__file__).parent),
        "page.html.j2",
        title=said["title"].format(workflow=evaluation.stores.get("workflow", "")),
        about=_about(evaluation, said),
        unknown_in=counted(len(evaluation.left_out), "question"),
        unknown=[
            (said["line"].format(n=left.question.line), f"{gold.kind}: {gold.name}", reason)
            for left in evaluation.left_out
            for gold, reason in left.unknown.items()
        ],
        figures=_figures(summary, said["mode"]),
        by=evaluation.setup.by,
        types={type: _figures(means, said["mode"]) for type, means in evaluation.by_type().items()},
        modes=evaluation.setup.modes,
        ks=ks,
        recall=_by_mode(summary, *(f"recall@{k}" for k in ks)),
        all_gold=_by_mode(summary, *(f"all_gold@{k}" for k in ks)),
        tokens=_by_mode(summary, "prompt_tokens"),
        latency=_by_mode(summary, "p50_ms", "p95_ms"),
        questions=_questions(evaluation, passages),
        passages=passages,
    )


def _about(evaluation: Evaluation, said: Mapping[str, str]) -> str:
    setup = evaluation.setup
    return said["about"].format(
        questions=counted(len(evaluation.questions), "question"),
        embedding=evaluation.stores.get("embedding", {}).get("model"),
        asked=said["asked"] if setup.keywords else said["not_asked"],
        passages=evaluation.chunk_top_k,
        budget=said["budget"].format(tokens=setup.budget) if setup.budget else "",
    )


def _figures(means: pd.DataFrame, mode_column: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table."""
    rows = [[str(mode), *map(_number, means.columns, row)] for mode, *row in means.itertuples()]
    return [mode_column, *(str(column).replace("_", " ") for column in means.columns)], rows


def _number(name: str, value: float) -> str:
    digits = 3 if "@" in name else 1 if name in ("cut", "p50_ms", "p95_ms") else 0
    return f"{value:,.{digits}f}"


def _by_mode(summary: pd.DataFrame, *columns: str) -> dict[str, list[float]]:
    return {str(mode): numbers for mode, *numbers in summary[list(columns)].itertuples()}


def _questions(
    evaluation: Evaluation, passages: Mapping[str, Passage]
) -> Iterator[tuple[Question, list[dict[str, Any]]]]:
    """Each question, and what each mode found for it: its recall at the greatest k, the ranks of
    the gold (None where it was missed), the passages and whether each is gold."""
    recall = f"recall@{max(evaluation.setup.ks)}"
    rows = dict(list(evaluation.results.groupby("id")))
    for question in evaluation.questions:
        wanted = frozenset[str]().union(*(evaluation.targets[gold] for gold in question.gold))
        yield (
            question,
            [
                {
                    "mode": row["mode"],
                    "recall": row[recall],
                    "ranks": [told_rank(rank) for rank in row["ranks"]],
                    "chunks": [
                        (passages[id], bool(wanted & {id, passages[id].document}))
                        for id in row["chunks"]
                    ],
                }
                for row in rows[question.id].to_dict("records")
            ],
        )


def _title(evaluation: Evaluation, document: str) -> str:
    if document not in evaluation.documents.index:
        return document
    title, source = (
        str(evaluation.documents.at[document, column]) for column in ("title", "source")
    )
    return f"{title} ({source})" if title and title != source else source
