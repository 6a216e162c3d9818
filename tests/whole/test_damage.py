"""Every kind of file that a project keeps is emptied, cut and flipped: no traceback, nothing wrong
accepted, and one run brings all back without a call that the cache can spare."""

import gc
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.engine.usage.journal import Journal
from pipeline.files import tell
from pipeline.models.base import Usage
from pipeline.purge.intention import PurgeIntent, PurgeIntents
from pipeline.runs.owner import OWNER_FILE, PLACE_FILE, SNAPSHOTS_FILE
from pipeline.runs.reports import UnfinishedRun
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import full
from tests.states import postgres_rows, table_hashes

COMMANDS = (
    "status", "status --json", "runs", "documents", "documents --changed", "plan", "verify",
    "rejects", "usage",
    "gc --keep 2", "gc --keep 1 --delete", "retry", "doctor", "resolutions list", "workspace list",
    "load",
    "query Quill --mode naive", "export csv out --force", "purge --document harbor.txt --yes",
    "purge --history --yes",
)  # fmt: skip
KEPT = {
    "table": "snapshots/*/*.parquet",
    "record": "snapshots/steps/*.json",
    "live manifest": "snapshots/manifest-*.json",
    "manifest": "snapshots/manifests/*/*.json",
    "loaded": "snapshots/loaded/*.json",
    "report": "runs/*.json",
    "begun": "runs/*.begun",
    "holder": "runs/holder",
    "lock": "runs/lock",
    "lock of the snapshots": "snapshots/lock",
    "usage": "usage/*.parquet",
    "journal": "usage/*.jsonl",
    "cache": "cache.sqlite",
    "write-ahead log": "cache.sqlite-wal",
    "owner": "owner",
    "place": "owner-path",
    "owner of the snapshots": "snapshots/owner.json",
    "workspaces": "workspaces.json",
    "purge": "purge.json",
    "emitted": "output/*/[a-z]*",
    "emitted names": "output/*/.emitted.json",
}
CACHE = ("cache", "write-ahead log")


def flip(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return (
        content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]
    )


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "emptied": lambda content, draw: b"",
    "cut": lambda content, draw: content[: draw.randrange(len(content))],
    "flipped": flip,
}


@dataclass(frozen=True)
class Kept:
    """A project at the end of two nights: every file below ``data``, the tables, and what the store
    shows."""

    folder: ProjectFolder
    endpoint: OpenAIServer
    url: str
    files: dict[str, bytes]
    tables: dict[str, str]
    rows: dict[str, list[Any]]
    replies: frozenset[tuple[Any, ...]]

    @property
    def data(self) -> Path:
        return self.folder.root / "data"

    def restore(self) -> None:
        """Every file anew, in a place of its own: what is still open is another."""
        gc.collect()
        tell.cache_clear()
        for path in self.data.iterdir():
            if path.name != "input":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in self.files.items():
            path = self.data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.endpoint.forget()

    def damage(self, kind: str, how: str, draw: random.Random) -> None:
        """One file of the kind, or all of them. Of the cache alone a run needs nothing: its steps
        are done again."""
        paths = sorted(self.data.glob(KEPT[kind]))
        assert paths, kind
        for path in draw.choice([paths, [draw.choice(paths)]]):
            path.write_bytes(DAMAGES[how](path.read_bytes() or b" ", draw))
        if kind in CACHE:
            shutil.rmtree(self.data / "snapshots/steps")

    def rows_now(self) -> dict[str, list[Any]]:
        return store_rows(self.url, self.folder)

    def lost(self) -> int:
        """Replies that cannot be read any more as they were."""
        with self.folder.open() as project:
            project.cache.mend()
        return len(self.replies - replies_of(self.data / "cache.sqlite"))


def store_rows(url: str, folder: ProjectFolder) -> dict[str, list[Any]]:
    workspace = yaml.safe_load((folder.root / "settings.yaml").read_text(encoding="utf-8"))[
        "workspace"
    ]
    shown = postgres_rows(url, workspace)
    return {name: rows for name, rows in shown.items() if not name.endswith("_live")}


def replies_of(path: Path) -> frozenset[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        try:
            rows = connection.execute(
                "SELECT key, text, finish_reason, input_tokens, output_tokens, digest FROM"
                " completions"
            )
            return frozenset(rows)
        except sqlite3.DatabaseError:
            return frozenset()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, postgres_url: str):
    with openai_server() as endpoint:
        folder = new_project(
            tmp_path_factory.mktemp("damage") / "p", postgres_url, endpoint=endpoint
        )
        path = folder.root / "workflows" / "index.yaml"
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        path.write_text(
            yaml.safe_dump({**workflow, "emit": {"entities": ["parquet", "csv", "json"]}})
        )
        assert folder.invoke("run").exit_code == 0
        folder.write("pier.txt", "The Pier of Quill was built by Mira Vale in 1880.")
        assert folder.invoke("run").exit_code == 0
        data = folder.root / "data"
        with folder.open() as project:
            tables = table_hashes(project)
            cut_off = UnfinishedRun(
                project.runs.new_id(), "index", "1 on a machine that is gone", "extract_graph"
            )
            project.runs.note(cut_off)
            journal = Journal(project.usage_folder, cut_off.run_id, "index")
            for outcome in ("ok", "throttled"):
                call = Usage("u", "m", 10, 2, cached=False, seconds=0.1, outcome=outcome)
                journal.ended("extract_graph", "d", call, journal.begun("extract_graph", "d", call))
        PurgeIntents(folder.root).save(PurgeIntent("gone.txt", {}, done_here=True))
        with closing(sqlite3.connect(data / "cache.sqlite")) as connection:
            with connection:
                connection.execute("UPDATE completions SET valid = valid")
            names = [
                path
                for path in data.rglob("*")
                if path.is_file() and data / "input" not in path.parents
            ]
            files = {
                str(path.relative_to(data)): path.read_bytes()
                for path in names
                if not path.name.endswith("-shm")
            }
        journal.close()
        replies = replies_of(data / "cache.sqlite")
        assert replies
        yield Kept(
            folder, endpoint, postgres_url, files, tables, store_rows(postgres_url, folder), replies
        )


