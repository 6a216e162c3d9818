"""The protocols of a database as a query uses it: vectors, words, text units, reports and claims,
and the graph."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from pipeline.contract.conditions import Conditions
from pipeline.stores.base import Live
from pipeline.stores.records import (
    Attribute,
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
    Statement,
    TextUnit,
)
from pipeline.text.terms import Term

Record = TypeVar("Record", Entity, Passage, Relationship, Report, Dot)

HUB = 1000
"""The number of neighbours above which an entity counts as a hub. A hub is linked to nearly
everything, so that what it shares with another entity means nothing."""
SOURCES = 1000
"""The largest number of text units that a record names when it is read."""


@dataclass(frozen=True)
class Lexical:
    """The result of a search by words.

    ``hits``: (id, BM25 score), best first. ``weights``: for each word of the question, as
    ``pipeline.text.ids`` splits and folds words, how rare it is among the text units.
    """

    hits: list[tuple[str, float]]
    weights: Mapping[str, float]


Within = Sequence[Conditions]
"""Conditions on documents. A read takes into account only documents that satisfy all of them."""
Opening = tuple[str, str]
"""The title of a text unit's document, and the first characters of the text unit."""
Hits = list[tuple[str, float]]
"""(id, cosine similarity), best first, ties by id."""


@dataclass(frozen=True)
class Listing:
    """A page of a list of documents, sorted by title, then id.

    The list has the documents ``ids``, or, if these are None, those with ``part`` in their title,
    source or id, in upper or lower case. The page has ``limit`` documents from position ``first``
    on.
    """

    part: str = ""
    ids: Sequence[str] | None = None
    first: int = 0
    limit: int = 50


@dataclass(frozen=True)
class VectorSearch:
    """A search for the ``limit`` rows of a table that are nearest to a vector.

    ``table``: "chunks", "entities", "relationships" or "reports".
    """

    table: str
    vector: np.ndarray
    limit: int


@dataclass(frozen=True)
class AttributeLimit:
    """The most properties of an entity that are read, values of a property, and documents of a
    value."""

    properties: int
    values: int
    documents: int


class PropertyForm(NamedTuple):
    """The type and the unit that values of a property have. A property may have several forms, one
    of each type of entities that declares it."""

    name: str
    type: str
    unit: str


class VectorReads(Protocol):
    """Reads of documents, text units and vectors. Each takes a constant number of round trips.

    ``within`` restricts a read to documents that satisfy its conditions. ``table`` is a table of
    VectorSearch.
    """

    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        """Return, for each search, the rows nearest to its vector. All vectors are of one model.

        ``within``: only rows with at least one source text unit in a document that satisfies the
        conditions. A report reveals all of its sources, so all of them must satisfy the conditions.
        ``rights``: the same, and no other row influences the result: the vectors of all these rows
        are compared, without an approximate index.
        """
        ...

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        """Return up to ``limit`` of the rows ``ids``, those nearest to the vector."""
        ...

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        """Return the text units ``ids`` that exist, in the order of ``ids``.

        Their ``score`` is the cosine similarity to the vector ``question``.
        """
        ...

    def documents(self, within: Within = ()) -> list[Document]:
        """Return all documents that satisfy the conditions."""
        ...

    def listed(self, listing: Listing, within: Within = ()) -> tuple[list[ListedDocument], int]:
        """Return the documents of the page, and the number of documents in the whole list."""
        ...

    def units_of(
        self, document_id: str, first: int, limit: int, within: Within = ()
    ) -> list[TextUnit]:
        """Return up to ``limit`` text units of the document from position ``first`` on, in
        order."""
        ...

    def unit_ids_of(self, document_id: str, limit: int, within: Within = ()) -> list[str]:
        """Return the ids of the document's first ``limit`` text units, in order."""
        ...

    def places(
        self, text_unit_ids: Sequence[str], within: Within = ()
    ) -> Mapping[str, tuple[str, int]]:
        """Return, by id of the text units that exist, the document and the position in it."""
        ...

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> Mapping[str, tuple[bool, bool]]:
        """Return (some, all) by id of the rows that exist.

        They say whether some, and whether all, of a row's source text units belong to documents
        that satisfy the conditions.
        """
        ...

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        """Return the text units that rank best by BM25 for the words of the question, ties by id.

        ``within``: only text units of documents that satisfy the conditions; the weights of words
        stay those of all documents. ``rights``: the same, but words are counted in these documents
        alone. The result is empty if an earlier version of the software has loaded the workspace.
        """
        ...

    def lacking(
        self, terms: Sequence[Term], within: Within = (), rights: Within = ()
    ) -> list[Term]:
        """Return the terms that no text unit has, nor the title of a document, in their order.

        ``within`` and ``rights``: only documents that satisfy both are looked at. A term whose word
        very many text units have counts as had. Nothing is lacking where nothing is loaded.
        """
        ...

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        """Return the entities ``entity_ids`` and all that one of the text units mentions, by id.

        ``passages``: all text units that mention the entity; empty if there are more than ``most``.
        """
        ...

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
        """Return ``mentions``, and by id the ``openings`` of the first ``passages`` of their text
        units."""
        ...

    def openings(self, ids: Sequence[str], length: int) -> Mapping[str, Opening]:
        """Return, by id of the text units that exist, the title of the document and the first
        ``length`` characters."""
        ...

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Return the vectors by id of the rows that exist."""
        ...

    def reports(self, ids: Sequence[str]) -> list[Report]:
        """Return the reports of these communities, in the order of ``ids``.

        Communities without a report are left out. A report names its first SOURCES text units.
        """
        ...

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        """Return the reports that cover the graph at a level.

        These are the reports of communities of the level, and of communities of lower level numbers
        without children. The first ``limit`` are returned, by weight and rating, the highest first,
        then id. A level above the deepest gives the deepest cover. ``within``: see ``nearest``.
        """
        ...

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        """Return the first ``limit`` claims about the entities, by subject, then id.

        One of the entities is the claim's subject or object. ``within``: only claims from text
        units of documents that satisfy the conditions.
        """
        ...

    def statements_of(
        self, relationship_ids: Sequence[str], limit: int, within: Within = ()
    ) -> list[Statement]:
        """Return the first ``limit`` statements of each relationship, in one round trip.

        They are sorted by relationship, then by document and position in it, then id. ``within``:
        only statements from text units of documents that satisfy the conditions.
        """
        ...

    def properties(self, names: Sequence[str] = ()) -> list[PropertyForm]:
        """Return the forms of the properties with these names, or of all, sorted by name.

        There are those of which the workspace has values.
        """
        ...

    def attributes_of(
        self, entity_ids: Sequence[str], limit: AttributeLimit, within: Within = ()
    ) -> list[Attribute]:
        """Return the values of the entities' properties, in one round trip.

        A value has a record for each document that gives it. They are sorted by entity and
        property; the value of the newest document comes first, documents without a date last.
        ``within``: only values from text units of documents that satisfy the conditions.
        """
        ...


class VectorStore(VectorReads, Protocol):
    """The vectors and texts of one workspace."""

    @property
    def workspace(self) -> str: ...

    def live(self) -> Live | None:
        """Return what was loaded last, or None for an empty workspace.

        Raises DataError when a newer version of the software has loaded it.
        """
        ...

    def reading(self) -> AbstractContextManager["VectorStore"]:
        """Open the store as it is at this moment: loads meanwhile do not change what is read."""
        ...

    def contents(self) -> Iterator[list[tuple[str, str]]]:
        """Yield (id, content) of all text units, some thousands at a time."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class GraphState:
    """The version and the owner of a graph, and whether a load that readers can see is under
    way."""

    version: str
    loading: bool = False
    owner: str = ""


