"""A backup is restored into another folder with the same tables and stores, without a call."""

import os
import shutil
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from pipeline.backup.beside import path_beside
from pipeline.backup.members import ProjectFiles
from pipeline.backup.restore import restore_files
from pipeline.errors import DiskFullError, UsageError
from pipeline.files import PARTIAL
from pipeline.project import Project
from pipeline.runs.owner import OWNER_FILE
from pipeline.settings.init import init_project
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, Reply, openai_server
from tests.states import postgres_rows, table_hashes

KEY = "sk-canary-in-the-settings"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def mine(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, endpoint: OpenAIServer
) -> ProjectFolder:
    """A project in the shared database that was run, with keys in all places of keys."""
    root = tmp_path_factory.mktemp("backup") / "mine"
    folder = new_project(root, postgres_url, endpoint=endpoint)
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
    (folder.root / ".env").write_text("CANARY=sk-canary-in-env\nACCOUNT=account.json\n")
    for name in ("account.json", "client.pem", "data/serve/session-signature", "deploy/.env.prod"):
        (folder.root / name).parent.mkdir(exist_ok=True)
        (folder.root / name).write_text("canary")
    folder.edit_settings(serve={"api_key": KEY})
    return folder


def names_in(file: Path) -> set[str]:
    with zipfile.ZipFile(file) as archive:
        return {name.removeprefix("files/") for name in archive.namelist()}


def test_a_copy_in_a_shared_database_has_a_workspace_and_an_owner_of_its_own(
    mine: ProjectFolder, tmp_path: Path, postgres_url: str, endpoint: OpenAIServer
):
    file = tmp_path / "b.zip"
    done = mine.invoke("backup", str(file))
    assert done.exit_code == 0, done.stderr
    assert "names variables in place of secrets: SERVE_API_KEY" in done.stderr
    with mine.open() as project:
        before, workspace = table_hashes(project), project.settings.workspace
    rows = postgres_rows(postgres_url, workspace)
    asked = len(endpoint.requests)
    done = mine.invoke("restore", str(file), str(tmp_path / "copy"), "--workspace", "drill-of-it")
    assert done.exit_code == 0, done.stderr
    assert "workflow index: loaded into drill-of-it, verified" in done.stdout
    copy = ProjectFolder(tmp_path / "copy", mine.env)
    with copy.open(*copy.endpoint_overrides) as project:
        assert table_hashes(project) == before
        assert project.verify("index").agrees
        assert {one.action for one in project.plan("index")} == {"reuse"}
        report = project.run("index")
        assert sum(step.calls for step in report.steps) == 0
    assert len(endpoint.requests) == asked
    assert postgres_rows(postgres_url, workspace) == rows
    owners = [(root / OWNER_FILE).read_text().strip() for root in (mine.root, copy.root)]
    assert owners[0] != owners[1]
    with closing(sqlite3.connect(copy.root / "data/cache.sqlite")) as cache:
        assert cache.execute("SELECT DISTINCT owner FROM completions").fetchall() == [(owners[1],)]


def test_keys_are_in_a_backup_only_if_they_are_asked_for(mine: ProjectFolder, tmp_path: Path):
    keys = {".env", "account.json", "client.pem", "data/serve/session-signature"}
    keys |= {"deploy/.env.prod"}
    with mine.open() as project:
        without = project.backup(tmp_path / "without.zip")
        project.backup(tmp_path / "with.zip", with_keys=True)
    assert names_in(tmp_path / "without.zip") & keys == set()
    assert names_in(tmp_path / "with.zip") >= keys
    assert without.left_out["client.pem"] == "a key"
    for name, has in (("without.zip", False), ("with.zip", True)):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert (KEY in archive.read("files/settings.yaml").decode()) is has
    assert os.stat(tmp_path / "with.zip").st_mode & 0o077 == 0


def test_a_shared_workspace_is_not_replaced_unasked(
    mine: ProjectFolder, tmp_path: Path, postgres_url: str
):
    with mine.open() as project:
        project.backup(tmp_path / "b.zip")
        workspace = project.settings.workspace
    rows = postgres_rows(postgres_url, workspace)
    done = mine.invoke("restore", str(tmp_path / "b.zip"), str(tmp_path / "again"))
    assert done.exit_code == 1
    assert f"it shows what {os.uname().nodename}:{mine.root} has loaded" in done.stderr
    assert "remove" not in done.stderr
    assert postgres_rows(postgres_url, workspace) == rows
    assert (tmp_path / "again/settings.yaml").is_file()


def test_nothing_that_exists_is_overwritten(mine: ProjectFolder, tmp_path: Path):
    file = tmp_path / "b.zip"
    file.write_text("mine")
    with mine.open() as project, pytest.raises(UsageError, match="exists already"):
        project.backup(file)
    assert file.read_text() == "mine"
    with pytest.raises(UsageError, match="not an empty folder"):
        Project.restore(file, mine.root)
    assert (
        "b.zip: no whole backup" in mine.invoke("restore", str(file), str(tmp_path / "new")).stderr
    )
    assert not (tmp_path / "new").exists()


