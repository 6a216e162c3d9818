"""The context of an answer: evidence cut to a budget, as CSV tables with a list of references."""

import csv
import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from pipeline.contract.conversion import PAGES
from pipeline.models.base import Tokenizer
from pipeline.query.entity_table import Marks, build_entity_rows, entity_header
from pipeline.query.marks import inert, on_one_line
from pipeline.query.repeated import drop_repeated_facts, with_repeated_facts
from pipeline.query.request import QueryRequest
from pipeline.query.search.evidence import Evidence
from pipeline.query.search.versions import find_newer
from pipeline.stores.records import (
    Attribute,
    Claim,
    Entity,
    Passage,
    Relationship,
    Report,
    Statement,
)

Row = TypeVar("Row")
Numbered = TypeVar("Numbered", Entity, Relationship, Passage, Report, Claim)

RESERVE = 100
"""Tokens kept free for the model's own message format."""
SMALL_PROMPT = 8000
"""Tokens of a prompt up to which text units have priority in every mode."""
FENCE, NO_FENCE = "```", "'''"
SECTION = "-----{}-----\n```csv\n{}```\n"
REFERENCES = "-----References-----\n```\n{}\n```\n"
LONGEST_VALUE = 100
"""Characters of a title, or of a field of metadata, in the list of references."""
MARK = "[ref:{}]"
"""The citation of a text unit in an answer; no other text is written so by chance."""
ROW = "{}"
"""The format of a citation where records of several kinds are cited by their numbers; see
``DataCitations``."""
TOTAL = "max_total_tokens"
"""The option of a request that limits all sections together."""
ENTITY_OPTION, RELATIONSHIP_OPTION = "max_entity_tokens", "max_relation_tokens"
"""The options that limit these two sections."""
RELATIONSHIP_HEADER = ["id", "source", "target", "description", "keywords", "weight", "rank"]
SOURCE_HEADER = ["id", "content"]


