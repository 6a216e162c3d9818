"""Projects that share databases: whose a workspace is, who may take it over, and what nobody
may."""

import io
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import typer
from neo4j import GraphDatabase
from psycopg import sql

from pipeline.engine.run_options import RunOptions
from pipeline.errors import UsageError
from pipeline.files import read_json
from pipeline.runs.owner import OWNER_FILE, PLACE_FILE, owner_of
from pipeline.settings.init import init_project
from tests.projects import ProjectFolder, new_project
from tests.records import column
from tests.schedules import run_line, schedule_of
from tests.servers.neo4j_server import Neo4jAddress

ROOT = Path(__file__).parents[2]
ONE, OTHER = (
    {"one.txt": "Ada Byron met Charles Babbage in London."},
    {"other.txt": "Emmy Noether met David Hilbert."},
)
NODES = "MATCH (n:Entity {workspace: $workspace}) RETURN n.id, n.row_hash ORDER BY n.id"


@pytest.fixture
def mine(tmp_path: Path, postgres_url: str) -> ProjectFolder:
    """Loaded, in a workspace that others come to as well."""
    project = new_project(tmp_path / "mine", postgres_url, ONE, workflow="fast")
    with project.open() as opened:
        opened.run()
    return project


@pytest.fixture
def theirs(mine: ProjectFolder, tmp_path: Path, postgres_url: str) -> ProjectFolder:
    """Another project with the same workspace, as default settings give it."""
    project = new_project(tmp_path / "theirs", postgres_url, OTHER, workflow="fast")
    project.edit_settings(workspace=workspace_of(mine))
    return project


def workspace_of(project: ProjectFolder) -> str:
    with project.open() as opened:
        return opened.settings.workspace


def rows_in(url: str, workspace: str) -> dict[str, list[tuple]]:
    """Of every table that has a workspace; the live row among them."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT DISTINCT relation.relname FROM pg_attribute JOIN pg_class AS relation ON"
            " relation.oid = attrelid WHERE attname = 'workspace' AND relkind IN ('r', 'p') AND NOT"
            " relispartition AND relnamespace = 'public'::regnamespace ORDER BY 1"
        ).fetchall()
        query = sql.SQL("SELECT row::text FROM {} AS row WHERE workspace = %s ORDER BY 1")
        return {
            name: connection.execute(query.format(sql.Identifier(name)), [workspace]).fetchall()
            for (name,) in found
        }


def readme_lines() -> list[list[str]]:
    """The README's own commands that load."""
    lines = [
        line.partition("#")[0].strip()
        for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    ]
    commands = [shlex.split(line) for line in lines if line.startswith("graphmill ")]
    loading = [words[1:] for words in commands if "run" in words or "load" in words]
    assert any("--replace" in words for words in loading)
    return [words[words.index("run" if "run" in words else "load") :] for words in loading]


def test_no_line_of_the_readme_changes_a_row_of_another_owner(
    mine: ProjectFolder, theirs: ProjectFolder, postgres_url: str
):
    before = rows_in(postgres_url, workspace_of(mine))
    assert len(before["lightrag_chunks"]) == 1
    for words in [
        *readme_lines(),
        ["run", "fast", "--replace", "--re-embed"],
        ["load", "fast", "--replace"],
    ]:
        done = theirs.invoke_refused(*words)
        assert f"belongs to owner {owner_of(mine.root)}" in done, words
    assert rows_in(postgres_url, workspace_of(mine)) == before
    assert not list(
        (theirs.root / "data" / "snapshots").rglob("*.parquet")
    )  # nothing was done at all


def test_a_crontab_with_replace_changes_no_row_of_another_owner(
    mine: ProjectFolder, theirs: ProjectFolder, postgres_url: str
):
    before = rows_in(postgres_url, workspace_of(mine))
    init_project(theirs.root, nightly=True)
    [line, _] = schedule_of(theirs.root).lines
    done = run_line(f"{line} fast --replace", theirs.environment)
    assert done.returncode == 2
    assert f"add --take-over {owner_of(mine.root)}" in done.stderr
    assert rows_in(postgres_url, workspace_of(mine)) == before