def drawn() -> list[tuple[str, str, tuple[str, ...]]]:
    """Every kind in every way before every command, or each kind once before one of them."""
    draw = random.Random(7)
    if full():
        return [
            (kind, how, tuple(draw.sample(COMMANDS, len(COMMANDS))))
            for kind in KEPT
            for how in DAMAGES
        ]
    return [
        (kind, draw.choice(sorted(DAMAGES)), (COMMANDS[place % len(COMMANDS)],))
        for place, kind in enumerate(KEPT)
    ]


@pytest.mark.parametrize(
    ("kind", "how", "commands"), drawn(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_damaged_is_told_and_one_run_brings_it_back(
    kept: Kept, kind: str, how: str, commands: tuple[str, ...]
):
    draw = random.Random(f"{kind} {how}")
    for command in commands:
        kept.restore()
        kept.damage(kind, how, draw)
        done = kept.folder.invoke(
            *command.replace("csv out", f"csv {kept.folder.root / 'out'}").split()
        )
        assert done.exit_code in (0, 1, 2), (command, done)
        assert "Traceback" not in done.stderr
        assert kept.rows_now() == kept.rows, command
    if kind == "purge":  # whether a purge was under way only its reader can say
        said = kept.folder.invoke("run")
        assert said.exit_code == 0 or "purge.json" in said.stderr
        (kept.data / "purge.json").unlink(missing_ok=True)
    lost = kept.lost() if kind in CACHE else 0
    kept.endpoint.forget()
    done = kept.folder.invoke("run")
    assert done.exit_code == 0, done.stderr
    assert kept.endpoint.count("chat") <= lost
    with kept.folder.open() as project:
        assert table_hashes(project) == kept.tables
    assert kept.rows_now() == kept.rows
    for name, content in kept.files.items():
        if name.startswith("output/entities") or name == OWNER_FILE.removeprefix("data/"):
            assert (kept.data / name).read_bytes() == content, name


def test_two_projects_on_one_folder_of_snapshots_do_not_run_at_once(
    tmp_path: Path, postgres_url: str
):
    shared = str(tmp_path / "shared")
    one, other = (
        new_project(tmp_path / name, postgres_url, snapshots=shared) for name in ("one", "other")
    )
    with one.open() as project, project.runs.alone():
        refused = other.invoke("index", "fast")
    assert refused.exit_code == 1
    assert "a run of another project holds these snapshots" in refused.stderr


def test_a_folder_of_snapshots_has_one_owner_and_takes_its_first_where_it_has_none(
    tmp_path: Path, postgres_url: str
):
    shared = tmp_path / "shared"
    one, other = (
        new_project(tmp_path / name, postgres_url, snapshots=str(shared))
        for name in ("one", "other")
    )
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
    assert [one.invoke("index", "fast").exit_code, other.invoke("index", "fast").exit_code] == [
        0,
        0,
    ]


def test_a_project_s_own_folder_of_snapshots_stays_its_own(tmp_path: Path, postgres_url: str):
    """Also in a copy that was given an id of its own."""
    folder = new_project(tmp_path / "p", postgres_url)
    assert folder.invoke("index", "fast").exit_code == 0
    for name in (OWNER_FILE, PLACE_FILE):
        (folder.root / name).unlink(missing_ok=True)
    assert folder.invoke("index", "fast").exit_code == 0
    guest = new_project(
        tmp_path / "guest", postgres_url, snapshots=str(folder.root / "data/snapshots")
    )
    guest.invoke_refused("index", "fast")
    note = folder.root / "data/snapshots" / SNAPSHOTS_FILE
    note.write_bytes(b"")
    refused = guest.invoke("index", "fast")
    assert (refused.exit_code, "owner.json: damaged; move it away" in refused.stderr) == (1, True)
    assert folder.invoke("index", "fast").exit_code == 0
    guest.invoke_refused("index", "fast")


def test_partials_of_the_dead_are_swept_and_those_of_the_living_are_not(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(tmp_path / "p", postgres_url)
    left = [
        folder.root / "data" / name / ".abcdef.partial"
        for name in ("runs", "usage", "output", "snapshots")
    ]
    living = folder.root / "data" / "output" / ".1-abcdef.partial"
    for path in [*left, living]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with folder.open() as project:
        project.index("fast")
    assert not any(path.exists() for path in left)
    assert living.exists()


def test_a_damaged_cache_costs_no_call_that_it_can_spare(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    assert folder.invoke("run", "index").exit_code == 0
    openai.forget()
    for path in folder.root.glob("data/snapshots/steps/*.json"):
        path.write_bytes(b"")
    assert folder.invoke("run", "index").exit_code == 0
    assert openai.count("chat") == 0