@dataclass
class Numbers:
    """Numbers of the records that a query shows: from 1 for each kind, in order of appearance.

    A record keeps its number in everything that is shown with the same `Numbers`. ``given``: kind
    -> id -> number.
    """

    given: dict[str, dict[str, int]] = field(default_factory=dict)

    def number_records(self, kind: str, records: Sequence[Numbered]) -> list[Numbered]:
        """Return the records with their numbers; a new record gets the next number of ``kind``."""
        known = self.given.setdefault(kind, {})
        numbered = []
        for record in records:
            number = known.setdefault(record.id, len(known) + 1)
            numbered.append(replace(record, number=number))
        return numbered


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A section of the context: the records shown, and their CSV.

    - ``tokens``: what the section takes of the prompt, with its frame. For text units it includes
      the list of references.
    - ``dropped``: the number of records that the budget had no room for.
    - ``limit``: the option of the request to raise if more records should be shown.
    """

    records: Sequence[Row]
    csv: str
    tokens: int
    dropped: int
    limit: str = TOTAL


NO_TABLE: Table[Any] = Table((), "", 0, 0)


@dataclass(frozen=True)
class Reference:
    """A text unit that the context shows, or that is a source of reports in it.

    ``id``: the number by which an answer cites it. ``start`` and ``end``: its place in the
    document, in characters. ``reports``: numbers of the reports that it is a source of. ``date``:
    that of the document, as in `Passage`. ``heading``: the headings above it. ``about``: title,
    metadata and newer version of the document, as the list of references shows them.
    """

    id: int
    chunk_id: str
    document_id: str
    source: str
    title: str
    metadata: Mapping[str, Any] | None
    start: int
    end: int
    content: str
    reports: tuple[int, ...] = ()
    about: str = ""
    heading: str = ""
    date: str = ""

    @property
    def page(self) -> int | None:
        """The page on which the text unit begins; None if the document has no pages."""
        return find_page(self.metadata, self.start)


def build_references(
    chunks: Iterable[Passage], fields: Sequence[str] = (), mark: str = MARK
) -> tuple[Reference, ...]:
    """Return a reference to each of the text units, which have numbers already.

    ``fields``: names of the metadata to be shown. ``mark``: the format of a citation.
    """
    chunks = list(chunks)
    newer_than = find_newer(chunks)
    references: list[Reference] = []
    for chunk in chunks:
        reference = Reference(
            id=chunk.number,
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            source=chunk.source,
            title=chunk.title,
            metadata=chunk.metadata,
            start=chunk.start,
            end=chunk.end,
            content=chunk.content,
            about=_describe_document(chunk, newer_than[chunk.id], fields, mark),
            heading=chunk.heading,
            date=chunk.date,
        )
        references.append(reference)
    return tuple(references)


def _describe_document(
    chunk: Passage, newer: Sequence[Passage], fields: Sequence[str], mark: str
) -> str:
    """Return title, metadata and newer version of a document, each after a bar; "" if none.

    ``newer``: the passages of newer versions of it; the first one is named.

    A title that is the name of the file is left out. No value can look like another one, like a
    citation or like another line.
    """
    shown: dict[str, str] = {}
    file_name = chunk.source.rsplit("/", 1)[-1]
    stem = file_name.rsplit(".", 1)[0]
    # The source, which stands before, says a title that is the name of the file.
    if chunk.title.casefold() != stem.casefold():
        shown["title"] = chunk.title
    for name in fields:
        value = (chunk.metadata or {}).get(name)
        if name == "date" and chunk.date:
            # The document's own date has one form, whatever its metadata say.
            value = chunk.date
        items = value if isinstance(value, list) else [value]
        texts = [str(item) for item in items if isinstance(item, str | int | float)]
        shown[name] = ", ".join(texts)
    parts: list[str] = []
    for name, text in shown.items():
        if text.strip():
            parts.append(f" | {name}: {_write_value(text)}")
    if newer:
        parts.append(f" | older version of {mark.format(newer[0].number)}")
    return "".join(parts)


def _write_value(text: str) -> str:
    """Return a value so that it cannot look like the field that follows."""
    line = _write_line(text[:LONGEST_VALUE])
    # A bar at an end of the value would stand beside a space that the list puts there, so no bar
    # is kept.
    return line.replace("|", "/")


def find_page(metadata: Mapping[str, Any] | None, start: int) -> int | None:
    """Return the page, from 1, of the character at ``start``; None if the document has no pages."""
    pages = (metadata or {}).get(PAGES)
    if not _are_page_starts(pages):
        return None
    # No page begins before a start below 0, which stands for an unknown place.
    return bisect_right(pages, start) or None


def remove_page_starts(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the metadata without the page starts, which can be thousands of numbers."""
    if metadata is None or not _are_page_starts(metadata.get(PAGES)):
        return metadata
    remaining = dict(metadata)
    del remaining[PAGES]
    return remaining


def _are_page_starts(value: Any) -> TypeGuard[list[int]]:
    """Return whether the value is a list of page starts, not a user's own field of this name."""
    if not isinstance(value, list) or not value or value[0] != 0:
        return False
    # Not `isinstance`, for which true and false are numbers too.
    return all(type(place) is int for place in value)


@dataclass(frozen=True)
class Context:
    """The evidence that the model is shown, section by section.

    ``windows``: the text that each call is shown, if several calls see a share each. ``mark``: the
    format of the citation of a text unit. ``facts``: the relationships of the table, and those that
    it leaves out because a text unit shown says the same, in the order of the search.
    ``statements``: the statements behind ``facts``, which the caller adds. They are returned with
    the answer and not shown to the model. ``attributes``: the values of the entities' properties.
    """

    entities: Table[Entity]
    relationships: Table[Relationship]
    chunks: Table[Passage]
    references: tuple[Reference, ...]
    reports: Table[Report] = NO_TABLE
    claims: Table[Claim] = NO_TABLE
    windows: tuple[str, ...] = ()
    mark: str = MARK
    facts: tuple[Relationship, ...] = ()
    statements: Sequence[Statement] = ()
    attributes: Sequence[Attribute] = ()

    @property
    def empty(self) -> bool:
        tables = (self.reports, self.entities, self.relationships, self.claims, self.chunks)
        return not any(table.records for table in tables)

    @property
    def text(self) -> str:
        """The text of all sections that are not empty, followed by the list of references."""
        if self.windows:
            return "\n".join(self.windows)
        tables = {
            "Reports": self.reports,
            "Entities": self.entities,
            "Relationships": self.relationships,
            "Claims": self.claims,
            "Sources": self.chunks,
        }
        sections = [
            SECTION.format(name, table.csv) for name, table in tables.items() if table.records
        ]
        if self.references:
            listed = format_reference_list(self.references, self.mark)
            sections.append(REFERENCES.format(listed))
        return "\n".join(sections)


