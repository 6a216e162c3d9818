"""The graph in Neo4j 5.26 or later.

(:Entity:<TYPE> {workspace, id, displayName, ...})-[:<KEYWORD> {workspace, id, ...}]->(:Entity)
(:Entity)-[:IN_COMMUNITY]->(:Community {workspace, id, ...})-[:PARENT]->(:Community) (:GraphmillLive
{workspace, ...})   what the workspace shows; ``loading`` while a load of many rows is under way
(:GraphmillLock {workspace})        who writes it holds the workspace's rows; "<workspace>/stores":
see ``alone``

A relationship is found by its ends, which its id names: types are many, and Neo4j indexes
relationships by type only.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import pandas as pd
import pyarrow as pa
from neo4j import ManagedTransaction, SummaryCounters, Transaction
from neo4j.exceptions import ClientError

from pipeline.contract.schema_version import refuse_newer
from pipeline.errors import StoreError
from pipeline.settings.addresses import shown_neo4j
from pipeline.stores.base import Advanced, Live, TableState, Waits, read_live, silent
from pipeline.stores.connection import this_client
from pipeline.stores.neo4j import cypher
from pipeline.stores.neo4j.connection import FETCH_ROWS
from pipeline.stores.neo4j.drawing import Neo4jDrawing
from pipeline.stores.neo4j.rows import as_read, as_stored, places
from pipeline.stores.neo4j.writer import NESTED, Neo4jWriter, read_hashes
from pipeline.stores.reads import GraphState, VectorStore, in_order
from pipeline.stores.records import Entity, Link, Membership, Relationship, SharedUnit

WAITING_SECONDS = 1.0
"""After so long somebody else is sure to have the lock: Neo4j says who has one, but not whether one
may be had."""

MADE_MEANWHILE = "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"


@dataclass(frozen=True)
class Neo4jStore(Neo4jDrawing):
    """One workspace in one database."""

    name: str = "neo4j"
    tables: tuple[str, ...] = ("sourced_nodes", "sourced_edges", "communities")

    @contextmanager
    def alone(self, waits: Waits = silent) -> Iterator[None]:
        with self.errors(), self._locked(f"{self.workspace}/stores", waits) as around:
            yield
            around.commit()

    @contextmanager
    def writing(
        self, live: Live, advanced: Advanced = silent, waits: Waits = silent
    ) -> Iterator[Neo4jWriter]:
        """The transaction that locks the workspace is the one that publishes, at its end."""
        with self.errors(), self._locked(self.workspace, waits) as around:
            writer = Neo4jWriter(self, around, live, advanced)
            yield writer
            if writer.published:
                around.commit()

    def live(self) -> Live | None:
        for [properties] in self.read(cypher.LIVE):
            live = _live(properties)
            refuse_newer(
                live.schema_version,
                f"stores.neo4j.uri: {shown_neo4j(self.uri)}, workspace '{self.workspace}'",
            )
            return live if live.workflow else None
        return None

    def shown(self) -> GraphState:
        moments = self.read(cypher.MOMENT)
        return next(
            (GraphState(version or "", loading, owner) for version, loading, owner in moments),
            GraphState(""),
        )

    def begun(self) -> bool:
        return any(loading and version is None for version, loading, _ in self.read(cypher.MOMENT))

    def table_states(self) -> dict[str, TableState]:
        states = {table: self.read(cypher.STATES[table]) for table in self.tables}
        return {table: TableState(*rows[0]) for table, rows in states.items()}

    def beside(self, vectors: VectorStore) -> "Neo4jStore":
        return self

    def miscounted(self) -> int:
        return next((count for [count] in self.read(cypher.MISCOUNTED)), 0)

    def notes(self) -> list[str]:
        return self.outdated()

    def hashes(self, table: str) -> pa.Table:
        with self.errors():
            return read_hashes(self, table).hashes

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """As ``as_stored`` makes them; ``row_hash`` is of the whole row, ``content_hash`` of what
        is kept."""
        with (
            self.errors(),
            self.driver.session(database=self.database, fetch_size=FETCH_ROWS) as session,
            session.begin_transaction() as transaction,
        ):
            result = transaction.run(cypher.ROWS[table], workspace=self.workspace)
            while records := result.fetch(FETCH_ROWS):
                found = as_read(table, [record.values() for record in records], result.keys())
                yield (
                    found
                    if columns is None
                    else found[["id", "row_hash", "content_hash", *columns]]
                )

    def as_stored(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table as ``rows`` gives them where all is well."""
        return as_stored(rows, self.max_source_ids)

    def workspaces(self) -> dict[str, Live]:
        """What each workspace of the database shows; nothing but empty texts where a first load has
        not ended."""
        return {
            properties["workspace"]: _live(properties)
            for [properties] in self.read(cypher.WORKSPACES)
        }

    def drop(self) -> dict[str, int]:
        """Delete the workspace, some thousands of rows at a time: rows deleted, by table."""
        with (
            self.errors(),
            self._locked(self.workspace) as around,
            self.driver.session(database=self.database) as session,
        ):

            def run(query: LiteralString) -> SummaryCounters:
                return session.run(query, workspace=self.workspace).consume().counters

            session.run(cypher.BEGIN, workspace=self.workspace, owner=None, place=None).consume()
            run(cypher.DROP["members"])
            communities = run(cypher.DROP["communities"]).nodes_deleted
            edges = run(cypher.DROP["edges"]).relationships_deleted
            nodes = run(cypher.DROP["nodes"]).nodes_deleted
            around.run(cypher.DROP_LIVE, workspace=self.workspace).consume()
            around.commit()
        return {"nodes": nodes, "edges": edges, "communities": communities}

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        return in_order(self.records(Entity, cypher.ENTITIES, ids=list(ids)), ids)

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        return in_order(self.records(Relationship, cypher.RELATIONSHIPS, rows=places(ids)), ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        return self.records(
            Relationship, cypher.RELATIONSHIPS_OF, ids=list(entity_ids), limit=limit
        )

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        return self.records(Link, cypher.LINKS, ids=list(entity_ids), most=most, limit=limit)

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        rows = []
        for id, units, pairs in self.whole_rows(cypher.SHARED_UNITS, ids=list(entity_ids)):
            shared = dict(pairs)
            rows += [(id, unit, shared.get(unit, 0)) for unit in set(units)]
        return [SharedUnit(*row) for row in sorted(rows)]

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        return self.records(Membership, cypher.COMMUNITIES_OF, ids=list(entity_ids), level=level)

    @contextmanager
    def _locked(self, name: str, waits: Waits = silent) -> Iterator[Transaction]:
        """The transaction that holds the lock; undone unless it is committed, and when this process
        ends. The server's own limit of time does not end it: a load takes as long as it takes."""

        def run(transaction: ManagedTransaction, statement: LiteralString) -> None:
            transaction.run(statement, name=name).consume()

        with self.driver.session(database=self.database) as session:
            for statement in (*cypher.CONSTRAINTS, *cypher.INDEXES, cypher.MAKE_LOCK):
                try:
                    session.execute_write(run, statement)
                except (
                    ClientError
                ) as error:  # IF NOT EXISTS does not see what another load makes at this instant
                    if error.code != MADE_MEANWHILE:
                        raise
            told_by = {"lock": name, "client": this_client()}
            with session.begin_transaction(metadata=told_by, timeout=0) as around:
                waiting = threading.Timer(WAITING_SECONDS, self._tell_holder, (name, waits))
                waiting.start()
                try:
                    around.run(cypher.LOCK, name=name).consume()
                finally:
                    waiting.cancel()
                    waiting.join()
                yield around

    def _tell_holder(self, name: str, waits: Waits) -> None:
        """Nothing that goes wrong here is worth the load."""
        holder = "another client that this user may not see"
        with suppress(StoreError):
            for client, since, transaction in self.read(
                cypher.HOLDER, name=name, database=self.database
            ):
                holder = f"'{client}' since {since} ({transaction} of Neo4j)"
        workspace = name.partition("/")[0]
        waits(f"workspace '{workspace}' is held by {holder}; waiting for that to end")


def _live(properties: Mapping[str, Any]) -> Live:
    """Empty texts where a first load has not ended."""
    return read_live({**properties, **{name: _nested(properties.get(name)) for name in NESTED}})


def _nested(stored: Any) -> Mapping[str, Any]:
    """Nothing where somebody has altered it: the next load writes it anew."""
    with suppress(TypeError, ValueError):
        found = json.loads(stored)
        return found if isinstance(found, Mapping) else {}
    return {}
