"""The protocol of a store as a load uses it: read the present rows, and write others.

The adapters that implement it are in the folders beside this file.
"""

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

PROPERTIES = "properties"
"""The column of nodes with the properties of their entities: a JSON object, or ""."""
LAYOUT = 8
"""The schema version that introduced the present tables of the stores. A workspace that an earlier
version has loaded must be loaded again before it is read."""


@dataclass(frozen=True)
class Delta:
    """Changes of a table of a store: rows to insert, rows to replace, and ids to delete.

    Rows have ``row_hash``. ``unchanged``: the number of compared rows that stay. ``after``: HASHES
    of the compared rows once the delta is applied. ``before``: HASHES that the store now has of
    them, if only rows that differ were compared; None if all rows of the table are compared, in one
    delta or several. ``following``: about how many rows later deltas of the table will write.
    """

    inserted: pd.DataFrame
    updated: pd.DataFrame
    deleted: Sequence[str]
    unchanged: int
    after: pa.Table
    before: pa.Table | None = None
    following: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of rows: {inserted, updated, deleted, unchanged}."""
        return {
            "inserted": len(self.inserted),
            "updated": len(self.updated),
            "deleted": len(self.deleted),
            "unchanged": self.unchanged,
        }

    @property
    def empty(self) -> bool:
        """True if the delta writes and deletes nothing."""
        return not (len(self.inserted) or len(self.updated) or self.deleted)


@dataclass(frozen=True)
class TableState:
    """The number of rows that a workspace has in a table, and their checksum.

    The database computes ``checksum`` over their ids and row_hashes: it is equal for equal rows,
    whatever their order.
    """

    rows: int
    checksum: str


@dataclass(frozen=True)
class VectorProbe:
    """A text unit and its vector, kept to recognise the model.

    The same text has another vector by another model, or by a model that changed under its name.
    ``normalised``: whether the vectors have length 1. ``header_key``: a digest of the header of the
    text unit, or "" without one. The vector is of header and text, so that it changes with either.
    """

    chunk_id: str
    vector: Sequence[float]
    normalised: bool
    header_key: str = ""


@dataclass(frozen=True)
class Live:
    """The loaded state of a workspace, as readers see it.

    It is a version of a workflow's tables, with vectors of the model ``embedding`` and
    ``dimensions``. ``tables``: the state of each table at the end of the load; the store fills it
    in. ``probe``: kept in stores with vectors. ``loading``: whether a load that readers can see is
    under way or was cut off. ``owner``: the project that owns the rows; "" if an earlier version of
    the software has loaded them. ``place``: "machine:folder" they were loaded from.
    """

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
        """A digest of the model and its dimensions."""
        return digest(json.dumps([dict(self.embedding), self.dimensions], sort_keys=True))[:8]

    def stored(self, states: Mapping[str, TableState]) -> dict[str, Any]:
        """Return the values as JSON, without the probe, with ``states`` as the tables' states."""
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
    """Parse the values that ``Live.stored`` returned.

    Missing values get their defaults: an earlier version of the software stored fewer, and a first
    load that has not ended hardly any.
    """
    return Live(
        stored.get("workflow") or "",
        stored.get("version") or "",
        stored.get("embedding") or {},
        stored.get("dimensions") or 0,
        _parse_states(stored.get("tables")),
        stored.get("schema_version") or UNMARKED,
        VectorProbe(**stored["probe"]) if stored.get("probe") else None,
        stored.get("loading") or False,
        stored.get("owner") or "",
        stored.get("place") or "",
    )


def _parse_states(stored: Any) -> dict[str, TableState]:
    """Return the states of the tables; none if they have another form than a load writes.

    The next load then compares all rows.
    """
    with suppress(AttributeError, KeyError, TypeError):
        return {
            table: TableState(state["rows"], state["checksum"]) for table, state in stored.items()
        }
    return {}


Advanced = Callable[[str, int, int], None]
"""A callback that is called while a table or an index is written.

It gets the name, how many rows are done, and how many there are in all. For an index, it gets pages
of its table instead of rows."""


def silent(*arguments: object) -> None:
    """Accept any message and do nothing: the default of callbacks."""


Waits = Callable[[str], None]
"""A callback that is called before a load waits for a lock. The message says who holds it, and
since when."""


