"""Importing an index of GraphRAG with its cache: what is told, and what a second import finds."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.errors import DeletionError, UsageError
from pipeline.runs.import_graphrag import choose_workflow, note_left_out
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.states import table_hashes
from tests.verbs.graphrag_folders import remove_replies, unpack

READ = "read_graphrag_cache"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project that has taken an index with its cache; no test changes it."""
    root = tmp_path_factory.mktemp("imported")
    folder = new_project(root / "p", NO_STORE, {}, max_delete_ratio=0.3)
    with folder.open() as project:
        project.import_graphrag(unpack(root / "graphrag"))
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return unpack(tmp_path / "graphrag")


def move_cache(index: Path) -> None:
    (index / "cache").rename(index / "elsewhere")


def empty_cache(index: Path) -> None:
    for path in (index / "cache" / "extract_graph").iterdir():
        path.unlink()


def change_prompt(index: Path) -> None:
    (index / "prompts" / "extract_graph.txt").write_text("{input_text}", "utf-8")


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (move_cache, "there is no cache"),
        (empty_cache, "there is no cache"),
        (change_prompt, "16 replies in .*, which are not about these passages"),
    ],
)
def test_a_cache_that_was_read_and_is_gone_changes_nothing(
    imported: ProjectFolder, index: Path, damage: Callable[[Path], None], fact: str
):
    damage(index)
    with imported.open() as project:
        before = table_hashes(project, "graphrag_cache")
        with pytest.raises(UsageError, match=f"{fact}.*--workflow graphrag"):
            project.import_graphrag(index)
        assert table_hashes(project, "graphrag_cache") == before
        assert not project.snapshots.manifest("graphrag").tables


def test_replies_are_taken_though_the_first_passages_have_none(
    imported: ProjectFolder, index: Path
):
    path = index / "output" / "text_units.parquet"
    units = pd.read_parquet(path)
    others = units.loc[[0] * 30].assign(text=[f"Nobody asked, {number}." for number in range(30)])
    pd.concat([others, units]).to_parquet(path)
    with imported.open() as project:
        assert choose_workflow(project, index) == ("graphrag_cache", [])


def test_replies_that_say_nothing_any_more_replace_nothing(
    imported: ProjectFolder, index: Path, tmp_path: Path
):
    for path in (index / "cache" / "extract_graph").iterdir():
        path.write_text('{"result": {"response": {"content": ""}}}', "utf-8")
    folder = imported.copy(tmp_path / "p")
    with folder.open() as project:
        with pytest.raises(DeletionError, match=r"cache/extract_graph: \d+ of the \d+ rows"):
            project.import_graphrag(index)
        project.import_graphrag(index, options=RunOptions(allow_deletes=True))


def test_a_file_takes_the_place_of_the_unfinished_document_of_its_name_alone(
    index: Path, tmp_path: Path
):
    path = index / "output" / "documents.parquet"
    documents = pd.read_parquet(path)
    documents.loc[:1, "title"] = "same.txt"
    documents.to_parquet(path)
    units = pd.read_parquet(index / "output" / "text_units.parquet")
    for text in units.loc[units["document_id"] == documents["id"][0], "text"]:
        remove_replies(index, text)
    settings = {"files": "fast", "path": str(index)}
    files = {"same.txt": str(documents["text"][0])}
    folder = new_project(tmp_path / "p", NO_STORE, files, graphrag=settings)
    with folder.open() as project:
        project.import_graphrag(index)
        texts = set(project.table("documents", "graphrag_cache")["text"])
    assert texts == set(documents["text"])


def test_rows_are_counted_by_their_place():
    places = [
        (READ, "covariates[3]", "dangling"),
        (READ, "covariates[4]", "dangling"),
        (READ, "cache/extract_graph/0a_v4", "empty"),
        (READ, "lamp[1].txt", "unfinished"),
        (READ, "bell.txt", "dangling"),
        (READ, "lancedb", "not_imported"),
        ("keep_reports", "community-1", "changed"),
        ("merge_graphs", "unit-1", "self_loop"),
    ]
    rejects = pd.DataFrame(places, columns=["step", "row_id", "reason"])
    notes = note_left_out(rejects.assign(message=[f"message of {place[1]}" for place in places]))
    assert notes == [
        "not taken: message of lancedb",
        "not taken of cache/extract_graph: 1 row (empty), as message of cache/extract_graph/0a_v4",
        "not taken of covariates: 2 rows (dangling), as message of covariates[3]",
        "not taken of documents: 1 row (dangling), as message of bell.txt",
        "not taken of documents: 1 row (unfinished), as message of lamp[1].txt",
        "not taken of keep_reports: 1 row (changed), as message of community-1",
    ]
