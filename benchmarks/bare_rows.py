"""The rows of a loaded workspace once more by bare psycopg; prints JSON.

The argument is that of load_once.py. With ``ids``, table -> ids: these rows are deleted from the
store's own table, indexes and all, and put back by INSERT. Without, all rows go into equal tables
with primary keys alone, by a binary COPY and by INSERT; each table is dropped when it has been
read, and its copies when they have been written.

The rows are read from the store's tables and held as Python values, vectors as numpy arrays; only
the statements and their commit are timed. INSERT is ``executemany`` of a prepared statement, values
in binary.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from benchmarks.server_time import server_cpu
from pipeline.stores.postgres.schema import TABLES

COPY, INSERT = "bare COPY", "bare INSERT"
Spec = Mapping[str, Any]
Rows = Sequence[tuple]


def main() -> None:
    spec = json.loads(sys.argv[1])
    with psycopg.connect(spec["url"], autocommit=True) as connection:
        register_vector(connection)
        if "ids" in spec:
            found = {
                name: {INSERT: put_back(connection, name, spec, ids)}
                for name, ids in spec["ids"].items()
            }
        else:
            found = {name: write_anew(connection, name, spec) for name in TABLES}
        print(json.dumps(found))


def write_anew(connection: Connection, name: str, spec: Spec) -> dict[str, Any]:
    """Write the rows of a table into a bare copy by each way and return the measurements by way."""
    table, bare = sql.Identifier(TABLES[name].name), sql.Identifier(f"bare_{name}")
    connection.execute(
        sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING STORAGE)").format(
            bare, table
        )
    )
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (workspace, id)").format(bare))
    types, rows = read_rows(connection, of_workspace(table, spec))
    connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(table))  # views are made of some
    connection.execute("CHECKPOINT")
    ways: dict[str, Callable[[], None]] = {
        COPY: lambda: copy_rows(connection, bare, types, rows),
        INSERT: lambda: insert_rows(connection, bare, rows),
    }
    found = {}
    for way, write in ways.items():
        found[way] = {"rows": len(rows), **timed(write, spec)}
        connection.execute(sql.SQL("TRUNCATE {}").format(bare))
        connection.execute("CHECKPOINT")
    connection.execute(sql.SQL("DROP TABLE {}").format(bare))
    return found


def put_back(connection: Connection, name: str, spec: Spec, ids: Sequence[str]) -> dict[str, Any]:
    table = sql.Identifier(TABLES[name].name)
    some = sql.SQL("{} AND id = ANY({})").format(of_workspace(table, spec), sql.Literal(list(ids)))
    _, rows = read_rows(connection, some)
    gone = sql.SQL("DELETE FROM {} WHERE workspace = {} AND id = ANY({})").format(
        table, sql.Literal(spec["workspace"]), sql.Literal(list(ids))
    )

    def write() -> None:
        connection.execute(gone)
        insert_rows(connection, table, rows)

    return {"rows": len(rows), **timed(lambda: within(connection, write), spec)}


def within(connection: Connection, write: Callable[[], None]) -> None:
    with connection.transaction():
        write()


def timed(write: Callable[[], None], spec: Spec) -> dict[str, float]:
    server, cpu, started = server_cpu(spec), time.process_time(), time.perf_counter()
    write()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "server": server_cpu(spec) - server}


def of_workspace(table: sql.Identifier, spec: Spec) -> sql.Composed:
    return sql.SQL("SELECT * FROM {} WHERE workspace = {}").format(
        table, sql.Literal(spec["workspace"])
    )


def read_rows(connection: Connection, select: sql.Composed) -> tuple[list[int], Rows]:
    description = connection.execute(sql.SQL("{} LIMIT 0").format(select)).description or []
    types = [column.type_code for column in description]
    with connection.cursor().copy(
        sql.SQL("COPY ({}) TO STDOUT (FORMAT BINARY)").format(select)
    ) as copy:
        copy.set_types(types)
        return types, [tuple(map(python_value, row)) for row in copy.rows()]


def copy_rows(connection: Connection, table: sql.Identifier, types: list[int], rows: Rows) -> None:
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(table)
    with connection.transaction(), connection.cursor().copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def insert_rows(connection: Connection, table: sql.Identifier, rows: Rows) -> None:
    if rows:
        values = sql.SQL(", ").join([sql.SQL("%b")] * len(rows[0]))
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(sql.SQL("INSERT INTO {} VALUES ({})").format(table, values), rows)


def python_value(cell: Any) -> Any:
    if isinstance(cell, Vector):
        return cell.to_numpy()
    return Jsonb(cell) if isinstance(cell, dict) else cell


if __name__ == "__main__":
    main()
