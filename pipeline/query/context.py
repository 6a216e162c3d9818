"""The context of an answer: evidence cut to its budgets, as CSV tables with a list of
references."""

import csv
import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter
from typing import Any, Generic, TypeGuard, TypeVar

from pipeline.contract.conversion import PAGES
from pipeline.models.base import Tokenizer
from pipeline.query.marks import inert
from pipeline.query.request import QueryRequest
from pipeline.query.search.evidence import Evidence, round_robin
from pipeline.stores.records import Claim, Entity, Passage, Relationship, Report

Row = TypeVar("Row")
Numbered = TypeVar("Numbered", Entity, Relationship, Passage, Report, Claim)

LANES = ("vector", "graph", "entity", "relationship")
"""Whose turn it is to name a text unit."""
RESERVE = 100
"""Tokens kept free for what a model's own message format adds."""
SMALL_PROMPT = 8000
"""Tokens up to which text units come first in every mode."""
FENCE, NO_FENCE = "```", "'''"
SECTION = "-----{}-----\n```csv\n{}```\n"
REFERENCES = "-----References-----\n```\n{}\n```\n"
MARK = "[ref:{}]"
"""How an answer cites a text unit: as no text is written by chance."""
ROW = "{}"
"""The same where records of several kinds are cited, and their kind is named
(``DataCitations``)."""
ENTITY_HEADER = ["id", "entity", "type", "description", "rank"]
RELATIONSHIP_HEADER = ["id", "source", "target", "description", "keywords", "weight", "rank"]
SOURCE_HEADER = ["id", "content"]


@dataclass
class Numbers:
    """Of each kind of record from 1, in the order in which they come up: the same record has the
    same number in all that a query shows."""

    given: dict[str, dict[str, int]] = field(default_factory=dict)

    def of(self, kind: str, ids: Sequence[str]) -> list[int]:
        known = self.given.setdefault(kind, {})
        return [known.setdefault(id, len(known) + 1) for id in ids]

    def given_to(self, kind: str, records: Sequence[Numbered]) -> list[Numbered]:
        numbers = self.of(kind, [record.id for record in records])
        return [
            replace(record, number=number) for record, number in zip(records, numbers, strict=True)
        ]


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A section of the context: the records kept, their CSV, its tokens, and how many were
    dropped."""

    records: Sequence[Row]
    csv: str
    tokens: int
    dropped: int


NO_TABLE: Table[Any] = Table((), "", 0, 0)


@dataclass(frozen=True)
class Reference:
    """A text unit that the context shows, or that reports in it rest on (``reports``: their
    numbers), and its place in its document, in characters; ``id`` is the number an answer cites it
    by."""

    id: int
    chunk_id: str
    document_id: str
    source: str
    title: str
    metadata: Mapping[str, Any]
    start: int
    end: int
    content: str
    reports: tuple[int, ...] = ()

    @property
    def page(self) -> int | None:
        """On which it begins, of a document that has pages."""
        return page_of(self.metadata, self.start)


AS_REFERENCE = attrgetter(
    "number", "id", "document_id", "source", "title", "metadata", "start", "end", "content"
)


def references_to(chunks: Iterable[Passage]) -> tuple[Reference, ...]:
    """``chunks``: numbered."""
    return tuple(Reference(*AS_REFERENCE(chunk)) for chunk in chunks)


def page_of(metadata: Mapping[str, Any] | None, start: int) -> int | None:
    """The page, from 1, on which that character of a document stands; None where the document has
    no pages."""
    pages = (metadata or {}).get(PAGES)
    return bisect_right(pages, start) or None if _are_pages(pages) else None


def without_pages(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The metadata for people: where each of a thousand pages begins is nothing to read."""
    if metadata is None or not _are_pages(metadata.get(PAGES)):
        return metadata
    return {name: value for name, value in metadata.items() if name != PAGES}


def _are_pages(value: Any) -> TypeGuard[list[int]]:
    """And no metadata of a user's own that are called so."""
    return (
        isinstance(value, list)
        and bool(value)
        and value[0] == 0
        and all(type(place) is int for place in value)
    )


