"""A load of a workspace into Neo4j."""

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
"""The fields of Live that are kept as JSON: a property of Neo4j cannot be a mapping."""
BATCH_BYTES = 8_000_000
ATOMIC_BYTES = 40_000_000
"""The most bytes of a load in one transaction. The server keeps the changes of a transaction in
memory until it ends."""
IN_FLIGHT = 2
"""The number of batches that are written side by side."""
RETRY_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds before each further attempt to commit a batch."""
NO_END: Mapping[LiteralString, str] = {
    cypher.WRITE_EDGES: "relationships have an end",
    cypher.WRITE_MEMBERS: "times a community has an entity",
    cypher.WRITE_PARENTS: "communities have a parent",
}
"""The statements that create a relationship for each row, with the words of the error if some rows
create none."""
CELLS_READ: Mapping[LiteralString, int] = {cypher.DELETE_EDGES: 3}
"""The statements that read only the first cells of a row, with their number. The other cells are
not sent, because the driver packs each cell."""
SIDE_BY_SIDE = frozenset({cypher.WRITE_NODES, cypher.WRITE_EDGES, cypher.WRITE_MEMBERS})
"""The statements whose batches may be written side by side. A statement that replaces relationships
holds locks before it commits, so its batches are written one after the other."""

Statement = tuple[LiteralString, dict[str, Any]]


@dataclass
class Neo4jWriter:
    """A load of a workspace into Neo4j.

    ``around``: the transaction that holds the workspace's lock. A load of few changes is written in
    it. Readers of Neo4j may see a part of a commit, so the load is marked as under way just before.

    A larger load is marked from its start, and written in batches, each in its own transaction.
    Several batches are written side by side but commit one at a time. Neo4j links relationships in
    chains, and simultaneous commits to touching chains deadlock, even if the relationships have no
    common end.

    Nodes are deleted when the load is published, so that every deleted relationship is found by its
    ends. Communities get their parents then as well.

    ``expected``: the state of each table once everything is written. ``compared``: the tables whose
    expected state is summed up from all of their rows. ``relinked``: whether relationships or
    communities are written or deleted. ``waiting``: deltas that are not written yet. ``gone``: the
    ids of nodes to delete. ``misplaced``: the ids of relationships to delete wherever they are, see
    StoredHashes.
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
    misplaced: frozenset[str] = frozenset()
    commits: Lock = field(default_factory=Lock)

    def states(self) -> Mapping[str, TableState]:
        self.expected = self._read_states()
        return dict(self.expected)

    def hashes(self, table: str) -> pa.Table:
        stored = read_hashes(self.store, table)
        self.misplaced |= stored.misplaced
        return stored.hashes

    def apply(self, table: str, delta: Delta) -> None:
        """Keep a delta for the publication, or write it if the load has too many changes."""
        self._expect(table, delta)
        if table != "sourced_nodes" and not delta.empty:
            self.relinked = True
        self.waiting.append((table, delta))
        if not self.in_batches and self._exceeds_one_transaction():
            self._mark_loading()
            self.in_batches = True
        if self.in_batches:
            self._write_waiting()

    def _expect(self, table: str, delta: Delta) -> None:
        """Compute the state that the table will have after the delta."""
        if delta.before is not None:
            self.expected[table] = without(self.expected[table], state_of(delta.before))
        elif table not in self.compared:
            # The deltas of a comparison of all rows cover all rows of the table, so the sum begins
            # without any.
            self.compared.add(table)
            self.expected[table] = NO_ROWS
        self.expected[table] = together(self.expected[table], state_of(delta.after))

    def publish(self) -> None:
        """Write everything that remains, and record what the workspace shows from now on."""
        self._write_waiting()
        self._write_rows("parents", self.parents, cypher.WRITE_PARENTS)
        self._delete(cypher.DELETE_NODES, self.gone)
        states = self._read_expected_states()
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
            self._mark_loading()
        self._execute(self.around, [(cypher.PUBLISH, {"properties": properties})])
        self.published = True

    def _count_between(self, states: Mapping[str, TableState]) -> str:
        """Count relationships between communities again, unless the counts are right.

        Return the checksums of the tables from which they are counted; they are kept with the
        counts.
        """
        counted_of = f"{states['sourced_edges'].checksum} {states['communities'].checksum}"
        record = self.around.run(cypher.COUNTED, workspace=self.store.workspace).single()
        is_counted = record is not None and record.value() == counted_of
        if self.relinked or not is_counted or self._are_miscounted():
            self._execute(self.around, [(cypher.DELETE_BETWEEN, {}), (cypher.COUNT_BETWEEN, {})])
        return counted_of

    def _are_miscounted(self) -> bool:
        """Check for counts that somebody has changed by hand."""
        result = self.around.run(cypher.MISCOUNTED, workspace=self.store.workspace)
        return bool(result.single(strict=True).value())

    def _mark_loading(self) -> None:
        """Record, visibly to all readers, that a load is under way."""
        self._commit([(cypher.BEGIN, {"owner": self.live.owner, "place": self.live.place})])

    def _exceeds_one_transaction(self) -> bool:
        """Return whether the waiting deltas have too many rows or bytes for one transaction."""
        rows_changed, bytes_changed = 0, 0
        for _, delta in self.waiting:
            rows_changed += len(delta.deleted)
            for rows in (delta.inserted, delta.updated):
                rows_changed += len(rows)
                bytes_changed += int(bytes_of(rows, self.store.max_source_ids).sum())
                # Each entity of a community becomes a relationship.
                if "entity_ids" in rows:
                    rows_changed += int(lengths_of(rows["entity_ids"]).sum())
        return rows_changed > self.store.atomic_rows or bytes_changed > ATOMIC_BYTES

    def _write_waiting(self) -> None:
        """Write the waiting deltas; nodes are only noted for deletion."""
        for table, delta in self.waiting:
            if table == "sourced_nodes":
                self.gone.extend(delta.deleted)
                changed = pd.concat([delta.inserted, delta.updated])
                self._write_rows(table, changed, cypher.WRITE_NODES)
            elif table == "communities":
                self._write_communities(delta)
            else:
                self._delete(cypher.DELETE_BY_ID, sorted(self.misplaced))
                # They are deleted once: this delta and later ones write rows with the same ids.
                self.misplaced = frozenset()
                self._delete_edges(delta.deleted)
                self._write_rows(table, delta.updated, cypher.DELETE_EDGES, cypher.WRITE_EDGES)
                self._write_rows(table, delta.inserted, cypher.WRITE_EDGES)
        self.waiting.clear()

    def _write_communities(self, delta: Delta) -> None:
        """Write communities with their members; keep their parents for the publication.

        A parent may come with a later delta, so all communities are written before.
        """
        self._delete(cypher.DELETE_COMMUNITIES, delta.deleted)
        changed = pd.concat([delta.inserted, delta.updated])
        self._write_rows("communities", changed, cypher.WRITE_COMMUNITIES)
        self._write_rows("members", members(changed), cypher.WRITE_MEMBERS)
        self.parents = pd.concat([self.parents, parents(changed)], ignore_index=True)

    def _write_rows(self, table: str, rows: pd.DataFrame, *queries: LiteralString) -> None:
        """Write rows in batches; all of the queries are sent with each batch, in this order."""

        def write_batch(batch: pd.DataFrame) -> int:
            cells = as_written(table, batch, self.store.max_source_ids)
            statements: list[Statement] = []
            for query in queries:
                # The slice to None takes all cells.
                first_cells = [row[: CELLS_READ.get(query)] for row in cells]
                statements.append((query, {"rows": first_cells}))
            self._send(statements)
            return len(batch)

        sizes = bytes_of(rows, self.store.max_source_ids)
        cut = batches(rows, sizes, self.store.batch_rows, BATCH_BYTES)
        side_by_side = self.in_batches and SIDE_BY_SIDE.issuperset(queries)
        done = 0
        # After an error the pool waits until the batches in flight have ended.
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            written = pool.map(write_batch, cut) if side_by_side else map(write_batch, cut)
            for rows_written in written:
                done += rows_written
                self.advanced(table, done, len(rows))

    def _delete_edges(self, ids: Sequence[str]) -> None:
        """Delete relationships by the end nodes that their ids name.

        An id that names no ends, which only a person can have made, needs a scan of all
        relationships.
        """
        with_ends = places(ids)
        self._delete(cypher.DELETE_EDGES, with_ends)
        found = {row[0] for row in with_ends}
        self._delete(cypher.DELETE_BY_ID, [id for id in ids if id not in found])

    def _delete(self, query: LiteralString, rows: Sequence[Any]) -> None:
        for start in range(0, len(rows), self.store.batch_rows):
            self._send([(query, {"rows": rows[start : start + self.store.batch_rows]})])

    def _read_expected_states(self) -> dict[str, TableState]:
        """Return the states of the tables; raise LostConnectionError if they are not as expected.

        A batch of an earlier load that lost its connection may have been committed after this load
        had read the rows. Another load then corrects its changes.
        """
        states = self._read_states()
        if self.expected.items() <= states.items():
            return states
        raise LostConnectionError(
            f"stores.neo4j: rows of workspace '{self.store.workspace}' changed while they were"
            " loaded; load again"
        )

    def _read_states(self) -> dict[str, TableState]:
        states: dict[str, TableState] = {}
        for table, query in cypher.STATES.items():
            result = self.around.run(query, workspace=self.store.workspace)
            states[table] = TableState(*result.single(strict=True).values())
        return states

    def _send(self, statements: Sequence[Statement]) -> None:
        """Execute statements in a transaction of their own, or in that of the whole load."""
        if self.in_batches:
            self._commit(statements)
        else:
            self._execute(self.around, statements)

    def _commit(self, statements: Sequence[Statement]) -> None:
        """Execute statements in a transaction of their own.

        It is tried again only after an error that says the transaction was rolled back.
        """
        for pause in (*RETRY_PAUSES, None):
            try:
                with (
                    self.store.driver.session(database=self.store.database) as session,
                    session.begin_transaction() as transaction,
                ):
                    self._execute(transaction, statements)
                    with self.commits:
                        transaction.commit()
                return
            except TransientError:
                if pause is None:
                    raise
                time.sleep(pause)

    def _execute(self, transaction: Transaction, statements: Sequence[Statement]) -> None:
        """Execute statements; raise StoreError if a row names an end that does not exist."""
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
    """The hashes of a table's rows, and the relationships that must be deleted.

    ``hashes``: see ``Store.hashes``. ``misplaced``: ids of relationships that exist twice, or
    between other ends than the id names. All relationships with such an id must be deleted.
    """

    hashes: pa.Table
    misplaced: frozenset[str]


def read_hashes(store: Neo4jConnection, table: str) -> StoredHashes:
    """Read the hashes of all rows of a table."""
    # The lengths of lists are checked only if they were written with another ``max_source_ids``.
    most = store.max_source_ids if store.outdated() else None

    def read(transaction: ManagedTransaction) -> StoredHashes:
        ids: list[str] = []
        hashes: list[str] = []
        misplaced: set[str] = set()
        for record in transaction.run(cypher.HASHES[table], workspace=store.workspace, most=most):
            ids += record["ids"]
            hashes += record["hashes"]
            misplaced.update(record["misplaced"])
        if len(set(ids)) < len(ids):
            misplaced.update(id for id, count in Counter(ids).items() if count > 1)
        if misplaced:
            hash_of = dict(zip(ids, hashes, strict=True))
            hash_of.update(dict.fromkeys(misplaced, ""))
            ids, hashes = list(hash_of), list(hash_of.values())
        return StoredHashes(pa.table([ids, hashes], schema=HASHES), frozenset(misplaced))

    with store.driver.session(database=store.database, fetch_size=FETCH_ROWS) as session:
        return session.execute_read(read)
