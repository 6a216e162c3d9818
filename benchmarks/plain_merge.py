"""The graph of a folder of tables written to Neo4j by a plain loop: one thread, ``UNWIND ...
MERGE`` of 5,000 rows a transaction. Prints JSON. The argument is that of load_once.py; ``warm_up``
is written first."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from neo4j import Driver, GraphDatabase

from benchmarks.graph_tables import FIRST, WORKFLOW
from benchmarks.server_time import sibling_cpu
from pipeline.load.projection import RELATED, type_name
from pipeline.snapshots.store import SnapshotStore

BATCH_ROWS = 5_000
Rows = list[dict[str, Any]]
CONSTRAINT = (
    "CREATE CONSTRAINT plain IF NOT EXISTS FOR (n:Plain) REQUIRE (n.workspace, n.id) IS UNIQUE"
)
NODES = """
    UNWIND $rows AS row
    MERGE (n:Plain {workspace: $workspace, id: row.id})
    SET n:$(row.label), n += row.properties
    """
RELATIONSHIPS = """
    UNWIND $rows AS row
    MATCH (source:Plain {workspace: $workspace, id: row.source})
    MATCH (target:Plain {workspace: $workspace, id: row.target})
    MERGE (source)-[r:$(row.type)]->(target)
    SET r += row.properties
    """


def main() -> None:
    spec = json.loads(sys.argv[1])
    with GraphDatabase.driver(
        spec["uri"], auth=(spec["user"], spec["password"]), notifications_min_severity="OFF"
    ) as driver:
        driver.execute_query(CONSTRAINT, database_=spec["database"])
        if spec.get("warm_up"):
            write(driver, spec["database"], "warm-up", *rows_of(spec["warm_up"]))
        print(
            json.dumps(
                write(driver, spec["database"], spec["workspace"], *rows_of(spec["snapshots"]))
            )
        )


def write(
    driver: Driver, database: str, workspace: str, nodes: Rows, relationships: Rows
) -> dict[str, Any]:
    statements: Sequence[tuple[LiteralString, Rows]] = (
        (NODES, nodes),
        (RELATIONSHIPS, relationships),
    )
    server, cpu, started = sibling_cpu(), time.process_time(), time.perf_counter()
    for statement, rows in statements:
        for batch in batches(rows):
            driver.execute_query(statement, rows=batch, workspace=workspace, database_=database)
    seconds, cpu, server = (
        time.perf_counter() - started,
        time.process_time() - cpu,
        sibling_cpu() - server,
    )
    return {
        "seconds": seconds,
        "cpu": cpu,
        "server": server,
        "rows": len(nodes) + len(relationships),
    }


def batches(rows: Rows) -> Iterator[Rows]:
    return (rows[start : start + BATCH_ROWS] for start in range(0, len(rows), BATCH_ROWS))


def rows_of(folder: str) -> tuple[Rows, Rows]:
    snapshots = SnapshotStore(Path(folder))
    tables = snapshots.manifest(WORKFLOW, FIRST).tables
    nodes = [
        {"id": row.pop("id"), "label": type_name(row["type"], RELATED), "properties": row}
        for row in snapshots.tables.read_arrow(tables["entities"])
        .drop_columns(["types", "frequency"])
        .to_pylist()
    ]
    relationships = [
        {
            "source": row.pop("source_entity_id"),
            "target": row.pop("target_entity_id"),
            "type": type_name(row["keywords"][0], RELATED),
            "properties": row,
        }
        for row in snapshots.tables.read_arrow(tables["relationships"])
        .drop_columns(["source", "target"])
        .to_pylist()
    ]
    return nodes, relationships


if __name__ == "__main__":
    main()
