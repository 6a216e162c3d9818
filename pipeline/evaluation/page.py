"""An evaluation as one HTML page: figures, charts, and what each mode retrieved for each question.

It holds no script and loads nothing, and says so to the browser.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree.ElementTree import Element

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.charts import COLOURS, bar_chart, line_chart
from pipeline.evaluation.evaluation import Evaluation, rank_of
from pipeline.evaluation.markup import element, html_text
from pipeline.evaluation.page_style import STYLE
from pipeline.evaluation.questions import Gold, Question

MOST_SHOWN = 10
"""Passages of a ranking on the page; the JSON has all."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(evaluation: Evaluation) -> str:
    """The whole page. Titles, questions and texts of the corpus stand in it as they are, escaped."""
    title = f"graphmill eval: {evaluation.stores.get('workflow', '')}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", STYLE),
    )
    body = element(
        "body",
        element("h1", title),
        element("p", _about(evaluation), class_="pale"),
        *_left_out(evaluation),
        _figures(evaluation.summary()),
        _legend(evaluation.setup.modes),
        _charts(evaluation),
        *_types(evaluation),
        *_questions(evaluation),
        *_passages(evaluation),
    )
    return html_text(element("html", head, body, lang="en"))


def _about(evaluation: Evaluation) -> str:
    setup, stores = evaluation.setup, evaluation.stores
    budget = f"; budget: the first {setup.budget:,} tokens of retrieved text" if setup.budget else ""
    keywords = "keywords by the chat model" if setup.keywords else "no chat model was asked"
    return (
        f"{counted(len(evaluation.questions), 'question')}; embedding {stores.get('embedding', {}).get('model')}; "
        f"{keywords}; up to {evaluation.chunk_top_k} passages a query{budget}. recall: share of the gold "
        "that was found; all_gold: share of the questions of which all was found; cut: passages no token budget had "
        "room for; latency is without the time of models."
    )


def _left_out(evaluation: Evaluation) -> Iterable[Element]:
    if evaluation.left_out:
        yield element("h2", f"Unknown gold: {counted(len(evaluation.left_out), 'question')} in no figure")
        rows = [
            [f"line {left.question.line}", f"{gold.kind}: {gold.name}", reason]
            for left in evaluation.left_out
            for gold, reason in left.unknown.items()
        ]
        yield _table(["", "gold", "why"], rows)


def _figures(means: pd.DataFrame) -> Element:
    rows = [[str(mode), *map(_number, means.columns, row)] for mode, *row in means.itertuples()]
    return _table(["mode", *means.columns], rows)