def test_taken_over_by_the_owners_name_alone(mine: ProjectFolder, theirs: ProjectFolder):
    owner = owner_of(mine.root)
    assert "not to somebody" in theirs.invoke_refused(
        "run", "fast", "--take-over", "somebody", "--yes"
    )
    assert "there is no terminal to ask on" in theirs.invoke_refused(
        "run", "fast", "--take-over", owner
    )
    with mine.open() as opened:
        assert column(opened.stores.vectors.documents(), "source") == ["one.txt"]
    done = theirs.invoke("run", "fast", "--take-over", owner, "--yes")
    assert done.exit_code == 0, done.stderr
    with theirs.open() as opened:
        live = opened.stores.vectors.live()
        assert live
        assert (live.owner, live.place) == (owner_of(theirs.root), opened.place)
        assert column(opened.stores.vectors.documents(), "source") == ["other.txt"]
        assert opened.verify("fast").agrees
    with (
        mine.open() as opened,
        pytest.raises(UsageError, match=f"belongs to owner {owner_of(theirs.root)}"),
    ):
        opened.load("fast")


def test_a_take_over_asks_and_no_is_no(
    mine: ProjectFolder, theirs: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    terminal, owner = io.StringIO("n\n"), owner_of(mine.root)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    with pytest.raises(typer.Abort):
        theirs.invoke("run", "fast", "--take-over", owner)
    with mine.open() as opened:
        assert column(opened.stores.vectors.documents(), "source") == ["one.txt"]
        assert opened.verify("fast", quick=True).agrees


def test_a_workspace_of_another_owner_is_not_dropped(
    mine: ProjectFolder, theirs: ProjectFolder, postgres_url: str
):
    workspace, owner = workspace_of(mine), owner_of(mine.root)
    before = rows_in(postgres_url, workspace)
    for answered in ([], ["--yes"]):  # who would be refused is not asked before
        assert f"add --take-over {owner}" in theirs.invoke_refused(
            "workspace", "drop", workspace, *answered
        )
    assert rows_in(postgres_url, workspace) == before
    done = theirs.invoke("workspace", "drop", workspace, "--yes", "--take-over", owner)
    assert done.exit_code == 0, done.stderr
    assert not any(rows_in(postgres_url, workspace).values())


def test_owners_are_shown(mine: ProjectFolder, theirs: ProjectFolder):
    owner, workspace = owner_of(mine.root), workspace_of(mine)
    shown = {row["workspace"]: row for row in theirs.invoke("workspace", "list", "--json").json}
    assert (shown[workspace]["owner"], shown[workspace]["own"]) == (owner, False)
    assert shown[workspace]["place"].endswith(f":{mine.root}")
    with theirs.open() as opened:
        [found] = [finding for finding in opened.doctor() if finding.what == "postgres owner"]
    assert (found.verdict, owner in found.fact) == ("failed", True)
    with mine.open() as opened:
        [found] = [finding for finding in opened.doctor() if finding.what == "postgres owner"]
    assert found.verdict == "ok"


def test_a_database_of_an_earlier_version_gets_its_owner(
    mine: ProjectFolder, theirs: ProjectFolder, postgres_url: str
):
    workspace = workspace_of(mine)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "UPDATE graphmill_live SET owner = NULL, place = NULL WHERE workspace = %s", [workspace]
        )
    with mine.open() as opened:
        counts = opened.run().load
        assert not any(
            count[kind] for count in counts["postgres"].values() for kind in ("inserted", "deleted")
        )
        live = opened.stores.vectors.live()
        assert live
        assert live.owner == owner_of(mine.root)
    assert "belongs to owner" in theirs.invoke_refused("run", "fast")


def test_an_owner_by_name_outlives_the_container(mine: ProjectFolder, theirs: ProjectFolder):
    for project in (mine, theirs):
        project.edit_settings(owner="nightly", workspace=f"{workspace_of(mine)[:50]}-named")
        with project.open() as opened:
            opened.run(options=RunOptions(allow_deletes=True))
            live = opened.stores.vectors.live()
            assert live
            assert live.owner == "nightly"


def test_two_owners_that_come_together(tmp_path: Path, postgres_url: str):
    """Exactly one has the workspace, and the other none of its rows in it."""
    projects = []
    for name, documents in (("one", ONE), ("other", OTHER)):
        project = new_project(tmp_path / name, postgres_url, documents, workflow="fast")
        project.edit_settings(workspace=f"race-{tmp_path.name.replace('_', '-').lower()}"[-60:])
        with project.open() as opened:
            opened.index("fast")
        projects.append(project)
    _one_wins(projects)


