"""Workers of a cluster receive the files of a project that they need, and open them."""

import io
import zipfile
from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.runs.worker import _open_shipped, ship
from pipeline.snapshots.store import SnapshotStore
from tests.projects import NO_STORE, ProjectFolder, new_project

CANARY = "canary-token-7f3a"
OWN = """
import pandas as pd
from pydantic import Field
from pipeline import Params, verb
from pipeline.contract.schemas import DOCUMENTS

class AskParams(Params):
    size: int
    token: str = Field(exclude=True, repr=False)

@verb(inputs={"documents": DOCUMENTS}, outputs={"documents": DOCUMENTS}, rowwise="documents")
def ask(documents: pd.DataFrame, params: AskParams) -> pd.DataFrame:
    return documents
"""
STEPS = [{"verb": "ask", "args": {"token": "${TOKEN}", "size": "${SIZE:-7}"}}]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = new_project(
        tmp_path / "p", NO_STORE, workflow="fast", verbs=["own.py"], input={"steps": STEPS}
    )
    (folder.root / "own.py").write_text(OWN)
    (folder.root / ".env").write_text(f"TOKEN={CANARY}\n")
    return folder


def shipped(folder: ProjectFolder) -> bytes:
    with folder.open() as project:
        workflow = project.workflow()
        [step] = [step for step in workflow.steps if step.verb.name == "ask"]
        assert step.params.model_dump() == {"size": 7}
        assert getattr(step.params, "token", "") == CANARY
        return ship(project, workflow)


def test_values_of_the_environment_are_not_sent(folder: ProjectFolder, tmp_path: Path):
    content = shipped(folder)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert any(b"${TOKEN}" in file for file in files.values())
    assert not [name for name, file in files.items() if CANARY.encode() in file]


def test_a_worker_has_the_steps_of_the_ontology_and_the_vocabulary(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("ontology.yaml", "prompts/vocabulary.yaml"):
        (folder.root / name).write_text("entity_types: [PERSON]\n")
    sent = tmp_path / "sent.zip"
    sent.write_bytes(shipped(folder))
    place = _open_shipped(sent, tmp_path / "worker", SnapshotStore(tmp_path / "snapshots"))
    monkeypatch.setenv("TOKEN", "its-own")
    with folder.open() as project:
        ours = [(step.id, step.params.model_dump()) for step in project.workflow("index").steps]
    theirs = [(step.id, step.params.model_dump()) for step in place.workflow("index").steps]
    names = ("conform_extractions", "extract_graph", "check_patterns")
    assert [one for one in theirs if one[0] in names] == [one for one in ours if one[0] in names]
    assert "PERSON" in str(dict(theirs)["extract_graph"])


def test_a_worker_reads_its_own_environment(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sent = tmp_path / "sent.zip"
    sent.write_bytes(shipped(folder))
    place = _open_shipped(sent, tmp_path / "worker", SnapshotStore(tmp_path / "snapshots"))
    with pytest.raises(
        SettingsError, match=r"input\.steps\[0\]: token: the environment variable TOKEN is not set"
    ):
        place.workflow("fast")
    monkeypatch.setenv("TOKEN", "its-own")
    [step] = [step for step in place.workflow("fast").steps if step.verb.name == "ask"]
    assert getattr(step.params, "token", "") == "its-own"


def test_a_worker_has_the_steps_of_tables_and_corrections_and_nothing_of_their_content(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    line = f'{{"id": "1", "kind": "delete_entity", "entity": "{CANARY}"}}\n'
    (folder.root / "corrections.jsonl").write_text(line)
    (folder.root / "tables").mkdir()
    (folder.root / "tables" / "tables.yaml").write_text("{}\n")
    (folder.root / "tables" / "rows.csv").write_text(f"source,target\n{CANARY},Oslo\n")
    content = shipped(folder)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert not [name for name in archive.namelist() if CANARY.encode() in archive.read(name)]
    (tmp_path / "shipped.zip").write_bytes(content)
    snapshots = SnapshotStore(tmp_path / "snapshots")
    place = _open_shipped(tmp_path / "shipped.zip", tmp_path / "worker", snapshots)
    monkeypatch.setenv("TOKEN", "its-own")
    with folder.open() as project:
        steps = [(step.id, step.inputs) for step in project.workflow("fast").steps]
    assert [(step.id, step.inputs) for step in place.workflow("fast").steps] == steps
    assert {"correct_extractions", "read_table"} <= {name for name, _ in steps}
