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
    within = (resolve_properties(where, vectors),) if where else ()
    return vectors.listed(listing, within)


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
    unit_ids = [unit.id for unit in units]
    mentioned = vectors.mentions(unit_ids, [], HUB)
    entities = graph.entities([mention.id for mention in mentioned])
    entity_by_id = {entity.id: entity for entity in entities}
    entities_of: dict[str, list[Entity]] = {id: [] for id in unit_ids}
    hubs = set[str]()
    for mention in mentioned:
        mentioning_units = mention.passages
        if not mentioning_units:
            # Its passages were too many to be read: it may be in any of these units.
            hubs.add(mention.id)
            mentioning_units = unit_ids
        for unit_id in mentioning_units:
            if unit_id in entities_of and mention.id in entity_by_id:
                entities_of[unit_id].append(entity_by_id[mention.id])
    relationships_of = _relationships_by_unit(entities_of, graph)
    return [
        _mark_unit(unit, entities_of[unit.id], hubs, relationships_of[unit.id]) for unit in units
    ]


def _relationships_by_unit(
    entities_of: Mapping[str, Sequence[Entity]], graph: GraphReads
) -> dict[str, list[Relationship]]:
    """Return text unit -> relationships between its entities that have it as a source.

    ``entities_of`` maps text unit ids to the entities that they mention. A relationship with
    SOURCES sources, the most that a read returns, is assumed to have all of them.
    """
    entity_ids_of: dict[str, set[str]] = {}
    for unit, entities in entities_of.items():
        entity_ids_of[unit] = {entity.id for entity in entities}

    def is_between_entities_of(unit: str, link: Line | Relationship) -> bool:
        return {link.source_entity_id, link.target_entity_id} <= entity_ids_of[unit]

    all_ids = sorted(set[str]().union(*entity_ids_of.values()))
    lines = graph.lines_among(all_ids, LINES)
    link_ids = [
        line.id
        for line in lines
        if any(is_between_entities_of(unit, line) for unit in entity_ids_of)
    ]
    links = sorted(graph.relationships(link_ids), key=lambda link: (-link.weight, link.id))

    def has_source(link: Relationship, unit: str) -> bool:
        return unit in link.text_unit_ids or len(link.text_unit_ids) >= SOURCES

    relationships_of: dict[str, list[Relationship]] = {}
    for unit in entities_of:
        from_unit = [link for link in links if has_source(link, unit)]
        relationships_of[unit] = [link for link in from_unit if is_between_entities_of(unit, link)]
    return relationships_of


def _mark_unit(
    unit: TextUnit,
    entities: Sequence[Entity],
    hubs: set[str],
    relationships: Sequence[Relationship],
) -> UnitRead:
    pieces = marked(unit.content, entities)
    marked_ids = {piece.entity.id for piece in pieces if piece.entity}
    # A hub that the text does not name is only assumed to be in it.
    shown_or_assumed = marked_ids | hubs
    unmarked = [entity for entity in entities if entity.id not in shown_or_assumed]
    return UnitRead(unit, pieces, unmarked, relationships)


def marked(text: str, entities: Iterable[Entity]) -> list[Piece]:
    """Split the text where one of the entities is named, ignoring case.

    Of several names at the same place the longest one counts.
    """
    entity_by_name = {_name_key(entity.name): entity for entity in entities if entity.name.strip()}
    if not entity_by_name:
        return [Piece(text)]
    names = [entity.name for entity in entity_by_name.values()]
    # Of alternatives, a pattern takes the first that fits.
    names.sort(key=lambda name: (-len(name), name))
    any_name = "|".join(map(_name_pattern, names))
    pieces: list[Piece] = []
    end = 0
    for match in re.finditer(any_name, text, re.IGNORECASE):
        entity = entity_by_name.get(_name_key(match[0]))
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
    name_words = name.split()
    pattern = r"\s+".join(map(re.escape, name_words))
    first, last = name_words[0][0], name_words[-1][-1]
    if _shows_word_ends(first):
        pattern = rf"(?<!\w){pattern}"
    if _shows_word_ends(last):
        pattern = rf"{pattern}(?!\w)"
    return pattern


def _shows_word_ends(character: str) -> bool:
    """Return whether words with the character have spaces or punctuation around them."""
    return character.isalnum() and not is_syllabic(character)


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
    asked_words = set(words(asked))
    hits = [
        match for match in re.finditer(r"\w+", text) if not asked_words.isdisjoint(words(match[0]))
    ]
    start, end = _find_excerpt(text, hits[0].start() if hits else 0)
    pieces: list[tuple[str, bool]] = []
    if start > 0:
        pieces.append(("… ", False))
    end_of_last = start
    for hit in hits:
        if end_of_last <= hit.start() and hit.end() <= end:
            pieces.append((text[end_of_last : hit.start()], False))
            pieces.append((hit[0], True))
            end_of_last = hit.end()
    pieces.append((text[end_of_last:end], False))
    if end < len(text):
        pieces.append((" …", False))
    return [(piece, is_asked) for piece, is_asked in pieces if piece]


def _find_excerpt(text: str, middle: int) -> tuple[int, int]:
    """Return where an excerpt around the position ``middle`` begins and ends: between words.

    Without a space near its ends, as in Chinese, it begins or ends within a sentence.
    """
    start = max(middle - SNIPPET, 0)
    if start > 0:
        space = text.find(" ", start, middle)
        if space >= 0:
            start = space + 1
    end = min(middle + 2 * SNIPPET, len(text))
    if end < len(text):
        space = text.rfind(" ", middle, end)
        if space > middle:
            end = space
    return start, end


def metadata_shown(metadata: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the metadata as texts: (field, value); items of a list are joined by commas."""
    shown: list[tuple[str, str]] = []
    for name, value in (metadata or {}).items():
        items = value if isinstance(value, list) else [value]
        shown.append((name, ", ".join(map(str, items))))
    return shown
