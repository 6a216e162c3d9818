"""One load of a workspace into Neo4j."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, LiteralString

import pandas as pd
import pyarrow as pa
from neo4j import ManagedTransaction, Transaction
from neo4j.exceptions import TransientError

from pipeline.contract.schemas import HASHES
from pipeline.errors import LostConnectionError, StoreError
from pipeline.stores.base import Advanced, Delta, Live, TableState, silent
from pipeline.stores.list_columns import lengths_of
from pipeline.stores.neo4j import cypher
from pipeline.stores.neo4j.connection import FETCH_ROWS, Neo4jConnection
from pipeline.stores.neo4j.rows import (
    NO_ROWS,
    as_written,
    batches,
    bytes_of,
    members,
    parents,
    places,
    state_of,
    together,
    without,
)

NESTED = ("embedding", "tables")
"""What of Live is kept as JSON: a property has no values within it."""
BATCH_BYTES = 8_000_000
ATOMIC_BYTES = 40_000_000
"""A transaction keeps what it changes in the server's memory until it ends."""
IN_FLIGHT = 2
RETRY_PAUSES = (0.1, 0.3, 1.0, 3.0)
NO_END: Mapping[LiteralString, str] = {
    cypher.WRITE_EDGES: "relationships have an end",
    cypher.WRITE_MEMBERS: "times a community has an entity",
    cypher.WRITE_PARENTS: "communities have a parent",
}
"""Of the statements that make a relationship of each row: what is said of those that make none."""
CELLS_READ: Mapping[LiteralString, int] = {cypher.DELETE_EDGES: 3}
"""Of the statements that read the first cells of a row alone how many these are: the driver packs
each by itself."""
SIDE_BY_SIDE = frozenset({cypher.WRITE_NODES, cypher.WRITE_EDGES, cypher.WRITE_MEMBERS})
"""What replaces relationships holds locks before it commits: one batch after the other."""

Statement = tuple[LiteralString, dict[str, Any]]