def _number(name: str, value: float) -> str:
    return (
        f"{value:.3f}" if "@" in name else f"{value:,.1f}" if name in ("cut", "p50_ms", "p95_ms") else f"{value:,.0f}"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Element:
    top = element("thead", element("tr", *(element("th", name.replace("_", " ")) for name in head)))
    body = element("tbody", *(element("tr", *(element("td", cell) for cell in row)) for row in rows))
    return element("div", element("table", top, body), class_="scroll")


def _legend(modes: Iterable[str]) -> Element:
    keys = [
        element("span", element("span", class_=f"key c{number % COLOURS}"), mode) for number, mode in enumerate(modes)
    ]
    return element("p", *keys, class_="legend")


def _charts(evaluation: Evaluation) -> Element:
    summary, ks = evaluation.summary(), evaluation.setup.ks

    def values(*columns: str) -> dict[str, list[float]]:
        return {str(mode): numbers for mode, *numbers in summary[list(columns)].itertuples()}

    return element(
        "div",
        line_chart("recall@k", ks, values(*(f"recall@{k}" for k in ks))),
        line_chart("all gold@k", ks, values(*(f"all_gold@{k}" for k in ks))),
        bar_chart("Size of the prompt", values("prompt_tokens"), "tokens"),
        bar_chart("Latency, p50 / p95", values("p50_ms", "p95_ms"), "ms"),
        class_="charts",
    )


def _types(evaluation: Evaluation) -> Iterable[Element]:
    for type, means in evaluation.by_type().items():
        yield element("h2", f"{evaluation.setup.by}: {type or 'none'}")
        yield _figures(means)


def _questions(evaluation: Evaluation) -> Iterable[Element]:
    """The box above them hides, by style alone, those of which every mode found all."""
    yield element("h2", "Questions")
    yield element("input", type="checkbox", id="missed")
    yield element("label", " only those of which some mode missed something", for_="missed")
    k = max(evaluation.setup.ks)
    rows: dict[str, list[dict[Any, Any]]] = {question.id: [] for question in evaluation.questions}
    for row in evaluation.results.to_dict("records"):
        rows[row["id"]].append(row)
    numbers = {str(id): number for number, id in enumerate(evaluation.passages.index)}
    for question in evaluation.questions:
        answered = rows[question.id]
        missed = any(row[f"all_gold@{k}"] < 1 for row in answered)
        yield element(
            "details",
            element("summary", _marks(answered, k), f"{question.id}: {question.text}"),
            element("div", "Gold: ", *_gold(question)),
            element("div", *(_retrieved(evaluation, question, row, numbers) for row in answered), class_="modes"),
            class_="missed" if missed else "found",
        )


def _marks(rows: Iterable[Mapping[Any, Any]], k: int) -> Element:
    marks = []
    for row in rows:
        share = row[f"recall@{k}"]
        sign = "✓" if share == 1 else "✗" if share == 0 else "◐"
        marks.append(element("span", f" {sign} {row['mode']}", class_="hit" if share == 1 else "miss"))
    return element("span", *marks, class_="marks")


def _gold(question: Question) -> Iterable[Element]:
    for place, gold in enumerate(question.gold):
        yield element("span", f"{'; ' if place else ''}{_named(gold)}")


def _named(gold: Gold) -> str:
    return gold.name if gold.kind == "document" else f"{gold.kind} “{gold.name}”"


def _retrieved(
    evaluation: Evaluation, question: Question, row: Mapping[Any, Any], numbers: Mapping[str, int]
) -> Element:
    ranks = {gold: rank_of(place) for gold, place in zip(question.gold, row["places"], strict=True)}
    wanted = {id for gold in question.gold for id in evaluation.targets[gold]}
    found = sum(rank is not None for rank in ranks.values())
    told = ", ".join(f"@{rank}" if rank else "missed" for rank in ranks.values())
    items = []
    for chunk in row["chunks"][:MOST_SHOWN]:
        document = str(evaluation.passages.at[chunk, "document_id"])
        hit = bool(wanted & {chunk, document})
        link = element("a", f"{'✓ ' if hit else ''}{_title(evaluation, document)}", href=f"#p{numbers[chunk]}")
        items.append(element("li", link, **({"class_": "hit"} if hit else {})))
    more = len(row["chunks"]) - len(items)
    return element(
        "section",
        element("h3", f"{row['mode']}: {found} of {len(ranks)} ", element("span", f"({told})", class_="pale")),
        element("ol", *items),
        element("div", f"… and {more} more", class_="pale") if more > 0 else None,
    )


def _passages(evaluation: Evaluation) -> Iterable[Element]:
    yield element("h2", "Passages")
    entries = []
    for number, (id, document, excerpt) in enumerate(evaluation.passages.itertuples()):
        entries.append(
            element("dt", f"{_title(evaluation, str(document))} ", element("code", str(id)), id=f"p{number}")
        )
        entries.append(element("dd", str(excerpt)))
    yield element("dl", *entries)


def _title(evaluation: Evaluation, document: str) -> str:
    if document not in evaluation.documents.index:
        return document
    title, source = (str(evaluation.documents.at[document, column]) for column in ("title", "source"))
    return f"{title} ({source})" if title and title != source else source
