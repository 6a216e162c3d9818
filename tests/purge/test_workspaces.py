"""No workspace of the project keeps a purged document, in whatever database; others' are left
alone."""

import os
import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from pipeline.engine.run_options import RunOptions
from pipeline.errors import DataError, UsageError
from pipeline.runs.owner import owner_of
from pipeline.settings.init import init_project
from pipeline.stores.loaded_workspaces import FILE, LoadedWorkspaces, Workspace, postgres_address
from pipeline.stores.postgres.store import PostgresStore
from tests.projects import ProjectFolder, new_project
from tests.purge.test_purge import CANARY, KEPT, SECRET, found_in
from tests.servers.neo4j_server import Neo4jAddress
from tests.states import neo4j_rows, postgres_rows

TEXTS = {**KEPT, "secret.txt": SECRET}


def mill(
    root: Path, postgres_url: str, texts: dict[str, str] = TEXTS, **settings: Any
) -> ProjectFolder:
    return new_project(root, postgres_url, texts, **settings)


def load(folder: ProjectFolder, *overrides: str) -> str:
    """Load into a workspace of this name, and return the name."""
    with folder.open(*overrides) as project:
        project.run("fast")
        return project.settings.workspace


def holds(url: str, workspace: str) -> bool:
    """Return whether any row of the workspace has a word of the document in any column."""
    return CANARY.lower() in repr(postgres_rows(url, workspace)).lower()


def in_neo4j(address: Neo4jAddress) -> list[str]:
    return [
        "stores.graph=neo4j", f"stores.neo4j.uri={address.uri}",
        f"stores.neo4j.user={address.user}",
        f"stores.neo4j.password={address.password}", f"stores.neo4j.database={address.database}",
    ]  # fmt: skip


def test_a_purge_reaches_every_workspace_of_one_server(tmp_path: Path, postgres_url: str):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    folder.write("d.txt", "The Fourth\n\nMira Vale wrote it later.")
    other = load(folder, f"workspace={mine}-2")
    theirs = load(mill(tmp_path / "theirs", postgres_url))
    untouched = postgres_rows(postgres_url, theirs)
    assert [holds(postgres_url, each) for each in (mine, other, theirs)] == [True, True, True]
    with folder.open() as project:
        report = project.purge("secret.txt")
        assert (report.exit_code, report.unreached) == (0, {})
        assert len(report.workspaces) == 2
        assert all(counts["postgres"]["documents"] == 1 for counts in report.workspaces.values())
        assert project.verify("fast").agrees
    with folder.open(f"workspace={other}") as project:
        assert project.verify("fast").agrees
    assert [holds(postgres_url, each) for each in (mine, other, theirs)] == [False, False, True]
    assert postgres_rows(postgres_url, theirs) == untouched


def test_every_workspace_of_the_embedded_server_comes_back(tmp_path: Path):
    init_project(tmp_path / "mill")
    folder = ProjectFolder(tmp_path / "mill")
    for name, text in TEXTS.items():
        folder.write(name, text)
    folder.edit_settings(max_delete_ratio=1)
    load(folder)
    load(folder, "workspace=staging")
    with folder.open() as project:
        assert len(found_in(folder.root, CANARY)) > 3
        report = project.purge("secret.txt")
        assert report.rebuilt
        assert {name: counts["postgres"]["documents"] for name, counts in report.workspaces.items()} == {  # noqa: E501
            "workspace default of the embedded PostgreSQL": 1,
            "workspace staging of the embedded PostgreSQL": 1,
        }  # fmt: skip
        lives = project.workspaces()["postgres"]
        assert {name: live.tables["documents"].rows for name, live in lives.items()} == {
            "default": 3,
            "staging": 3,
        }
        assert project.verify("fast").agrees
    with folder.open("workspace=staging") as project:
        assert project.verify("fast").agrees
        project.stop_stores()
    assert found_in(folder.root, CANARY) == []
    assert found_in(folder.root, "Harrow") != []


