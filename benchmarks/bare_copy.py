"""The rows of a loaded workspace once more by a bare binary COPY of psycopg, into equal tables with primary keys alone;
prints JSON.

The rows are read from the store's tables and held as Python values, vectors as numpy arrays; only COPY and its
commit are timed. Each table is dropped when it has been read, and its copy when it has been written. The argument is
that of load_once.py.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from pipeline.stores.postgres.schema import TABLES


def main() -> None:
    spec = json.loads(sys.argv[1])
    with psycopg.connect(spec["url"], autocommit=True) as connection:
        register_vector(connection)
        print(json.dumps({name: copy_table(connection, name, spec["workspace"]) for name in TABLES}))


def copy_table(connection: Connection, name: str, workspace: str) -> dict[str, Any]:
    table, bare = sql.Identifier(TABLES[name].name), sql.Identifier(f"bare_{name}")
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING STORAGE)").format(bare, table))
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (workspace, id)").format(bare))
    types, rows = read_rows(connection, table, workspace)
    connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(table))  # views are made of some
    connection.execute("CHECKPOINT")
    cpu, started = time.process_time(), time.perf_counter()
    with connection.transaction():
        write_rows(connection, bare, types, rows)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    connection.execute(sql.SQL("DROP TABLE {}").format(bare))
    return {"rows": len(rows), "seconds": seconds, "cpu": cpu}


def read_rows(connection: Connection, table: sql.Identifier, workspace: str) -> tuple[list[int], list[tuple]]:
    select = sql.SQL("SELECT * FROM {} WHERE workspace = {}").format(table, sql.Literal(workspace))
    description = connection.execute(sql.SQL("{} LIMIT 0").format(select)).description or []
    types = [column.type_code for column in description]
    with connection.cursor().copy(sql.SQL("COPY ({}) TO STDOUT (FORMAT BINARY)").format(select)) as copy:
        copy.set_types(types)
        return types, [tuple(map(python_value, row)) for row in copy.rows()]


def write_rows(connection: Connection, table: sql.Identifier, types: list[int], rows: list[tuple]) -> None:
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(table)) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def python_value(cell: Any) -> Any:
    if isinstance(cell, Vector):
        return cell.to_numpy()
    return Jsonb(cell) if isinstance(cell, dict) else cell


if __name__ == "__main__":
    main()
