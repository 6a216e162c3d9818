"""The graph in Neo4j 5.26 or later.

(:Entity:<TYPE> {workspace, id, displayName, ...})-[:<KEYWORD> {workspace, id, ...}]->(:Entity)
(:GraphmillLive {workspace, ...})   what the workspace shows

A relationship is found by its ends, which its id names: types are many, and Neo4j indexes relationships by
type only.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, LiteralString
from urllib.parse import urlsplit

import pandas as pd
from neo4j import Driver, GraphDatabase, ManagedTransaction, RoutingControl, Transaction
from neo4j.exceptions import AuthError, DriverError, Neo4jError

from pipeline.errors import StoreError
from pipeline.schema_version import UNMARKED, refuse_newer
from pipeline.stores import cypher
from pipeline.stores.base import (
    ENTITY_COLUMNS,
    RELATIONSHIP_COLUMNS,
    Advanced,
    Delta,
    Live,
    Shown,
    TableState,
    VectorStore,
    in_order,
    read_states,
    silent,
)
from pipeline.text import relationship_ends

CONNECT_SECONDS, RETRY_SECONDS = 5.0, 8.0
SCHEMES = frozenset({"bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc"})
FETCH_ROWS = 10_000


@dataclass(frozen=True)
class Neo4jStore:
    """One workspace in one database. ``batch_rows``: rows a transaction writes."""

    uri: str
    user: str
    password: str = field(repr=False)
    database: str = "neo4j"
    workspace: str = "default"
    batch_rows: int = 5000
    name: str = "neo4j"
    tables: tuple[str, ...] = ("nodes", "edges")

    @cached_property
    def driver(self) -> Driver:
        """Connected. Raises StoreError where the database cannot be reached."""
        _check_address(self.uri)
        with self._errors():
            driver = GraphDatabase.driver(
                self.uri,
                auth=(self.user, self.password),
                connection_timeout=CONNECT_SECONDS,
                connection_acquisition_timeout=CONNECT_SECONDS,
                max_transaction_retry_time=RETRY_SECONDS,
                notifications_min_severity="OFF",
                telemetry_disabled=True,
            )
            try:
                driver.verify_connectivity()
            except BaseException:
                driver.close()
                raise
            return driver

    @contextmanager
    def writing(self, live: Live, advanced: Advanced = silent) -> Iterator["Neo4jWriter"]:
        """A transaction a batch; one around them all locks the workspace, and publishes at its end."""
        with self._errors(), self.driver.session(database=self.database) as session:
            for constraint in cypher.CONSTRAINTS:
                session.run(constraint).consume()
            with session.begin_transaction() as around:
                around.run(cypher.LOCK, workspace=self.workspace).consume()
                writer = Neo4jWriter(self, around, live)
                yield writer
                if writer.published:
                    around.commit()

    def live(self) -> Live | None:
        found = self._rows(cypher.LIVE)
        if not found:
            return None
        properties = found[0][0]
        schema_version = properties.get("schema_version") or UNMARKED
        refuse_newer(schema_version, f"stores.neo4j.uri: {self.uri}, workspace '{self.workspace}'")
        return Live(
            properties["workflow"],
            properties["version"],
            json.loads(properties["embedding"]),
            properties["dimensions"],
            read_states(json.loads(properties.get("tables", "{}"))),
            schema_version,
        )

    def table_states(self) -> dict[str, TableState]:
        states = {table: self._rows(cypher.STATES[table]) for table in self.tables}
        return {table: TableState(*rows[0]) for table, rows in states.items()}

    def beside(self, vectors: VectorStore) -> "Neo4jStore":
        return self

    def shown(self) -> Shown:
        live = self.live()
        return Shown(live.version if live else "")

    def entities(self, ids: Sequence[str]) -> pd.DataFrame:
        return in_order(self._frame(cypher.ENTITIES, ENTITY_COLUMNS, ids=list(ids)), ids)

    def relationships(self, ids: Sequence[str]) -> pd.DataFrame:
        return in_order(self._frame(cypher.RELATIONSHIPS, RELATIONSHIP_COLUMNS, rows=_places(ids)), ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> pd.DataFrame:
        return self._frame(cypher.RELATIONSHIPS_OF, RELATIONSHIP_COLUMNS, ids=list(entity_ids), limit=limit)

    def shared_units(self, entity_ids: Sequence[str]) -> pd.DataFrame:
        rows = []
        for id, units, pairs in self._rows(cypher.SHARED_UNITS, ids=list(entity_ids)):
            shared = dict(pairs)
            rows += [(id, unit, shared.get(unit, 0)) for unit in set(units)]
        return pd.DataFrame(sorted(rows), columns=["entity_id", "text_unit_id", "neighbours"])

    def close(self) -> None:
        if "driver" in self.__dict__:
            self.driver.close()

    def _frame(self, query: LiteralString, columns: list[str], **parameters: Any) -> pd.DataFrame:
        return pd.DataFrame(self._rows(query, **parameters), columns=columns)

    def _rows(self, query: LiteralString, **parameters: Any) -> list[list[Any]]:
        with self._errors():
            result = self.driver.execute_query(
                query,
                {"workspace": self.workspace, **parameters},
                database_=self.database,
                routing_=RoutingControl.READ,
            )
        return [record.values() for record in result.records]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What the driver raises, as StoreError."""
        try:
            yield
        except AuthError as error:
            raise StoreError(
                f"stores.neo4j.user, stores.neo4j.password: {self.uri} refuses them "
                f"({error.code}); correct them in settings.yaml"
            ) from error
        except DriverError as error:
            raise StoreError(
                f"stores.neo4j.uri: {self.uri} does not answer ({_first_line(error)}); "
                "start it (make neo4j) or set stores.graph: postgres"
            ) from error
        except Neo4jError as error:
            raise StoreError(
                f"stores.neo4j: {self.uri}, database '{self.database}', refuses ({error.message}); "
                "Neo4j 5.26 or later and a database that exists are needed"
            ) from error