@dataclass
class Neo4jWriter:
    """``around`` is the transaction that holds the workspace's lock.

    A load of few changes goes into it whole. A commit is no single moment for Neo4j's readers, so
    that it is said just before; a larger load says from its start that it is under way and goes in
    batches, each a transaction: several run side by side, but commit one at a time, for
    relationships are chained, and commits at once of chains that touch deadlock, whatever their
    ends. Nodes are deleted when the load is published, so that every relationship that goes is
    found by its ends; and communities get their parents then. ``expected``: what the tables have
    when all is written; ``compared``: those of which that is told row by row; ``relinked``: whether
    relationships or communities are written or deleted.
    """

    store: Neo4jConnection
    around: Transaction
    live: Live
    advanced: Advanced = silent
    published: bool = False
    in_batches: bool = False
    expected: dict[str, TableState] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    relinked: bool = False
    waiting: list[tuple[str, Delta]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    parents: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame({"id": [], "parent": []}, dtype=object)
    )
    strays: frozenset[str] = frozenset()
    commits: Lock = field(default_factory=Lock)

    def states(self) -> Mapping[str, TableState]:
        self.expected = self._states()
        return dict(self.expected)

    def hashes(self, table: str) -> pa.Table:
        stored = read_hashes(self.store, table)
        self.strays |= stored.strays
        return stored.hashes

    def apply(self, table: str, delta: Delta) -> None:
        self._expect(table, delta)
        self.relinked |= table != "sourced_nodes" and not delta.empty
        self.waiting.append((table, delta))
        if self.in_batches or self._too_much_at_once():
            if not self.in_batches:
                self._say_loading()
                self.in_batches = True
            self._write_waiting()

    def _expect(self, table: str, delta: Delta) -> None:
        """A comparison of all rows begins with none."""
        if delta.before is not None:
            self.expected[table] = without(self.expected[table], state_of(delta.before))
        elif table not in self.compared:
            self.compared.add(table)
            self.expected[table] = NO_ROWS
        self.expected[table] = together(self.expected[table], state_of(delta.after))

    def publish(self) -> None:
        self._write_waiting()
        self._write("parents", self.parents, cypher.WRITE_PARENTS)
        self._delete(cypher.DELETE_NODES, self.gone)
        states = self._settled_states()
        stored = self.live.stored(states)
        nested = {name: json.dumps(stored[name], sort_keys=True) for name in NESTED}
        between = self._count_between(states)
        own = {
            "workspace": self.store.workspace,
            "max_source_ids": self.store.max_source_ids,
            "between": between,
        }
        properties = {**stored, **nested, **own}
        if not self.in_batches:
            self._say_loading()
        self._run(self.around, [(cypher.PUBLISH, {"properties": properties})])
        self.published = True

    def _count_between(self, states: Mapping[str, TableState]) -> str:
        """What leads between communities, where that is not of these relationships and communities
        yet, or what was lost of them is there again; what they are known by."""
        of = " ".join(states[table].checksum for table in ("sourced_edges", "communities"))
        counted = self.around.run(cypher.COUNTED, workspace=self.store.workspace).single()
        is_known = counted is not None and counted.value() == of
        if self.relinked or not is_known or self._are_miscounted():
            self._run(self.around, [(cypher.DELETE_BETWEEN, {}), (cypher.COUNT_BETWEEN, {})])
        return of

    def _are_miscounted(self) -> bool:
        """Check for counts that somebody has changed by hand."""
        return bool(
            self.around.run(cypher.MISCOUNTED, workspace=self.store.workspace)
            .single(strict=True)
            .value()
        )

    def _say_loading(self) -> None:
        self._commit([(cypher.BEGIN, {"owner": self.live.owner, "place": self.live.place})])

    def _too_much_at_once(self) -> bool:
        rows, size = 0, 0
        for _, delta in self.waiting:
            rows += len(delta.deleted)
            for part in (delta.inserted, delta.updated):
                rows += len(part) + (
                    int(lengths_of(part["entity_ids"]).sum()) if "entity_ids" in part else 0
                )
                size += int(bytes_of(part, self.store.max_source_ids).sum())
        return rows > self.store.atomic_rows or size > ATOMIC_BYTES

    def _write_waiting(self) -> None:
        for table, delta in self.waiting:
            if table == "sourced_nodes":
                self.gone.extend(delta.deleted)
                self._write(table, pd.concat([delta.inserted, delta.updated]), cypher.WRITE_NODES)
            elif table == "communities":
                self._write_communities(delta)
            else:
                self._delete(cypher.DELETE_STRAYS, sorted(self.strays))
                self.strays = frozenset()  # what later deltas write has their ids
                self._delete_edges(delta.deleted)
                self._write(table, delta.updated, cypher.DELETE_EDGES, cypher.WRITE_EDGES)
                self._write(table, delta.inserted, cypher.WRITE_EDGES)
        self.waiting.clear()

    def _write_communities(self, delta: Delta) -> None:
        """Whole before any is a parent, of whatever delta."""
        self._delete(cypher.DELETE_COMMUNITIES, delta.deleted)
        changed = pd.concat([delta.inserted, delta.updated])
        self._write("communities", changed, cypher.WRITE_COMMUNITIES)
        self._write("members", members(changed), cypher.WRITE_MEMBERS)
        self.parents = pd.concat([self.parents, parents(changed)], ignore_index=True)

    def _write(self, table: str, rows: pd.DataFrame, *queries: LiteralString) -> None:
        """Each batch of rows by all of the queries."""

        def write(batch: pd.DataFrame) -> int:
            sent = as_written(table, batch, self.store.max_source_ids)
            self._send(
                [
                    (query, {"rows": [row[: CELLS_READ.get(query)] for row in sent]})
                    for query in queries
                ]
            )
            return len(batch)

        sizes = bytes_of(rows, self.store.max_source_ids)
        cut = batches(rows, sizes, self.store.batch_rows, BATCH_BYTES)
        side_by_side = self.in_batches and SIDE_BY_SIDE.issuperset(queries)
        done = 0
        with ThreadPoolExecutor(
            IN_FLIGHT
        ) as pool:  # an error ends it when the batches in flight have ended
            for written in (pool.map if side_by_side else map)(write, cut):
                done += written
                self.advanced(table, done, len(rows))

    def _delete_edges(self, ids: Sequence[str]) -> None:
        """By their ends. Those that their ids do not lead to are strays, for which all are looked
        through."""
        placed = places(ids)
        self._delete(cypher.DELETE_EDGES, placed)
        found = {row[0] for row in placed}
        self._delete(cypher.DELETE_STRAYS, [id for id in ids if id not in found])

    def _delete(self, query: LiteralString, rows: Sequence[Any]) -> None:
        for start in range(0, len(rows), self.store.batch_rows):
            self._send([(query, {"rows": rows[start : start + self.store.batch_rows]})])

    def _settled_states(self) -> dict[str, TableState]:
        """What the tables have, which is what they should have.

        A transaction whose load lost its connection may have committed after this load had read
        what there is: another load undoes what it did.
        """
        states = self._states()
        if self.expected.items() <= states.items():
            return states
        raise LostConnectionError(
            f"stores.neo4j: rows of workspace '{self.store.workspace}' changed while they were"
            " loaded; load again"
        )

    def _states(self) -> dict[str, TableState]:
        return {
            table: TableState(
                *self.around.run(query, workspace=self.store.workspace).single(strict=True).values()
            )
            for table, query in cypher.STATES.items()
        }

    def _send(self, statements: Sequence[Statement]) -> None:
        if self.in_batches:
            self._commit(statements)
        else:
            self._run(self.around, statements)

    def _commit(self, statements: Sequence[Statement]) -> None:
        """The statements in a transaction of their own, tried again only after an error that says
        it was undone."""
        for pause in (*RETRY_PAUSES, None):
            try:
                with (
                    self.store.driver.session(database=self.store.database) as session,
                    session.begin_transaction() as transaction,
                ):
                    self._run(transaction, statements)
                    with self.commits:
                        transaction.commit()
                return
            except TransientError:
                if pause is None:
                    raise
                time.sleep(pause)

    def _run(self, transaction: Transaction, statements: Sequence[Statement]) -> None:
        for query, parameters in statements:
            result = transaction.run(query, workspace=self.store.workspace, **parameters)
            created = result.consume().counters.relationships_created
            if query in NO_END and created != len(parameters["rows"]):
                raise StoreError(
                    f"stores.neo4j: {len(parameters['rows']) - created} {NO_END[query]} that is no"
                    " node; run the workflow again, so that its tables agree"
                )


