"""Nights of any history, drawn by a seed: documents come, change, go and get other names, settings change, and every
table is that of one full build, whatever files it lies in; also where a night was killed."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from pipeline.snapshots import tables
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.sizes import size
from tests.states import models, set_args

SENTENCES = [
    "Ada Holm, Duchess of Skarrow, built the Skarrow Lamp.",
    "Ada Holm, Duchess of Quill, sold the Skarrow Lamp to Otto Holm.",
    "Ada Holm (1835-1901) kept the storm lamp, and the storm lamp kept Quill.",
    "Otto Holm saw ADA HOLM at the Harbour of Quill.",
    "Otto Holm wrote of the Quill Fair to Mira Vale.",
    "Mira Vale studied at the Brack Institute under Anselm Torr.",
    "Anselm Torr ground the lens of the Skarrow Lamp.",
    "Idra Senn founded the Brack Institute before the Quill Fair.",
    "The tide was out.",
]
TITLES = ["# Quill Fair", "# The Skarrow Lamp", "# Notes", "# Notes", "Letters of Otto Holm", ""]
NAMES = [f"{name}.{kind}" for name in ("a", "b", "c", "d", "old/e", "old/f") for kind in ("md", "txt")]
DOCUMENTS = 9
NIGHTS, CHANGES = 2, 4
WORKFLOWS = {
    "fast": ("fast",),
    "index": ("index",),
    "communities": ("index", "communities"),
    "claims": ("index", "communities", "claims"),
}
"""The files that the steps of a workflow stand in."""
ARGS: Mapping[str, Mapping[str, list[Any]]] = {
    "chunk_documents": {"size": [30, 30, 60]},
    "extract_graph_fast": {"min_phrase_count": [2, 1], "max_links_per_name": [3, 0]},
    "merge_graphs": {"orphans": ["stub", "stub", "drop"]},
    "join_descriptions": {"max_tokens": [600, 12]},
    "summarize_descriptions": {"max_tokens": [30, 600]},
    "compose_texts": {"entity": ["name_description", "name"]},
    "detect_communities": {"max_cluster_size": [3, 10]},
}
HISTORIES = [
    (workflow, seed)
    for workflow, count in {
        "fast": size(12, 200), "index": size(8, 60), "communities": size(5, 40), "claims": size(5, 60),
    }.items()
    for seed in range(count)
]  # fmt: skip


@dataclass
class History:
    """What is there, and what has become of it; ``told``: all that was done."""

    draw: random.Random
    documents: dict[str, str] = field(default_factory=dict)
    args: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.args = {verb: {name: values[0] for name, values in args.items()} for verb, args in ARGS.items()}
        for name in self.draw.sample(NAMES, DOCUMENTS):
            self.write(name)

    def change(self) -> None:
        self.told.append("night")
        for _ in range(self.draw.randint(1, CHANGES)):
            acts = [self.write, self.edit, self.edit, self.edit, self.delete, self.rename, self.set]
            act = self.draw.choice(acts)
            act(self.draw.choice(sorted(self.documents) if act != self.write else NAMES))

    def write(self, name: str) -> None:
        text = " ".join(self.draw.choices(SENTENCES, k=self.draw.randint(1, 6)))
        self.documents[name] = f"{self.draw.choice(TITLES)}\n\n{text}"
        self.told.append(f"write {name}: {self.documents[name]!r}")

    def edit(self, name: str) -> None:
        sentences = self.documents[name].split(". ")
        sentences[self.draw.randrange(len(sentences))] = self.draw.choice(SENTENCES).removesuffix(".")
        self.documents[name] = ". ".join(sentences)
        self.told.append(f"edit {name}: {self.documents[name]!r}")

    def delete(self, name: str) -> None:
        if len(self.documents) > 1:
            del self.documents[name]
            self.told.append(f"delete {name}")

    def rename(self, name: str) -> None:
        """At times over another document."""
        other = self.draw.choice(NAMES)
        self.documents[other] = self.documents.pop(name)
        self.told.append(f"rename {name} {other}")

    def set(self, _: str) -> None:
        verb = self.draw.choice(sorted(self.args))
        self.args[verb] = {name: self.draw.choice(values) for name, values in ARGS[verb].items()}
        self.told.append(f"set {verb}: {self.args[verb]}")


@contextmanager
def in_small_files() -> Iterator[None]:
    """Tables of few rows are kept in several files, as large ones are, and these are merged early."""
    with patch.multiple(tables, WHOLE_BELOW=1, MOST_ADDITIONS=2):
        yield


def put(history: History, folder: ProjectFolder, workflow: str) -> None:
    there = folder.root / "data" / "input"
    for path in [path for path in there.rglob("*") if path.is_file()]:
        path.unlink()
    for name, text in history.documents.items():
        folder.write(name, text)
    for name in WORKFLOWS[workflow]:
        set_args(folder, name, **history.args)


def index(folder: ProjectFolder, workflow: str) -> dict[str, tuple[str, pa.Table]]:
    """Every table that a run leaves: what names it, and its rows as they stand."""
    with folder.open() as project:
        report = project.index(workflow)
        assert report.outcome in ("completed", "completed_with_rejects"), report
        made = project.snapshots.manifest(workflow).tables
        return {name: (snapshot.sha256, project.snapshots.table(snapshot)) for name, snapshot in made.items()}


def full_build(history: History, root: Path, workflow: str, **settings: Any) -> dict[str, tuple[str, pa.Table]]:
    fresh = new_project(root, NO_STORE, {}, **settings)
    put(history, fresh, workflow)
    return index(fresh, workflow)


def hold(nightly: Mapping[str, tuple[str, pa.Table]], whole: Mapping[str, tuple[str, pa.Table]], told: str) -> None:
    assert set(nightly) == set(whole)
    differing = [name for name in whole if not nightly[name][1].equals(whole[name][1])]
    assert not differing, f"{differing} differ\n{told}"
    named_otherwise = [name for name in whole if nightly[name][0] != whole[name][0]]
    assert not named_otherwise, f"{named_otherwise} have equal rows and other names\n{told}"


@pytest.mark.parametrize(("workflow", "seed"), HISTORIES)
def test_the_tables_of_any_night_are_those_of_a_full_build(
    tmp_path: Path, openai: OpenAIServer, workflow: str, seed: int
):
    history = History(random.Random(seed))
    history.begin()
    folder = new_project(tmp_path / "nightly", NO_STORE, {}, models=models(openai))
    with in_small_files():
        put(history, folder, workflow)
        nightly = index(folder, workflow)
        for _ in range(NIGHTS):
            history.change()
            put(history, folder, workflow)
            nightly = index(folder, workflow)
    hold(nightly, full_build(history, tmp_path / "fresh", workflow, models=models(openai)), "\n".join(history.told))


def test_a_night_after_a_small_edit_adds_a_small_file_and_says_which_rows_are_gone(tmp_path: Path):
    """Else the histories would not be of what they are meant for."""
    history = History(random.Random(1))
    history.begin()
    folder = new_project(tmp_path / "p", NO_STORE, {})
    with in_small_files():
        put(history, folder, "fast")
        index(folder, "fast")
        history.edit(min(history.documents))
        put(history, folder, "fast")
        index(folder, "fast")
    with folder.open() as project:
        made = project.snapshots.manifest("fast").tables
    several = {name for name, snapshot in made.items() if len(snapshot.files) > 1}
    assert {"documents", "text_units", "extractions", "mentions", "text_unit_embeddings"} <= several
    assert all(made[name].files[0].gone_rows for name in ("documents", "text_units"))


KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.project import Project
from pipeline.snapshots import tables

root, workflow, moment = sys.argv[1], sys.argv[2], int(sys.argv[3])
tables.WHOLE_BELOW, tables.MOST_ADDITIONS = 1, 2
named, replace = 0, os.replace

def killing(*names, **options):
    global named
    named += 1
    if named == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names, **options)

os.replace = killing
with Project.open(Path(root)) as project:
    project.index(workflow)
"""
"""A night that is killed as it gives a file its name, at the one of this number."""


@pytest.mark.parametrize("seed", range(size(2, 20)))
def test_a_night_that_was_killed_is_gone_on_with(tmp_path: Path, openai: OpenAIServer, seed: int):
    history, workflow = History(random.Random(seed)), size("fast", ["fast", "claims"][seed % 2])
    history.begin()
    folder = new_project(tmp_path / "nightly", NO_STORE, {}, models=models(openai))
    with in_small_files():
        put(history, folder, workflow)
        index(folder, workflow)
        history.edit(min(history.documents))
        history.change()
        put(history, folder, workflow)
        arguments = [sys.executable, "-c", KILLED, str(folder.root), workflow, str(history.draw.randint(1, 20))]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done
        nightly = index(folder, workflow)
    hold(nightly, full_build(history, tmp_path / "fresh", workflow, models=models(openai)), "\n".join(history.told))
