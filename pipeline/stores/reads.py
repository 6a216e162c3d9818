"""What a query asks of a database: vectors, words, text units, reports and claims, and the
graph."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from pipeline.contract.conditions import Conditions
from pipeline.stores.base import Live
from pipeline.stores.records import (
    Between,
    Claim,
    Community,
    Document,
    Dot,
    Entity,
    EntityMentions,
    Line,
    Link,
    ListedDocument,
    Membership,
    Passage,
    Relationship,
    Report,
    SharedUnit,
    TextUnit,
)

Record = TypeVar("Record", Entity, Passage, Relationship, Report, Dot)

HUB = 1000
"""Neighbours above which an entity is next to nearly everything, so that what it shares with others
tells nothing."""
SOURCES = 1000
"""Text units that a record names in a read at most."""


@dataclass(frozen=True)
class Lexical:
    """``hits``: (id, BM25 score), best first. ``weights``: how rare each word of the question is
    among the text units, by the words as ``pipeline.text.ids`` gives them."""

    hits: list[tuple[str, float]]
    weights: Mapping[str, float]


Within = Sequence[Conditions]
"""What a document has to satisfy to be there: all of them, none where it need not."""
Opening = tuple[str, str]
"""The title of a text unit's document, and what it begins with."""
Hits = list[tuple[str, float]]
"""(id, cosine similarity), best first, ties by id."""


@dataclass(frozen=True)
class Listing:
    """Which documents: those that have ``part`` in title, source or id, whatever its case, or,
    where ``ids`` are given, those of them; ``limit`` of them from the place ``first`` on, by title,
    then id."""

    part: str = ""
    ids: Sequence[str] | None = None
    first: int = 0
    limit: int = 50


@dataclass(frozen=True)
class VectorSearch:
    """``table``: "chunks", "entities", "relationships" or "reports"."""

    table: str
    vector: np.ndarray
    limit: int


class VectorReads(Protocol):
    """What a query asks of documents, text units and vectors; a constant number of round trips
    each."""

    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        """Of each search the rows nearest to its vector; all vectors are one model's.

        ``within``: only rows that at least one text unit of a document that satisfies these is a
        source of; of reports, which tell of all their sources, those that have no other.
        ``rights``: the same, and no other row changes what is found: the vectors of all these rows
        are compared, without an approximate index.
        """
        ...

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        """Those of the rows that are nearest to the vector. ``table``: as of VectorSearch."""
        ...

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        """The ids that exist, in the order asked; ``score`` is the cosine similarity to the
        question's vector."""
        ...

    def documents(self, within: Within = ()) -> list[Document]:
        """Every document, or those that satisfy these."""
        ...

    def listed(self, listing: Listing, within: Within = ()) -> tuple[list[ListedDocument], int]:
        """The documents of a listing, and how many there are in all of it."""
        ...

    def units_of(
        self, document_id: str, first: int, limit: int, within: Within = ()
    ) -> list[TextUnit]:
        """The document's text units, ``limit`` of them from the place ``first`` on, in order."""
        ...

    def unit_ids_of(self, document_id: str, limit: int, within: Within = ()) -> list[str]:
        """Of the document's first ``limit`` text units, in order."""
        ...

    def places(
        self, text_unit_ids: Sequence[str], within: Within = ()
    ) -> Mapping[str, tuple[str, int]]:
        """id -> its document and its place in that, of the text units that exist."""
        ...

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> Mapping[str, tuple[bool, bool]]:
        """id -> (some, all), of the ids that exist: whether some, or all, of the text units that
        are a row's sources belong to documents that satisfy these. ``table`` as of VectorSearch."""
        ...

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        """The text units that rank best for the question's words by BM25, ties by id. ``within``:
        only those of documents that satisfy these; the weights stay those of all. ``rights``: the
        same, and words are counted in these documents alone. Nothing in a workspace that an earlier
        version of the software has loaded."""
        ...

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        """Every entity that one of the text units mentions and those asked for, by id.
        ``passages``: all that mention it; empty where these are more than ``most``."""
        ...

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
        """``mentions``, and the ``openings`` of the first so many of the passages in them, by
        id."""
        ...

    def openings(self, ids: Sequence[str], length: int) -> Mapping[str, Opening]:
        """id -> the title of its document and the first ``length`` characters, of the text units
        that exist."""
        ...

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        """id -> vector of the rows that exist. ``table`` as of VectorSearch."""
        ...

    def reports(self, ids: Sequence[str]) -> list[Report]:
        """Those of these communities that have one, in the order asked; of their text units the
        first SOURCES."""
        ...

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        """The reports that cover the graph at a level: of its communities, and of those of lower
        level numbers that have no children; ``limit`` of them by weight, then rating, both the
        highest first, then id. A level above the deepest gives the deepest cover. ``within`` as of
        ``nearest``."""
        ...

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        """The claims that have one of the entities as subject or object; ``limit`` of them by
        subject, then id. ``within``: only those from text units of documents that satisfy these."""
        ...