@dataclass(frozen=True)
class StoredHashes:
    """``hashes``: see Store.hashes. ``strays``: ids of relationships that are there twice, or
    between other ends than the id names; all that have such an id are to go."""

    hashes: pa.Table
    strays: frozenset[str]


def read_hashes(store: Neo4jConnection, table: str) -> StoredHashes:
    """Lists are as long as ``max_source_ids`` says unless that was another when they were
    written."""
    most = store.max_source_ids if store.outdated() else None

    def read(transaction: ManagedTransaction) -> StoredHashes:
        ids: list[str] = []
        hashes: list[str] = []
        strays: set[str] = set()
        for record in transaction.run(cypher.HASHES[table], workspace=store.workspace, most=most):
            ids += record["ids"]
            hashes += record["hashes"]
            strays.update(record["strays"])
        if len(set(ids)) < len(ids):
            strays.update(id for id, count in Counter(ids).items() if count > 1)
        if strays:
            found = {**dict(zip(ids, hashes, strict=True)), **dict.fromkeys(strays, "")}
            ids, hashes = list(found), list(found.values())
        return StoredHashes(pa.table([ids, hashes], schema=HASHES), frozenset(strays))

    with store.driver.session(database=store.database, fetch_size=FETCH_ROWS) as session:
        return session.execute_read(read)