def test_two_owners_that_come_together_to_a_neo4j(
    tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress, second_database: str
):
    """Each has a PostgreSQL of its own: the Neo4j alone knows of both."""
    projects = []
    for name, documents, url in (("one", ONE, postgres_url), ("other", OTHER, second_database)):
        project = new_project(
            tmp_path / name, url, documents, workflow="fast", stores=in_neo4j(neo4j_address)
        )
        project.edit_settings(workspace=f"race-{tmp_path.name.replace('_', '-').lower()}"[-60:])
        with project.open() as opened:
            opened.index("fast")
        projects.append(project)
    _one_wins(projects)


def test_a_neo4j_alone_shows_the_owner(
    tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress, second_database: str
):
    """Also where the other's own PostgreSQL has nothing, or is not even made."""
    stores = in_neo4j(neo4j_address)
    mine = new_project(tmp_path / "mine", postgres_url, ONE, workflow="fast", stores=stores)
    with mine.open() as opened:
        opened.run()
        workspace = opened.settings.workspace
    before = nodes_in(neo4j_address, workspace)
    assert before
    for url in (second_database, "embedded"):
        theirs = new_project(
            tmp_path / f"theirs-{url[:4]}", url, OTHER, workflow="fast", stores=stores
        )
        theirs.edit_settings(workspace=workspace)
        for words in (["run", "fast", "--replace"], ["load", "fast", "--replace"]):
            assert f"belongs to owner {owner_of(mine.root)}" in theirs.invoke_refused(*words)
        assert not (theirs.root / "data" / "postgres").exists()
    assert nodes_in(neo4j_address, workspace) == before


def test_a_copy_is_told_and_a_moved_project_goes_on(mine: ProjectFolder, tmp_path: Path):
    copy = ProjectFolder(tmp_path / "copy")
    subprocess.run(["cp", "-r", str(mine.root), str(copy.root)], check=True)
    assert f"{copy.root}: a copy of the project in {mine.root}" in copy.invoke_refused(
        "run", "fast"
    )
    with mine.open() as opened:
        assert opened.load("fast").exit_code == 0  # the original is not held up
    moved = ProjectFolder(mine.root.rename(tmp_path / "moved"))
    with moved.open() as opened:
        assert opened.load("fast").exit_code == 0
    assert read_json(moved.root / PLACE_FILE)["path"] == str(moved.root)
    for name in (OWNER_FILE, PLACE_FILE):
        (copy.root / name).unlink()
    assert f"belongs to owner {owner_of(moved.root)}" in copy.invoke_refused(
        "run", "fast"
    )  # as any other project


def test_a_project_seen_by_another_path_is_no_copy(mine: ProjectFolder, tmp_path: Path):
    """As a folder that is mounted in a container: no symbolic link that could be resolved."""
    (mine.root / PLACE_FILE).write_text(f"{mine.root / '..' / 'mine'}\n", encoding="utf-8")
    with mine.open() as opened:
        assert opened.load("fast").exit_code == 0


def _one_wins(projects: list[ProjectFolder]) -> None:
    with ThreadPoolExecutor(len(projects)) as pool:
        done = list(pool.map(lambda project: project.command("load", "fast"), projects))
    codes = [one.returncode for one in done]
    assert sorted(codes) == [0, 2], [one.stderr for one in done]
    winner, loser = projects[codes.index(0)], projects[codes.index(2)]
    assert f"belongs to owner {owner_of(winner.root)}" in done[codes.index(2)].stderr
    with winner.open() as opened:
        assert opened.verify("fast").agrees
        for store in opened.stores.all:
            assert store.workspaces()[opened.settings.workspace].owner == owner_of(winner.root)
    with loser.open() as opened:
        for store in opened.stores.all:
            live = store.workspaces().get(opened.settings.workspace)
            assert live is None or live.owner == owner_of(winner.root)


def in_neo4j(address: Neo4jAddress) -> Mapping[str, object]:
    uri = {
        "uri": address.uri,
        "user": address.user,
        "password": address.password,
        "database": address.database,
    }
    return {"graph": "neo4j", "neo4j": uri}


def nodes_in(address: Neo4jAddress, workspace: str) -> list[list[object]]:
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:
        found = driver.execute_query(NODES, {"workspace": workspace}, database_=address.database)
    return [record.values() for record in found.records]


@pytest.fixture
def second_database(postgres_url: str) -> Iterator[str]:
    """Another database in the same server: advisory locks and tables are apart."""
    name = "graphmill_second"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    path, _, query = postgres_url.partition("?")
    yield f"{path.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