def test_a_backup_during_a_run_holds_a_whole_generation(
    mine: ProjectFolder, tmp_path: Path, endpoint: OpenAIServer
):
    """The run waits in the middle for the endpoint, with new replies in the cache."""
    with mine.open() as project:
        before = table_hashes(project)
    mine.write("late.txt", "The Late Pier\n\nGovernor Pell built the Late Pier at Quill Point.")
    endpoint.reply = lambda messages, body: Reply("late", delay=6)
    asked = len(endpoint.requests)
    with mine.open(*mine.endpoint_overrides, "max_reject_ratio=1") as project:
        run = Thread(target=project.run, args=("index",))
        run.start()
        while len(endpoint.requests) == asked:
            time.sleep(0.02)
        with mine.open() as other:
            assert other.runs.under_way() is not None
            other.backup(tmp_path / "b.zip")
            assert other.runs.under_way() is not None
        run.join()
    report = Project.restore(tmp_path / "b.zip", tmp_path / "copy", workspace="of-a-run")
    assert report.exit_code == 0, report.problems
    with Project.open(tmp_path / "copy") as copy:
        assert table_hashes(copy) == before
        assert copy.runs.unreported() == []
        assert (copy.root / "data/input/late.txt").is_file()


def test_an_embedded_store_is_made_anew_beside_the_original(tmp_path: Path):
    init_project(tmp_path / "mill")
    folder = ProjectFolder(tmp_path / "mill")
    for name, text in DOCUMENTS.items():
        folder.write(name, text)
    with folder.open() as project:
        project.run("fast")
        project.backup(tmp_path / "b.zip")
    assert not any("postgres" in name for name in names_in(tmp_path / "b.zip"))
    report = Project.restore(tmp_path / "b.zip", tmp_path / "copy")
    assert (report.exit_code, report.is_copy, report.workflow) == (0, True, "fast")
    with folder.open() as project, Project.open(tmp_path / "copy") as copy:
        assert project.load("fast").exit_code == copy.load("fast").exit_code == 0
        for one in (project, copy):
            assert one.verify("fast").agrees
            one.stop_stores()


def test_a_lost_project_is_restored_as_itself(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "mine", postgres_url)
    with folder.open() as project:
        project.index("fast")
        owner = project.owner
        project.backup(tmp_path / "b.zip")
    folder.root.rename(tmp_path / "lost")
    report = Project.restore(tmp_path / "b.zip", folder.root)
    assert (report.is_copy, report.workflow) == (False, "")
    assert "nothing was loaded or verified" in report.notes[-1]
    with folder.open() as project:
        assert project.owner == owner
        assert {one.action for one in project.plan("fast")} == {"reuse"}


def test_odd_files_survive(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "mine", postgres_url)
    inputs = folder.root / "data/input"
    odd = inputs / os.fsdecode(b"caf\xe9.txt")
    odd.write_text("A caf\u00e9 without a name in UTF-8.")
    os.utime(odd, (1_000_000_000, 1_000_000_000))
    (inputs / "Zoë 😀.txt").write_text("A name with a sign.")
    (inputs / "empty").mkdir()
    for name in ("__pycache__/a.txt", "notes-wal", "half.partial", "named.txt"):
        (inputs / name).parent.mkdir(exist_ok=True)
        (inputs / name).write_text("A document.")
    (folder.root / "great-wal").write_text("No journal.")
    (folder.root / ".env").write_text("NAMED=data/input/named.txt")
    (inputs / "away").symlink_to("/etc")
    (folder.root / "run.sh").write_text("true")
    (folder.root / "run.sh").chmod(0o750)
    folder.root.chmod(0o700)
    with folder.open() as project:
        report = project.backup(folder.root / "first.zip")
        second = project.backup(folder.root / "second.zip")
    assert report.left_out == {"data/input/away": "a link", ".env": "a key"}
    assert second.files == report.files
    restored = Project.restore(folder.root / "first.zip", tmp_path / "copy")
    assert restored.workflow == ""
    there = tmp_path / "copy/data/input"
    assert (there / odd.name).read_bytes() == odd.read_bytes()
    assert (there / odd.name).stat().st_mtime == 1_000_000_000
    assert (there / "Zoë 😀.txt").read_text() == "A name with a sign."
    assert (there / "empty").is_dir()
    assert (tmp_path / "copy/great-wal").is_file()
    for name in ("__pycache__/a.txt", "notes-wal", "half.partial", "named.txt"):
        assert (there / name).is_file()
    assert os.stat(tmp_path / "copy/run.sh").st_mode & 0o777 == 0o750
    assert os.stat(tmp_path / "copy").st_mode & 0o777 == 0o700


