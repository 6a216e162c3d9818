"""Measure what several connections and processes gain in a load of vectors.

    python benchmarks/parallel.py --rows 40000 --dimensions 256

Rows with vectors are written by COPY over one connection and over two. An HNSW index over them is
built by one process and by more. All take turns in one run. The stream that COPY reads is made
beforehand. ``client CPU s`` is that of this process, all connections together.
"""

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from psycopg import sql

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import print_table
from pipeline.stores.binary_copy import copy_stream
from pipeline.stores.postgres.embedded import start_embedded
from tests.servers.postgres_server import server_folder

COPY = "COPY bare (id, content, embedding) FROM STDIN (FORMAT BINARY)"
CONNECTIONS, WORKERS = (1, 2, 1, 2), (0, 1, 2, 0, 1, 2)
BUILD = "CREATE INDEX built ON bare USING hnsw (embedding vector_cosine_ops)"
BUILD_MEMORY = "1024MB"


def streams(rows: int, dimensions: int, parts: int) -> list[list[bytes]]:
    """Return the rows as ``parts`` streams for COPY."""
    vectors = np.random.default_rng(1).normal(size=(rows, dimensions)).astype(np.float32)
    content = "a text unit of some length, that is stored beside its vector as it is; " * 4
    frame = pd.DataFrame(
        {"id": [f"row-{n:09}" for n in range(rows)], "content": content, "embedding": list(vectors)}
    )
    kinds: Any = {"id": "text", "content": "text", "embedding": "vector"}
    return [[piece for _, piece in copy_stream(frame[part::parts], kinds)] for part in range(parts)]


def copied(url: str, stream: list[bytes]) -> None:
    with psycopg.connect(url) as connection, connection.cursor().copy(COPY) as copy:
        for piece in stream:
            copy.write(piece)


def timed(work: Callable[[], object]) -> dict[str, float]:
    cpu, started = time.process_time(), time.perf_counter()
    work()
    return {"s": time.perf_counter() - started, "client CPU s": time.process_time() - cpu}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--dimensions", type=int, default=256)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with server_folder() as folder:
        url = start_embedded(folder)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            create = sql.SQL(
                "CREATE TABLE bare (id text PRIMARY KEY, content text, embedding vector({}))"
            )
            connection.execute(create.format(sql.Literal(options.dimensions)))
            connection.execute("ALTER TABLE bare ALTER COLUMN embedding SET STORAGE PLAIN")
            for connections in CONNECTIONS:
                connection.execute("TRUNCATE bare")
                connection.execute("CHECKPOINT")
                parts = streams(options.rows, options.dimensions, connections)
                with ThreadPoolExecutor(connections) as pool:
                    found = timed(
                        lambda parts=parts, pool=pool: list(
                            pool.map(lambda part: copied(url, part), parts)
                        )
                    )
                rows.append({"what": f"COPY, {connections} connections", **found})
            connection.execute(
                "SELECT set_config('maintenance_work_mem', %s, false)", [BUILD_MEMORY]
            )
            for workers in WORKERS:
                connection.execute(
                    "SELECT set_config('max_parallel_maintenance_workers', %s, false)",
                    [str(workers)],
                )
                build = "CREATE INDEX built ON bare USING hnsw (embedding vector_cosine_ops)"
                rows.append(
                    {
                        "what": f"HNSW, {workers} workers",
                        **timed(lambda build=build: connection.execute(build)),
                    }
                )
                connection.execute("DROP INDEX built")
    print_table(rows)


if __name__ == "__main__":
    main()
