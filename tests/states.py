"""What a project has come to: its tables by content and every row of its stores, made to be
compared."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from neo4j import GraphDatabase

from pipeline.engine.run_report import RunReport, StepReport
from pipeline.project import Project
from pipeline.stores.postgres.schema import LIVE, SORT_COLUMNS
from tests.projects import ProjectFolder, read_yaml, write_yaml
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer, Request

Rows = Mapping[str, Any]


def models(endpoint: OpenAIServer, **chat: Any) -> dict[str, Any]:
    """The settings of models that are all behind this endpoint."""
    where = {"base_url": endpoint.base_url, "api_key": endpoint.key}
    embedding = {
        **where,
        "provider": "openai",
        "model": "text-embedding-3-small",
        "batch_size": 16,
        "concurrency": 4,
    }
    return {
        "chat": {"default": {**where, "concurrency": 4, **chat}},
        "embedding": {"default": embedding},
    }


def set_args(folder: ProjectFolder, workflow: str = "index", **steps: Mapping[str, Any]) -> None:
    """Give steps of the workflow, named by their ids, other arguments."""
    path = folder.root / "workflows" / f"{workflow}.yaml"
    workflow = read_yaml(path)
    for step in workflow["steps"]:
        step["args"] = {**step.get("args", {}), **steps.get(id_of(step), {})}
    write_yaml(path, workflow)


def id_of(step: Mapping[str, Any]) -> str:
    """Return the id of a step in a workflow file: that of its verb unless it has its own."""
    return step.get("id", step["verb"])


def in_batches(folder: ProjectFolder, *steps: str) -> None:
    """Let the steps with these ids ask in batches."""
    path = folder.root / "workflows" / "index.yaml"
    workflow = read_yaml(path)
    for step in workflow["steps"]:
        if id_of(step) in steps:
            step["execution"] = "batch"
    write_yaml(path, workflow)


def table_hashes(project: Project, workflow: str = "index") -> dict[str, str]:
    """Every table of the workflow by its content's hash."""
    tables = project.snapshots.manifest(workflow).tables
    return {name: snapshot.sha256 for name, snapshot in tables.items()}


def postgres_rows(
    url: str, workspace: str, columns: str = "to_jsonb(t) - ARRAY['workspace', 'owner', 'place']"
) -> dict[str, list[Any]]:
    """Every row of every table of the workspace, without the workspace's name and whose it is."""
    with _postgres(url) as connection:
        return {
            name: connection.execute(
                f"SELECT {columns} FROM {name} t WHERE workspace = %s ORDER BY {key}", [workspace]
            ).fetchall()
            for name, key in _tables(connection)
        }  # fmt: skip


def postgres_versions(url: str, workspace: str) -> dict[str, list[Any]]:
    """Of every row, where it is and which transaction wrote it: any write changes that."""
    return postgres_rows(url, workspace, "t.xmin::text, t.ctid::text")


def empty_postgres(url: str, workspace: str) -> None:
    with _postgres(url) as connection:
        for name, _ in _tables(connection):
            connection.execute(f"DELETE FROM {name} WHERE workspace = %s", [workspace])


def _tables(connection: psycopg.Connection) -> list[tuple[str, str]]:
    """Those that are there, with what orders their rows."""
    named = [*SORT_COLUMNS.items(), (LIVE.name, "workspace")]
    return [
        (name, key)
        for name, key in named
        if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() != (None,)
    ]


@contextmanager
def _postgres(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        yield connection


NODES = "MATCH (n {workspace: $workspace}) RETURN labels(n) AS labels, properties(n) AS properties"
EDGES = (
    "MATCH (a {workspace: $workspace})-[r]->(b) "
    "RETURN a.id AS source, type(r) AS type, b.id AS target, properties(r) AS properties"
)
EMPTY = "MATCH (n {workspace: $workspace}) DETACH DELETE n"


def neo4j_rows(address: Neo4jAddress, workspace: str) -> dict[str, list[str]]:
    """Every node and relationship of the workspace, without the workspace's name and whose it
    is."""
    return {
        name: sorted(map(_comparable, _neo4j(address, query, workspace)))
        for name, query in GRAPH.items()
    }


WHOSE = frozenset({"workspace", "owner", "place"})
GRAPH = {"nodes": NODES, "edges": EDGES}


def empty_neo4j(address: Neo4jAddress, workspace: str) -> None:
    _neo4j(address, EMPTY, workspace)


def _neo4j(address: Neo4jAddress, query: Any, workspace: str) -> list[dict[str, Any]]:
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:
        found = driver.execute_query(query, {"workspace": workspace}, database_=address.database)
    return [record.data() for record in found.records]


def _comparable(row: dict[str, Any]) -> str:
    properties = {name: value for name, value in row["properties"].items() if name not in WHOSE}
    labels = sorted(row.get("labels", []))
    return repr({**row, "labels": labels, "properties": sorted(properties.items())})


def in_cache(folder: ProjectFolder, table: str) -> int:
    """Rows of a table of the cache."""
    path = folder.root / "data" / "cache.sqlite"
    if not path.exists():
        return 0
    with (
        closing(sqlite3.connect(path)) as cache,
        suppress(sqlite3.OperationalError),
    ):  # before it has tables
        return cache.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return 0


def is_extraction(request: Request) -> bool:
    return request.kind == "chat" and any(
        "<|COMPLETE|>" in str(message["content"]) for message in request.messages
    )


def step_of(report: RunReport, id: str = "extract_graph") -> StepReport:
    """Return what the report says of a step."""
    return next(step for step in report.steps if step.step == id)