def test_a_journal_that_goes_as_its_database_is_copied_is_no_member(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE)
    notes = folder.root / "notes.sqlite"
    left = sqlite3.connect(notes)
    left.execute("PRAGMA journal_mode = WAL")
    left.execute("CREATE TABLE notes (text)")
    # A process that was killed leaves its journals: a copy of the three files is like that.
    for name in ("notes.sqlite", "notes.sqlite-wal", "notes.sqlite-shm"):
        shutil.copy(folder.root / name, folder.root / f"killed-{name}")
    left.close()
    with folder.open() as project:
        found = ProjectFiles(project, tmp_path / "b.zip", with_keys=False)
        names = []
        for name in found:
            names.append(name)
            if name == "killed-notes.sqlite":
                for suffix in ("-wal", "-shm"):
                    (folder.root / f"{name}{suffix}").unlink()
    assert {"notes.sqlite", "killed-notes.sqlite"} <= set(names)


def test_what_a_process_of_the_same_number_left_is_removed(tmp_path: Path):
    """In a container, each process may have the number 1."""
    final = tmp_path / "b.zip"
    left = tmp_path / f".b.zip-{os.getpid()}-0123456789abcdef{PARTIAL}"
    left.touch()
    with path_beside(final) as first, path_beside(final):
        first.touch()
        with path_beside(final):
            assert first.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_a_database_is_copied_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = new_project(tmp_path / "p", NO_STORE)
    with closing(sqlite3.connect(folder.root / "notes.sqlite")) as notes:
        notes.execute("CREATE TABLE notes (text)")
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL

    def refuse(*_: object, **__: object) -> sqlite3.Connection:
        raise error

    monkeypatch.setattr("pipeline.backup.write.sqlite3.connect", refuse)
    with folder.open() as project, pytest.raises(DiskFullError):
        project.backup(tmp_path / "b.zip")


def test_the_schedule_of_a_copy_runs_the_copy_alone(tmp_path: Path):
    """Files that are as ``init --nightly`` writes them name the new folder, others are renamed."""
    root = tmp_path / "mine"
    init_project(root, nightly=True)
    crontab = root / "nightly/crontab"
    crontab.write_text("# ALERT=mail me\n" + crontab.read_text())
    (root / "nightly/README").write_text("How we do it.")
    (root / "nightly/dag.py").write_text(f"PROJECT = '{root}'")
    with ProjectFolder(root).open() as project:
        project.backup(tmp_path / "b.zip")
    copy = tmp_path / "copy"
    restored = restore_files(tmp_path / "b.zip", copy)
    for path in (copy / "nightly").iterdir():
        if path.suffix != ".original":
            assert str(root) not in path.read_text(), path.name
    script = copy / "nightly/nightly.sh"
    assert f"project={copy}\n" in script.read_text()
    assert os.access(script, os.X_OK)
    assert f"-C {copy} run" in (copy / "nightly/graphmill.service").read_text()
    assert sorted(path.name for path in (copy / "nightly").iterdir()) == [
        "README", "cronjob.yaml", "crontab.original", "dag.py.original", "graphmill-failed.service",
        "graphmill.service", "graphmill.timer", "nightly.sh",
    ]  # fmt: skip
    written, aside = (note for note in restored.notes if "nightly/" in note)
    assert "cronjob.yaml, graphmill.service, nightly.sh" in written
    assert f"crontab, dag.py in nightly/ may run {root}" in aside
    assert f"'graphmill -C {copy} init --nightly' writes new ones" in aside


def test_the_schedule_of_a_project_that_is_back_in_its_folder_stays(tmp_path: Path):
    root = tmp_path / "mine"
    init_project(root, nightly=True)
    (root / "nightly/crontab").write_text(f"0 1 * * * {root}/nightly/nightly.sh run\n")
    with ProjectFolder(root).open() as project:
        project.backup(tmp_path / "b.zip")
    before = {path.name: path.read_text() for path in (root / "nightly").iterdir()}
    shutil.rmtree(root)
    restore_files(tmp_path / "b.zip", root)
    assert {path.name: path.read_text() for path in (root / "nightly").iterdir()} == before


def test_keys_stay_out_where_the_input_folder_is_the_project(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, input={"path": "."})
    (folder.root / ".env").write_text("OPENAI_API_KEY=sk-canary-7f3a")
    with folder.open() as project:
        report = project.backup(tmp_path / "b.zip")
        found = ProjectFiles(project, tmp_path / "b.zip", with_keys=False)
        # A database is copied as it is at one moment, and a document byte by byte.
        assert not found.is_document(folder.root / "data/cache.sqlite")
    assert report.left_out[".env"] == "a key"
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert not [name for name in archive.namelist() if name.endswith(".env")]