class VectorStore(VectorReads, Protocol):
    """Of one workspace."""

    @property
    def workspace(self) -> str: ...

    def live(self) -> Live | None:
        """What was loaded last; None for an empty workspace.

        Raises DataError when a newer version of the software has loaded it.
        """
        ...

    def reading(self) -> AbstractContextManager["VectorStore"]:
        """The same as it is at this moment, whatever is loaded meanwhile."""
        ...

    def contents(self) -> Iterator[list[tuple[str, str]]]:
        """(id, content) of every text unit, some thousands at a time."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class GraphState:
    """What a graph shows: the version, whether a load that readers can see is under way, and whose
    it is."""

    version: str
    loading: bool = False
    owner: str = ""


class DrawingReads(Protocol):
    """What a drawing asks of the graph; a constant number of round trips each."""

    def named(self, text: str, limit: int) -> list[Dot]:
        """The entities in whose names all words of the text stand, upper or lower case: those that
        are called so, those that begin so, then all others, by degree, then id."""
        ...

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        """The entities that exist, in the order asked."""
        ...

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        """The entities of the highest degree, then id; of the community, or of all."""
        ...

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        """The relationships at either end of the entities, each once; the best ``limit`` by weight,
        then by the degree of both ends together, then id."""
        ...

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        """The relationships between two of the entities, each once; the best ``limit`` by weight,
        then id."""
        ...

    def communities(self, ids: Sequence[str]) -> list[Community]:
        """Those that exist, the largest first, then by id."""
        ...

    def parts_of(self, community: str, limit: int) -> list[Community]:
        """The largest ``limit`` communities that this one is the parent of; of "": the coarsest. As
        ``communities``."""
        ...

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        """Of each two of the communities that have the same parent, or none, and that relationships
        lead between, whichever way, once, the lower id first; the most relationships first, then by
        ids. Counted when they were loaded."""
        ...


class GraphReads(DrawingReads, Protocol):
    """What a query asks of the graph; a constant number of round trips each."""

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        """The ids that exist, in the order asked; of their text units the first SOURCES."""
        ...

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        """The ids that exist, in the order asked."""
        ...

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        """The relationships at either end of the entities, each once, the best
        ``limit`` by rank, then weight, then id."""
        ...

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        """For each of the first SOURCES text units of each entity, how many of the entity's
        neighbours have that text unit too. Who has more than HUB neighbours neither counts nor is
        counted."""
        ...

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        """The relationships at either end of those of the entities that have at most ``most``
        neighbours (``degree``), each once; ``limit`` of them, those of lowest rank first, then by
        id."""
        ...

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        """For each of the entities that is in one, its community of the highest level number up to
        ``level``, by entity id."""
        ...


class GraphStore(GraphReads, Protocol):
    def beside(self, vectors: VectorStore) -> "GraphStore":
        """The graph at the vectors' moment, where one database holds both."""
        ...

    def shown(self) -> GraphState: ...

    def close(self) -> None: ...


def passages_of(mentioned: Iterable[EntityMentions], most: int) -> list[str]:
    """The first so many of the passages that mention any of the entities, by id."""
    return sorted({passage for entity in mentioned for passage in entity.passages})[:most]


def in_order(records: Sequence[Record], ids: Sequence[str]) -> list[Record]:
    """In the order of their ids among these."""
    place = {id: position for position, id in enumerate(ids)}
    return sorted(records, key=lambda record: place[record.id])
