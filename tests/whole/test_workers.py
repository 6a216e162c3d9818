"""Steps in buckets, in one process and in several: the tables are those of steps done whole, own
verbs included, and what a killed process has finished is not done again."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from pipeline.engine import tasks
from pipeline.engine.run_options import RunOptions
from pipeline.engine.tasks import InBuckets, Task, Workplace
from pipeline.engine.workers import Processes
from pipeline.errors import SettingsError, VerbError, WorkerError
from pipeline.project import Project
from pipeline.snapshots.folder import UNFINISHED
from pipeline.snapshots.store import Manifest
from tests.projects import NO_STORE, ProjectFolder, new_project, read_yaml, write_yaml
from tests.sizes import size

TEXTS = {
    f"letter{number}.md": (
        f"# Letter {number}\n\nAda Holm wrote to Otto Holm of the Skarrow Lamp and Brack. Mira Vale"
        f" of Quill kept the Skarrow Lamp. In {1871 + number} Idra Senn founded the Brack"
        " Institute."
    )
    for number in range(12)
}
OWN = """
import os, signal
import pandas as pd
from pipeline import Params, verb
from pipeline.contract.schemas import TEXT_UNITS, STRING, table

SHOUTS = table("id", id=STRING, text=STRING)

@verb(inputs={"text_units": TEXT_UNITS}, outputs={"shouts": SHOUTS}, rowwise="text_units", row_of={"shouts": "id"})
def shout(text_units: pd.DataFrame) -> pd.DataFrame:
    ENDING
    return pd.DataFrame({"id": text_units["id"], "text": text_units["text"].str.upper()})
"""  # noqa: E501
WORKERS = "engine.workers=2"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return project_with(tmp_path / "p", "pass")


def project_with(
    root: Path,
    ending: str,
    steps: int = 12,
    workflow: str = "fast",
    texts: Mapping[str, str] = TEXTS,
    **settings: Any,
) -> ProjectFolder:
    """A project of the first steps of a workflow and a verb of its own, which does this before it
    ends well."""
    folder = new_project(root, NO_STORE, texts, verbs=["own.py"], **settings)
    (folder.root / "own.py").write_text(OWN.replace("ENDING", ending))
    path = folder.root / "workflows" / f"{workflow}.yaml"
    written = read_yaml(path)
    write_yaml(path, {**written, "steps": [*written["steps"][:steps], {"verb": "shout"}]})
    return folder


def index(folder: ProjectFolder, *settings: str) -> Manifest:
    with folder.open(*settings) as project:
        project.index("fast", options=RunOptions(memory_profile=True))
        return project.snapshots.manifest("fast")


def names(manifest: Manifest) -> Mapping[str, Any]:
    tables = {name: snapshot.sha256 for name, snapshot in manifest.tables.items()}
    return tables | {id: record.fingerprint for id, record in manifest.steps.items()}


@contextmanager
def noted(done: list[Task]) -> Iterator[None]:
    """Tasks that this process does are noted there."""
    do = Workplace.do

    def doing(place: Workplace, task: Task) -> Any:
        done.append(task)
        return do(place, task)

    with patch.object(Workplace, "do", doing):
        yield


def finished(folder: ProjectFolder) -> set[str]:
    """Names of the tasks that a killed run has finished."""
    return {path.stem for path in (folder.root / "data/snapshots" / UNFINISHED).glob("*.json")}


def test_neither_buckets_nor_workers_change_a_table_or_a_fingerprint(
    folder: ProjectFolder, tmp_path: Path
):
    whole = names(index(folder))
    done: list[Task] = []
    for number, settings in enumerate([(), (WORKERS,)]):
        with patch.object(tasks, "TASK_ROWS", 8), noted(done):
            found = project_with(tmp_path / str(number), "pass")
            assert names(index(found, *settings)) == whole
            assert not (found.root / "data/snapshots" / UNFINISHED).exists()
    assert {task.step for task in done} == {
        "chunk_documents", "extract_graph_fast", "merge_graphs", "join_descriptions",
        "compute_degrees",
        "list_statements", "compose_texts", "compose_headers", "embed_text_units", "embed_entities",
        "embed_relationships", "shout",
    }  # fmt: skip


def test_a_worker_that_is_killed_ends_the_run_and_what_was_finished_stays(tmp_path: Path):
    """Kill the process of the third task that rings. One task alone makes the folder, even if two
    ring at once."""
    bell, killed = tmp_path / "bell", tmp_path / "killed"
    ring = (
        f"open({str(bell)!r}, 'a').write('.'); rung = len(open({str(bell)!r}).read())\n    if rung"
        f" >= 3 and not os.path.exists({str(killed)!r}): os.mkdir({str(killed)!r});"
        " os.kill(os.getpid(), 9)"
    )
    folder = project_with(tmp_path / "p", ring, steps=2)
    with patch.object(tasks, "TASK_ROWS", 3):
        with pytest.raises(WorkerError, match="run again"):
            index(folder, WORKERS)
        kept = finished(folder)
        assert kept
        before = len(bell.read_text())
        found = index(folder, WORKERS)
    again = len(bell.read_text()) - before
    # The other worker may finish its task after the run has ended, and that is kept too.
    assert 8 - len(kept) - 1 <= again <= 8 - len(kept)
    assert found.tables["shouts"].rows == len(TEXTS)


KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.engine import tasks
from pipeline.project import Project
from pipeline.snapshots.tasks import TaskNotes

tasks.TASK_ROWS = 8
note, noted = TaskNotes.note, 0

def killing(*arguments):
    global noted
    note(*arguments)
    noted += 1
    if noted == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

TaskNotes.note = killing
with Project.open(Path(sys.argv[1])) as project:
    project.index("fast")
"""
"""A run that is killed when so many of its tasks are done."""