class DrawingReads(Protocol):
    """Reads of the graph for drawings. Each takes a constant number of round trips."""

    def named(self, text: str, limit: int) -> list[Dot]:
        """Return up to ``limit`` entities whose names contain all words of ``text``, in any case.

        First come names equal to the text, then names that begin with it, then all others; each
        group by degree, highest first, then id.
        """
        ...

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        """Return the entities ``ids`` that exist, in the order of ``ids``."""
        ...

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        """Return the ``limit`` entities of the highest degree, ties by id; of all, or of one
        community."""
        ...

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        """Return the best ``limit`` relationships that start or end at the entities, each once.

        They are sorted by weight, then by the sum of the degrees of both ends, then id.
        """
        ...

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        """Return the best ``limit`` relationships with both ends among the entities, each once.

        They are sorted by weight, then id.
        """
        ...

    def communities(self, ids: Sequence[str]) -> list[Community]:
        """Return the communities ``ids`` that exist, the largest first, ties by id."""
        ...

    def parts_of(self, community: str, limit: int) -> list[Community]:
        """Return the ``limit`` largest children of a community, ties by id; of "" the coarsest
        communities."""
        ...

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        """Return the number of relationships between sibling communities, as counted by the load.

        There is one row for each pair of the communities of one level that have the same parent,
        or both none, and at least one relationship between their entities. The lower id comes first
        in a row. The rows are sorted by number of relationships, highest first, then ids.
        """
        ...


class GraphReads(DrawingReads, Protocol):
    """Reads of the graph for queries. Each takes a constant number of round trips."""

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        """Return the entities ``ids`` that exist, in the order of ``ids``.

        An entity names its first SOURCES text units.
        """
        ...

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        """Return the relationships ``ids`` that exist, in the order of ``ids``."""
        ...

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        """Return the best ``limit`` relationships that start or end at the entities, each once.

        They are sorted by rank, then weight, then id.
        """
        ...

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        """Count, for each of the first SOURCES text units of each entity, the neighbours that have
        it too.

        Entities with more than HUB neighbours get the count 0, and are not counted as neighbours.
        """
        ...

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        """Return up to ``limit`` relationships that start or end at the entities, each once.

        Entities of a degree above ``most`` are left out. Relationships of the lowest rank come
        first, ties by id.
        """
        ...

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        """Return the finest community of each entity up to ``level``, by entity id.

        It is the community of the highest level number. Entities without one are left out.
        """
        ...


class GraphStore(GraphReads, Protocol):
    """The graph of one workspace."""

    def beside(self, vectors: VectorStore) -> "GraphStore":
        """Return the graph at the moment of ``vectors``, if one database holds both."""
        ...

    def shown(self) -> GraphState: ...

    def close(self) -> None: ...


def passages_of(mentioned: Iterable[EntityMentions], most: int) -> list[str]:
    """Return the ids of the first ``most`` text units that mention any of the entities, sorted."""
    return sorted({passage for entity in mentioned for passage in entity.passages})[:most]


def in_order(records: Sequence[Record], ids: Sequence[str]) -> list[Record]:
    """Sort the records in the order in which their ids stand in ``ids``."""
    place = {id: position for position, id in enumerate(ids)}
    return sorted(records, key=lambda record: place[record.id])
