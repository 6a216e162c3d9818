"""What the load and the query stage ask of a database. Adapters live beside this file."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import SCHEMA_VERSION, UNMARKED
from pipeline.errors import NothingLoadedError
from pipeline.text.ids import digest

ENTITY_COLUMNS = ["id", "name", "type", "description", "degree", "text_unit_ids"]
RELATIONSHIP_COLUMNS = [
    "id", "source_entity_id", "target_entity_id", "source", "target", "description", "keywords", "weight",
    "rank", "text_unit_ids",
]  # fmt: skip
CHUNK_COLUMNS = [
    "id", "document_id", "source", "title", "start", "end", "tokens", "content", "metadata", "score",
]  # fmt: skip
MENTION_COLUMNS = ["entity_id", "name", "text_unit_ids"]
OPENING_COLUMNS = ["id", "title", "opening"]
LINK_COLUMNS = ["id", "source_entity_id", "target_entity_id"]
REPORT_COLUMNS = [
    "id", "level", "parent", "children", "title", "summary", "content", "rating", "weight", "size", "text_unit_ids",
]  # fmt: skip
CLAIM_COLUMNS = [
    "id", "subject_id", "object_id", "subject", "object", "type", "status", "start_date", "end_date", "description",
    "source_text", "text_unit_id", "document_id",
]  # fmt: skip
HASHES = pa.schema([("id", pa.large_string()), ("row_hash", pa.large_string())])
"""Of ``Store.hashes``."""
COMMUNITY_COLUMNS = ["entity_id", "community_id", "level"]

LAYOUT = 7
"""The version of the software's schema since which the stores' tables are as they are: what an earlier one has loaded
is loaded anew before it is read."""
HUB = 1000
"""Neighbours above which an entity is next to nearly everything, so that what it shares with others tells nothing."""
SOURCES = 1000
"""Text units that a record names in a read at most."""


@dataclass(frozen=True)
class Delta:
    """What some rows of a table of a store need: rows to insert and to replace, ids to delete. Rows have ``row_hash``.
    ``after``: HASHES of these rows then. ``before``: those that the store has of them now, where they are all that
    differs in the table; None where all of its rows are compared, be it by several deltas. ``following``: about how
    many rows later deltas of the table have to write."""

    inserted: pd.DataFrame
    updated: pd.DataFrame
    deleted: Sequence[str]
    unchanged: int
    after: pa.Table
    before: pa.Table | None = None
    following: int = 0

    @property
    def counts(self) -> dict[str, int]:
        return {
            "inserted": len(self.inserted),
            "updated": len(self.updated),
            "deleted": len(self.deleted),
            "unchanged": self.unchanged,
        }

    @property
    def empty(self) -> bool:
        return not (len(self.inserted) or len(self.updated) or self.deleted)


@dataclass(frozen=True)
class TableState:
    """The rows a workspace has in a table. ``checksum`` is the database's, over their ids and row_hashes: equal
    for equal rows, whatever their order."""

    rows: int
    checksum: str


@dataclass(frozen=True)
class VectorProbe:
    """A chunk and its vector: what the same text has by another model, or by one that changed under its name, is
    another vector. ``normalised``: whether the vectors have length 1."""

    chunk_id: str
    vector: Sequence[float]
    normalised: bool


@dataclass(frozen=True)
class Live:
    """What a workspace shows: a workflow's tables at a version, their vectors made by a model. ``tables``: their
    states when the load had ended; the store fills them in. ``probe`` is kept beside the vectors. ``loading``: a load
    that readers can see is under way, or was cut off. ``owner``: the project whose rows they are; empty where an
    earlier version of the software has loaded them. ``place``: the machine and folder it loaded them from."""

    workflow: str
    version: str
    embedding: Mapping[str, Any]
    dimensions: int
    tables: Mapping[str, TableState] = field(default_factory=dict, compare=False)
    schema_version: int = SCHEMA_VERSION
    probe: VectorProbe | None = field(default=None, compare=False)
    loading: bool = field(default=False, compare=False)
    owner: str = ""
    place: str = field(default="", compare=False)

    @property
    def embedding_key(self) -> str:
        """Stands for the model and its dimensions."""
        return digest(json.dumps([dict(self.embedding), self.dimensions], sort_keys=True))[:8]

    def stored(self, states: Mapping[str, TableState]) -> dict[str, Any]:
        """As values of JSON, without the probe. ``states``: of the tables, as they are now."""
        return {
            "workflow": self.workflow,
            "version": self.version,
            "embedding": dict(self.embedding),
            "dimensions": self.dimensions,
            "tables": {table: asdict(state) for table, state in states.items()},
            "schema_version": self.schema_version,
            "owner": self.owner,
            "place": self.place,
        }


def read_live(stored: Mapping[str, Any]) -> Live:
    """What ``Live.stored`` has given; an earlier version of the software has stored less, and a first load that has not
    ended next to nothing."""
    return Live(
        stored.get("workflow") or "",
        stored.get("version") or "",
        stored.get("embedding") or {},
        stored.get("dimensions") or 0,
        {table: TableState(state["rows"], state["checksum"]) for table, state in (stored.get("tables") or {}).items()},
        stored.get("schema_version") or UNMARKED,
        VectorProbe(**stored["probe"]) if stored.get("probe") else None,
        stored.get("loading") or False,
        stored.get("owner") or "",
        stored.get("place") or "",
    )


@dataclass(frozen=True)
class Lexical:
    """``hits``: (id, BM25 score), best first. ``weights``: how rare each word of the question is among the text units,
    by the words as ``pipeline.text.ids`` gives them."""

    hits: list[tuple[str, float]]
    weights: Mapping[str, float]


Advanced = Callable[[str, int, int], None]
"""Told of what is written, a table or an index, how many of its rows are done (of an index, pages of its table), and
how many there are in all."""


def silent(*told: object) -> None:
    """Tell nobody."""


Waits = Callable[[str], None]
"""Told that somebody else has a lock, who, and since when, before it is waited for."""


class Writer(Protocol):
    """One load of one store under way; it holds the lock on the workspace's rows."""

    def states(self) -> Mapping[str, TableState]:
        """What the workspace has in each of the tables now."""
        ...

    def hashes(self, table: str) -> pa.Table:
        """As those of the store."""
        ...

    def apply(self, table: str, delta: Delta) -> None:
        """One of a table's deltas; those of a table come one after the other."""
        ...

    def publish(self) -> None:
        """Say what the workspace shows from now on; the last thing a load does."""
        ...


