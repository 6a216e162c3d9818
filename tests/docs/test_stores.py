"""Check the pages docs/stores*.md: their SQL and Cypher run as they stand, their rights suffice,
and their columns are all."""

import ast
import csv
import io
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from neo4j import GraphDatabase
from neo4j.exceptions import ClientError
from psycopg import sql
from sqlalchemy.engine import make_url

from pipeline.errors import StoreError
from pipeline.project import Project
from pipeline.stores.neo4j.rows import name_key
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.schema import LIVE, TABLES
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.stores.graphs import LoadableGraph, graph, node

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.glob("stores*.md")}
QUESTION = "Who taught optics?"
KEYS = """
    MATCH (n:Entity {workspace: $workspace})-[r]->() UNWIND keys(n) AS node UNWIND keys(r) AS link
    RETURN collect(DISTINCT node), collect(DISTINCT link)
    """
READER, LOADER = "graphmill_reader", "graphmill_loader"
NONE: Mapping[str, str] = MappingProxyType({})

Rows = list[dict[str, Any]]


def blocks(language: str, page: str = "\n".join(PAGES.values())) -> dict[str, str]:
    """Return the first line of each example, a comment, and the whole."""
    found = re.findall(rf"```{language}\n((?:--|//) ([^\n]+)\n.*?)```", page, re.DOTALL)
    assert len(found) == page.count(f"```{language}\n") == len({title for _, title in found})
    return {title: block for block, title in found}


SQL, CYPHER = blocks("sql"), blocks("cypher")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Loaded, the graph in PostgreSQL, with indexes over vectors."""
    folder = new_project(
        tmp_path_factory.mktemp("stores") / "docs",
        postgres_url,
        stores={"postgres": {"url": postgres_url, "exact_below": 1}},
    )
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture(scope="module")
def project(folder: ProjectFolder) -> Iterator[Project]:
    with folder.open() as project:
        yield project


# PostgreSQL.


@pytest.fixture(scope="module")
def tools(postgres_url: str) -> Path:
    """Where psql and pg_dump of the server's own version are."""
    with psycopg.connect(postgres_url) as connection:
        [[folder]] = connection.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
    return Path(folder)