class Writer(Protocol):
    """A load of a store that is under way. It holds the lock on the workspace's rows."""

    def states(self) -> Mapping[str, TableState]:
        """Return the present state of each table of the workspace."""
        ...

    def hashes(self, table: str) -> pa.Table:
        """Return HASHES of the rows in a table, see ``Store.hashes``."""
        ...

    def apply(self, table: str, delta: Delta) -> None:
        """Write one delta of a table. All deltas of a table must follow one another."""
        ...

    def publish(self) -> None:
        """Record what the workspace shows from now on. A load calls this last."""
        ...


class Store(Protocol):
    """A workspace of a database, as a load uses it."""

    @property
    def name(self) -> str: ...

    @property
    def workspace(self) -> str: ...

    @property
    def tables(self) -> Sequence[str]:
        """The names of the tables that are loaded, in the order in which to load them."""
        ...

    def alone(self, waits: Waits = silent) -> AbstractContextManager[None]:
        """Lock the workspace in this store: other loads and drops of it (see ``alone``) wait.

        Readers do not wait, nor do programs that write without taking the lock. The lock ends with
        this process, however that ends. Raises LostConnectionError, at the end, if the database
        went away and the lock was lost.
        """
        ...

    def writing(
        self, live: Live, advanced: Advanced = silent, waits: Waits = silent
    ) -> AbstractContextManager[Writer]:
        """Begin a load after which the workspace will show ``live``.

        Raises StoreError when the database cannot be reached, LostConnectionError when it goes
        away.
        """
        ...

    def live(self) -> Live | None:
        """Return what was loaded last, or None for an empty workspace.

        Raises DataError when a newer version of the software has loaded it.
        """
        ...

    def begun(self) -> bool:
        """Return whether a first load is under way or was cut off.

        Such a load may have written rows while ``live`` still returns None.
        """
        ...

    def table_states(self) -> Mapping[str, TableState]:
        """Return the present state of each table. The workspace must have been loaded."""
        ...

    def outdated(self) -> Sequence[str]:
        """Return what differs from the settings, apart from rows: the next load corrects it.

        The workspace must have been loaded.
        """
        ...

    def miscounted(self) -> int:
        """Return how many counts of relationships between communities do not match the rows.

        It is 0 for a store without a graph. A load of another version corrects the counts, and so
        does ``load --full``.
        """
        ...

    def notes(self) -> Sequence[str]:
        """Return messages about the present state that whoever loads should know.

        The workspace must have been loaded.
        """
        ...

    def hashes(self, table: str) -> pa.Table:
        """Return HASHES of all rows in a table. The workspace must have been loaded.

        The hash is "" for a row that is certain to differ from the one the load wrote.
        """
        ...

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield all rows of a table, some thousands at a time. The workspace must have been loaded.

        A row has id, row_hash, ``content_hash`` and ``columns``, by default all. ``content_hash``
        is computed from the row's present contents as row_hash was at its load. Values have the
        types they were written with, with lists in Arrow or in Python. A store may add columns that
        it derives.
        """
        ...

    def as_stored(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows of a table as ``rows`` gives them back if nobody has changed them."""
        ...

    def workspaces(self) -> Mapping[str, Live]:
        """Return what each workspace of the database shows."""
        ...

    def drop(self) -> Mapping[str, int]:
        """Delete the workspace and return the numbers of deleted rows by table.

        It waits for a load that is under way.
        """
        ...

    def close(self) -> None: ...


@contextmanager
def alone(stores: Sequence[Store], waits: Waits = silent) -> Iterator[None]:
    """Lock the workspace in all of its stores, any of which other projects may share.

    Every project locks stores in the same order, so no two projects wait for each other.
    """
    with ExitStack() as held:
        for store in stores:
            held.enter_context(store.alone(waits))
        yield


def refuse_earlier(live: Live, where: str) -> None:
    """Raise NothingLoadedError if an earlier version of the software has loaded the workspace.

    Its tables lack columns that are read now. ``where``: the beginning of the message.
    """
    if live.schema_version < LAYOUT:
        raise NothingLoadedError(
            f"{where}: loaded by an earlier graphmill (schema {live.schema_version}), whose"
            f" tables lack columns; run 'graphmill load {live.workflow}'"
        )
