"""What a load asks of a database: its rows as they are, and to write others. Adapters live beside
this file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.contract.schema_version import SCHEMA_VERSION, UNMARKED
from pipeline.errors import NothingLoadedError
from pipeline.text.ids import digest

if TYPE_CHECKING:  # questions read no tables
    import pandas as pd
    import pyarrow as pa

LAYOUT = 7
"""The version of the software's schema since which the stores' tables are as they are: what an
earlier one has loaded is loaded anew before it is read."""


@dataclass(frozen=True)
class Delta:
    """What some rows of a table of a store need: rows to insert and to replace, ids to delete. Rows
    have ``row_hash``. ``after``: HASHES of these rows then. ``before``: those that the store has of
    them now, where they are all that differs in the table; None where all of its rows are compared,
    be it by several deltas. ``following``: about how many rows later deltas of the table have to
    write."""

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
    """The rows a workspace has in a table. ``checksum`` is the database's, over their ids and
    row_hashes: equal for equal rows, whatever their order."""

    rows: int
    checksum: str


@dataclass(frozen=True)
class VectorProbe:
    """A chunk and its vector: what the same text has by another model, or by one that changed under
    its name, is another vector. ``normalised``: whether the vectors have length 1."""

    chunk_id: str
    vector: Sequence[float]
    normalised: bool


@dataclass(frozen=True)
class Live:
    """What a workspace shows: a workflow's tables at a version, their vectors made by a model.
    ``tables``: their states when the load had ended; the store fills them in. ``probe`` is kept
    beside the vectors. ``loading``: a load that readers can see is under way, or was cut off.
    ``owner``: the project whose rows they are; empty where an earlier version of the software has
    loaded them. ``place``: the machine and folder it loaded them from."""

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
    """What ``Live.stored`` has given; an earlier version of the software has stored less, and a
    first load that has not ended next to nothing."""
    return Live(
        stored.get("workflow") or "",
        stored.get("version") or "",
        stored.get("embedding") or {},
        stored.get("dimensions") or 0,
        _states(stored.get("tables")),
        stored.get("schema_version") or UNMARKED,
        VectorProbe(**stored["probe"]) if stored.get("probe") else None,
        stored.get("loading") or False,
        stored.get("owner") or "",
        stored.get("place") or "",
    )


def _states(stored: Any) -> dict[str, TableState]:
    """None where they are not what a load has left: the next one compares all rows."""
    with suppress(AttributeError, KeyError, TypeError):
        return {
            table: TableState(state["rows"], state["checksum"]) for table, state in stored.items()
        }
    return {}


Advanced = Callable[[str, int, int], None]
"""Told of what is written, a table or an index, how many of its rows are done (of an index, pages
of its table), and how many there are in all."""


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
        """Hold the workspace in this store: other loads and drops of it (see ``alone``) wait. Those
        who read, or write into it without asking, do not. The hold ends with this process, however
        that ends.

        Raises LostConnectionError, at the end, where the database went away and with it the hold.
        """
        ...

    def writing(
        self, live: Live, advanced: Advanced = silent, waits: Waits = silent
    ) -> AbstractContextManager[Writer]:
        """A load after which the workspace will show ``live``.

        Raises StoreError when the database cannot be reached, LostConnectionError when it goes
        away.
        """
        ...

    def live(self) -> Live | None:
        """What was loaded last; None for an empty workspace.

        Raises DataError when a newer version of the software has loaded it.
        """
        ...

    def begun(self) -> bool:
        """Whether a first load has written rows that ``live`` does not tell of: it is under way, or
        was cut off."""
        ...

    def table_states(self) -> Mapping[str, TableState]:
        """What the workspace has in each of the tables now. Only for a workspace that has been
        loaded."""
        ...

    def outdated(self) -> Sequence[str]:
        """What the workspace has otherwise than the settings say, its rows apart: the next load
        puts it right. Only for a workspace that has been loaded."""
        ...

    def miscounted(self) -> int:
        """Return how many counts of relationships between communities are not those of the rows
        that are there.

        It is 0 for a store without a graph. A load that finds another version, and ``load --full``,
        put them right.
        """
        ...

    def notes(self) -> Sequence[str]:
        """What who loads should know of the workspace as it is now. Only for one that has been
        loaded."""
        ...

    def hashes(self, table: str) -> pa.Table:
        """HASHES of every row the workspace has in the table; "" for one that its load did not
        leave so, whatever its hash. Only for a workspace that has been loaded."""
        ...

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Every row the workspace has in the table, some thousands at a time: id, row_hash,
        ``content_hash``, which is row_hash made anew of the row as it is, and these columns, else
        all, in the types they were written with (lists in Arrow or not), with what else the store
        makes of them. Only for a workspace that has been loaded."""
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
    """Hold the workspace in all of its stores: they may share any of them with other projects. Held
    in the order that every project has them in, so that no two wait for each other."""
    with ExitStack() as held:
        for store in stores:
            held.enter_context(store.alone(waits))
        yield


def refuse_earlier(live: Live, where: str) -> None:
    """Raises NothingLoadedError for what an earlier version of the software has loaded, whose
    tables lack what is read now."""
    if live.schema_version < LAYOUT:
        raise NothingLoadedError(
            f"{where}: loaded by an earlier graphmill (schema {live.schema_version}), which kept"
            f" its sources elsewhere; run 'graphmill load {live.workflow}'"
        )
