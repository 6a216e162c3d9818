"""Loads of one workspace in this process, measured; prints JSON.

The argument is JSON: ``snapshots``, the ``runs`` whose manifests are loaded one after the other,
``workspace``, and ``url`` and ``folder`` of PostgreSQL or ``uri``, ``user``, ``password`` and
``database`` of Neo4j. ``exact_below``: see settings.yaml. A load of ``warm_up``, another folder of
tables, goes first, into a workspace of its own: imports, connections and the tables' making are not
counted.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.graph_tables import FIRST, WORKFLOW
from benchmarks.measure import peak
from benchmarks.server_time import server_cpu
from pipeline.load.loader import load
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.base import Store
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.store import PostgresStore

MAX_TYPES = 1_000


def main() -> None:
    spec = json.loads(sys.argv[1])
    if spec.get("warm_up"):
        timed_load({**spec, "workspace": "warm-up"}, spec["warm_up"], FIRST)
    loads = [timed_load(spec, spec["snapshots"], run) for run in spec["runs"]]
    print(json.dumps({"loads": loads, "peak_mb": peak() / 2**20}))


def timed_load(spec: Mapping[str, Any], folder: str, run: str) -> dict[str, Any]:
    store = store_of(spec)
    store.live()  # connects
    snapshots = SnapshotStore(Path(folder))
    manifest = snapshots.manifest(WORKFLOW, run)
    server, cpu, started = server_cpu(spec), time.process_time(), time.perf_counter()
    counts = load(manifest, snapshots, [store], MAX_TYPES)[store.name]
    seconds, cpu, server = (
        time.perf_counter() - started,
        time.process_time() - cpu,
        server_cpu(spec) - server,
    )
    written = sum(
        count[kind] for count in counts.values() for kind in ("inserted", "updated", "deleted")
    )
    store.close()
    return {"seconds": seconds, "cpu": cpu, "server": server, "written": written, "counts": counts}


def store_of(spec: Mapping[str, Any]) -> Store:
    if "url" in spec:
        return PostgresStore(
            spec["url"], spec["workspace"], hnsw=Hnsw(exact_below=spec["exact_below"])
        )
    return Neo4jStore(
        spec["uri"], spec["user"], spec["password"], spec["database"], spec["workspace"]
    )


if __name__ == "__main__":
    main()
