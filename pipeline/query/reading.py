"""Pages on documents for people: lists, a document with its marked text units, a text search."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.contract.conditions import Conditions
from pipeline.query.property_conditions import resolve_properties
from pipeline.stores.reads import SOURCES, GraphReads, Listing, VectorReads
from pipeline.stores.records import Entity, Line, ListedDocument, Relationship, TextUnit
from pipeline.text.ids import is_syllabic, words

UNITS = 20
"""Text units of a document on one page."""
DOCUMENTS = 50
"""Documents on one page of the list."""
PASSAGES = 50
"""Most passages that a search in the texts returns."""
HUB = 500
"""Most passages of an entity whose mentions are read; in more, it is assumed in each unit."""
LINES = 10_000
"""Most relationships between the entities of one page that are compared with its text units."""
LOOKED_INTO, SNIPPET = 20_000, 160
"""LOOKED_INTO: characters of a passage in which words are searched. SNIPPET: characters shown
before the first word found; twice as many are shown from it on."""


@dataclass(frozen=True)
class Piece:
    """A piece of a text, and the entity that it names; None if it names none."""

    text: str
    entity: Entity | None = None


@dataclass(frozen=True)
class UnitRead:
    """A text unit in pieces, with its entities and relationships.

    ``unmarked``: entities that the text unit mentions by other names than their own.
    ``relationships``: those that have the text unit as a source.
    """

    unit: TextUnit
    pieces: Sequence[Piece]
    unmarked: Sequence[Entity]
    relationships: Sequence[Relationship]


@dataclass(frozen=True)
class DocumentRead:
    """A page of a document; ``first`` is the place of its first text unit in the document."""

    document: ListedDocument
    first: int
    units: Sequence[UnitRead]


@dataclass(frozen=True)
class Found:
    """A passage that contains searched words; ``pieces``: (text, whether it is such a word)."""

    document_id: str
    title: str
    unit_id: str
    pieces: Sequence[tuple[str, bool]]


def list_documents(
    listing: Listing, where: Conditions, vectors: VectorReads, graph: GraphReads
) -> tuple[list[ListedDocument], int]:
    return vectors.listed(listing, (resolve_properties(where, vectors),) if where else ())


def read_document(
    id: str, first: int, unit_id: str, vectors: VectorReads, graph: GraphReads
) -> DocumentRead | None:
    """Return the page of a document that begins at the text unit with the place ``first``.

    If ``unit_id`` is given, the page that contains this text unit is returned. The result is None
    if the stores show no such document.
    """
    if unit_id:
        document, place = vectors.places([unit_id]).get(unit_id, ("", 0))
        if document == id:
            first = place - place % UNITS
    listed, _ = vectors.listed(Listing(ids=[id], limit=1))
    if not listed:
        return None
    units = vectors.units_of(id, first, UNITS)
    return DocumentRead(listed[0], first, _read_units(units, vectors, graph))


def _read_units(
    units: Sequence[TextUnit], vectors: VectorReads, graph: GraphReads
) -> list[UnitRead]:
    """Return the text units with the entities they mention and the relationships they state."""
    ids = [unit.id for unit in units]
    mentioned = vectors.mentions(ids, [], HUB)
    entities = {entity.id: entity for entity in graph.entities([entity.id for entity in mentioned])}
    of_unit: dict[str, list[Entity]] = {id: [] for id in ids}
    hubs = set[str]()
    for mention in mentioned:
        if not mention.passages:
            # Its passages were too many to be read: it may be in any of these units.
            hubs.add(mention.id)
        for unit in mention.passages or ids:
            if unit in of_unit and mention.id in entities:
                of_unit[unit].append(entities[mention.id])
    relationships = _relationships_by_unit(of_unit, graph)
    return [_mark_unit(unit, of_unit[unit.id], hubs, relationships[unit.id]) for unit in units]


def _relationships_by_unit(
    of_unit: Mapping[str, Sequence[Entity]], graph: GraphReads
) -> dict[str, list[Relationship]]:
    """Return text unit -> relationships between its entities that have it as a source.

    ``of_unit`` maps text unit ids to the entities that they mention. A relationship with SOURCES
    sources, the most that a read returns, is assumed to have all of them.
    """
    entity_ids = {unit: {entity.id for entity in entities} for unit, entities in of_unit.items()}

    def is_between(link: Line | Relationship, unit: str) -> bool:
        ends = (link.source_entity_id, link.target_entity_id)
        return entity_ids[unit].issuperset(ends)

    all_ids = sorted(set[str]().union(*entity_ids.values()))
    lines = graph.lines_among(all_ids, LINES)
    link_ids = [line.id for line in lines if any(is_between(line, unit) for unit in entity_ids)]
    links = sorted(graph.relationships(link_ids), key=lambda link: (-link.weight, link.id))

    def has_source(link: Relationship, unit: str) -> bool:
        return unit in link.text_unit_ids or len(link.text_unit_ids) >= SOURCES

    stated: dict[str, list[Relationship]] = {}
    for unit in of_unit:
        stated[unit] = [link for link in links if has_source(link, unit) and is_between(link, unit)]
    return stated


def _mark_unit(
    unit: TextUnit,
    entities: Sequence[Entity],
    hubs: set[str],
    relationships: Sequence[Relationship],
) -> UnitRead:
    pieces = marked(unit.content, entities)
    named = {piece.entity.id for piece in pieces if piece.entity}
    unmarked = [entity for entity in entities if entity.id not in named and entity.id not in hubs]
    return UnitRead(unit, pieces, unmarked, relationships)


def marked(text: str, entities: Iterable[Entity]) -> list[Piece]:
    """Split the text where one of the entities is named, ignoring case.

    Of several names at the same place the longest one counts.
    """
    of_name = {_name_key(entity.name): entity for entity in entities if entity.name.strip()}
    if not of_name:
        return [Piece(text)]
    names = [entity.name for entity in of_name.values()]
    names.sort(key=lambda name: (-len(name), name))
    pattern = re.compile("|".join(map(_name_pattern, names)), re.IGNORECASE)
    pieces: list[Piece] = []
    end = 0
    for match in pattern.finditer(text):
        entity = of_name.get(_name_key(match[0]))
        # The pattern ignores differences of case that case folding does not.
        if entity is None:
            continue
        pieces.append(Piece(text[end : match.start()]))
        pieces.append(Piece(match[0], entity))
        end = match.end()
    pieces.append(Piece(text[end:]))
    return [piece for piece in pieces if piece.text]


def _name_key(name: str) -> str:
    return " ".join(name.split()).casefold()


def _name_pattern(name: str) -> str:
    """Return a pattern of the name as whole words, except in scripts without spaces."""
    spaced = r"\s+".join(map(re.escape, name.split()))
    first, last = name.strip()[0], name.strip()[-1]
    before = r"(?<!\w)" if first.isalnum() and not is_syllabic(first) else ""
    after = r"(?!\w)" if last.isalnum() and not is_syllabic(last) else ""
    return f"{before}{spaced}{after}"


def search_passages(
    text: str, where: Conditions, vectors: VectorReads, graph: GraphReads
) -> list[Found]:
    """Return the passages that rank best for the words of ``text``, best first."""
    within = (resolve_properties(where, vectors),) if where else ()
    lexical = vectors.lexical(text, PASSAGES, within)
    hits = [id for id, _ in lexical.hits]
    places = vectors.places(hits)
    openings = vectors.openings(hits, LOOKED_INTO)
    found: list[Found] = []
    for id in hits:
        if id in places and id in openings:
            document_id, _ = places[id]
            title, opening = openings[id]
            found.append(Found(document_id, title, id, snippet(opening, text)))
    return found


def snippet(text: str, asked: str) -> list[tuple[str, bool]]:
    """Return an excerpt around the first asked word, as pieces: (text, whether it is asked for).

    It begins and ends between words. An ellipsis shows that text is left out.
    """
    wanted = set(words(asked))
    found = [match for match in re.finditer(r"\w+", text) if wanted & set(words(match[0]))]
    middle = found[0].start() if found else 0
    start = max(middle - SNIPPET, 0)
    if start:
        # rfind and find return -1 if there is no space: then the excerpt begins within a word.
        start = text.find(" ", start, middle) + 1 or start
    end = min(middle + 2 * SNIPPET, len(text))
    if end < len(text):
        space = text.rfind(" ", middle, end)
        # Without a space behind the word, as in Chinese, the excerpt ends within a sentence.
        end = space if space > middle else end
    pieces: list[tuple[str, bool]] = []
    if start:
        pieces.append(("… ", False))
    begun = start
    for match in found:
        if begun <= match.start() and match.end() <= end:
            pieces.append((text[begun : match.start()], False))
            pieces.append((match[0], True))
            begun = match.end()
    pieces.append((text[begun:end], False))
    if end < len(text):
        pieces.append((" …", False))
    return [piece for piece in pieces if piece[0]]


def metadata_shown(metadata: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the metadata as texts: (field, value); items of a list are joined by commas."""
    shown: list[tuple[str, str]] = []
    for name, value in (metadata or {}).items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        shown.append((name, text))
    return shown