def test_the_graph_in_neo4j_of_every_workspace_also_of_one_that_the_settings_no_longer_use(
    tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress
):
    neo4j = {
        "uri": neo4j_address.uri, "user": neo4j_address.user, "password": neo4j_address.password,
        "database": neo4j_address.database,
    }  # fmt: skip
    stores = {"postgres": {"url": postgres_url}, "graph": "neo4j", "neo4j": neo4j}
    folder = mill(tmp_path / "mill", postgres_url, stores=stores)
    mine = load(folder)
    former = load(folder, f"workspace={mine}-2")
    load(folder, f"workspace={mine}-2", "stores.graph=postgres")
    with folder.open() as project:
        report = project.purge("secret.txt")
        assert report.exit_code == 0
        assert project.verify("fast").agrees
    for workspace in (mine, former):
        assert not holds(postgres_url, workspace)
        graph = repr(neo4j_rows(neo4j_address, workspace))
        assert "harrow" in graph.lower()
        assert CANARY.lower() not in graph.lower()


def test_a_purge_reaches_a_graph_that_was_in_postgres_before_neo4j(
    tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress
):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    neo4j = in_neo4j(neo4j_address)
    load(folder, *neo4j)
    assert holds(postgres_url, mine)
    with folder.open(*neo4j) as project:
        project.purge("secret.txt")
        assert project.verify("fast").agrees
    assert not holds(postgres_url, mine)
    assert CANARY.lower() not in repr(neo4j_rows(neo4j_address, mine)).lower()


def test_a_database_that_cannot_be_reached_is_named_until_it_has_been(
    tmp_path: Path, postgres_url: str
):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    away = Workspace("postgres", "db.example.org:5432/kb", mine)
    LoadedWorkspaces(folder.root).note([away])
    done = folder.invoke("purge", "--document", "secret.txt", "--yes")
    assert done.exit_code == 1
    assert (
        f"{away} may hold secret.txt still: the settings do not name its database; " in done.stderr
    )
    assert "'graphmill purge --document secret.txt --set stores.postgres" in done.stderr
    assert not holds(postgres_url, mine)
    assert load(folder) == mine  # nights go on meanwhile
    again = folder.invoke("purge", "--document", "secret.txt", "--yes")
    assert again.exit_code == 1
    LoadedWorkspaces(folder.root).forget([away])
    done = folder.invoke("purge", "--document", "secret.txt", "--yes")
    assert (done.exit_code, str(away) in done.stderr) == (
        0,
        False,
    )  # others on this server have workspaces of nobody's
    assert found_in(folder.root, "secret.txt") == []


def test_a_workspace_that_is_another_owners_by_now_is_named(tmp_path: Path, postgres_url: str):
    """Settings name an owner since, so the rows are still this project's, but no load may go
    there."""
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    folder.edit_settings(owner="nightly")
    done = folder.invoke("purge", "--document", "secret.txt", "--yes")
    assert holds(postgres_url, mine)
    assert (done.exit_code, f"belongs to owner {owner_of(folder.root)} by now" in done.stderr) == (
        1,
        True,
    )
    assert (
        f"--take-over {owner_of(folder.root)}' if these rows belong to this project" in done.stderr
    )
    with folder.open() as project:
        project.load("fast", options=RunOptions(take_over=(owner_of(folder.root),)))
        assert project.purge("secret.txt").exit_code == 0
    assert not holds(postgres_url, mine)


def test_another_database_of_the_same_server_is_reached(tmp_path: Path, postgres_url: str):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS purge_other")
        connection.execute("CREATE DATABASE purge_other")
        name = connection.info.dbname
    assert postgres_url.count(f"/{name}?") == 1
    elsewhere = postgres_url.replace(f"/{name}?", "/purge_other?")
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    load(folder, f"stores.postgres.url={elsewhere}")
    assert holds(elsewhere, mine)
    with folder.open() as project:
        report = project.purge("secret.txt")
    assert (report.exit_code, len(report.workspaces)) == (0, 2)
    assert [holds(url, mine) for url in (postgres_url, elsewhere)] == [False, False]


def test_a_purge_reaches_an_embedded_server_that_settings_no_longer_name(
    tmp_path: Path, postgres_url: str
):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    load(folder, "stores.postgres.url=embedded")
    with folder.open() as project:
        report = project.purge("secret.txt")
        assert (report.rebuilt, len(report.workspaces)) == (True, 2)
    with folder.open("stores.postgres.url=embedded") as project:
        assert project.verify("fast").agrees
        assert len(project.stores.vectors.documents()) == 3
        project.stop_stores()
    assert not holds(postgres_url, mine)
    assert found_in(folder.root, CANARY) == []


