"""An evaluation as one HTML page: figures, charts, and what each mode retrieved for each question.

It holds no script and loads nothing, and says so to the browser.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

import pandas as pd

from pipeline.errors import counted
from pipeline.evaluation.evaluation import Evaluation, rank_of
from pipeline.evaluation.questions import Gold, Question
from pipeline.text.ids import clean

Child = Element | str
_NO_CHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


def element(tag: str, *children: Child | None, **attributes: str | float) -> Element:
    """``class_`` and ``for_`` are the attributes of that name, ``text_anchor`` is text-anchor; None is no child."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): _plain(str(value)) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            _append_text(made, _plain(child))
        elif child is not None:
            made.append(child)
    return made


def html_text(root: Element) -> str:
    """The document, with its doctype."""
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _plain(text: str) -> str:
    return _NO_CHARACTER.sub("", clean(text))


WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 12, 34
BAR, LABEL, NUMBER = 22, 80, 90
COLOURS = 8
"""Classes c0 to c7 of the page's style."""


def line_chart(title: str, xs: Sequence[int], lines: Mapping[str, Sequence[float]]) -> Element:
    """Shares of 0 to 1 over the xs, which are set side by side at equal distances; a line a mode."""
    inner = WIDTH - LEFT - RIGHT
    places = [LEFT + inner * (place + 0.5) / len(xs) for place in range(len(xs))]
    grid = [_rule(share / 4) for share in range(5)]
    names = [_label(place, HEIGHT - 12, f"@{x}", "middle") for x, place in zip(xs, places, strict=True)]
    drawn = [_line(name, number % COLOURS, places, shares, xs) for number, (name, shares) in enumerate(lines.items())]
    return _figure(title, HEIGHT, [part for rule in grid for part in rule] + names + drawn)


def bar_chart(title: str, bars: Mapping[str, Sequence[float]], unit: str) -> Element:
    """A bar a mode, from 0; where a mode has two values the second, greater one is drawn pale behind the first."""
    most = max((max(values) for values in bars.values()), default=0) or 1
    inner = WIDTH - LABEL - NUMBER
    parts = []
    for number, (name, values) in enumerate(bars.items()):
        top = TOP + number * BAR
        for pale, value in enumerate(reversed(values), start=2 - len(values)):
            shade = f"c{number % COLOURS}" + ("" if pale else " pale")
            parts.append(
                element(
                    "rect", x=LABEL, y=top, width=_fixed(inner * value / most), height=BAR - 6, class_=f"bar {shade}"
                )
            )
        told = " / ".join(f"{value:,.0f}" for value in values)
        parts += [
            _label(LABEL - 8, top + 12, name, "end"),
            _label(LABEL + 6 + inner * max(values) / most, top + 12, f"{told} {unit}", "start"),
        ]
    return _figure(title, 2 * TOP + BAR * len(bars), parts)


def _figure(title: str, height: float, parts: Sequence[Element]) -> Element:
    drawing = element(
        "svg", element("title", title), *parts,
        viewBox=f"0 0 {WIDTH} {_fixed(height)}", role="img", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip
    return element("figure", element("figcaption", title), drawing)


def _line(name: str, colour: int, places: Sequence[float], shares: Sequence[float], xs: Sequence[int]) -> Element:
    points = [(_fixed(place), _fixed(_height(share))) for place, share in zip(places, shares, strict=True)]
    dots = [
        element("circle", element("title", f"{name} @{k}: {share:.3f}"), cx=x, cy=y, r=3.5, class_=f"c{colour}")
        for k, share, (x, y) in zip(xs, shares, points, strict=True)
    ]
    drawn = element("polyline", points=" ".join(f"{x},{y}" for x, y in points), class_=f"line c{colour}")
    return element("g", drawn, *dots)


def _rule(share: float) -> list[Element]:
    y = _fixed(_height(share))
    rule = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="rule")
    return [rule, _label(LEFT - 6, _height(share) + 4, f"{share:.2f}", "end")]


def _height(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _label(x: float, y: float, text: str, anchor: str) -> Element:
    return element("text", text, x=_fixed(x), y=_fixed(y), text_anchor=anchor)


def _fixed(number: float) -> str:
    return f"{number:.1f}"


STYLE = """
:root {
  color-scheme: light dark;
  --ink: light-dark(#1c1e21, #e6e6e3); --paper: light-dark(#ffffff, #17191c); --pale: light-dark(#60656b, #a3a8ae);
  --rule: light-dark(#d9dce0, #363b41); --panel: light-dark(#f5f6f7, #1f2226);
  --hit: light-dark(#1a7f37, #56d364); --miss: light-dark(#b3261e, #ff8a80);
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 75rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.pale, figcaption { color: var(--pale); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .65rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; } svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--ink); }
.rule { stroke: var(--rule); } .line { fill: none; stroke-width: 2; }
.c0 { --c: light-dark(#3366cc, #7aa6ff); } .c1 { --c: light-dark(#c2571a, #ff9e5e); }
.c2 { --c: light-dark(#2b8a3e, #69db7c); } .c3 { --c: light-dark(#9c36b5, #da77f2); }
.c4 { --c: light-dark(#b8860b, #ffd43b); } .c5 { --c: light-dark(#0b7285, #3bc9db); }
.c6 { --c: light-dark(#a61e4d, #faa2c1); } .c7 { --c: light-dark(#5f6b7a, #b0bac5); }
.line, circle { stroke: var(--c); } circle, .bar { fill: var(--c); } .bar.pale { opacity: .35; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; background: var(--c); margin-right: .4em; }
.legend span { margin-right: 1.2em; white-space: nowrap; }
details { border-bottom: 1px solid var(--rule); padding: .35rem 0; content-visibility: auto;
  contain-intrinsic-size: auto 2rem; }
summary { cursor: pointer; } summary .marks { float: right; margin-left: 1rem; white-space: nowrap; }
.hit { color: var(--hit); } .miss { color: var(--miss); }
.modes { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: .2rem 1.5rem; }
.modes h3 { font-size: .95rem; margin: .8rem 0 .2rem; }
ol { margin: 0; padding-left: 2rem; font-size: .88rem; } li.hit { font-weight: 600; }
a { color: inherit; text-decoration-color: var(--rule); }
dl { font-size: .88rem; } dd { margin: 0 0 .6rem; color: var(--pale); } dt:target { background: var(--panel); }
dt:target, dt:target + dd { color: var(--ink); background: var(--panel); }
#missed:checked ~ details:not(.missed) { display: none; }
"""


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