@dataclass
class Neo4jWriter:
    """``around`` holds the workspace's lock. Nodes are deleted when the load is published, so that
    every relationship that goes is counted and found by its ends."""

    store: Neo4jStore
    around: Transaction
    live: Live
    published: bool = False
    gone: list[str] = field(default_factory=list)

    def hashes(self, table: str) -> Mapping[str, str]:
        def read(transaction: ManagedTransaction) -> dict[str, str]:
            found = transaction.run(cypher.HASHES[table], workspace=self.store.workspace)
            return dict(record.values() for record in found)

        with self.store.driver.session(database=self.store.database, fetch_size=FETCH_ROWS) as session:
            return session.execute_read(read)

    def apply(self, table: str, delta: Delta) -> None:
        if table == "nodes":
            self.gone.extend(delta.deleted)
            changed = pd.concat([delta.inserted, delta.updated]).sort_values("id")
            for rows in self._batches(_node_rows(changed)):
                self._write((cypher.WRITE_NODES, {"rows": rows}))
            return
        self._delete_edges(delta.deleted)
        for rows in self._batches(_edge_rows(delta.updated)):
            self._write((cypher.DELETE_EDGES, {"rows": rows}), (cypher.WRITE_EDGES, {"rows": rows}))
        for rows in self._batches(_edge_rows(delta.inserted)):
            self._write((cypher.WRITE_EDGES, {"rows": rows}))

    def publish(self) -> None:
        self._delete_nodes()
        states = {
            table: self.around.run(cypher.STATES[table], workspace=self.store.workspace).single(True).data()
            for table in self.store.tables
        }
        properties = {
            "workspace": self.store.workspace,
            "workflow": self.live.workflow,
            "version": self.live.version,
            "embedding": json.dumps(dict(self.live.embedding), sort_keys=True),
            "dimensions": self.live.dimensions,
            "tables": json.dumps(states, sort_keys=True),
            "schema_version": self.live.schema_version,
        }
        self.around.run(cypher.PUBLISH, workspace=self.store.workspace, properties=properties).consume()
        self.published = True

    def _delete_nodes(self) -> None:
        for ids in self._batches(self.gone):
            self._write((cypher.DELETE_NODES, {"ids": ids}))

    def _delete_edges(self, ids: Sequence[str]) -> None:
        places = _places(ids)
        for rows in self._batches(places):
            self._write((cypher.DELETE_EDGES, {"rows": rows}))
        placed = {place["id"] for place in places}
        for strays in self._batches([id for id in ids if id not in placed]):
            self._write((cypher.DELETE_STRAYS, {"ids": strays}))

    def _write(self, *statements: tuple[LiteralString, dict[str, Any]]) -> None:
        """The statements in one transaction, tried again after a passing error; the driver does not try again
        where a commit may have been done, so that nothing is created twice."""

        def run(transaction: ManagedTransaction) -> None:
            for query, parameters in statements:
                result = transaction.run(query, workspace=self.store.workspace, **parameters)
                created = result.consume().counters.relationships_created
                if query == cypher.WRITE_EDGES and created != len(parameters["rows"]):
                    raise StoreError(
                        f"stores.neo4j: {len(parameters['rows']) - created} relationships have an end that "
                        "is no node; run the workflow again, so that entities and relationships agree"
                    )

        with self.store.driver.session(database=self.store.database) as session:
            session.execute_write(run)

    def _batches(self, rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
        for start in range(0, len(rows), self.store.batch_rows):
            yield rows[start : start + self.store.batch_rows]


def _check_address(uri: str) -> None:
    """Raises StoreError for what the driver would not take, or would take for another protocol."""
    try:
        parts = urlsplit(uri)
        fits = parts.scheme in SCHEMES and parts.hostname and "@" not in parts.netloc
    except ValueError:
        fits = False
    if not fits:
        raise StoreError(
            "stores.neo4j.uri: no address of a Neo4j; write bolt://host:7687 or neo4j://host:7687, "
            "and the user and the password under their own keys"
        )


def _node_rows(nodes: pd.DataFrame) -> list[dict[str, Any]]:
    properties = nodes[["id", "description", "entity_type", "source_id", "degree", "row_hash"]]
    properties = properties.assign(displayName=nodes["display_name"])
    return [
        {"id": node["id"], "label": node["entity_type"], "properties": node} for node in properties.to_dict("records")
    ]


def _edge_rows(edges: pd.DataFrame) -> list[dict[str, Any]]:
    properties = edges[["id", "description", "keywords", "weight", "rank", "source_id", "row_hash"]]
    ends = edges[["source_entity_id", "target_entity_id", "type"]].itertuples(index=False, name=None)
    return [
        {"id": edge["id"], "source": source, "target": target, "type": type, "properties": edge}
        for edge, (source, target, type) in zip(properties.to_dict("records"), ends, strict=True)
    ]


def _places(ids: Sequence[str]) -> list[dict[str, str]]:
    """Where the relationships are; an id that names no ends is left out."""
    places = []
    for id in ids:
        with suppress(ValueError):
            source, target = relationship_ends(id)
            places.append({"id": id, "source": source, "target": target})
    return places


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
