"""One owner in two folders, or two commands of one project: what is shown is always the rows of one
load, whole."""

import subprocess
from pathlib import Path

import pytest

from pipeline.errors import LockedError
from pipeline.stores.base import alone
from tests.projects import ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.sizes import size
from tests.whole.test_workspace_owner import in_neo4j

DOCUMENTS = {
    "one": {"one.txt": "Ada Byron met Charles Babbage."},
    "other": {"other.txt": "Emmy Noether met Hilbert."},
}


def twins(root: Path, postgres_url: str, **stores: object) -> list[ProjectFolder]:
    """Two folders of one owner, with one workspace; each has tables of its own."""
    folders = []
    for name, documents in DOCUMENTS.items():
        folder = new_project(
            root / name, postgres_url, documents, workflow="fast", owner="team", stores=stores
        )
        folder.edit_settings(workspace=f"twins-{root.name.replace('_', '-').lower()}"[-60:])
        with folder.open() as project:
            project.index("fast")
        folders.append(folder)
    return folders


def test_a_load_says_which_other_folder_it_replaces(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    one, other = twins(tmp_path, postgres_url)
    with one.open() as project:
        assert project.load("fast").notes == ()
    done = other.invoke("load", "fast")
    assert (done.exit_code, f":{one.root} had loaded it, for the same owner" in done.stdout) == (
        0,
        True,
    )
    with other.open() as project:
        assert project.load("fast").notes == ()
    monkeypatch.setattr("socket.gethostname", lambda: "tomorrows-container")
    other.write("more.txt", "Hilbert met Felix Klein.")
    with other.open() as project:
        assert project.run("fast").notes == ()


@pytest.mark.parametrize(
    "graph", size(["neo4j"], ["postgres", "neo4j"])
)  # the former has both stores
def test_two_loads_that_come_together_leave_the_rows_of_one(
    tmp_path: Path, postgres_url: str, graph: str, request: pytest.FixtureRequest
):
    address: Neo4jAddress | None = (
        request.getfixturevalue("neo4j_address") if graph == "neo4j" else None
    )
    folders = twins(tmp_path, postgres_url, **(in_neo4j(address) if address else {}))
    with folders[0].open() as project, alone(project.stores.all):
        loads = [_load(folder) for folder in folders]
        for load in loads:
            _wait_until_it_waits(load)
        with pytest.raises(LockedError, match=f"process {loads[0].pid}"):
            project.load("fast")
    for load in loads:
        told = load.communicate(timeout=120)[1]
        assert load.returncode == 0, told
    shown = []
    for folder in folders:
        with folder.open() as project:
            shown.append(project.verify("fast").agrees)
    assert sorted(shown) == [False, True]


def _load(folder: ProjectFolder) -> subprocess.Popen[str]:
    line = folder.command_line("load", "fast")
    return subprocess.Popen(
        line, env=folder.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _wait_until_it_waits(load: subprocess.Popen[str]) -> None:
    assert load.stderr
    told = ""
    while "waiting for that to end" not in told:
        told = load.stderr.readline()
        assert told, "it ended"