def test_what_only_a_workspace_shows_still_is_known(tmp_path: Path, postgres_url: str):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    old = load(folder, f"workspace={mine}-old")
    folder.delete("secret.txt")
    load(folder)
    with folder.open() as project:
        project.purge_history(dry_run=False)
        assert holds(postgres_url, old)
        assert project.purge("secret.txt").exit_code == 0
    assert not holds(postgres_url, old)


def test_a_workspace_that_could_not_be_loaded_again_is_told_before_anything_goes(
    tmp_path: Path, postgres_url: str
):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    (folder.root / "workflows/old.yaml").write_text(
        (folder.root / "workflows/fast.yaml").read_text().replace("name: fast", "name: old")
    )
    with folder.open(f"workspace={mine}-old") as project:
        project.run("old")
    (folder.root / "data/snapshots/manifest-old.json").unlink()
    shutil.rmtree(folder.root / "data/snapshots/manifests/old")
    with (
        folder.open() as project,
        pytest.raises(UsageError, match=f"workspace {mine}-old of .*'old', which has no"),
    ):
        project.purge("secret.txt")
    assert (folder.root / "data/input/secret.txt").exists()


def test_files_that_a_former_workflow_emitted_go(tmp_path: Path, postgres_url: str):
    folder = mill(tmp_path / "mill", postgres_url)
    fast = folder.root / "workflows/fast.yaml"
    (folder.root / "workflows/old.yaml").write_text(
        fast.read_text().replace("name: fast", "name: old") + "\nemit: {entities: [csv, json]}\n"
    )
    with folder.open() as project:
        project.index("old")
        project.run("fast")
    folder.write("data-of-mine.txt", "Mine\n\nA text.")
    mine = folder.root / "data/output/old/mine.txt"
    mine.write_text("not emitted")
    assert any("output" in path for path in found_in(folder.root, CANARY))
    for path in (
        folder.root / "workflows/old.yaml",
        folder.root / "data/snapshots/manifest-old.json",
    ):
        path.unlink()
    shutil.rmtree(folder.root / "data/snapshots/manifests/old")
    with folder.open() as project:
        project.purge("secret.txt")
    assert found_in(folder.root, CANARY) == []
    assert mine.exists()


def test_what_was_loaded_is_written_down_without_secrets_before_the_first_write(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    folder = mill(tmp_path / "mill", postgres_url)
    url = (
        make_url(postgres_url)
        .set(password="s3cret")
        .update_query_pairs([("options", "-c application_name=hidden")])
    )
    folder.edit_settings(stores={"postgres": {"url": url.render_as_string(hide_password=False)}})

    def write(*_: object) -> None:
        pytest.fail(f"noted: {LoadedWorkspaces(folder.root).all()}")

    monkeypatch.setattr("pipeline.load.loader.load_store", write)
    with folder.open() as project:
        project.index("fast")
        assert not (folder.root / FILE).exists()
        with pytest.raises(
            pytest.fail.Exception, match=f"noted: .*name='{project.settings.workspace}'"
        ):
            project.load("fast")
    assert (
        found_in(folder.root / "data", "s3cret") == found_in(folder.root / "data", "hidden") == []
    )


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://u:p@Db.Example.org/kb", "db.example.org:5432/kb"),
        ("postgresql+psycopg://u:p@127.0.0.1:6543/kb?sslmode=require", "localhost:6543/kb"),
        ("postgresql://u:p@/kb?host=/run/My", "/run/My:5432/kb"),
        ("postgresql://u@localhost", "localhost:5432/u"),
    ],
)
def test_an_address_has_neither_user_nor_password(url: str, address: str):
    assert postgres_address(url) == address


def test_a_dropped_workspace_is_no_longer_one_that_was_loaded(tmp_path: Path, postgres_url: str):
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    with folder.open() as project:
        assert [each.name for each in LoadedWorkspaces(folder.root).all()] == [mine]
        project.drop_workspace(mine)
    assert LoadedWorkspaces(folder.root).all() == []