@pytest.fixture(scope="module")
def psql(tools: Path) -> Callable[..., Rows]:
    """Run a script as a person would who pastes it."""

    def psql(url: str, script: str, values: Mapping[str, str] = NONE) -> Rows:
        given = [f"--set={name}='{value}'" for name, value in values.items()]
        done = subprocess.run(
            [tools / "psql", "--no-psqlrc", "--quiet", "--csv", "--set=ON_ERROR_STOP=1", *given,
                "--dbname", url],
            input=script, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return list(csv.DictReader(io.StringIO(done.stdout)))

    return psql


@pytest.fixture(scope="module")
def ask(project: Project, postgres_url: str, psql: Callable[..., Rows]) -> Callable[..., Rows]:
    """The rows of an example, ``before`` written before its SELECT."""
    live = project.stores.vectors.live()
    values = {
        "workspace": project.settings.workspace,
        "name": "Anselm Torr",
        "chunk": project.table("text_units")["id"].iloc[0],
        "embedding_key": live.embedding_key if live else "",
    }
    return lambda title, before="": psql(
        postgres_url, SQL[title].replace("SELECT", f"{before}SELECT", 1), values
    )


def test_the_live_row(ask: Callable[..., Rows], project: Project):
    [row] = [
        row
        for row in ask("What each workspace shows")
        if row["workspace"] == project.settings.workspace
    ]
    assert (row["workflow"], row["dimensions"]) == ("fast", "256")


def test_the_best_linked_entities(ask: Callable[..., Rows], project: Project):
    found = ask("The entities with the most neighbours")
    best = project.table("entities").sort_values(["degree", "name"], ascending=[False, True])[:10]
    assert sorted(int(row["degree"]) for row in found) == sorted(best["degree"])


def test_neighbours(ask: Callable[..., Rows], project: Project):
    found = ask("The neighbours of an entity")
    assert {(row["source"], row["target"]) for row in found} == links_of("Anselm Torr", project)


def links_of(name: str, project: Project) -> set[tuple[str, str]]:
    links = project.table("relationships")
    links = links[(links["source"] == name) | (links["target"] == name)]
    assert len(links) > 2
    return set(zip(links["source"], links["target"], strict=True))


def test_text_units_of_an_entity(ask: Callable[..., Rows]):
    found = ask("The text units that name an entity, wherever the graph is")
    assert {row["source"] for row in found} == {
        name for name, text in DOCUMENTS.items() if "Anselm Torr" in text
    }
    assert all("Anselm Torr" in row["content"] for row in found)


def test_counts_by_type(ask: Callable[..., Rows], project: Project):
    found = ask("Entities and relationships by type")
    counts = {
        kind: sum(int(row["count"]) for row in found if row["kind"] == kind)
        for kind in ("entity", "relationship")
    }
    assert counts == {
        "entity": len(project.table("entities")),
        "relationship": len(project.table("relationships")),
    }


def test_conflicting_properties(ask: Callable[..., Rows], project: Project, postgres_url: str):
    workspace = project.settings.workspace
    id, name = project.table("entities").iloc[0][["id", "name"]]
    values = {"height": ["12", "13", "12"], "built": ["1850", "1850"]}
    rows = [
        (workspace, f"attr-{property}-{place}", id, property, value, f"doc-{place}")
        for property, given in values.items()
        for place, value in enumerate(given)
    ]
    insert = (
        "INSERT INTO graphmill_attributes (workspace, id, entity_id, name, value, document_id,"
        " row_hash) VALUES (%s, %s, %s, %s, %s, %s, '')"
    )
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.cursor().executemany(insert, rows)
        try:
            found = ask("Properties for which documents give different values")
        finally:
            connection.execute("DELETE FROM graphmill_attributes WHERE entity_id = %s", [id])
    assert found == [
        {"display_name": name, "name": "height", "values": "{12,13}", "documents": "3"}
    ]


def test_reports(ask: Callable[..., Rows]):
    """The workflow writes none."""
    assert (
        ask(
            "The reports that cover the graph at level 1: of its communities, and of coarser ones"
            " without children"
        )
        == []
    )


def test_the_nearest_text_units_come_by_the_index(ask: Callable[..., Rows], project: Project):
    title = "The text units nearest to one: for 256 dimensions, as the builtin model has"
    found = ask(title)
    assert len(found) == len(project.table("text_units"))
    assert float(found[0]["similarity"]) == pytest.approx(1, abs=1e-5)
    plan = "\n".join(row["QUERY PLAN"] for row in ask(title, "EXPLAIN "))
    assert "_hnsw_" in plan
    assert "Sort" not in plan


def test_the_nearest_text_units_by_the_plain_column(ask: Callable[..., Rows], project: Project):
    title = "The text units nearest to one, by the plain column"
    found = ask(title)
    by_cast = ask("The text units nearest to one: for 256 dimensions, as the builtin model has")
    assert [row["id"] for row in found] == [row["id"] for row in by_cast][:10]
    plan = "\n".join(
        row["QUERY PLAN"]
        for row in ask(title, "SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN ")
    )
    assert "_hnsw_" in plan


def test_whose_vectors(ask: Callable[..., Rows], project: Project):
    live = project.stores.vectors.live()
    [row] = ask("Whose vectors there are: embedding_key and dimensions for the next query")
    assert live is not None
    assert row["embedding_key"] == live.embedding_key
    assert row["dimensions"] == "256"


def test_sizes(ask: Callable[..., Rows], project: Project):
    found = ask("What each table of the workspaces takes, with its indexes")
    own = {row["table"] for row in found if f"'{project.settings.workspace}'" in row["workspace"]}
    assert own == {
        "lightrag_chunks",
        "lightrag_entities",
        "lightrag_relationships",
        "graphmill_reports",
    }


def test_every_column_is_on_the_page():
    section = PAGES["stores-sql"].partition("```")[0]
    rows = dict(re.findall(r"^\| ((?:lightrag|graphmill)_\w+) \| (.+) \|$", section, re.MULTILINE))
    named = {
        table: set(", ".join(re.findall(r"`([^`]+)`", cell)).split(", "))
        for table, cell in rows.items()
    }
    assert named == {
        table.name: {column.name for column in table.columns} - {"workspace", "id", "row_hash"}
        for table in (LIVE, *TABLES.values())
    }


# Roles, and a copy.


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    """A new database; its roles go with it."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE roles")
        yield url_of(postgres_url, "roles")
        connection.execute("DROP DATABASE roles WITH (FORCE)")
        for role in (READER, LOADER):
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))


def url_of(url: str, database: str, user: str | None = None) -> str:
    parts = make_url(url)
    return parts.set(database=database, username=user or parts.username).render_as_string(
        hide_password=False
    )


def test_rights(folder: ProjectFolder, database: str, psql: Callable[..., Rows]):
    loading = f"stores.postgres.url={url_of(database, 'roles', LOADER)}"
    reading = f"stores.postgres.url={url_of(database, 'roles', READER)}"
    psql(database, SQL["As an administrator, in the database"])
    with folder.open(loading) as project:
        project.load("fast")
    with folder.open(reading) as project, pytest.raises(StoreError, match="permission denied"):
        project.query(QUESTION)
    psql(url_of(database, "roles", LOADER), SQL["As graphmill_loader, after the first load"])
    for other in ("", "later-one"):
        workspace = [f"workspace={other}"] if other else []
        with folder.open(loading, *workspace) as project:
            project.load("fast")
        with folder.open(reading, *workspace) as project:
            assert "Anselm Torr" in project.query(QUESTION, mode="mix").text
            assert project.verify("fast").agrees
            assert project.workspaces()["postgres"]
            query = "SELECT DISTINCT workspace FROM lightrag.lightrag_chunks"
            shown = {row["workspace"] for row in psql(url_of(database, "roles", READER), query)}
            assert project.settings.workspace in shown
            project.load("fast")  # nothing to do
            with pytest.raises(StoreError, match=r"permission denied|must be owner"):
                project.drop_workspace(project.settings.workspace)


def test_a_restored_dump_agrees(
    folder: ProjectFolder, database: str, postgres_url: str, tools: Path, tmp_path: Path
):
    dump = tmp_path / "stores.dump"
    for tool, *options in (
        ["pg_dump", "-Fc", "-d", postgres_url, "-f", dump],
        ["pg_restore", "-d", database, dump],
    ):
        subprocess.run([tools / tool, *options], check=True, capture_output=True, timeout=120)
    with folder.open(f"stores.postgres.url={database}") as project:
        assert project.verify("fast", quick=True).agrees
        assert "Anselm Torr" in project.query(QUESTION, mode="mix").text


# Neo4j.


@pytest.fixture(scope="module")
def in_neo4j(folder: ProjectFolder, neo4j_address: Neo4jAddress) -> Iterator[Project]:
    there = [
        f"stores.neo4j.{key}={getattr(neo4j_address, key)}"
        for key in ("uri", "user", "password", "database")
    ]
    with folder.open("stores.graph=neo4j", *there) as project:
        project.load("fast")
        yield project
        project.drop_workspace(project.settings.workspace)


@pytest.fixture(scope="module")
def match(in_neo4j: Project, neo4j_address: Neo4jAddress) -> Iterator[Callable[..., Rows]]:
    address = neo4j_address
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:

        def match(title: str, **parameters: str) -> Rows:
            given = {"workspace": in_neo4j.settings.workspace, "name": "Anselm Torr", **parameters}
            with driver.session(database=address.database, default_access_mode="READ") as session:
                return session.run(CYPHER[title], given).data()  # pyright: ignore[reportArgumentType]

        yield match


def test_the_live_node(match: Callable[..., Rows], in_neo4j: Project):
    found = {row["live.workspace"]: row for row in match("What each workspace shows")}
    assert found[in_neo4j.settings.workspace]["live.workflow"] == "fast"
    assert not found[in_neo4j.settings.workspace]["loading"]


def test_nodes_and_their_neighbours(match: Callable[..., Rows], in_neo4j: Project):
    best = match("The entities with the most neighbours")
    assert best[0]["degree"] == in_neo4j.table("entities")["degree"].max()
    found = match("The neighbours of an entity")
    assert {(row["source"], row["target"]) for row in found} == links_of("Anselm Torr", in_neo4j)


def test_text_units_of_a_node(match: Callable[..., Rows], in_neo4j: Project):
    found = [
        row["chunk"] for row in match("The text units that name an entity: ids of lightrag_chunks")
    ]
    units = in_neo4j.table("text_units")
    assert sorted(found) == sorted(units["id"][units["text"].str.contains("Anselm Torr")])


def test_counts_by_label_and_type(match: Callable[..., Rows], in_neo4j: Project):
    for title, table in (
        ("Entities by type", "entities"),
        ("Relationships by type", "relationships"),
    ):
        assert sum(row["count"] for row in match(title)) == len(in_neo4j.table(table))


def test_a_path(match: Callable[..., Rows]):
    [row] = match("How two entities are linked, over at most four relationships", other="Idra Senn")
    assert (row["names"][0], row["names"][-1]) == ("Anselm Torr", "Idra Senn")
    assert len(row["types"]) == len(row["names"]) - 1


def test_communities(match: Callable[..., Rows]):
    """The workflow finds none."""
    assert match("The communities of an entity, the finest first") == []


def test_whole_names(match: Callable[..., Rows], in_neo4j: Project, neo4j_address: Neo4jAddress):
    address, name = neo4j_address, "x" * 600
    workspace = f"{in_neo4j.settings.workspace[:50]}-names"
    store = Neo4jStore(address.uri, address.user, address.password, address.database, workspace)
    try:
        LoadableGraph(store, store).load(graph([node(name), node("Short")]))
        found = match("The whole names of shortened keys", workspace=workspace)
        assert found == [{"key": name_key(name), "name": name}]
    finally:
        store.drop()
        store.close()


def test_every_property_is_on_the_page(in_neo4j: Project):
    store = in_neo4j.stores.graph
    assert isinstance(store, Neo4jStore)
    [[node, link]] = store.read(KEYS)
    section = PAGES["stores-cypher"].partition("|")[0]
    for part, properties in zip(section.split("Relationship: "), (node, link), strict=True):
        [listed] = re.findall(r"properties\s+`(id, [^`]+)`", part)
        assert set(listed.replace("\n", " ").split(", ")) == set(properties)


def test_a_session_for_reading_cannot_write(in_neo4j: Project, neo4j_address: Neo4jAddress):
    address = neo4j_address
    with (
        GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver,
        driver.session(database=address.database, default_access_mode="READ") as session,
        pytest.raises(ClientError, match=r"(?i)access mode"),
    ):
        session.run("CREATE (:GraphmillNever)").consume()


def test_every_example_is_run():
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert [title for title in [*SQL, *CYPHER] if title not in texts] == []
