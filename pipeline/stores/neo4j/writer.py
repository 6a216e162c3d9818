"""Write a load into Neo4j, in one transaction or in batches, and check what was written.

The tables are ``sourced_nodes`` and ``sourced_edges``, which are nodes and relationships with the
list of their sources, and ``communities``.
"""

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
"""The most bytes of a batch of rows, which the server gets in one message."""
ATOMIC_BYTES = 40_000_000
"""The most bytes of a load in one transaction. The server keeps the changes of a transaction in
memory until it ends."""
IN_FLIGHT = 2
"""The number of batches that are written side by side."""
RETRY_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds before each further attempt to commit a batch."""
MISSING_END_FACTS: Mapping[LiteralString, str] = {
    cypher.WRITE_EDGES: "relationships with an end that is no node",
    cypher.WRITE_MEMBERS: "members of communities that are no node",
    cypher.WRITE_PARENTS: "parents of communities that are no node",
}
"""The statements that create a relationship for each row, with the words of the error if some rows
create none."""
SENT_CELLS: Mapping[LiteralString, int] = {cypher.DELETE_EDGES: 3}
"""The statements that read only the first cells of a row, with their number: id, source and target.
The other cells are not sent, because the driver packs each cell."""
SIDE_BY_SIDE = frozenset({cypher.WRITE_NODES, cypher.WRITE_EDGES, cypher.WRITE_MEMBERS})
"""The statements whose batches may be written side by side. A statement that replaces relationships
holds locks before it commits, so its batches are written one after the other."""

Statement = tuple[LiteralString, dict[str, Any]]


@dataclass
class Neo4jWriter:
    """Writes the deltas of a load of a workspace, and publishes what the workspace then shows.

    ``around``: the transaction that holds the workspace's lock. A load of few changes is written in
    it. Readers of Neo4j may see a part of a commit. So a transaction of its own marks the load as
    under way just before ``around`` commits.

    A larger load is marked from its start, and written in batches, each in its own transaction.
    Several batches are written side by side but commit one at a time. Neo4j links relationships in
    chains, and simultaneous commits to touching chains deadlock, even if the relationships have no
    common end.

    Nodes are deleted when the load is published, so that every deleted relationship is found by its
    ends. Communities get their parents then as well.

    - ``published``: whether `publish` has ended, so that ``around`` may be committed.
    - ``in_batches``: whether the load has become too large for one transaction.
    - ``expected``: the state of each table once everything is written.
    - ``compared``: the tables whose deltas hold all rows, so that their states are added up from
      none.
    - ``relinked``: whether relationships or communities are written or deleted.
    - ``waiting``: deltas that are not written yet, with ``waiting_rows`` and ``waiting_bytes``.
    - ``gone``: the ids of nodes to delete.
    - ``parents``: the rows (id, parent) of communities that get their parent at the end.
    - ``misplaced``: the ids of relationships to delete wherever they are, see StoredHashes.
    - ``commit_lock``: is held during a commit of a batch.
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
    waiting_rows: int = 0
    waiting_bytes: int = 0
    gone: list[str] = field(default_factory=list)
    parents: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame({"id": [], "parent": []}, dtype=object)
    )
    misplaced: frozenset[str] = frozenset()
    commit_lock: Lock = field(default_factory=Lock)

    def states(self) -> Mapping[str, TableState]:
        """Read the states of the tables, and expect them until a delta changes them."""
        self.expected = self._read_states()
        return dict(self.expected)

    def hashes(self, table: str) -> pa.Table:
        """Read the hashes of a table's rows, and note which relationships must be deleted."""
        stored = read_hashes(self.store, table)
        self.misplaced |= stored.misplaced
        return stored.hashes

    def apply(self, table: str, delta: Delta) -> None:
        """Keep a delta for the publication, or write it if the load has too many changes."""
        self._expect(table, delta)
        if table != "sourced_nodes" and not delta.empty:
            self.relinked = True
        self.waiting.append((table, delta))
        self._measure(delta)
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
            # Without ``before``, the deltas together hold every row of the table. Their states are
            # added up, beginning with no rows.
            self.compared.add(table)
            self.expected[table] = NO_ROWS
        self.expected[table] = together(self.expected[table], state_of(delta.after))

    def publish(self) -> None:
        """Write everything that remains, and record what the workspace shows from now on."""
        self._write_waiting()
        self._write_rows("parents", self.parents, cypher.WRITE_PARENTS)
        self._delete(cypher.DELETE_NODES, self.gone)
        states = self._read_and_check_states()
        # The counts are kept with the checksums of the tables from which they are counted.
        counted_from = f"{states['sourced_edges'].checksum} {states['communities'].checksum}"
        self._update_link_counts(counted_from)
        stored = self.live.stored(states)
        nested = {name: json.dumps(stored[name], sort_keys=True) for name in NESTED}
        # These properties stand only in Neo4j.
        neo4j_properties = {
            "workspace": self.store.workspace,
            "max_source_ids": self.store.max_source_ids,
            "between": counted_from,
        }
        properties = {**stored, **nested, **neo4j_properties}
        if not self.in_batches:
            self._mark_loading()
        self._execute(self.around, [(cypher.PUBLISH, {"properties": properties})])
        self.published = True

    def _update_link_counts(self, counted_from: str) -> None:
        """Count relationships between communities again, unless the counts are right.

        ``counted_from``: the checksums of the tables from which they are counted.
        """
        record = self.around.run(cypher.COUNTED, workspace=self.store.workspace).single()
        counts_are_current = record is not None and record.value() == counted_from
        if self.relinked or not counts_are_current or self._are_miscounted():
            self._execute(self.around, [(cypher.DELETE_BETWEEN, {}), (cypher.COUNT_BETWEEN, {})])

    def _are_miscounted(self) -> bool:
        """Return whether somebody has changed counts by hand."""
        result = self.around.run(cypher.MISCOUNTED, workspace=self.store.workspace)
        return bool(result.single(strict=True).value())

    def _mark_loading(self) -> None:
        """Record, visibly to all readers, that a load is under way.

        This writes another node than the one that ``around`` has locked, so it need not wait.
        """
        self._commit([(cypher.BEGIN, {"owner": self.live.owner, "place": self.live.place})])

    def _measure(self, delta: Delta) -> None:
        """Add the rows and bytes of a delta to those that wait."""
        self.waiting_rows += len(delta.deleted)
        for rows in (delta.inserted, delta.updated):
            self.waiting_rows += len(rows)
            self.waiting_bytes += int(bytes_of(rows, self.store.max_source_ids).sum())
            # Each entity of a community becomes a relationship.
            if "entity_ids" in rows:
                self.waiting_rows += int(lengths_of(rows["entity_ids"]).sum())

    def _exceeds_one_transaction(self) -> bool:
        """Return whether the waiting deltas have too many rows or bytes for one transaction."""
        return self.waiting_rows > self.store.atomic_rows or self.waiting_bytes > ATOMIC_BYTES

    def _write_waiting(self) -> None:
        """Write the waiting deltas. Only note the nodes to delete, for ``publish``."""
        for table, delta in self.waiting:
            if table == "sourced_nodes":
                self.gone.extend(delta.deleted)
                changed = pd.concat([delta.inserted, delta.updated])
                self._write_rows(table, changed, cypher.WRITE_NODES)
            elif table == "communities":
                self._write_communities(delta)
            else:
                self._delete(cypher.DELETE_BY_ID, sorted(self.misplaced))
                # A second deletion would remove the rows that this delta, or a later one, writes
                # under these ids.
                self.misplaced = frozenset()
                self._delete_edges(delta.deleted)
                self._write_rows(table, delta.updated, cypher.DELETE_EDGES, cypher.WRITE_EDGES)
                self._write_rows(table, delta.inserted, cypher.WRITE_EDGES)
        self.waiting.clear()
        self.waiting_rows = 0
        self.waiting_bytes = 0

    def _write_communities(self, delta: Delta) -> None:
        """Write communities with their members; keep their parents for the publication.

        A parent may come with a later delta, so all communities are written before.
        """
        self._delete(cypher.DELETE_COMMUNITIES, delta.deleted)
        changed = pd.concat([delta.inserted, delta.updated])
        self._write_rows("communities", changed, cypher.WRITE_COMMUNITIES)
        self._write_rows("members", members(changed), cypher.WRITE_MEMBERS)
        self.parents = pd.concat([self.parents, parents(changed)], ignore_index=True)

    def _write_rows(self, kind: str, rows: pd.DataFrame, *queries: LiteralString) -> None:
        """Write rows in batches; all of the queries are sent with each batch, in this order.

        ``kind``: a table, or "members" or "parents" of communities.
        """

        def write_batch(batch: pd.DataFrame) -> int:
            cells = as_written(kind, batch, self.store.max_source_ids)
            statements: list[Statement] = []
            for query in queries:
                # The slice to None takes all cells.
                first_cells = [row[: SENT_CELLS.get(query)] for row in cells]
                statements.append((query, {"rows": first_cells}))
            self._send(statements)
            return len(batch)

        sizes = bytes_of(rows, self.store.max_source_ids)
        row_batches = batches(rows, sizes, self.store.batch_rows, BATCH_BYTES)
        side_by_side = self.in_batches and SIDE_BY_SIDE.issuperset(queries)
        done = 0
        # After an error the pool waits until the batches in flight have ended.
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            if side_by_side:
                written_counts = pool.map(write_batch, row_batches)
            else:
                written_counts = map(write_batch, row_batches)
            for count in written_counts:
                done += count
                self.advanced(kind, done, len(rows))

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

    def _read_and_check_states(self) -> dict[str, TableState]:
        """Read the states of the tables; raise LostConnectionError if they are not as expected.

        A batch of an earlier load that lost its connection may have been committed after this load
        had read the rows. Another load then corrects its changes.
        """
        states = self._read_states()
        is_as_expected = all(states[table] == state for table, state in self.expected.items())
        if is_as_expected:
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
                    with self.commit_lock:
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
            if query not in MISSING_END_FACTS:
                continue
            missing = len(parameters["rows"]) - created
            if missing:
                raise StoreError(
                    f"stores.neo4j: {MISSING_END_FACTS[query]}: {missing}; run the workflow again,"
                    " so that its tables agree"
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
    # The lengths of lists are checked only if they were written with another ``max_source_ids``,
    # which is all that ``outdated`` tells of.
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
            # No row has an empty hash, so these rows are written again.
            hash_of.update(dict.fromkeys(misplaced, ""))
            ids, hashes = list(hash_of), list(hash_of.values())
        return StoredHashes(pa.table([ids, hashes], schema=HASHES), frozenset(misplaced))

    with store.driver.session(database=store.database, fetch_size=FETCH_ROWS) as session:
        return session.execute_read(read)
