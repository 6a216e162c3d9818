"""Neo4j's own import tool reads the export, and the database is as a load would have left it."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from neo4j import GraphDatabase

from pipeline.export.kinds import export
from pipeline.export.neo4j_admin import (
    COMMUNITY_NODES,
    EDGES,
    NODES,
    STATEMENTS,
    import_command,
    import_options,
)
from pipeline.export.statements import format_statement
from pipeline.load.loader import load
from pipeline.load.projection import type_name
from pipeline.stores.base import PROPERTIES
from pipeline.stores.neo4j.rows import WRITTEN
from pipeline.stores.neo4j.store import Neo4jStore
from tests.export.hostile import HOSTILE, hostile_tables, source_of
from tests.servers.neo4j_server import (
    PASSWORD,
    QUICK_START,
    Neo4jAddress,
    Neo4jUnavailable,
    cache_folder,
    copy_jars,
    java,
    kept,
    make_home,
    maven_server,
    run,
    tail,
    why_no_maven,
)
from tests.sizes import only_whole
from tests.states import neo4j_rows


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """The server's jars, and a home without a database."""
    try:
        if reason := why_no_maven():
            raise Neo4jUnavailable(reason)
        jars = kept(cache_folder() / "lib", copy_jars)
    except Neo4jUnavailable as reason:
        if os.environ.get("GRAPHMILL_REQUIRE_NEO4J") == "1":
            pytest.fail(f"no import tool of Neo4j: {reason}")
        pytest.skip(f"no import tool of Neo4j: {reason}")
    fresh = kept(cache_folder() / f"home-{PASSWORD}", lambda folder: make_home(jars, folder))
    home = tmp_path / "home"
    shutil.copytree(fresh, home)
    return jars, home


@pytest.fixture
def stores() -> Iterator[list[Neo4jStore]]:
    opened: list[Neo4jStore] = []
    yield opened
    for store in opened:
        store.close()


def open_store(stores: list[Neo4jStore], address: Neo4jAddress, workspace: str) -> Neo4jStore:
    store = Neo4jStore(address.uri, address.user, address.password, address.database, workspace)
    stores.append(store)
    return store


def drop_statements(address: Neo4jAddress) -> dict[str, list[str]]:
    """Remove the statements, which a load does not write, and return them by relationship."""
    query = """
        MATCH ()-[r]->() WHERE r.statements IS NOT NULL
        WITH r, r.statements AS statements SET r.statements = NULL
        RETURN r.id AS id, statements
        """
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:
        found = driver.execute_query(query, database_=address.database)
    return {record["id"]: record["statements"] for record in found.records}


