"""Measure loads of a synthetic graph into Neo4j and PostgreSQL.

    python benchmarks/load.py
    python benchmarks/load.py --entities 10000 --relationships 30000 --units 10000

The loads are the first, one with nothing to do, and one after 1 % has changed. They are compared
with the plainest code that writes the same rows, by COPY and by INSERT, and with the storage
classes of LightRAG.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import measure_load, print_table

from benchmarks import beside_lightrag
from benchmarks.bare_rows import COPY, INSERT
from benchmarks.graph_tables import CHANGED, FIRST, WORKFLOW, Sizes, write_tables
from benchmarks.progress import Progress, tenths
from pipeline.load.desired_rows import VECTORS_OF
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.postgres.embedded import start_embedded
from tests.servers.neo4j_server import Neo4jUnavailable, neo4j_server
from tests.servers.postgres_server import server_folder

WARM_UP = Sizes(5_000, 15_000, 1_000, 8)
SMALL = Sizes(2_000, 4_000, 2_000, 256)
"""The size of the graph that LightRAG loads."""

NO_INDEX, INDEX, DEFAULT = 10**9, 1, 5_000
"""``exact_below``: rows from which a table gets an HNSW index. LightRAG always makes one."""

STORES = ["neo4j", "postgres"]
PLAIN_AND_FIRST = (("plain loop", COPY), ("first load",))
INDEXED = ", indexed"
"""The end of the names of loads into tables with HNSW indexes."""
SHOWN = (
    "load", "store", "by", "rows", "s", "rows/s", "CPU s", "server CPU s", "CPU µs a row",
    "server's",
    "of the plain CPU", "of INSERT's CPU", "with the server's", "of the first CPU",
    "of the plain rate", "graphmill is",
)  # fmt: skip
BOTH = ("CPU s", "server CPU s")
MEASURED = ("rows", "seconds", "cpu", "server")
Rows = list[dict[str, Any]]


def on_neo4j(sizes: Sizes, folder: str, warm_up: str) -> Rows:
    tables = {"snapshots": folder, "warm_up": warm_up}
    with neo4j() as server:
        plain = measure_load("plain_merge.py", {**server, **tables})
    with neo4j() as server:
        with Progress(server) as progress:
            first = measure_load("load_once.py", {**server, **tables, "runs": [FIRST]})
        again, changed = measure_load(
            "load_once.py", {**server, "snapshots": folder, "runs": [FIRST, CHANGED]}
        )["loads"]
    rates = {
        "nodes": tenths(progress.nodes, sizes.entities),
        "relationships": tenths(progress.relationships, sizes.relationships),
    }
    return by_row(
        [
            {
                **plain_line("plain loop", plain["rows"], plain["seconds"], plain["cpu"]),
                "server CPU s": plain["server"],
            },
            {**first_line(first, plain["rows"], plain["seconds"]), "rates by tenth": rates},
            load_line("again", again),
            load_line("1 % changed", changed),
        ]
    )


def on_postgres(sizes: Sizes, folder: str, warm_up: str, with_index: bool) -> Rows:
    with postgres() as server:
        spec = {**server, "snapshots": folder, "exact_below": NO_INDEX}
        first = measure_load("load_once.py", {**spec, "warm_up": warm_up, "runs": [FIRST]})
        again, changed = measure_load("load_once.py", {**spec, "runs": [FIRST, CHANGED]})["loads"]
        indexed = (
            _with_index({**spec, "warm_up": warm_up, "exact_below": INDEX}) if with_index else []
        )
        bare = measure_load("bare_rows.py", spec)
    rows, seconds, *_ = (sum(table[COPY][clock] for table in bare.values()) for clock in MEASURED)
    found = [
        *({**bare_line(way, bare), "by table": bare} for way in (COPY, INSERT)),
        first_line(first, rows, seconds),
        load_line("again", again),
        load_line("1 % changed", changed),
        *indexed,
    ]
    return by_row(found)


def _with_index(spec: dict[str, Any]) -> Rows:
    """Measure loads that change 1 % of the rows of tables with HNSW indexes.

    The first of them makes the indexes. The last line writes the rows with these vectors by INSERT.
    """
    built = measure_load("load_once.py", {**spec, "runs": [FIRST]})["loads"][0]
    changed = measure_load("load_once.py", {**spec, "runs": [CHANGED]})["loads"][0]
    snapshots = SnapshotStore(Path(spec["snapshots"]))
    one, other = (snapshots.manifest(WORKFLOW, run).tables for run in (FIRST, CHANGED))
    ids = {
        table: snapshots.tables.difference(one[source], other[source], ["id"])[1]["id"].to_pylist()
        for table, source in VECTORS_OF.items()
        if source in one
    }
    bare = measure_load("bare_rows.py", {**spec, "ids": ids})
    return [
        load_line("1 % changed back, indexes made", built),
        load_line(f"1 % changed{INDEXED}", changed),
        bare_line(f"{INSERT}{INDEXED}", bare),
    ]


def with_lightrag(folder: Path, warm_up: str) -> Rows:
    """Measure the load of a small graph by LightRAG, and by graphmill into the same servers.

    Returns no rows if LightRAG cannot be installed.
    """
    try:
        python = beside_lightrag.install(folder / "lightrag")
        rows_file = folder / "rows.json"
        beside_lightrag.write_rows(rows_file, SMALL)
        tables = written(folder / "small", SMALL)
        with neo4j() as neo4j_spec, postgres() as postgres_spec:
            servers = {"Neo4j": neo4j_spec, "PostgreSQL": postgres_spec}
            for server in servers.values():
                measure_load(
                    "load_once.py",
                    {**server, "exact_below": DEFAULT, "warm_up": warm_up, "runs": []},
                )
            theirs = {
                "Neo4j": beside_lightrag.on_neo4j(python, rows_file, SMALL.dimensions, neo4j_spec),
                "PostgreSQL": beside_lightrag.on_postgres(
                    python, rows_file, SMALL.dimensions, postgres_spec["url"]
                ),
            }
            ours = {
                name: small_load(server, tables, warm_up, DEFAULT)
                for name, server in servers.items()
            }
            indexed = small_load({**postgres_spec, "workspace": "indexed"}, tables, warm_up, INDEX)
    except beside_lightrag.LightragUnavailable as error:
        print(f"LightRAG: skipped: {error}", file=sys.stderr, flush=True)
        return []
    graph = SMALL.entities + SMALL.relationships
    rows = {"Neo4j": graph, "PostgreSQL": graph + SMALL.units}
    found: Rows = []
    for store, seconds in ours.items():
        found.append(
            {"store": store, "by": "graphmill", **rate(rows[store], seconds), "graphmill is": None}
        )
        for way, taken in theirs[store].items():
            found.append(
                {
                    "store": store,
                    "by": f"LightRAG, {way}",
                    **rate(rows[store], taken),
                    "graphmill is": taken / seconds,
                }
            )
    with_index = rate(rows["PostgreSQL"], indexed)
    return [
        *found,
        {
            "store": "PostgreSQL",
            "by": "graphmill, HNSW as well",
            **with_index,
            "graphmill is": None,
        },
    ]


def small_load(server: dict[str, Any], tables: str, warm_up: str, exact_below: int) -> float:
    spec = {
        **server,
        "snapshots": tables,
        "exact_below": exact_below,
        "warm_up": warm_up,
        "runs": [FIRST],
    }
    return measure_load("load_once.py", spec)["loads"][0]["seconds"]


@contextmanager
def neo4j() -> Iterator[dict[str, Any]]:
    """Start a server, or use yours; yield what a measuring process needs to know of it."""
    with neo4j_server(options=()) as address:
        yield {**asdict(address), "workspace": "bench"}


@contextmanager
def postgres() -> Iterator[dict[str, Any]]:
    with server_folder() as folder:
        yield {"url": start_embedded(folder), "folder": str(folder), "workspace": "bench"}


def written(folder: Path, sizes: Sizes) -> str:
    write_tables(SnapshotStore(folder), sizes)
    return str(folder)


def plain_line(load: str, rows: int, seconds: float, cpu: float | None) -> dict[str, Any]:
    return {"load": load, **rate(rows, seconds), "CPU s": cpu, "of the plain rate": None}


def bare_line(load: str, bare: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a write by one way; ``bare`` has the measurements by table and way."""
    way = load.removesuffix(INDEXED)
    rows, seconds, cpu, server = (
        sum(table[way][clock] for table in bare.values()) for clock in MEASURED
    )
    return {**plain_line(load, rows, seconds, cpu), "server CPU s": server}


