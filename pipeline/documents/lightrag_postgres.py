"""Copy an index that LightRAG 1.5.7 keeps in PostgreSQL into the files that an import reads."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from pipeline.documents.lightrag import (
    CHUNKS,
    DOCUMENTS,
    GRAPH,
    GRAPH_ELSEWHERE,
    LEFT_OUT,
    REPLIES,
    STATUS,
    VERSION,
    Row,
    new_copy,
    write_rows,
)
from pipeline.errors import DataError, SettingsError, StoreError
from pipeline.files import write_text
from pipeline.text.ids import clean

SCHEMES = ("postgresql://", "postgres://")
SECONDS = 30
"""The seconds in which the server must accept a connection."""
NODES, EDGES = "lightrag_graph_nodes", "lightrag_graph_edges"
QUERIES: Mapping[str, LiteralString] = {
    DOCUMENTS: """SELECT id, coalesce(content, '') AS content, doc_name AS file_path,
                         coalesce(parse_format, 'raw') AS parse_format
                  FROM lightrag_doc_full WHERE workspace = %s""",
    # A table that was made by an earlier version may lack the list.
    STATUS: """SELECT id, status, to_jsonb(one) -> 'chunks_list' AS chunks_list
               FROM lightrag_doc_status AS one WHERE workspace = %s""",
    CHUNKS: """SELECT id, coalesce(content, '') AS content, full_doc_id, chunk_order_index,
                      llm_cache_list
               FROM lightrag_doc_chunks WHERE workspace = %s""",
    REPLIES: """SELECT id, return_value AS "return", cache_type
                FROM lightrag_llm_cache WHERE workspace = %s""",
}
"""The rows of each file of an index, by the file."""
GRAPH_NODES: LiteralString = """
SELECT id, properties FROM lightrag_graph_nodes
WHERE workspace = %s AND namespace = 'chunk_entity_relation' ORDER BY id"""
GRAPH_EDGES: LiteralString = """
SELECT src_id, tgt_id, properties FROM lightrag_graph_edges
WHERE workspace = %s AND namespace = 'chunk_entity_relation' ORDER BY src_id, tgt_id"""
TABLES: LiteralString = """
SELECT table_name AS name FROM information_schema.tables
WHERE table_schema = ANY (current_schemas(false)) AND table_name LIKE 'lightrag\\_%%'"""
WORKSPACES: LiteralString = "SELECT DISTINCT workspace FROM lightrag_doc_full ORDER BY workspace"
READ = frozenset(
    {"lightrag_doc_full", "lightrag_doc_status", "lightrag_doc_chunks", "lightrag_llm_cache"}
)
"""The tables that are read, and those of the graph."""

_NO_XML = re.compile("[\ufffe\uffff]")
"""Characters that GraphML cannot hold, besides those that ``clean`` removes."""

Connection = psycopg.Connection[Any]


def copy_tables(
    url: str, workspace: str, target: Path, check: Callable[[Path], object] = lambda copy: None
) -> None:
    """Make ``target`` a copy of the index in the tables of a database.

    ``workspace`` is LightRAG's, or "" if the tables have one alone. An equal copy stays as it is.
    ``check`` is called with the new copy; if it raises an error, ``target`` stays as it is.
    Raises StoreError if the database cannot be reached or read, SettingsError if it has no such
    workspace, DataError if its tables are of another version.
    """
    with _connected(url) as connection:
        name = _choose_workspace(connection, workspace)
        tables = {row["name"] for row in connection.execute(TABLES)}
        with new_copy(target) as copy:
            for file, query in QUERIES.items():
                write_rows(copy / file, _rows_of(connection, query, name))
            has_graph = {NODES, EDGES} <= tables
            if has_graph:
                _write_graph(connection, name, copy / GRAPH)
            read = READ | {NODES, EDGES} if has_graph else READ
            others = sorted(tables - read)
            if not has_graph:
                others.append(GRAPH_ELSEWHERE)
            write_text(copy / LEFT_OUT, json.dumps(others))
            check(copy)


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """Connect to the database for reading one state of it; no message has the address."""
    _refuse_unclear(url)
    try:
        connect = psycopg.Connection[Any].connect
        connection = connect(url, row_factory=dict_row, connect_timeout=SECONDS)
    except psycopg.OperationalError as error:
        raise StoreError(
            f"import lightrag: the database does not answer ({error}); check the address, and set"
            " PGPASSWORD if it needs a password"
        ) from None
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection:
        try:
            yield connection
        except psycopg.errors.UndefinedTable as error:
            raise SettingsError(
                f"import lightrag: {error.diag.message_primary}; name the database of LightRAG"
            ) from error
        except psycopg.errors.UndefinedColumn as error:
            raise DataError(
                f"import lightrag: {error.diag.message_primary}; only tables of LightRAG {VERSION}"
                " can be read"
            ) from error
        except psycopg.Error as error:
            fact = error.diag.message_primary or str(error)
            raise StoreError(
                f"import lightrag: the database does not give the index ({fact}); allow reading"
                " it, or import again"
            ) from error


def _refuse_unclear(url: str) -> None:
    """Raise SettingsError for an address that cannot be read, or whose parts may be a password.

    A password with an unquoted / or @ ends up in another part, which messages of the library show.
    """
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        # The message of the library would show the address.
        parts = {"port": url}
    ports = str(parts.get("port") or "").replace(",", "")
    # The name of an abstract socket begins with an @.
    host, database = str(parts.get("host") or "")[1:], str(parts.get("dbname") or "")
    if (ports and not ports.isdecimal()) or "@" in host + database:
        raise SettingsError(
            "import lightrag: no readable address; write postgresql://USER@HOST:PORT/DATABASE, and"
            " the password into PGPASSWORD"
        )


def _choose_workspace(connection: Connection, wanted: str) -> str:
    """Return the workspace to read.

    Raises SettingsError if it is not there, or if none is wanted and there are several.
    """
    names = [row["workspace"] for row in connection.execute(WORKSPACES)]
    if wanted in names:
        return wanted
    if not wanted and len(names) == 1:
        return names[0]
    have = ", ".join(names) or "none"
    fact = f"no workspace '{wanted}'" if wanted else "no single workspace"
    raise SettingsError(f"import lightrag: {fact} (have: {have}); name one by --of-workspace")


def _rows_of(connection: Connection, query: LiteralString, workspace: str) -> dict[str, Row]:
    """Return the rows of a query by their ids."""
    rows = connection.execute(query, [workspace])
    return {row.pop("id"): row for row in rows}


def _write_graph(connection: Connection, workspace: str, path: Path) -> None:
    """Write the graph as LightRAG writes it into a file."""
    import networkx as nx

    graph = nx.Graph()
    for row in connection.execute(GRAPH_NODES, [workspace]):
        graph.add_node(_without_control(row["id"]), **_scalars(row["properties"]))
    for row in connection.execute(GRAPH_EDGES, [workspace]):
        ends = _without_control(row["src_id"]), _without_control(row["tgt_id"])
        graph.add_edge(*ends, **_scalars(row["properties"]))
    nx.write_graphml(graph, path)


def _scalars(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that GraphML can hold."""
    cells: dict[str, Any] = {}
    for key, cell in properties.items():
        if isinstance(cell, str | int | float):
            cells[_without_control(key)] = _without_control(cell) if isinstance(cell, str) else cell
    return cells


def _without_control(text: str) -> str:
    """Return the text without the characters that GraphML cannot hold."""
    return _NO_XML.sub("", clean(text))