def build_context(
    request: QueryRequest,
    evidence: Evidence,
    chunks: Sequence[Passage],
    tokenizer: Tokenizer,
    overhead: int,
) -> Context:
    """Cut the evidence to the budget of the request and return it as a context.

    ``chunks``: text units in their order. ``overhead``: tokens of the prompt without its context.

    Text units get at least half of the budget, or all they need if they have priority
    (``prefers_sources``). Of the rest, entities get a share in proportion to their limit, and
    relationships what they leave; in mode ``global`` it is the other way round. What a section does
    not use goes to the next, finally to the text units. A relationship that only repeats a text
    unit shown is left out.
    """
    chunks = Numbers().number_records("sources", chunks)
    references = build_references(chunks, request.metadata_fields)
    context_tokens = count_context_tokens(request, overhead)
    source_budget = context_tokens if prefers_sources(request) else context_tokens // 2
    sources, shown_references = cut_sources(chunks, references, source_budget, tokenizer)
    # Two kinds of repetition are left out: first of another relationship, then of a text unit.
    candidates = drop_repeated_descriptions(evidence.relationships)
    fresh = drop_repeated_facts(candidates, sources.records)
    # A text unit that is shown only after the second cut is named, not cited, by a property: a
    # citation more could take the room that the text unit was given.
    marks = {entry.chunk_id: MARK.format(entry.id) for entry in shown_references}
    graph_tokens = context_tokens - sources.tokens
    shown_first = replace(evidence, relationships=fresh)
    entities, relationships = _cut_graph(request, shown_first, marks, graph_tokens, tokenizer)
    if sources.dropped:
        remaining_budget = context_tokens - entities.tokens - relationships.tokens
        sources, shown_references = cut_sources(chunks, references, remaining_budget, tokenizer)
        # The text units that were added may say what a relationship of the table says.
        fresh = drop_repeated_facts(candidates, sources.records)
        if lacks_any(relationships.records, fresh):
            room = Room(relationships.tokens, relationships.limit)
            relationships = _cut_relationships(request, fresh, room, tokenizer)
    repeated = find_repeated(request, candidates, fresh, tokenizer)
    facts = with_repeated_facts(candidates, repeated, relationships.records)
    return Context(
        entities,
        relationships,
        sources,
        shown_references,
        facts=facts,
        attributes=evidence.attributes,
    )


def find_repeated(
    request: QueryRequest,
    candidates: Sequence[Relationship],
    fresh: Sequence[Relationship],
    tokenizer: Tokenizer,
) -> list[Relationship]:
    """Return the candidates that are not ``fresh``, because a text unit shown says the same.

    They are cut to the limit of relationships, as if the model were shown all candidates with their
    numbers.
    """
    fresh_ids = {link.id for link in fresh}
    if len(fresh_ids) == len(candidates):
        return []
    rows = (build_relationship_row(number, link) for number, link in enumerate(candidates, 1))
    limit = request.max_relation_tokens
    within = cut_rows(candidates, rows, RELATIONSHIP_HEADER, limit, tokenizer).records
    return [link for link in within if link.id not in fresh_ids]


def lacks_any(shown: Sequence[Relationship], fresh: Sequence[Relationship]) -> bool:
    """Return whether ``fresh`` lacks a relationship that is shown."""
    fresh_ids = {link.id for link in fresh}
    return any(link.id not in fresh_ids for link in shown)


def prefers_sources(request: QueryRequest) -> bool:
    """Return whether text units have priority: in modes that rank them, and in small prompts."""
    return request.mode in ("naive", "graph") or request.max_total_tokens <= SMALL_PROMPT


