"""Search for the passages that statements about reports are based on.

A report is written about a whole community and cites nothing. But a statement about a report names
members of the community, and the passages that mention each member are known. The statement is
based on the passages that mention most of its names; rare names count more.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pipeline.query.context import Context, Reference, build_references
from pipeline.query.data_citations import CITATION, parse_cited_records
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.query.search.filtered import restrict_to_where
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Passage, Report
from pipeline.text.ids import is_syllabic, match_key
from pipeline.text.sentences import find_sentences

MOST = 3
"""Most passages of a report."""
COMMON = 1000
"""Most passages that mention an entity; one in more passages carries no information."""

Mentions = Mapping[str, Sequence[str]]
"""Match key of a name -> the text units that mention it."""


def add_report_sources(
    context: Context,
    text: str,
    numbers: Sequence[int],
    request: QueryRequest,
    resources: QueryResources,
) -> Context:
    """Return the context with references to the passages that the cited reports are based on.

    ``text`` is the answer, ``numbers`` are those of the reports that it cites.
    """
    statements = find_statements_on_reports(text)
    cited_reports = [report for report in context.reports.records if report.number in numbers]
    # A dictionary keeps each text unit once, in the order of the reports.
    units: dict[str, None] = {}
    for report in cited_reports:
        units.update(dict.fromkeys(report.text_unit_ids))
    [question] = resources.embedding.embed([request.query])

    def find(
        vectors: VectorReads, graph: GraphReads
    ) -> tuple[dict[int, Sequence[str]], list[Passage]]:
        mentions: dict[str, Sequence[str]] = {}
        for entity in vectors.mentions(list(units), (), COMMON):
            mentions[match_key(entity.name)] = entity.passages
        passages_of: dict[int, Sequence[str]] = {}
        for report in cited_reports:
            statement = statements.get(report.number, "")
            passages_of[report.number] = _best_passages(report, statement, mentions)
        distinct_passages = list(dict.fromkeys(chain.from_iterable(passages_of.values())))
        return passages_of, vectors.chunks(distinct_passages, question)

    (passages_of, chunks), _ = resources.read(restrict_to_where(request, find))
    return _add_references(context, passages_of, chunks)


def find_statements_on_reports(text: str) -> dict[int, str]:
    """Return report number -> the sentences that end with a citation of the report."""
    sentences_on: dict[int, list[str]] = {}
    for line in text.splitlines():
        for sentence, citation in _cited_sentences(line):
            cited_reports = parse_cited_records(citation).get("reports", ())
            for number in cited_reports:
                sentences_on.setdefault(number, []).append(sentence)
    return {number: "\n".join(sentences) for number, sentences in sentences_on.items()}


def _cited_sentences(line: str) -> Iterator[tuple[str, str]]:
    """Yield each citation of the line with the sentence before it.

    Citations that follow each other belong to the same sentence.
    """
    sentence = ""
    end_of_last = 0
    for citation in CITATION.finditer(line):
        between = line[end_of_last : citation.start()]
        # Between two citations of one sentence there is punctuation at most.
        spans = find_sentences(between) if between.strip(" .;,") else []
        if spans:
            start, end = spans[-1]
            sentence = between[start:end]
        yield sentence, citation[0]
        end_of_last = citation.end()


def _best_passages(report: Report, statement: str, mentions: Mentions) -> Sequence[str]:
    """Return the sources of the report that mention most names of the statement.

    If none does, title and summary of the report replace the statement, then its first source is
    taken.
    """
    units = report.text_unit_ids
    for text in (statement, f"{report.title}\n{report.summary}"):
        best = _mentioning_units(text, units, mentions)
        if best:
            return best
    return units[:1]


def _mentioning_units(text: str, units: Sequence[str], mentions: Mentions) -> list[str]:
    """Return at most MOST text units that mention names of the text, best first.

    A name adds 1 / (the number of these units that mention it) to the score of each of them.
    """
    key = match_key(text)
    distinct_units = set(units)
    scores: dict[str, float] = {}
    for name, ids in mentions.items():
        mentioning = distinct_units.intersection(ids)
        if mentioning and _contains_name(key, name):
            for unit in mentioning:
                scores[unit] = scores.get(unit, 0) + 1 / len(mentioning)
    # Equal scores keep the order of the units.
    scored = [unit for unit in units if unit in scores]
    best_first = sorted(scored, key=lambda unit: -scores[unit])
    return best_first[:MOST]


def _contains_name(text: str, name: str) -> bool:
    """Return whether the text contains the name as whole words; both are match keys."""
    if name not in text:
        return False
    if any(map(is_syllabic, name)):
        return True
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _add_references(
    context: Context, passages_of: Mapping[int, Sequence[str]], chunks: Sequence[Passage]
) -> Context:
    """Return the context with references to the chunks; ``passages_of`` maps reports to chunk ids.

    A passage that has a reference already keeps its number.
    """
    known = context.references
    known_chunks = {entry.chunk_id for entry in known}
    first_number = max((entry.id for entry in known), default=0) + 1
    new_chunks = [chunk for chunk in chunks if chunk.id not in known_chunks]
    numbered: list[Passage] = []
    for number, chunk in enumerate(new_chunks, first_number):
        numbered.append(replace(chunk, number=number))
    reports_of: dict[str, tuple[int, ...]] = {}
    for chunk in chunks:
        reports = [number for number, ids in passages_of.items() if chunk.id in ids]
        reports_of[chunk.id] = tuple(reports)
    references: list[Reference] = []
    for entry in (*known, *build_references(numbered)):
        reports = reports_of.get(entry.chunk_id, ())
        references.append(replace(entry, reports=reports))
    return replace(context, references=tuple(references))
