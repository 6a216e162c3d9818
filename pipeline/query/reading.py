"""Documents as people read them: a list, one with its text units and what is said there, passages
with words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.contract.conditions import Conditions
from pipeline.stores.reads import SOURCES, GraphReads, Listing, VectorReads
from pipeline.stores.records import Entity, Line, ListedDocument, Relationship, TextUnit
from pipeline.text.ids import is_syllabic, words

UNITS = 20
"""Text units of a document on one page."""
DOCUMENTS = 50
"""Documents on one page of the list."""
PASSAGES = 50
"""That a search in the texts gives."""
HUB = 500
"""Passages from which on it is not read in which of them an entity is mentioned."""
LINES = 10_000
"""Relationships between entities of one page that are looked at for those that its text says."""
LOOKED_INTO, SNIPPET = 20_000, 160
"""Characters of a passage in which its words are looked for, and that are shown around the first of
them."""


@dataclass(frozen=True)
class Piece:
    """A part of a text; ``entity``: which it names, None where it names none."""

    text: str
    entity: Entity | None = None


@dataclass(frozen=True)
class UnitRead:
    """A text unit in pieces. ``unmarked``: the entities mentioned in it by other names than they
    are known by."""

    unit: TextUnit
    pieces: Sequence[Piece]
    unmarked: Sequence[Entity]
    relationships: Sequence[Relationship]


@dataclass(frozen=True)
class DocumentRead:
    """``first``: the place of the first of its text units that are shown."""

    document: ListedDocument
    first: int
    units: Sequence[UnitRead]


@dataclass(frozen=True)
class Found:
    """A passage that has words that were looked for; ``pieces``: of what is shown of it, and
    whether each is a word."""

    document_id: str
    title: str
    unit_id: str
    pieces: Sequence[tuple[str, bool]]


def list_documents(
    listing: Listing, where: Conditions, vectors: VectorReads, graph: GraphReads
) -> tuple[list[ListedDocument], int]:
    return vectors.listed(listing, (where,) if where else ())


def read_document(
    id: str, first: int, unit_id: str, vectors: VectorReads, graph: GraphReads
) -> DocumentRead | None:
    """The document from the text unit at the place ``first`` on, or the page that has the text unit
    ``unit_id``; None where there is none such for whoever asks."""
    if unit_id:
        document, place = vectors.places([unit_id]).get(unit_id, ("", 0))
        first = place - place % UNITS if document == id else first
    listed, _ = vectors.listed(Listing(ids=[id], limit=1))
    if not listed:
        return None
    units = vectors.units_of(id, first, UNITS)
    return DocumentRead(listed[0], first, _with_what_is_said(units, vectors, graph))


def _with_what_is_said(
    units: Sequence[TextUnit], vectors: VectorReads, graph: GraphReads
) -> list[UnitRead]:
    ids = [unit.id for unit in units]
    mentioned = vectors.mentions(ids, [], HUB)
    known = {entity.id: entity for entity in graph.entities([entity.id for entity in mentioned])}
    of_unit: dict[str, list[Entity]] = {id: [] for id in ids}
    for mention in mentioned:  # one in very many passages may be in any of these
        for unit in mention.passages or ids:
            if unit in of_unit and mention.id in known:
                of_unit[unit].append(known[mention.id])
    said = _said(of_unit, graph)
    hubs = {mention.id for mention in mentioned if not mention.passages}
    return [_unit_read(unit, of_unit[unit.id], hubs, said[unit.id]) for unit in units]


def _said(
    of_unit: Mapping[str, Sequence[Entity]], graph: GraphReads
) -> dict[str, list[Relationship]]:
    """Text unit -> the relationships that it is a source of, which are between entities that it
    mentions."""
    ends = {unit: {entity.id for entity in entities} for unit, entities in of_unit.items()}

    def is_between(link: Line | Relationship, unit: str) -> bool:
        return link.source_entity_id in ends[unit] and link.target_entity_id in ends[unit]

    among = graph.lines_among(sorted(set().union(*ends.values())), LINES)
    found = graph.relationships(
        [line.id for line in among if any(is_between(line, unit) for unit in ends)]
    )

    def is_said(link: Relationship, unit: str) -> bool:
        told = unit in link.text_unit_ids or len(link.text_unit_ids) >= SOURCES
        return told and is_between(link, unit)

    ranked = sorted(found, key=lambda link: (-link.weight, link.id))
    return {unit: [link for link in ranked if is_said(link, unit)] for unit in of_unit}


def _unit_read(
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
    """The text in pieces: where one of the entities is named, whatever the case, the longest name
    first."""
    of_name = {_folded(entity.name): entity for entity in entities if entity.name.strip()}
    if not of_name:
        return [Piece(text)]
    names = sorted(
        (entity.name for entity in of_name.values()), key=lambda name: (-len(name), name)
    )
    pattern = re.compile("|".join(map(_as_pattern, names)), re.IGNORECASE)
    pieces, end = [], 0
    for match in pattern.finditer(text):
        entity = of_name.get(_folded(match[0]))
        if entity is None:  # case differs in more than case folding tells
            continue
        pieces += [Piece(text[end : match.start()]), Piece(match[0], entity)]
        end = match.end()
    return [piece for piece in (*pieces, Piece(text[end:])) if piece.text]


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def _as_pattern(name: str) -> str:
    """Whole words, but in scripts that have no spaces between them."""
    spaced = r"\s+".join(map(re.escape, name.split()))
    first, last = name.strip()[0], name.strip()[-1]
    before = r"(?<!\w)" if first.isalnum() and not is_syllabic(first) else ""
    after = r"(?!\w)" if last.isalnum() and not is_syllabic(last) else ""
    return f"{before}{spaced}{after}"


def search_passages(
    text: str, where: Conditions, vectors: VectorReads, graph: GraphReads
) -> list[Found]:
    """The passages that rank best for these words, best first."""
    hits = [id for id, _ in vectors.lexical(text, PASSAGES, (where,) if where else ()).hits]
    places, openings = vectors.places(hits), vectors.openings(hits, LOOKED_INTO)
    return [
        Found(places[id][0], openings[id][0], id, snippet(openings[id][1], text))
        for id in hits
        if id in places and id in openings
    ]


def snippet(text: str, asked: str) -> list[tuple[str, bool]]:
    """What stands around the first of the words that are asked for, cut into pieces at these."""
    wanted = set(words(asked))
    found = [match for match in re.finditer(r"\w+", text) if wanted & set(words(match[0]))]
    middle = found[0].start() if found else 0
    start, end = max(middle - SNIPPET, 0), min(middle + 2 * SNIPPET, len(text))
    start = text.find(" ", start, middle) + 1 or start if start else 0
    end = max(text.rfind(" ", middle, end), middle) or end if end < len(text) else end
    pieces: list[tuple[str, bool]] = [("… ", False)] if start else []
    for match in found:
        if start <= match.start() and match.end() <= end:
            pieces += [(text[start : match.start()], False), (match[0], True)]
            start = match.end()
    return [
        piece
        for piece in (*pieces, (text[start:end], False), (" …" * (end < len(text)), False))
        if piece[0]
    ]


def metadata_shown(metadata: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Fields and values as texts."""
    return [(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
            for name, value in (metadata or {}).items()]  # fmt: skip