class Store(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def workspace(self) -> str: ...

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables it is loaded with, in the order to load them."""
        ...

    def alone(self, waits: Waits = silent) -> AbstractContextManager[None]:
        """Hold the workspace in this store: other loads and drops of it (see ``alone``) wait. Those who read, or write
        into it without asking, do not. The hold ends with this process, however that ends.

        Raises LostConnectionError, at the end, where the database went away and with it the hold.
        """
        ...

    def writing(self, live: Live, advanced: Advanced = silent, waits: Waits = silent) -> AbstractContextManager[Writer]:
        """A load after which the workspace will show ``live``.

        Raises StoreError when the database cannot be reached, LostConnectionError when it goes away.
        """
        ...

    def live(self) -> Live | None:
        """What was loaded last; None for an empty workspace.

        Raises DataError when a newer version of the software has loaded it.
        """
        ...

    def begun(self) -> bool:
        """Whether a first load has written rows that ``live`` does not tell of: it is under way, or was cut off."""
        ...

    def table_states(self) -> Mapping[str, TableState]:
        """What the workspace has in each of the tables now. Only for a workspace that has been loaded."""
        ...

    def outdated(self) -> Sequence[str]:
        """What the workspace has otherwise than the settings say, its rows apart: the next load puts it right. Only
        for a workspace that has been loaded."""
        ...

    def notes(self) -> Sequence[str]:
        """What who loads should know of the workspace as it is now. Only for one that has been loaded."""
        ...

    def hashes(self, table: str) -> pa.Table:
        """HASHES of every row the workspace has in the table; "" for one that its load did not leave so, whatever its
        hash. Only for a workspace that has been loaded."""
        ...

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Every row the workspace has in the table, some thousands at a time: id, row_hash, ``content_hash``, which is
        row_hash made anew of the row as it is, and these columns, else all, in the types they were written with (lists
        in Arrow or not), with what else the store makes of them. Only for a workspace that has been loaded."""
        ...

    def as_stored(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of a table as ``rows`` gives them back where all is well."""
        ...

    def workspaces(self) -> Mapping[str, Live]:
        """What each workspace of the database shows."""
        ...

    def drop(self) -> Mapping[str, int]:
        """Delete the workspace: rows deleted, by table. Waits for a load that is under way."""
        ...

    def close(self) -> None: ...


@contextmanager
def alone(stores: Sequence[Store], waits: Waits = silent) -> Iterator[None]:
    """Hold the workspace in all of its stores: they may share any of them with other projects. Held in the order that
    every project has them in, so that no two wait for each other."""
    with ExitStack() as held:
        for store in stores:
            held.enter_context(store.alone(waits))
        yield


class VectorReads(Protocol):
    """What a query asks of documents, text units and vectors; a constant number of round trips each."""

    def nearest(
        self, table: str, vector: np.ndarray, limit: int, within: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """(id, cosine similarity) of the rows nearest to the vector, best first, ties by id.

        ``table``: "chunks", "entities", "relationships" or "reports". ``within``: only rows that at least one text unit
        of these documents is a source of; of reports, which tell of all their sources, those that have no other.
        """
        ...

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> list[tuple[str, float]]:
        """(id, cosine similarity) of those of the rows that are nearest to the vector, best first, ties by id.
        ``table``: as of ``nearest``."""
        ...

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> pd.DataFrame:
        """CHUNK_COLUMNS of the ids that exist, in the order asked; ``score`` is the cosine similarity to the
        question's vector."""
        ...

    def documents(self) -> pd.DataFrame:
        """(id, title, source, metadata) of every document; metadata is a dict."""
        ...

    def origins(self, table: str, ids: Sequence[str], documents: Sequence[str]) -> pd.DataFrame:
        """(id, some, all) of the ids that exist: whether some, or all, of the text units that are a row's sources
        belong to these documents. ``table`` as of ``nearest``."""
        ...

    def lexical(self, question: str, limit: int, within: Sequence[str] | None = None) -> Lexical:
        """The text units that rank best for the question's words by BM25, ties by id. ``within``: only those of these
        documents; the weights stay those of all. Nothing in a workspace that an earlier version of the software has
        loaded."""
        ...

    def mentions(self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int) -> pd.DataFrame:
        """MENTION_COLUMNS of every entity that one of the text units mentions and of those asked for, by id.
        ``text_unit_ids``: all that mention it; empty where these are more than ``most``."""
        ...

    def openings(self, ids: Sequence[str], length: int) -> pd.DataFrame:
        """OPENING_COLUMNS of the text units that exist, by id: the first ``length`` characters of each, and the title
        of its document."""
        ...

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        """id -> vector of the rows that exist. ``table`` as of ``nearest``."""
        ...

    def reports(self, ids: Sequence[str]) -> pd.DataFrame:
        """REPORT_COLUMNS of the ids (of communities) that have a report, in the order asked; of their text
        units the first SOURCES."""
        ...

    def reports_at(self, level: int, limit: int, within: Sequence[str] | None = None) -> pd.DataFrame:
        """REPORT_COLUMNS of the reports that cover the graph at a level: of its communities, and of those of lower
        level numbers that have no children; ``limit`` of them by weight, then rating, both the highest first, then id.
        A level above the deepest gives the deepest cover. ``within`` as of ``nearest``."""
        ...

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Sequence[str] | None = None) -> pd.DataFrame:
        """CLAIM_COLUMNS of the claims that have one of the entities as subject or object; ``limit`` of them by subject,
        then id. ``within``: only those from text units of these documents."""
        ...


class VectorStore(Store, VectorReads, Protocol):
    def reading(self) -> AbstractContextManager["VectorStore"]:
        """The store as it is at this moment, whatever is loaded meanwhile."""
        ...


@dataclass(frozen=True)
class GraphState:
    """What a graph shows: the version, whether a load that readers can see is under way, and whose it is."""

    version: str
    loading: bool = False
    owner: str = ""


class GraphReads(Protocol):
    """What a query asks of the graph; a constant number of round trips each."""

    def entities(self, ids: Sequence[str]) -> pd.DataFrame:
        """ENTITY_COLUMNS of the ids that exist, in the order asked; of their text units the first SOURCES."""
        ...

    def relationships(self, ids: Sequence[str]) -> pd.DataFrame:
        """RELATIONSHIP_COLUMNS of the ids that exist, in the order asked."""
        ...

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> pd.DataFrame:
        """RELATIONSHIP_COLUMNS of the relationships at either end of the entities, each once, the best
        ``limit`` by rank, then weight, then id."""
        ...

    def shared_units(self, entity_ids: Sequence[str]) -> pd.DataFrame:
        """(entity_id, text_unit_id, neighbours): for each of the first SOURCES text units of each entity, how many of
        the entity's neighbours have that text unit too. Who has more than HUB neighbours neither counts nor is
        counted."""
        ...

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> pd.DataFrame:
        """LINK_COLUMNS of the relationships at either end of those of the entities that have at most ``most``
        neighbours (``degree``), each once; ``limit`` of them, those of lowest rank first, then by id."""
        ...

    def communities_of(self, entity_ids: Sequence[str], level: int) -> pd.DataFrame:
        """COMMUNITY_COLUMNS: for each of the entities that is in one, its community of the highest level number up to
        ``level``, by entity id."""
        ...


class GraphStore(GraphReads, Protocol):
    def beside(self, vectors: VectorStore) -> "GraphStore":
        """The graph at the vectors' moment, where one database holds both."""
        ...

    def shown(self) -> GraphState: ...


def refuse_earlier(live: Live, where: str) -> None:
    """Raises NothingLoadedError for what an earlier version of the software has loaded, whose tables lack what is read
    now."""
    if live.schema_version < LAYOUT:
        raise NothingLoadedError(
            f"{where}: loaded by an earlier graphmill (schema {live.schema_version}), which kept its sources elsewhere; run "
            f"'graphmill load {live.workflow}'"
        )


def in_order(frame: pd.DataFrame, ids: Sequence[str]) -> pd.DataFrame:
    """The rows of a frame with an ``id`` column, in the order of the ids."""
    place = {id: position for position, id in enumerate(ids)}
    return frame.iloc[np.argsort([place[id] for id in frame["id"]], kind="stable")].reset_index(drop=True)
