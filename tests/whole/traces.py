"""Where a word is: in the files of a project, read as what they are, and in every row of its
stores."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
from neo4j import GraphDatabase
from psycopg import sql

from tests.servers.neo4j_server import Neo4jAddress


def in_files(root: Path, word: str) -> set[str]:
    """Kinds of files below the folder that hold the word: Parquet and SQLite are decoded, others
    are searched in UTF-8 and UTF-16."""
    return {
        _kind(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and _holds(path, word)
    }


def in_postgres(url: str, word: str) -> set[str]:
    """Tables of the database with a row that holds the word, whatever the workspace."""
    with psycopg.connect(url) as connection:
        found = set()
        for (table,) in connection.execute(
            "SELECT DISTINCT table_name FROM information_schema.tables WHERE table_schema ="
            " 'public'"
        ).fetchall():
            query = sql.SQL("SELECT count(*) FROM {} t WHERE to_jsonb(t)::text ILIKE %s").format(
                sql.Identifier(table)
            )
            row = connection.execute(query, [f"%{word}%"]).fetchone()
            if row and row[0]:
                found.add(table)
        return found


def in_neo4j(address: Neo4jAddress, word: str) -> set[str]:
    """ "nodes" and "edges" where one has the word in a property or its type."""
    queries: dict[str, Any] = {
        "nodes": "MATCH (n) RETURN labels(n) AS kind, properties(n) AS properties",
        "edges": "MATCH ()-[r]->() RETURN type(r) AS kind, properties(r) AS properties",
    }
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:
        found = {
            name: driver.execute_query(query, database_=address.database).records
            for name, query in queries.items()
        }
    return {
        name
        for name, records in found.items()
        if any(word.lower() in str(record.data()).lower() for record in records)
    }


def _kind(path: Path) -> str:
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] == "data" else parts[0]


def _holds(path: Path, word: str) -> bool:
    if path.suffix == ".parquet":
        return word.lower() in str(pq.read_table(path).to_pydict()).lower()
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3"):
        return _in_sqlite(path, word) or word.encode() in data
    return any(
        form in data for form in (word.encode(), word.lower().encode(), word.encode("utf-16-le"))
    )


def _in_sqlite(path: Path, word: str) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = (row for name in tables for row in connection.execute(f'SELECT * FROM "{name}"'))
        return any(word.lower() in _readable(value).lower() for row in rows for value in row)


def _readable(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return zlib.decompress(value).decode("utf-8", "replace")
    except zlib.error:
        return value.decode("utf-8", "replace")