def count_context_tokens(request: QueryRequest, overhead: int) -> int:
    """Return the tokens that a prompt leaves for its context."""
    return max(request.max_total_tokens - overhead - RESERVE, 0)


class Room(NamedTuple):
    """The tokens that a section may take, and the option of the request to raise for more."""

    tokens: int
    limit: str


def limit_room(request: QueryRequest, option: str, tokens: int) -> Room:
    """Return the room of a section: ``tokens``, unless the value of its own option is smaller."""
    own_limit = getattr(request, option)
    return Room(own_limit, option) if own_limit <= tokens else Room(tokens, TOTAL)


def _cut_graph(
    request: QueryRequest, evidence: Evidence, marks: Marks, tokens: int, tokenizer: Tokenizer
) -> tuple[Table[Entity], Table[Relationship]]:
    """Return the tables of entities and of relationships within so many tokens together.

    The first table gets its proportional share, the second one everything that remains; both stay
    within the limits of the request. ``marks``: the citations of text units that are shown.
    """
    both_limits = request.max_entity_tokens + request.max_relation_tokens

    def cut_entities(share: int) -> Table[Entity]:
        room = limit_room(request, ENTITY_OPTION, share)
        return _cut_entities(request, evidence, marks, room, tokenizer)

    def cut_relationships(share: int) -> Table[Relationship]:
        room = limit_room(request, RELATIONSHIP_OPTION, share)
        return _cut_relationships(request, evidence.relationships, room, tokenizer)

    if request.mode == "global":
        relationships = cut_relationships(tokens * request.max_relation_tokens // both_limits)
        entities = cut_entities(tokens - relationships.tokens)
    else:
        entities = cut_entities(tokens * request.max_entity_tokens // both_limits)
        relationships = cut_relationships(tokens - entities.tokens)
    return entities, relationships


def _cut_entities(
    request: QueryRequest, evidence: Evidence, marks: Marks, room: Room, tokenizer: Tokenizer
) -> Table[Entity]:
    """Return the table of entities that the room holds."""
    first = _first_column(request)
    numbered = enumerate(evidence.entities, 1)
    rows = build_entity_rows(numbered, evidence.attributes, marks)
    shown = (row[first:] for row in rows)
    header = entity_header(evidence.attributes)[first:]
    table = cut_rows(evidence.entities, shown, header, room.tokens, tokenizer)
    return replace(table, limit=room.limit)


def _cut_relationships(
    request: QueryRequest, links: Sequence[Relationship], room: Room, tokenizer: Tokenizer
) -> Table[Relationship]:
    """Return the table of relationships that the room holds."""
    first = _first_column(request)
    rows = (build_relationship_row(number, link)[first:] for number, link in enumerate(links, 1))
    header = RELATIONSHIP_HEADER[first:]
    table = cut_rows(links, rows, header, room.tokens, tokenizer)
    return replace(table, limit=room.limit)


def _first_column(request: QueryRequest) -> int:
    """Return the position of the first column shown: 1, after the number, without number_rows."""
    return 0 if request.number_rows else 1


def note_dropped_sections(context: Context, request: QueryRequest) -> tuple[str, ...]:
    """Return a note for each limit that left no room at all for the records of a section."""
    sections = {
        "reports": context.reports,
        "entities": context.entities,
        "relationships": context.relationships,
        "claims": context.claims,
        "text units": context.chunks,
    }
    sections_of_limit: dict[str, list[str]] = {}
    for name, table in sections.items():
        if table.dropped and not table.records:
            sections_of_limit.setdefault(table.limit, []).append(name)
    notes: list[str] = []
    for limit, names in sections_of_limit.items():
        value = getattr(request, limit)
        notes.append(f"no room for any {' or '.join(names)} in {limit} ({value:,}); raise it")
    return tuple(notes)


def drop_repeated_descriptions(links: Sequence[Relationship]) -> list[Relationship]:
    """Return the relationships without those that repeat the description of an earlier one.

    In a graph that was built without a model, a sentence is the description of all relationships
    between the entities that it names.
    """
    seen = set[str]()
    kept = []
    for link in links:
        if link.description not in seen:
            kept.append(link)
        # An empty description repeats nothing.
        if link.description:
            seen.add(link.description)
    return kept


def build_relationship_row(number: int, link: Relationship) -> tuple[Any, ...]:
    """Return the values of the columns RELATIONSHIP_HEADER."""
    keywords = ", ".join(link.keywords)
    texts = map(inert, (link.source, link.target, link.description, keywords))
    return number, *texts, link.weight, link.rank


def cut_sources(
    chunks: Sequence[Passage],
    references: Sequence[Reference],
    budget: int,
    tokenizer: Tokenizer,
    mark: str = MARK,
) -> tuple[Table[Passage], tuple[Reference, ...]]:
    """Return the table of text units within the budget, and the references to those shown.

    The budget includes the list of references. ``mark`` is the format of a citation.
    """
    rows = [(mark.format(entry.id), inert(entry.content)) for entry in references]
    list_tokens = _count_list_tokens(references, tokenizer, mark)
    table = cut_rows(chunks, rows, SOURCE_HEADER, budget, tokenizer, list_tokens)
    return table, tuple(references[: len(table.records)])


def _count_list_tokens(
    references: Sequence[Reference], tokenizer: Tokenizer, mark: str
) -> Iterator[int]:
    """Yield the tokens that each reference adds to the list of references.

    The first reference to a document includes the document's line, the very first one the frame.
    """
    seen = set[str]()
    for entry in references:
        tokens = tokenizer.count(mark.format(entry.id) + " ")
        if entry.document_id not in seen:
            tokens += tokenizer.count(f" {_write_document(entry)}\n")
        if not seen:
            tokens += tokenizer.count(REFERENCES.format(""))
        seen.add(entry.document_id)
        yield tokens


def cut_rows(
    records: Sequence[Row],
    rows: Iterable[Sequence[Any]],
    header: Sequence[str],
    budget: int,
    tokenizer: Tokenizer,
    beside: Iterable[int] | None = None,
) -> Table[Row]:
    """Return a table of the first rows that fit into the budget.

    Header and frame of the section count too. ``records`` and ``rows`` are in the same order;
    ``beside`` gives the tokens that each row takes elsewhere. Of an iterator, no row is read after
    the first one that does not fit.
    """
    # The longest name of a section stands for all names.
    used = tokenizer.count(SECTION.format("Relationships", ",".join(header)))
    lines: list[str] = []
    for row, tokens_elsewhere in zip(rows, beside or repeat(0), strict=False):
        line = format_csv_line(row)
        tokens = tokenizer.count(line) + tokens_elsewhere
        if used + tokens > budget:
            break
        used += tokens
        lines.append(line)
    fitting = records[: len(lines)]
    header_line = ",".join(header) + "\n"
    text = "".join([header_line, *lines])
    return Table(fitting, text, used if lines else 0, len(records) - len(fitting))


def format_csv_line(row: Sequence[Any]) -> str:
    """Return the row as a line of CSV that can neither close a code fence nor open one."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    return line.getvalue().replace(FENCE, NO_FENCE)


def format_reference_list(references: Sequence[Reference], mark: str = MARK) -> str:
    """Return a line for each document with the marks of its text units, most units first."""
    documents: dict[str, list[Reference]] = {}
    for entry in references:
        documents.setdefault(entry.document_id, []).append(entry)
    most_units_first = sorted(documents.values(), key=lambda entries: -len(entries))
    lines: list[str] = []
    for entries in most_units_first:
        joined_marks = " ".join(mark.format(entry.id) for entry in entries)
        lines.append(f"{joined_marks}: {_write_document(entries[0])}")
    return "\n".join(lines)


def _write_document(entry: Reference) -> str:
    """Return source, title and metadata of a document, as the list of references shows them."""
    # A path may have a bar; only one between spaces looks like a separator of fields.
    source = _write_line(entry.source).replace(" | ", " / ")
    return source + entry.about


def _write_line(text: str) -> str:
    """Return a text that can neither end its line nor close a code fence."""
    return on_one_line(text).replace(FENCE, NO_FENCE)
