"""Runs on a Dask cluster: the tables are those of one process, and nothing but names reaches the
cluster's own processes. Over a bucket, and with what is killed on the way:
test_cluster_kills.py."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.request import urlopen

import pytest
from distributed import Client
from distributed.protocol import pickle as dask_pickle

from pipeline.contract.conversion import FileToConvert
from pipeline.documents.limited_converter import LimitedConverter
from pipeline.engine import cluster as engine_cluster
from pipeline.engine import tasks
from pipeline.engine.cluster import Cluster
from pipeline.engine.run_report import Progress
from pipeline.engine.tasks import Task, Workplace
from pipeline.errors import GraphmillError, SettingsError, WorkerError
from pipeline.project import Project
from pipeline.runs import cluster_conversions, worker
from pipeline.snapshots.folder import UNFINISHED
from pipeline.snapshots.store import Manifest
from tests.projects import NO_STORE, ProjectFolder, new_project, read_yaml, write_yaml
from tests.servers.dask_cluster import DaskCluster
from tests.whole.test_workers import finished, names, project_with

ROWS = 8
"""Rows from which on steps are worked on in buckets, here."""
STEPS = 4
"""Of the workflow, where they need not be all."""
NEWS = 30
"""Of a run, about half."""


@dataclass
class Seen(Progress):
    """What was told; ``at``: the number of the piece of news at which something ``happens``."""

    at: int = 0
    happens: Callable[[], None] = print
    facts: list[str] = field(default_factory=list)
    news: int = 0

    def told(self, fact: str) -> None:
        self.facts.append(fact)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        self.news += 1
        if self.news == self.at:
            self.happens()


def index(folder: ProjectFolder, progress: Progress | None = None) -> Manifest:
    with patch.object(tasks, "TASK_ROWS", ROWS), folder.open() as project:
        project.index("fast", progress)
        return project.snapshots.manifest("fast")


@contextmanager
def given_to(kind: type[Any]) -> Iterator[list[Task]]:
    """The tasks that are given to workers, or done here."""
    given: list[Task] = []
    do = kind.do

    def doing(self: Any, some: Any) -> Any:
        given.extend([some] if isinstance(some, Task) else some)
        return do(self, some)

    with patch.object(kind, "do", doing):
        yield given


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What one process makes of these steps, each done whole."""
    with project_with(tmp_path_factory.mktemp("whole") / "p", "pass", STEPS).open() as project:
        project.index("fast")
        return names(project.snapshots.manifest("fast"))


def test_a_cluster_makes_what_one_process_makes(
    tmp_path: Path, dask_cluster: DaskCluster, whole: Mapping[str, Any]
):
    """Own verbs included; nothing that works in buckets is done here, and nothing is left."""
    folder, seen = project_with(tmp_path / "p", "pass"), Seen()
    dask_cluster.see(folder)
    with given_to(Cluster) as there, given_to(Workplace) as here:
        made = names(index(folder, seen))
    assert {name: made[name] for name in whole} == whole
    assert {task.step for task in there} >= {
        "chunk_documents",
        "merge_graphs",
        "embed_text_units",
        "shout",
    }
    assert not here
    assert [fact for fact in seen.facts if fact.startswith("dask: http://127.0.0.1:")] == seen.facts
    assert not finished(folder)


def test_a_worker_of_another_installation_is_refused_and_told(
    tmp_path: Path, dask_cluster: DaskCluster
):
    folder, seen = project_with(tmp_path / "p", "pass", steps=2), Seen()
    dask_cluster.see(folder, wait_seconds=0.5)
    mine = {**worker.facts(), "pandas": "0.1", "graphmill's code": "other"}
    with patch.object(worker, "facts", lambda: mine), pytest.raises(WorkerError) as raised:
        index(folder, seen)
    assert "no worker that may do tasks" in str(raised.value)
    refused = [fact for fact in seen.facts if "is refused: it has graphmill's code" in fact]
    assert len(refused) == 2
    assert all(
        "here other, pandas " in fact and "here 0.1; install there" in fact for fact in refused
    )


def test_a_worker_that_sees_other_snapshots_says_so(tmp_path: Path, dask_cluster: DaskCluster):
    folder, other = (
        project_with(tmp_path / "p", "pass", steps=2),
        project_with(tmp_path / "q", "pass", steps=2),
    )
    dask_cluster.see(folder)
    dask_cluster.see(other)
    with pytest.raises(
        WorkerError, match=r"worker tcp://.* sees other snapshots.*GRAPHMILL_SNAPSHOTS"
    ):
        index(folder)


def test_what_a_task_raises_is_raised_here(tmp_path: Path, dask_cluster: DaskCluster):
    folder = project_with(
        tmp_path / "p", "raise ValueError(text_units['text'].iloc[0][:8])", steps=2
    )
    dask_cluster.see(folder)
    with pytest.raises(GraphmillError, match="# Letter"):
        index(folder)


