"""The evidence itself as an answer, for a project without a chat model."""

import re

from pipeline.query.citations.annotations import Annotation, Cited
from pipeline.query.context import Context
from pipeline.query.marks import inert
from pipeline.stores.records import Relationship

NOTICE = "No chat model is configured: this is the evidence itself, not an answer."
PASSAGES, FACTS, PASSAGE_LENGTH = 5, 10, 700
"""Most passages and most facts shown, and most characters of each text."""


def build_evidence_answer(context: Context) -> tuple[str, Cited]:
    """Return a text of the best reports, passages and facts with their sources, and its citations.

    The first line is NOTICE. The options --only-need-context and --json show all evidence.
    """
    references = context.references[:PASSAGES]
    passages = [f"[{entry.id}] {_shorten(entry.content)}" for entry in references]
    reports = [
        f"Report {report.number}: {inert(report.title)}. {_shorten(report.summary)}"
        for report in context.reports.records[:PASSAGES]
    ]
    number_of_unit = {entry.chunk_id: entry.id for entry in context.references}
    facts: list[str] = []
    for link in context.relationships.records[:FACTS]:
        shown = [number_of_unit[unit] for unit in link.text_unit_ids if unit in number_of_unit]
        facts.append(_fact_line(link, shown[0] if shown else None))
    parts = [NOTICE, *reports, *passages]
    if facts:
        parts.append("Facts:\n" + "\n".join(facts))
    text = "\n\n".join(parts)
    # Texts from the stores are inert here, so each number in brackets was written by this function.
    # It needs no comparison: a passage is its own source, and a fact names its text unit.
    marks = re.finditer(r"\[(\d{1,9})\]", text)
    annotations = [
        Annotation(mark.start(), mark.end(), int(mark[1]), supported=True) for mark in marks
    ]
    sources = list(dict.fromkeys(annotation.number for annotation in annotations))
    return text, Cited(sources=sources, annotations=annotations)


def _fact_line(link: Relationship, number: int | None) -> str:
    """Return a line for the relationship, with the number of a shown passage that is its source."""
    ends = f"{inert(link.source)} -> {inert(link.target)}"
    mark = "" if number is None else f" [{number}]"
    return f"- {ends}: {_shorten(link.description)}{mark}"


def _shorten(text: str) -> str:
    """Return the text on one line, cut to PASSAGE_LENGTH characters."""
    flat = inert(" ".join(text.split()))
    return flat if len(flat) <= PASSAGE_LENGTH else f"{flat[:PASSAGE_LENGTH].rstrip()} ..."
