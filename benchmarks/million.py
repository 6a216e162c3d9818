"""Measure the way from extractions to loaded rows at sizes that no model reads for a benchmark.

    python benchmarks/million.py --units 1000000

Text units with five mentions each are made up (made_graph.py). Then ``index`` merges, describes and
embeds them, and ``load`` brings them into PostgreSQL.

There is a row for each step: CPU s of this program and its workers, that of the server, the peak of
the step, and the rows that it wrote. The first three steps make the corpus up, in the run's own
buckets, and are left out of the sum. The load builds no HNSW index; that is measured separately,
unless ``--no-index`` is given. Vectors are the builtin ones, of 256 dimensions.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

from harness import ROOT, measure, new_project, print_table, without_index
from measure import PLAN
from server_time import postgres_cpu

from pipeline.errors import counted
from pipeline.project import Project
from pipeline.stores.postgres.hnsw import Hnsw, build_index
from pipeline.stores.postgres.schema import VECTOR_TABLES
from pipeline.stores.postgres.store import PostgresStore

STEPS = {
    "load_documents": "make_documents",
    "chunk_documents": "make_text_units",
    "extract_graph_fast": "make_extractions",
}
"""The steps of ``fast`` in whose places these verbs make the corpus up."""
WORKFLOW = "made"


def make_project(root: Path, units: int) -> None:
    """Add the workflow and its verbs to the project, and turn HNSW indexes off."""
    steps = [{"id": step, "verb": verb, "args": {"units": units}} for step, verb in STEPS.items()]
    workflow = {"name": WORKFLOW, "extends": "fast", "steps": steps}
    (root / "workflows" / f"{WORKFLOW}.yaml").write_text(json.dumps(workflow))
    shutil.copy(ROOT / "benchmarks" / "made_graph.py", root)
    settings = root / "settings.yaml"
    settings.write_text(settings.read_text().replace("verbs: []", "verbs: [made_graph.py]"))
    without_index(root)


def run(root: Path) -> list[dict[str, Any]]:
    """Return a row for each step, and one for all steps that do not make up the corpus."""
    indexed, loaded = (measure(root, WORKFLOW, stage) for stage in ("index", "load"))
    of_store = loaded["stores"]["postgres"]
    rows = [
        {
            "step": STEPS.get(name, name), "CPU s": taken["cpu"], "server's": None,
            "s": taken["wall"],
            "peak MB": taken["peak_mb"], "rows": indexed["step_rows"].get(name),
        }
        for name, taken in {**indexed["steps"], **loaded["steps"]}.items()
    ]  # fmt: skip
    rows[-1] |= {"server's": of_store["server"], "rows": of_store["written"]}
    summed = [row for row in rows if row["step"] not in (PLAN, *STEPS.values())]
    sums = {name: sum(row[name] for row in summed) for name in ("CPU s", "s")}
    most = max(row["peak MB"] for row in summed)
    return [
        *rows,
        {
            "step": "merge to load",
            **sums,
            "server's": of_store["server"],
            "peak MB": most,
            "rows": None,
        },
    ]


def build_indexes(root: Path) -> list[dict[str, Any]]:
    """Build the HNSW index of each table of vectors and return the server's work for it."""
    rows, folder = [], root / "data" / "postgres"
    with Project.open(root) as project:
        store = project.stores.all[0]
        live = store.live()
        assert isinstance(store, PostgresStore)
        assert live
        for name, table in VECTOR_TABLES.items():
            cpu, started = postgres_cpu(folder), time.perf_counter()
            with store.connection() as connection:
                build_index(
                    connection, table, live.tables[name].rows, store.workspace, live, Hnsw()
                )
            rows.append(
                {
                    "HNSW index of": name, "rows": live.tables[name].rows,
                    "server's CPU s": postgres_cpu(folder) - cpu,
                    "s": time.perf_counter() - started,
                }
            )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[20_000])
    parser.add_argument("--workers", type=int, default=1, help="engine.workers")
    parser.add_argument("--no-index", action="store_true", help="build no HNSW index")
    options = parser.parse_args()
    for units in options.units:
        with new_project(0, workers=options.workers) as root:
            make_project(root, units)
            print(f"\n{units:,} text units, {counted(options.workers, 'worker')}", flush=True)
            print_table(run(root))
            if not options.no_index:
                print()
                print_table(build_indexes(root))


if __name__ == "__main__":
    main()
