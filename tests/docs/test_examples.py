"""The examples run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.projects import ProjectFolder, new_project

ROOT = Path(__file__).parents[2]


def example(project: ProjectFolder, name: str, about: str) -> str:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / name, about, project.root],
        capture_output=True,
        text=True,
        env={**project.environment, "PYTHONPATH": str(ROOT)},
        check=True,
    ).stdout


def test_ask_and_picture(tmp_path: Path, postgres_url: str) -> None:
    project = new_project(tmp_path / "p", postgres_url)
    with project.open() as opened:
        opened.run("fast")
    asked = example(project, "ask.py", "Who founded the Brack Institute?")
    assert "Idra Senn" in asked
    assert "[1]" in asked
    assert ">Idra Senn</text>" in example(project, "picture.py", "Who founded the Brack Institute?")
    effect = subprocess.run(
        [sys.executable, ROOT / "examples" / "ontology" / "effect.py", project.root],
        capture_output=True,
        text=True,
        env=project.environment,
        check=True,
    ).stdout
    assert "all in the ontology" in effect


def test_texts_of_a_program_without_a_folder() -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "examples" / "texts.py"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    ).stdout
    assert "Osric Hale dredged" in said
    assert "['posted/quay.md']" in said
    assert "1 removed: ['gone']" in said


def test_the_sample_corpus_and_its_questions_fit_together() -> None:
    """Every gold document of data/questions.jsonl is a document that load_documents reads."""
    documents, rejects = load_documents(LoadParams(path=str(ROOT / "data" / "input")))
    questions = [
        json.loads(line)
        for line in (ROOT / "data" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    gold = {source for question in questions for source in question["documents"]}
    assert gold <= set(documents["source"])
    assert rejects.empty
    assert len(questions) == 50
    assert sum(len(question["documents"]) > 1 for question in questions) >= 25


def test_a_verb_of_ones_own(tmp_path: Path) -> None:
    project = new_project(tmp_path / "p", "embedded")
    shutil.copytree(ROOT / "examples" / "own_verb", project.root, dirs_exist_ok=True)
    project.edit_settings(verbs=["verbs/keep_frequent.py"])
    with project.open() as opened:
        opened.index("frequent")
        entities, kept = (opened.table(name, "frequent") for name in ("entities", "frequent_names"))
    assert kept["id"].tolist() == entities.loc[entities["frequency"] >= 2, "id"].tolist()
    assert 0 < len(kept) < len(entities)
    assert (project.root / "data" / "output" / "frequent" / "frequent_names.csv").is_file()