@only_whole("a server of its own, stopped, filled and started")
def test_the_import_tool_writes_the_same_rows_as_a_load(
    homes: tuple[Path, Path], stores: list[Neo4jStore], tmp_path: Path
):
    jars, home = homes
    source = source_of(hostile_tables(), tmp_path)
    exported = export("neo4j-admin", source, tmp_path / "it's, out")
    shown = {name: rows for name, rows in exported.files.items() if rows}
    assert shown == {
        "nodes.csv": len(HOSTILE),
        "relationships.csv": len(HOSTILE) + 1,
        "communities.csv": len(HOSTILE) + 1,
        "community_links.csv": 3 * len(HOSTILE),
    }
    admin = [
        "org.neo4j.cli.AdminTool",
        "database",
        "import",
        "full",
        "neo4j",
        *import_options(True),
    ]
    where = {"NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")}
    done = run(
        java(), *QUICK_START, "-cp", f"{jars}/*", *admin, environment=where, folder=exported.folder
    )
    assert done.returncode == 0, tail(done.stdout + done.stderr)
    with maven_server(home, options=QUICK_START) as address:
        stated = drop_statements(address)
        rows = source.snapshots.tables.read(source.manifest.tables["statements"])
        assert stated == {
            id: [format_statement(row) for row in rows_of_id.to_dict("records")]
            for id, rows_of_id in rows.groupby("relationship_id")
        }
        imported = neo4j_rows(address, "exported")
        beside = open_store(stores, address, "loaded")
        load(source.manifest, source.snapshots, [beside], source.max_types)
        loaded = neo4j_rows(address, "loaded")
        assert [row for row in loaded["nodes"] if "GraphmillL" not in str(row)] == imported["nodes"]
        # A load counts the links between communities; the tool imports what they are counted from.
        assert [
            row
            for row in loaded["edges"]
            if "('keywords', [])" not in row and "'type': 'BETWEEN'" not in row
        ] == [row for row in imported["edges"] if "('row_hash', '')" not in row]
        again = load(
            source.manifest,
            source.snapshots,
            [open_store(stores, address, "exported")],
            source.max_types,
        )
        assert again["neo4j"] == {
            "nodes": {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": len(HOSTILE)},
            "relationships": {"inserted": 0, "updated": 1, "deleted": 0, "unchanged": len(HOSTILE)},
            "communities": {
                "inserted": 0,
                "updated": 0,
                "deleted": 0,
                "unchanged": len(HOSTILE) + 1,
            },
        }
        assert neo4j_rows(address, "exported")["edges"] == loaded["edges"]


def test_the_rarest_types_of_all_batches_become_related(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.snapshots.table_rows.BATCH_ROWS", 3)
    tables = hostile_tables()
    tables["relationships"]["keywords"] = [["common"]] * 10 + [["often"]] * 3 + [["rare"]] * 2
    few, all_types = (
        export(
            "neo4j-admin",
            replace(source_of(tables, tmp_path), max_types=limit),
            tmp_path / str(limit),
        )
        for limit in (2, 9)
    )
    lines = {
        folder: (folder / "relationships.csv").read_text(encoding="utf-8")
        for folder in (few.folder, all_types.folder)
    }
    assert [
        lines[few.folder].count(f'"{name}"') for name in ("COMMON", "OFTEN", "RARE", "RELATED")
    ] == [10, 3, 0, 2]
    assert lines[all_types.folder].count(f'"{type_name("rare", "")}"') == 2


def test_relationships_have_a_column_of_statements_if_the_workflow_makes_them(tmp_path: Path):
    tables = hostile_tables()
    without = {name: table for name, table in tables.items() if name != "statements"}
    headers: list[list[str]] = []
    for number, written in enumerate((tables, without)):
        source = source_of(written, tmp_path / str(number))
        exported = export("neo4j-admin", source, tmp_path / f"out-{number}")
        header = (exported.folder / "relationships_header.csv").read_text(encoding="utf-8")
        headers.append(header.strip().split(","))
    assert headers == [[*EDGES, STATEMENTS], [*EDGES]]


def test_the_command_is_safe_to_paste():
    command = import_command(Path("/srv/it's; rm -rf $HOME, out"))
    assert shlex.split(command)[:3] == ["cd", "/srv/it's; rm -rf $HOME, out", "&&"]
    assert "neo4j-admin database import full neo4j --nodes=nodes_header.csv,nodes.csv " in command


@pytest.mark.parametrize(
    ("table", "header"),
    [("sourced_nodes", NODES), ("sourced_edges", EDGES), ("communities", COMMUNITY_NODES)],
)
def test_the_export_has_a_column_for_everything_that_a_load_writes(
    table: str, header: Mapping[str, Any]
):
    """A load finds the row_hash of an imported row equal, so it would never add what is missing."""
    names_of_the_tool = {
        "display_name": "displayName",
        "source_entity_id": ":START_ID",
        "target_entity_id": ":END_ID",
        "type": ":TYPE",
    }
    exported = {column.partition(":")[0] or column for column in header}
    # Each property of an entity is a column of its own, which depends on the ontology.
    written = [name for name in WRITTEN[table] if name != PROPERTIES]
    assert [name for name in written if names_of_the_tool.get(name, name) not in exported] == []
