"""Measure loads that leave dead rows around an HNSW index, and what clearing these away costs.

    python benchmarks/dead_rows.py --rows 20000 --dimensions 1536

The figures are those of the embedded server.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import print_table
from sqlalchemy import Connection

from benchmarks.server_time import postgres_cpu
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Live
from pipeline.stores.postgres import store as postgres
from pipeline.stores.postgres.embedded import start_embedded, stop_embedded
from pipeline.stores.postgres.hnsw import Hnsw

TABLE = "entities"
NIGHTS = {
    "first, index built": slice(0, 0),
    "1 % changed": slice(0, None, 100),
    "a third changed": slice(1, None, 3),
}
"""The loads by name, each with the rows that have changed since the load before."""


@dataclass
class Spent:
    """The CPU and the wall time of the server, in seconds."""

    cpu: float = 0.0
    seconds: float = 0.0


@contextmanager
def spent(folder: Path, so_far: Spent) -> Iterator[None]:
    cpu, began = postgres_cpu(folder), time.perf_counter()
    yield
    so_far.cpu += postgres_cpu(folder) - cpu
    so_far.seconds += time.perf_counter() - began


def measure(folder: Path, rows: int, dimensions: int) -> list[dict[str, Any]]:
    store = postgres.PostgresStore(start_embedded(folder), "w", hnsw=Hnsw(), vacuums=True)
    vectors = np.random.default_rng(3).normal(size=(rows, dimensions)).astype(np.float32)
    vacuum, clearing = postgres.vacuum, Spent()

    def measured(connection: Connection, name: str) -> None:
        with spent(folder, clearing):
            vacuum(connection, name)

    postgres.vacuum = measured
    found = []
    for night, (name, changed) in enumerate(NIGHTS.items()):
        vectors[changed] += 1
        whole, clearing.cpu, clearing.seconds = Spent(), 0.0, 0.0
        with (
            spent(folder, whole),
            store.writing(Live("index", str(night), {"model": "m"}, dimensions)) as writer,
        ):
            delta = diff(_rows(vectors), writer.hashes(TABLE))
            writer.apply(TABLE, delta)
            writer.publish()
        found.append(
            {
                "load": name, "rows written": len(delta.inserted) + len(delta.updated),
                "CPU s": whole.cpu,
                "of it VACUUM": clearing.cpu, "s": whole.seconds, "of it, VACUUM": clearing.seconds,
            }
        )  # fmt: skip
    store.close()
    return found


def _rows(vectors: np.ndarray) -> pd.DataFrame:
    ids = [f"ent-{number}" for number in range(len(vectors))]
    texts = {"entity_name": ids, "content": "text of some length " * 10}
    return with_hashes(pd.DataFrame({"id": ids, **texts, "embedding": list(vectors)}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, default=1_536)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "postgres"
        try:
            rows = measure(folder, options.rows, options.dimensions)
        finally:
            stop_embedded(folder)
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
