"""Every kind of file that a project keeps is emptied, cut and flipped: no traceback, nothing wrong accepted, and one
run brings all back without a call that the cache can spare."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.owner import OWNER_FILE, PLACE_FILE, SNAPSHOTS_FILE
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.sizes import size
from tests.states import table_hashes

COMMANDS = (
    "status --json", "plan fast", "verify fast", "rejects fast", "usage", "gc --keep 2", "workspace list",
    "query Quill --mode naive", "export csv out --force",
)  # fmt: skip
KEPT = {
    "table": "data/snapshots/*/*.parquet",
    "record": "data/snapshots/steps/*.json",
    "live manifest": "data/snapshots/manifest-*.json",
    "manifest": "data/snapshots/manifests/*/*.json",
    "loaded names": "data/snapshots/loaded/*.json",
    "loaded rows": "data/snapshots/loaded/*.parquet",
    "report": "data/runs/*.json",
    "holder": "data/runs/holder",
}


def flip(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "emptied": lambda content, draw: b"",
    "cut": lambda content, draw: content[: draw.randrange(len(content))],
    "flipped": flip,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("damage") / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    folder.write("pier.txt", "The Pier of Quill was built by Mira Vale in 1880.")
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.mark.parametrize("seed", range(size(1, 12)))
@pytest.mark.parametrize("kind", KEPT)
def test_what_is_damaged_is_told_and_one_run_brings_it_back(whole: ProjectFolder, kind: str, seed: int):
    draw = random.Random(f"{kind} {seed}")
    with whole.open() as project:
        before = table_hashes(project)
    paths = sorted(whole.root.glob(KEPT[kind]))
    assert paths
    for path in paths:
        damage = DAMAGES[draw.choice(sorted(DAMAGES))]
        path.write_bytes(damage(path.read_bytes() or b" ", draw))
    for command in COMMANDS if seed else draw.sample(COMMANDS, 3):
        assert whole.invoke(*command.split()).exit_code in (0, 1, 2), command
    done = whole.invoke("run", "fast")
    assert done.exit_code == 0, done.stderr
    with whole.open() as project:
        assert table_hashes(project) == before
        assert project.verify("fast").agrees


def test_two_projects_on_one_folder_of_snapshots_do_not_run_at_once(tmp_path: Path, postgres_url: str):
    shared = str(tmp_path / "shared")
    one, other = (new_project(tmp_path / name, postgres_url, snapshots=shared) for name in ("one", "other"))
    with one.open() as project, project.runs.alone():
        refused = other.invoke("index", "fast")
    assert refused.exit_code == 1
    assert "a run of another project holds these snapshots" in refused.stderr


def test_a_folder_of_snapshots_has_one_owner_and_takes_its_first_where_it_has_none(tmp_path: Path, postgres_url: str):
    shared = tmp_path / "shared"
    one, other = (new_project(tmp_path / name, postgres_url, snapshots=str(shared)) for name in ("one", "other"))
    assert one.invoke("index", "fast").exit_code == 0
    manifest = (shared / "manifest-fast.json").read_bytes()
    other.write("pier.txt", "The Pier of Quill was built by Mira Vale in 1880.")
    for command in ("index fast", "run fast --replace", "gc --keep 1 --delete"):
        said = other.invoke_refused(*command.split())
        assert f"{shared}: the snapshots of another project, " in said, command
        assert f"{one.root}; set another folder as 'snapshots'" in said, command
    assert (shared / "manifest-fast.json").read_bytes() == manifest
    (shared / SNAPSHOTS_FILE).unlink()  # as an earlier version left it
    assert one.invoke("index", "fast").exit_code == 0
    other.invoke_refused("index", "fast")
    one.edit_settings(owner="the-wiki")
    other.edit_settings(owner="the-wiki")
    assert [one.invoke("index", "fast").exit_code, other.invoke("index", "fast").exit_code] == [0, 0]


def test_a_project_s_own_folder_of_snapshots_stays_its_own(tmp_path: Path, postgres_url: str):
    """Also in a copy that was given an id of its own."""
    folder = new_project(tmp_path / "p", postgres_url)
    assert folder.invoke("index", "fast").exit_code == 0
    for name in (OWNER_FILE, PLACE_FILE):
        (folder.root / name).unlink(missing_ok=True)
    assert folder.invoke("index", "fast").exit_code == 0
    guest = new_project(tmp_path / "guest", postgres_url, snapshots=str(folder.root / "data/snapshots"))
    guest.invoke_refused("index", "fast")
    note = folder.root / "data/snapshots" / SNAPSHOTS_FILE
    note.write_bytes(b"")
    refused = guest.invoke("index", "fast")
    assert (refused.exit_code, "owner.json: damaged; delete it" in refused.stderr) == (1, True)
    assert folder.invoke("index", "fast").exit_code == 0
    guest.invoke_refused("index", "fast")


def test_partials_of_the_dead_are_swept_and_those_of_the_living_are_not(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url)
    left = [folder.root / "data" / name / ".abcdef.partial" for name in ("runs", "usage", "output", "snapshots")]
    living = folder.root / "data" / "output" / ".1-abcdef.partial"
    for path in [*left, living]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with folder.open() as project:
        project.index("fast")
    assert not any(path.exists() for path in left)
    assert living.exists()


def test_a_damaged_cache_costs_no_call_that_it_can_spare(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    assert folder.invoke("run", "index").exit_code == 0
    openai.forget()
    for path in folder.root.glob("data/snapshots/steps/*.json"):
        path.write_bytes(b"")
    assert folder.invoke("run", "index").exit_code == 0
    assert openai.count("chat") == 0