@dataclass(frozen=True)
class Context:
    """``mark``: how text units are cited. ``windows``: where several calls are shown a part of it
    each, what each of them is shown."""

    entities: Table[Entity]
    relationships: Table[Relationship]
    chunks: Table[Passage]
    references: tuple[Reference, ...]
    reports: Table[Report] = NO_TABLE
    claims: Table[Claim] = NO_TABLE
    windows: tuple[str, ...] = ()
    mark: str = MARK

    @property
    def empty(self) -> bool:
        tables = (self.reports, self.entities, self.relationships, self.claims, self.chunks)
        return not any(table.records for table in tables)

    @property
    def text(self) -> str:
        """The sections that hold anything, and the references."""
        if self.windows:
            return "\n".join(self.windows)
        sections = {
            "Reports": self.reports, "Entities": self.entities, "Relationships": self.relationships,
            "Claims": self.claims, "Sources": self.chunks,
        }  # fmt: skip
        shown = [
            SECTION.format(name, table.csv) for name, table in sections.items() if table.records
        ]
        listed = (
            [REFERENCES.format(reference_list(self.references, self.mark))]
            if self.references
            else []
        )
        return "\n".join([*shown, *listed])


@dataclass(frozen=True, slots=True)
class Pick:
    """A text unit to read. ``lane``: the first that chose it; ``place``: where in that lane, from
    1; ``frequency``: how often it came up there."""

    id: str
    lane: str
    frequency: int
    place: int


def ranked_chunks(evidence: Evidence, limit: int) -> list[Pick]:
    """The lanes in turn, the best of each first."""
    lanes = [
        [
            Pick(id, lane, frequency, place)
            for place, (id, frequency) in enumerate(evidence.chunk_lanes[lane].items(), 1)
        ]
        for lane in sorted(evidence.chunk_lanes, key=LANES.index)
    ]
    return round_robin(attrgetter("id"), *lanes)[:limit]


def build_context(
    request: QueryRequest,
    evidence: Evidence,
    chunks: Sequence[Passage],
    tokenizer: Tokenizer,
    overhead: int,
) -> Context:
    """Text units get at least half of what the rest of the prompt leaves, or as much of it as they
    need where they come first (``sources_first``); entities and relationships share what these
    leave as their caps stand to each other, in mode ``global`` relationships before entities; what
    a part does not use goes to the next, at last to text units.

    ``chunks``: in their order; ``overhead``: tokens of the prompt without its context.
    """
    chunks = Numbers().given_to("sources", chunks)
    references = references_to(chunks)
    left = room(request, overhead)
    sources = cut_sources(
        chunks, references, left if sources_first(request) else left // 2, tokenizer
    )
    entities, relationships = _graph_tables(request, evidence, left - sources[0].tokens, tokenizer)
    if sources[0].dropped:
        sources = cut_sources(
            chunks, references, left - entities.tokens - relationships.tokens, tokenizer
        )
    return Context(entities, relationships, *sources)


def sources_first(request: QueryRequest) -> bool:
    """Whether text units are what an answer can do least without: in modes that rank them
    themselves, and in small prompts."""
    return request.mode in ("naive", "graph") or request.max_total_tokens <= SMALL_PROMPT


def room(request: QueryRequest, overhead: int) -> int:
    """Tokens for a context."""
    return max(request.max_total_tokens - overhead - RESERVE, 0)