def load_line(load: str, measured: dict[str, Any]) -> dict[str, Any]:
    line = plain_line(load, measured["written"], measured["seconds"], measured["cpu"])
    return {**line, "server CPU s": measured["server"] or None}


def first_line(measured: dict[str, Any], rows: int, plain: float) -> dict[str, Any]:
    """Return the line of the first load; ``plain`` is the seconds of the plainest code."""
    found = measured["loads"][0]
    ratio = {"of the plain rate": plain / found["seconds"], "peak MB": measured["peak_mb"]}
    return {
        **plain_line("first load", rows, found["seconds"], found["cpu"]),
        **ratio,
        "server CPU s": found["server"],
    }


def rate(rows: int, seconds: float) -> dict[str, Any]:
    return {"rows": rows, "s": seconds, "rows/s": rows / seconds}


def by_row(lines: Rows) -> Rows:
    """Return the lines with the CPU of the client and of the server for each row.

    The CPU of a load is also given as a multiple of that of the plainest code, of INSERT into the
    same tables, and of the first load.
    """
    plain_names, first_names = PLAIN_AND_FIRST
    plain = next(line for line in lines if line["load"] in plain_names)
    first = next(line for line in lines if line["load"] in first_names)
    inserts = {line["load"]: line for line in lines if line["load"].startswith(INSERT)}

    def shares(line: dict[str, Any]) -> dict[str, Any]:
        if line.get("CPU s") is None or not line["rows"]:
            return line
        of_insert: dict[str, Any] = {}
        has_index = line["load"].endswith(INDEXED)
        insert = inserts.get(f"{INSERT}{INDEXED}" if has_index else INSERT)
        if insert:
            of_insert = {
                "of INSERT's CPU": a_row(line, "CPU s") / a_row(insert, "CPU s"),
                "with the server's": a_row(line, *BOTH) / a_row(insert, *BOTH),
            }
        return {
            **line, "CPU µs a row": a_row(line, "CPU s"), "server's": a_row(line, "server CPU s"),
            "of the plain CPU": a_row(line, "CPU s") / a_row(plain, "CPU s"), **of_insert,
            "of the first CPU": line["CPU s"] / first["CPU s"],
        }  # fmt: skip

    return [shares(line) for line in lines]


