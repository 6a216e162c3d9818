"""From what an answer says of reports to the passages that this rests on.

A report is written of a whole community, and cites nothing. But what is said of it names its
members, and where each of them is mentioned is known: the passages that mention most of those
named, the rarest first, are what it rests on.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.query.context import Context, references_to
from pipeline.query.data_citations import CITATION, cited_records
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.query.search.filtered import allowed
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Passage, Report
from pipeline.text.ids import is_syllabic, match_key
from pipeline.text.sentences import sentence_spans

MOST = 3
"""Passages of a report."""
COMMON = 1000
"""Passages from which on an entity that is mentioned in them tells nothing."""

Mentions = Mapping[str, Sequence[str]]
"""Match key of a name -> the text units that mention it."""


def with_sources(
    context: Context,
    text: str,
    numbers: Sequence[int],
    request: QueryRequest,
    resources: QueryResources,
) -> Context:
    """The context with references to the passages that the cited reports rest on; ``text``: the
    answer, ``numbers``: of the reports that it cites."""
    said = said_of(text)
    cited = {
        report.number: report for report in context.reports.records if report.number in numbers
    }
    units = list(dict.fromkeys(unit for report in cited.values() for unit in report.text_unit_ids))
    [question] = resources.embedding.embed([request.query])

    def find(
        vectors: VectorReads, graph: GraphReads
    ) -> tuple[dict[int, Sequence[str]], list[Passage]]:
        mentions = {
            match_key(named.name): named.passages for named in vectors.mentions(units, (), COMMON)
        }
        found = {
            number: _passages(report, said.get(number, ""), mentions)
            for number, report in cited.items()
        }
        return found, vectors.chunks(
            list(dict.fromkeys(id for ids in found.values() for id in ids)), question
        )

    (found, chunks), _ = resources.read(allowed(request, find))
    return _referred(context, found, chunks)


def said_of(text: str) -> dict[int, str]:
    """Number of a report -> the sentences that end with a citation of it."""
    said: dict[int, list[str]] = {}
    for line in text.splitlines():
        for sentence, citation in _cited_sentences(line):
            for number in cited_records(citation).get("reports", ()):
                said.setdefault(number, []).append(sentence)
    return {number: "\n".join(sentences) for number, sentences in said.items()}


def _cited_sentences(line: str) -> Iterator[tuple[str, str]]:
    """A citation belongs to the sentence before it, also where others stand between."""
    begun, sentence = 0, ""
    for citation in CITATION.finditer(line):
        before = line[begun : citation.start()]
        if before.strip(" .;,") and (spans := sentence_spans(before)):
            sentence = before[slice(*spans[-1])]
        yield sentence, citation[0]
        begun = citation.end()


def _passages(report: Report, said: str, mentions: Mentions) -> Sequence[str]:
    units = report.text_unit_ids
    for text in (said, f"{report.title}\n{report.summary}"):
        if best := _mentioning(text, units, mentions):
            return best
    return units[:1]


def _mentioning(text: str, units: Sequence[str], mentions: Mentions) -> list[str]:
    """The text units that mention what the text names, best first."""
    key, own = match_key(text), set(units)
    scores: Counter[str] = Counter()
    for name, ids in mentions.items():
        found = own.intersection(ids)
        if found and _names(key, name):
            scores.update(dict.fromkeys(found, 1 / len(found)))  # pyright: ignore[reportArgumentType,reportCallIssue]
    return sorted((unit for unit in units if scores[unit] > 0), key=lambda unit: -scores[unit])[
        :MOST
    ]


def _names(text: str, name: str) -> bool:
    if name not in text:
        return False
    return (
        any(map(is_syllabic, name))
        or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
    )


def _referred(
    context: Context, found: Mapping[int, Sequence[str]], chunks: Sequence[Passage]
) -> Context:
    """A passage that is there already keeps its number."""
    reports = {
        chunk.id: tuple(number for number, ids in found.items() if chunk.id in ids)
        for chunk in chunks
    }
    known = [
        replace(entry, reports=reports.get(entry.chunk_id, ())) for entry in context.references
    ]
    there = {entry.chunk_id for entry in known}
    new = (chunk for chunk in chunks if chunk.id not in there)
    first = max((entry.id for entry in known), default=0) + 1
    numbered = [replace(chunk, number=number) for number, chunk in enumerate(new, first)]
    more = [replace(entry, reports=reports[entry.chunk_id]) for entry in references_to(numbered)]
    return replace(context, references=(*known, *more))