def test_a_step_that_was_edited_since_the_run_began_is_not_done(
    tmp_path: Path, dask_cluster: DaskCluster
):
    folder = project_with(tmp_path / "p", "pass", steps=2)
    dask_cluster.see(folder)
    do = Cluster.do

    def edited(cluster: Cluster, given: Sequence[Task]) -> Any:
        own = folder.root / "own.py"
        own.write_text(own.read_text().replace("upper", "lower"))
        return do(cluster, given)

    with (
        patch.object(Cluster, "do", edited),
        pytest.raises(WorkerError, match="not what the run began with; run again"),
    ):
        index(folder)


def test_tasks_that_end_their_workers_end_the_run_and_are_named(
    tmp_path: Path, dask_cluster: DaskCluster
):
    """As those do that take more memory than there is."""
    ending = "text_units['text'].str.contains('Letter 3').any() and os.kill(os.getpid(), 9)"
    folder = project_with(tmp_path / "p", ending, steps=2)
    dask_cluster.see(folder)
    with pytest.raises(
        WorkerError,
        match=r"step 'shout', bucket [01]+, \d+ rows?: each worker that did it.* run again",
    ):
        index(folder)


def test_nobody_to_talk_to(tmp_path: Path):
    folder = project_with(tmp_path / "p", "pass", steps=2)
    folder.edit_settings(engine={"kind": "dask", "address": "tcp://127.0.0.1:9"})
    with (
        patch.object(engine_cluster, "CONNECT_SECONDS", 0.2),
        pytest.raises(WorkerError, match="no scheduler answers"),
    ):
        index(folder)
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "200ms"}
    command = [sys.executable, "-m", "pipeline", "-C", str(folder.root), "worker"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "graphmill: worker: it did not start (Timed out" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_takes_back_what_has_not_begun(tmp_path: Path, dask_cluster: DaskCluster):
    def interrupt() -> None:
        raise KeyboardInterrupt

    folder = project_with(tmp_path / "p", "pass", STEPS)
    dask_cluster.see(folder)
    with pytest.raises(KeyboardInterrupt):
        index(folder, Seen(NEWS, interrupt))
    dask_cluster.await_idle()


CANARIES = {
    name: f"canary-{name}-7f3a" for name in ("key", "url", "prompt", "text", "error", "path")
}
OWN_WITH_PROMPT = """
import pandas as pd
from pipeline import Params, Prompt, verb
from pipeline.contract.schemas import TEXT_UNITS, STRING, table

SHOUTS = table("id", id=STRING, text=STRING)

@verb(inputs={"text_units": TEXT_UNITS}, outputs={"shouts": SHOUTS}, rowwise="text_units", row_of={"shouts": "id"})
def shout(text_units: pd.DataFrame, prompt: Prompt) -> pd.DataFrame:
    ENDING
    return pd.DataFrame({"id": text_units["id"], "text": prompt.text + text_units["text"]})
"""  # noqa: E501


def test_nothing_but_names_reaches_the_scheduler(tmp_path: Path, dask_cluster: DaskCluster):
    """Nor a worker's log; not from a task that fails either, of which all is told here."""
    folder = project_with(tmp_path / CANARIES["path"], "pass", steps=2)
    for path in (folder.root / "data/input").iterdir():
        path.write_text(f"{path.read_text()} It says {CANARIES['text']}.")
    own = folder.root / "own.py"
    own.write_text(OWN_WITH_PROMPT.replace("ENDING", "pass"))
    (folder.root / "prompts/shouted.md").write_text(CANARIES["prompt"])
    path = folder.root / "workflows/fast.yaml"
    workflow = read_yaml(path)
    steps = [*workflow["steps"][:-1], {"verb": "shout", "prompts": {"prompt": "shouted"}}]
    write_yaml(path, {**workflow, "steps": steps})
    endpoint = {"base_url": f"http://{CANARIES['url']}.example/v1", "api_key": CANARIES["key"]}
    folder.edit_settings(models={"chat": {"default": endpoint}})
    dask_cluster.see(folder)
    held: list[bytes] = []
    dumps = dask_pickle.dumps

    def noted(*given: Any, **named: Any) -> bytes:
        held.append(dumps(*given, **named))
        return held[-1]

    def look() -> None:
        with Client(dask_cluster.address, set_as_default=False) as client:
            client.dump_cluster_state(str(tmp_path / "state"), format="yaml")
            assert client.dashboard_link
            page = client.dashboard_link.replace("/status", "/info/main/workers.html")
        with urlopen(page) as answer:
            held.append(answer.read())

    with patch.object(dask_pickle, "dumps", noted):
        index(folder, Seen(6, look))
        with folder.open() as project:
            assert project.table("shouts", "fast")["text"].str.startswith(CANARIES["prompt"]).all()
        held.append((tmp_path / "state.yaml").read_bytes())
        own.write_text(
            OWN_WITH_PROMPT.replace(
                "ENDING", "raise ValueError('canary-error-7f3a ' + text_units['text'].iloc[0])"
            )
        )
        with pytest.raises(GraphmillError, match=f"{CANARIES['error']} .*{CANARIES['text']}"):
            index(folder, Seen(2, look))
    held += [(tmp_path / "state.yaml").read_bytes(), dask_cluster.logs.encode()]
    assert any(b"shout-" in part for part in held)
    for canary in CANARIES.values():
        assert not [part for part in held if canary.encode() in part], canary


@pytest.mark.parametrize(
    ("engine", "fault"),
    [
        ("engine={kind: dask}", "needs the scheduler's address"),
        ("engine={kind: dask, address: 'http://here'}", "needs the scheduler's address"),
        ("engine={workers: adaptive}", "is for kind: dask"),
        ("engine={workers: 257}", "from 1 to 256"),
    ],
)
def test_settings_that_no_run_can_follow(tmp_path: Path, engine: str, fault: str):
    folder = project_with(tmp_path / "p", "pass", steps=2)
    with pytest.raises(SettingsError, match=fault):
        Project.open(folder.root, [engine])


def project_with_files(root: Path, number: int) -> ProjectFolder:
    """Return a project with so many notebooks and pages to convert, and two damaged files."""
    folder = new_project(root, NO_STORE, {"a.txt": "Ada Holm built the Skarrow Lamp."})
    folder.edit_settings(input={"web_pages": "article"})
    path = folder.root / "workflows/fast.yaml"
    written = read_yaml(path)
    write_yaml(path, {**written, "steps": written["steps"][:1]})
    places = folder.root / "data/input"
    for place in range(number):
        cells = [{"cell_type": "markdown", "source": f"# Note {place}\n\n{CANARIES['text']}"}]
        (places / f"{place}.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
        (places / f"{place}.html").write_text(f"<h1>Page {place}</h1><p>Built in 187{place}.")
    (places / "damaged.ipynb").write_text("{")
    (places / "damaged.docx").write_text("no archive")
    return folder


def documents_of(folder: ProjectFolder) -> Mapping[str, Any]:
    """Index the project, and return the names of its snapshots."""
    with folder.open() as project:
        project.index("fast")
        return names(project.snapshots.manifest("fast"))


@contextmanager
def converted_here() -> Iterator[list[str]]:
    """Provide the names of the files that this process lets its own converter convert."""
    found: list[str] = []
    each = LimitedConverter.each

    def noting(self: LimitedConverter, files: Sequence[FileToConvert], *more: Any) -> None:
        found.extend(file.name for file in files)
        each(self, files, *more)

    with patch.object(LimitedConverter, "each", noting):
        yield found


def test_workers_convert_files_and_give_the_documents_and_rejects_of_one_process(
    tmp_path: Path, dask_cluster: DaskCluster
):
    alone = project_with_files(tmp_path / "alone", number=3)
    folder = project_with_files(tmp_path / "p", number=3)
    dask_cluster.see(folder)
    held: list[bytes] = []
    dumps = dask_pickle.dumps

    def noted(*given: Any, **named: Any) -> bytes:
        held.append(dumps(*given, **named))
        return held[-1]

    with converted_here() as here, patch.object(dask_pickle, "dumps", noted):
        made = documents_of(folder)
    assert not here
    assert any(b"ipynb" in part for part in held)
    assert not [part for part in held if CANARIES["text"].encode() in part]
    assert not list((folder.root / "data/snapshots" / UNFINISHED).glob("convert-*"))
    assert made == documents_of(alone)
    with folder.open() as project:
        assert set(project.table("rejects", "fast")["row_id"]) == {
            "damaged.ipynb",
            "damaged.docx",
        }


def test_files_are_converted_here_where_workers_have_another_converter_or_are_not_needed(
    tmp_path: Path, dask_cluster: DaskCluster
):
    folder = project_with_files(tmp_path / "p", number=1)
    dask_cluster.see(folder)
    other = "another converter 1.0"
    with (
        converted_here() as here,
        patch.object(cluster_conversions, "LEAST_FILES", 4),
        patch.object(cluster_conversions, "converter_name", lambda suffix, rules: other),
    ):
        documents_of(folder)
    assert sorted(here) == ["0.html", "0.ipynb", "damaged.docx", "damaged.ipynb"]
    places = folder.root / "data/input"
    (places / "0.html").write_text("<h1>Page 0</h1><p>Built in 1880.")
    folder.edit_settings(engine={"kind": "dask", "address": "tcp://127.0.0.1:9"})
    with converted_here() as here:
        documents_of(folder)
    assert here == ["0.html"]