def a_row(line: dict[str, Any], *clocks: str) -> float:
    """Return the microseconds for each row, summed over the clocks."""
    return 1e6 * sum(line[clock] or 0 for clock in clocks) / line["rows"]


def show(title: str, rows: Rows) -> None:
    print(f"\n{title}")
    print_table(
        [
            {name: row.get(name) for name in SHOWN if any(name in each for each in rows)}
            for row in rows
        ]
    )
    for row in rows:
        for name, rates in row.get("rates by tenth", {}).items():
            print(
                f"{name} a second by tenth: {' '.join(f'{rate:,.0f}' for rate in rates)}",
                flush=True,
            )
        if "peak MB" in row:
            print(f"peak MB: {row['peak MB']:,.0f}", flush=True)


def main() -> None:
    options = parse()
    graph = f"{options.entities:,} entities, {options.relationships:,} relationships"
    results: dict[str, Rows] = {}

    def report(title: str, rows: Rows) -> None:
        results[title] = rows
        if rows and not options.json:
            show(title, rows)

    with tempfile.TemporaryDirectory(prefix="graphmill-bench-") as name:
        folder = Path(name)
        warm_up = written(folder / "warm-up", WARM_UP)
        for place, dimensions in enumerate(options.dimensions if options.stores else []):
            sizes = Sizes(options.entities, options.relationships, options.units, dimensions)
            with tempfile.TemporaryDirectory(dir=folder) as tables:
                write_tables(SnapshotStore(Path(tables)), sizes)
                if "neo4j" in options.stores and place == 0:
                    report(f"Neo4j: {graph}", on_neo4j(sizes, tables, warm_up))
                if "postgres" in options.stores:
                    title = (
                        f"PostgreSQL: {graph}, {sizes.units:,} text units, {dimensions:,}"
                        " dimensions"
                    )
                    report(title, on_postgres(sizes, tables, warm_up, not options.no_index))
        if not options.skip_lightrag:
            report(
                f"Beside LightRAG: {SMALL.entities:,} entities, {SMALL.relationships:,}"
                " relationships",
                with_lightrag(folder, warm_up),
            )
    if options.json:
        print(json.dumps(results, indent=1))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relationships", type=int, default=300_000)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument(
        "--dimensions", type=int, nargs="+", default=[256, 1_536], help="Neo4j takes the first"
    )
    parser.add_argument(
        "--stores", nargs="*", default=STORES, choices=STORES, help="none: LightRAG alone"
    )
    parser.add_argument(
        "--no-index", action="store_true", help="no HNSW indexes: they take longest"
    )
    parser.add_argument("--skip-lightrag", action="store_true")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # ends as Ctrl-C does, and its servers with it
    try:
        main()
    except Neo4jUnavailable as error:
        sys.exit(f"neo4j: {error}; --stores postgres --skip-lightrag goes without")