def test_a_load_that_has_waited_for_a_drop_is_noted(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    """A drop forgets only what was there before the load."""
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    drop, waits = PostgresStore.drop, threading.Event()

    def heard(event: dict[str, Any]) -> None:
        if event["event"] == "load_waits":
            waits.set()

    def reload() -> None:
        with folder.open() as project:
            project.load("fast", on_event=heard)

    loading = threading.Thread(target=reload)

    def drop_as_the_load_waits(store: PostgresStore) -> Mapping[str, int]:
        dropped = drop(store)
        loading.start()
        assert waits.wait(60)
        return dropped

    monkeypatch.setattr(PostgresStore, "drop", drop_as_the_load_waits)
    with folder.open() as project:
        project.drop_workspace(mine)
        loading.join(60)
        assert project.verify("fast", quick=True).agrees
    assert [each.name for each in LoadedWorkspaces(folder.root).all()] == [mine]


def test_simultaneous_changes_to_the_list_of_workspaces_lose_nothing(tmp_path: Path):
    record = LoadedWorkspaces(tmp_path)
    kept, gone = (
        [Workspace("embedded", "", f"{kind}-{number}") for number in range(20)]
        for kind in ("kept", "gone")
    )
    record.note(gone)
    with ThreadPoolExecutor(4) as pool:
        for half in (0, 1):
            pool.submit(lambda half=half: [record.note([each]) for each in kept[half::2]])
            pool.submit(lambda half=half: [record.forget([each]) for each in gone[half::2]])
    assert record.all() == sorted(kept)


def test_what_came_back_after_a_purge_is_not_certified_by_it(tmp_path: Path, postgres_url: str):
    """The workspace was cleaned, then loaded with the document again, and now cannot be written."""
    folder = mill(tmp_path / "mill", postgres_url)
    mine = load(folder)
    away = Workspace("postgres", "db.example.org:5432/kb", mine)
    LoadedWorkspaces(folder.root).note([away])
    assert (
        folder.invoke("purge", "--document", "secret.txt", "--yes").exit_code == 1
    )  # and goes on until it has been
    folder.write("secret.txt", SECRET)
    load(folder)
    LoadedWorkspaces(folder.root).forget([away])
    folder.edit_settings(owner="nightly")
    with folder.open() as project:
        report = project.purge("secret.txt")
    assert holds(postgres_url, mine)
    assert report.exit_code == 1
    assert [mine in where for where in report.unreached] == [True]


def test_a_damaged_record_is_told_and_never_certified(tmp_path: Path, postgres_url: str):
    folder = mill(tmp_path / "mill", postgres_url)
    load(folder)
    os.truncate(folder.root / FILE, 20)
    with folder.open() as project:
        with pytest.raises(DataError, match=r"workspaces\.json: .*restore it from a backup"):
            project.purge("secret.txt")
        project.run("fast")
        report = project.purge("secret.txt")
        assert (report.exit_code, list(report.unreached)) == (
            1,
            [str(folder.root / f"{FILE}.damaged")],
        )
        (folder.root / f"{FILE}.damaged").unlink()
        assert project.purge("secret.txt").exit_code == 0


def test_what_another_folder_of_the_same_owner_has_loaded_is_left_to_it(
    tmp_path: Path, postgres_url: str
):
    folder = mill(tmp_path / "mill", postgres_url, owner="team")
    mine = load(folder)
    other = mill(
        tmp_path / "other",
        postgres_url,
        {"d.txt": "The Fourth\n\nMira Vale wrote it later."},
        owner="team",
    )
    third = mill(tmp_path / "third", postgres_url, owner="team")
    theirs, with_it = load(other), load(third)
    untouched = [postgres_rows(postgres_url, each) for each in (theirs, with_it)]
    with folder.open() as project:
        report = project.purge("secret.txt")
        assert report.exit_code == 1
        assert [name for name in report.workspaces if mine in name] == list(report.workspaces)
        [(where, what)] = report.unreached.items()
    assert with_it in where
    assert str(third.root) in what
    assert [postgres_rows(postgres_url, each) for each in (theirs, with_it)] == untouched
    with third.open() as project:
        assert project.purge("secret.txt").exit_code == 0
    with folder.open() as project:
        assert project.purge("secret.txt").unreached == {}
    assert not any(holds(postgres_url, each) for each in (mine, theirs, with_it))