def _graph_tables(
    request: QueryRequest, evidence: Evidence, left: int, tokenizer: Tokenizer
) -> tuple[Table[Entity], Table[Relationship]]:
    entity_cap, relation_cap = request.max_entity_tokens, request.max_relation_tokens
    links_found = told_once(evidence.relationships)
    first = 0 if request.number_rows else 1

    def entities(budget: int) -> Table[Entity]:
        rows = (
            entity_row(number, entity)[first:] for number, entity in enumerate(evidence.entities, 1)
        )
        return cut(evidence.entities, rows, ENTITY_HEADER[first:], budget, tokenizer)

    def relationships(budget: int) -> Table[Relationship]:
        rows = (
            relationship_row(number, link)[first:] for number, link in enumerate(links_found, 1)
        )
        return cut(links_found, rows, RELATIONSHIP_HEADER[first:], budget, tokenizer)

    if request.mode == "global":
        links = relationships(min(relation_cap, left * relation_cap // (entity_cap + relation_cap)))
        return entities(min(entity_cap, left - links.tokens)), links
    found = entities(min(entity_cap, left * entity_cap // (entity_cap + relation_cap)))
    return found, relationships(min(relation_cap, left - found.tokens))


def told_dropped(context: Context, request: QueryRequest) -> tuple[str, ...]:
    """What is to be said of the sections that have no room for any of what was found."""
    sections = {
        "reports": context.reports, "entities": context.entities,
        "relationships": context.relationships,
        "claims": context.claims, "text units": context.chunks,
    }  # fmt: skip
    without = [name for name, table in sections.items() if table.dropped and not table.records]
    if not without:
        return ()
    return (
        (
            f"no room for any {' or '.join(without)} in max_total_tokens"
            f" ({request.max_total_tokens:,}); raise it"
        ),
    )


def entity_row(number: int, entity: Entity) -> tuple[Any, ...]:
    """As ENTITY_HEADER says."""
    return number, inert(entity.name), inert(entity.type), inert(entity.description), entity.degree


def told_once(links: Sequence[Relationship]) -> list[Relationship]:
    """The relationships without those whose description has been told: a graph that was made
    without a model has one sentence for all that it names."""
    first = {link.description: place for place, link in reversed(list(enumerate(links)))}
    return [
        link
        for place, link in enumerate(links)
        if not link.description or first[link.description] == place
    ]


def relationship_row(number: int, link: Relationship) -> tuple[Any, ...]:
    """As RELATIONSHIP_HEADER says."""
    texts = (link.source, link.target, link.description, ", ".join(link.keywords))
    return number, *map(inert, texts), link.weight, link.rank


def cut_sources(
    chunks: Sequence[Passage],
    references: Sequence[Reference],
    budget: int,
    tokenizer: Tokenizer,
    mark: str = MARK,
) -> tuple[Table[Passage], tuple[Reference, ...]]:
    """The text units, each with the mark of its reference, and the references to those that are
    shown, whose list is in the budget too."""
    rows = [(mark.format(entry.id), inert(entry.content)) for entry in references]
    shown = cut(
        chunks, rows, SOURCE_HEADER, budget, tokenizer, _listed(references, tokenizer, mark)
    )
    return shown, tuple(references[: len(shown.records)])


def _listed(references: Sequence[Reference], tokenizer: Tokenizer, mark: str) -> Iterator[int]:
    """Tokens that each takes in the list of references, its document's line included where it is
    the first of it."""
    seen = set[str]()
    for entry in references:
        line = "" if entry.document_id in seen else f" {_on_one_line(entry.source)}\n"
        frame = "" if seen else REFERENCES.format("")
        seen.add(entry.document_id)
        yield sum(
            tokenizer.count(part) for part in (mark.format(entry.id) + " ", line, frame) if part
        )


def cut(
    records: Sequence[Row],
    rows: Iterable[Sequence[Any]],
    header: Sequence[str],
    budget: int,
    tokenizer: Tokenizer,
    beside: Iterable[int] | None = None,
) -> Table[Row]:
    """The longest head of the rows whose CSV, header and section frame included, is within the
    budget; ``beside``: tokens that each row takes elsewhere. Rows that come after it are not asked
    for."""
    used = tokenizer.count(SECTION.format("Relationships", ",".join(header)))
    lines = []
    for row, more in zip(rows, beside or repeat(0), strict=False):
        line = csv_line(row)
        cost = tokenizer.count(line) + more
        if used + cost > budget:
            break
        used += cost
        lines.append(line)
    kept = records[: len(lines)]
    text = "".join([",".join(header) + "\n", *lines])
    return Table(kept, text, used if lines else 0, len(records) - len(kept))


def csv_line(row: Sequence[Any]) -> str:
    """A row of a table between fences: what it says can neither close the fence nor open one."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    return line.getvalue().replace(FENCE, NO_FENCE)


def reference_list(references: Sequence[Reference], mark: str = MARK) -> str:
    """A line for each document, whatever it is called, those first of which most is shown."""
    documents: dict[str, list[Reference]] = {}
    for entry in references:
        documents.setdefault(entry.document_id, []).append(entry)
    return "\n".join(
        f"{' '.join(mark.format(entry.id) for entry in entries)}: {_on_one_line(entries[0].source)}"
        for entries in sorted(documents.values(), key=lambda entries: -len(entries))
    )


def _on_one_line(source: str) -> str:
    return inert(" ".join(source.split())).replace(FENCE, NO_FENCE)
