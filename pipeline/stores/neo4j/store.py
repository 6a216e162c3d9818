"""The graph in Neo4j 5.26 or later.

    (:Entity:<TYPE> {workspace, id, displayName, ...})-[:<KEYWORD> {workspace, id, ...}]->(:Entity)
    (:Entity)-[:IN_COMMUNITY]->(:Community {workspace, id, ...})-[:PARENT]->(:Community)
    (:GraphmillLive {workspace, ...})
    (:GraphmillLock {workspace})

A node GraphmillLive says what the workspace shows, and is ``loading`` while a load of many rows is
under way. Whoever writes to a node GraphmillLock holds the lock on the workspace's rows. The lock
"<workspace>/stores" is that of ``alone``.

A relationship is found by its ends, which its id names. Neo4j indexes relationships by type only,
and there are many types.
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
"""After this time, somebody else certainly has the lock. Neo4j reports who has a lock, but cannot
be asked whether it is free."""

MADE_MEANWHILE = "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"
"""The code of an error when another client creates the same constraint or index at this moment."""


@dataclass(frozen=True)
class Neo4jStore(Neo4jDrawing):
    """A workspace in a Neo4j database."""

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
        """Yield the writer of a load; the transaction that holds the lock also publishes the load,
        at its end."""
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
        """Return the state of the graph, with the version "" if nothing has been loaded yet."""
        for version, loading, owner in self.read(cypher.MOMENT):
            return GraphState(version or "", loading, owner)
        return GraphState("")

    def begun(self) -> bool:
        return any(loading and version is None for version, loading, _ in self.read(cypher.MOMENT))

    def table_states(self) -> dict[str, TableState]:
        states = {table: self.read(cypher.STATES[table]) for table in self.tables}
        return {table: TableState(*rows[0]) for table, rows in states.items()}

    def beside(self, vectors: VectorStore) -> "Neo4jStore":
        return self

    def miscounted(self) -> int:
        for [count] in self.read(cypher.MISCOUNTED):
            return count
        return 0

    def notes(self) -> list[str]:
        return self.outdated()

    def hashes(self, table: str) -> pa.Table:
        with self.errors():
            return read_hashes(self, table).hashes

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield all rows of a table, see ``Store.rows`` and ``as_stored``.

        ``row_hash`` covers the whole row, ``content_hash`` the part that Neo4j keeps.
        """
        with (
            self.errors(),
            self.driver.session(database=self.database, fetch_size=FETCH_ROWS) as session,
            session.begin_transaction() as transaction,
        ):
            result = transaction.run(cypher.ROWS[table], workspace=self.workspace)
            while records := result.fetch(FETCH_ROWS):
                found = as_read(table, [record.values() for record in records], result.keys())
                if columns is not None:
                    found = found[["id", "row_hash", "content_hash", *columns]]
                yield found

    def as_stored(self, rows: pd.DataFrame) -> pd.DataFrame:
        return as_stored(rows, self.max_source_ids)

    def workspaces(self) -> dict[str, Live]:
        """Return what each workspace of the database shows.

        Its texts are empty if the first load of the workspace has not ended.
        """
        return {
            properties["workspace"]: _live(properties)
            for [properties] in self.read(cypher.WORKSPACES)
        }

    def drop(self) -> dict[str, int]:
        """Delete the workspace, some thousands of rows at a time; return deleted rows by table."""
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
        rows: list[tuple[str, str, int]] = []
        for id, units, pairs in self.whole_rows(cypher.SHARED_UNITS, ids=list(entity_ids)):
            # Units that no neighbour shares are not among the pairs.
            neighbours_of_unit = dict(pairs)
            for unit in set(units):
                neighbours = neighbours_of_unit.get(unit, 0)
                rows.append((id, unit, neighbours))
        rows.sort()
        return [SharedUnit(*row) for row in rows]

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        return self.records(Membership, cypher.COMMUNITIES_OF, ids=list(entity_ids), level=level)

    @contextmanager
    def _locked(self, name: str, waits: Waits = silent) -> Iterator[Transaction]:
        """Yield a transaction that holds the lock ``name``.

        It is rolled back unless the block commits it, or when this process ends. It has no time
        limit, whatever the server's default is: a load may take long.
        """

        def run(transaction: ManagedTransaction, statement: LiteralString) -> None:
            transaction.run(statement, name=name).consume()

        with self.driver.session(database=self.database) as session:
            for statement in (*cypher.CONSTRAINTS, *cypher.INDEXES, cypher.MAKE_LOCK):
                try:
                    session.execute_write(run, statement)
                except ClientError as error:
                    # IF NOT EXISTS does not see what another load is creating at this moment.
                    if error.code != MADE_MEANWHILE:
                        raise
            metadata = {"lock": name, "client": this_client()}
            with session.begin_transaction(metadata=metadata, timeout=0) as around:
                waiting = threading.Timer(WAITING_SECONDS, self._report_holder, (name, waits))
                waiting.start()
                try:
                    around.run(cypher.LOCK, name=name).consume()
                finally:
                    waiting.cancel()
                    waiting.join()
                yield around

    def _report_holder(self, name: str, waits: Waits) -> None:
        """Report who holds the lock. An error is ignored: the load must not fail for a message."""
        holder = "another client that this user may not see"
        with suppress(StoreError):
            for client, since, transaction in self.read(
                cypher.HOLDER, name=name, database=self.database
            ):
                holder = f"'{client}' since {since} ({transaction} of Neo4j)"
        workspace = name.partition("/")[0]
        waits(f"workspace '{workspace}' is held by {holder}; waiting for that to end")


def _live(properties: Mapping[str, Any]) -> Live:
    """Return the properties of a node GraphmillLive as Live.

    The texts are empty if the first load of the workspace has not ended.
    """
    nested = {name: _parse_nested(properties.get(name)) for name in NESTED}
    return read_live({**properties, **nested})


def _parse_nested(stored: Any) -> Mapping[str, Any]:
    """Parse a property of JSON; an empty mapping if somebody has altered it.

    The next load then writes it again.
    """
    with suppress(TypeError, ValueError):
        found = json.loads(stored)
        return found if isinstance(found, Mapping) else {}
    return {}