@pytest.mark.parametrize("moment", size([19], [3, 19]))
def test_no_bucket_that_was_finished_is_made_again(
    tmp_path: Path, folder: ProjectFolder, moment: int
):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder.root), str(moment)], check=False
    )
    assert done.returncode == -signal.SIGKILL
    kept = finished(folder)
    assert kept
    again: list[Task] = []
    with patch.object(tasks, "TASK_ROWS", 8), noted(again):
        found = names(index(folder))
    assert not kept & {task.name for task in again}
    assert found == names(index(project_with(tmp_path / "fresh", "pass")))


def test_finished_buckets_outlive_a_source_that_is_read_again_each_night(folder: ProjectFolder):
    """As one is that keeps what it could not read."""
    with patch.object(tasks, "TASK_ROWS", 8):
        index(folder)
        (folder.root / "data/input/letter3.md").write_bytes(b"\xff\xfe\x00")
        (folder.root / "own.py").write_text(OWN.replace("ENDING", "pass").replace("upper", "lower"))
        done = subprocess.run([sys.executable, "-c", KILLED, str(folder.root), "1"], check=False)
        assert done.returncode == -signal.SIGKILL
        kept = finished(folder)
        assert kept
        again: list[Task] = []
        with noted(again):
            index(folder)
    assert again
    assert not kept & {task.name for task in again}


def test_a_worker_does_no_task_of_a_step_that_was_edited_since_the_run_began(tmp_path: Path):
    folder = project_with(tmp_path / "p", "pass", steps=2)
    do = Processes.do

    def edited(workers: Processes, given: Sequence[Task]) -> Any:
        (folder.root / "own.py").write_text(OWN.replace("ENDING", "pass").replace("upper", "lower"))
        return do(workers, given)

    with patch.object(tasks, "TASK_ROWS", 3), patch.object(Processes, "do", edited):
        with pytest.raises(
            WorkerError, match=r"step 'shout'.*not what the run began with; run again"
        ):
            index(folder, WORKERS)
        index(folder, WORKERS)
    with folder.open() as project:
        assert project.table("shouts", "fast")["text"].str.islower().all()


def test_what_a_task_raises_is_told_and_no_worker_is_left(tmp_path: Path):
    folder = project_with(tmp_path / "p", "raise ValueError(str(os.getpid()))", steps=2)
    with patch.object(tasks, "TASK_ROWS", 3), pytest.raises(VerbError) as raised:
        index(folder, WORKERS)
    told = re.search(r"raised ValueError: (\d+)", str(raised.value))
    assert told
    worker = int(told[1])
    assert worker != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


SCRIPT = """
import sys
from pipeline.engine import tasks
from pipeline.project import Project

tasks.TASK_ROWS = 3
def run():
    with Project.open(sys.argv[1], ["engine.workers=2"]) as project:
        project.index("fast")
"""


def script(folder: ProjectFolder, end: str) -> list[str]:
    """The command of a script of one's own that ends so."""
    path = folder.root / "nightly.py"
    path.write_text(SCRIPT + end)
    return [sys.executable, str(path), str(folder.root)]


def test_no_worker_outlives_a_run_that_is_killed(tmp_path: Path):
    """Not even one that is in the midst of a task."""
    bell = tmp_path / "bell"
    ring = f"open({str(bell)!r}, 'a').write(f'{{os.getpid()}} '); import time; time.sleep(600)"
    folder = project_with(tmp_path / "p", ring, steps=2)
    with subprocess.Popen(script(folder, 'if __name__ == "__main__":\n    run()\n')) as run:
        workers: list[str] = []
        for _ in range(2_000):
            workers = bell.read_text().split() if bell.exists() else []
            if len(workers) >= 2 or run.poll() is not None:
                break
            time.sleep(0.05)
        run.kill()
    alive = set(map(int, workers)) - {run.pid}
    assert len(workers) >= 2
    for _ in range(1_000):
        alive = {worker for worker in alive if is_alive(worker)}
        if not alive:
            break
        time.sleep(0.05)
    assert not alive


def is_alive(process: int) -> bool:
    """Not where it has ended, and nobody has asked how."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_script_that_each_worker_would_run_again_is_told_what_it_lacks(tmp_path: Path):
    folder = project_with(tmp_path / "p", "pass", steps=2)
    done = subprocess.run(script(folder, "run()\n"), capture_output=True, text=True, check=False)
    assert done.returncode
    assert "WorkerError: engine.workers: no process could start" in done.stderr
    assert "if __name__ == '__main__':" in done.stderr


def test_workers_are_one_or_more(folder: ProjectFolder):
    with pytest.raises(SettingsError, match="workers"):
        Project.open(folder.root, ["engine.workers=0"])


def test_steps_of_few_rows_are_done_whole(folder: ProjectFolder):
    made: list[Any] = []
    outputs = InBuckets.outputs
    with patch.object(InBuckets, "outputs", lambda *given: made.append(outputs(*given))):
        index(folder, WORKERS)
    assert made
    assert not any(made)
