"""Taking over an index of LightRAG: what the project had stays unless the new one is whole."""

import json
import os
import shutil
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import networkx as nx
import pytest

from pipeline.corrections.file import read_lines
from pipeline.documents.lightrag import NEEDED, copy_index, lightrag_digest
from pipeline.engine.run_options import RunOptions
from pipeline.errors import DeletionError, UsageError
from pipeline.runs.import_lightrag import take_edits
from pipeline.verbs.read_lightrag import examine_lightrag
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.verbs.lightrag_folders import BY_HAND, GRAPH, INDEX, edit_graph

DOCUMENTS, CHUNKS, REPLIES = NEEDED[0], NEEDED[2], NEEDED[3]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project with an imported index that has edits; no test changes it."""
    root = tmp_path_factory.mktemp("imported")
    folder = new_project(root / "p", NO_STORE, {}, max_delete_ratio=0.3)
    theirs = Path(shutil.copytree(INDEX, root / "rag_storage"))
    edit_graph(theirs)
    with folder.open() as project:
        project.import_lightrag(theirs)
    return folder


@pytest.fixture
def folder(imported: ProjectFolder, tmp_path: Path) -> ProjectFolder:
    return imported.copy(tmp_path / "p")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The index that was imported, to be changed."""
    index = Path(shutil.copytree(INDEX, tmp_path / "rag_storage"))
    edit_graph(index)
    return index


def edit(path: Path, change: Any) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))
    change(rows)
    path.write_text(json.dumps(rows), encoding="utf-8")


def rename_all(rows: Any) -> None:
    for row in rows.values():
        row["file_path"] = f"other-{row['file_path']}"


def leave_one(rows: Any) -> None:
    id, row = next(one for one in rows.items() if one[1]["llm_cache_list"])
    rows.clear()
    rows[id] = row


def kept(folder: ProjectFolder) -> tuple[str, bytes]:
    """The copy of the index, and the corrections."""
    lines = folder.root / "corrections.jsonl"
    return lightrag_digest(folder.root / "data" / "lightrag"), lines.read_bytes()


def change_to_another_index(theirs: Path) -> None:
    edit(theirs / DOCUMENTS, rename_all)
    edit(theirs / DOCUMENTS, lambda rows: [row.update(content="Else.") for row in rows.values()])


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (change_to_another_index, "4 of 4 documents are gone"),
        (lambda theirs: edit(theirs / CHUNKS, leave_one), "3 of 4 documents are gone"),
        (lambda theirs: (theirs / REPLIES).write_text("{}"), "wait until LightRAG has ended"),
    ],
)
def test_an_index_that_lacks_most_replaces_nothing(
    folder: ProjectFolder, theirs: Path, change: Any, fact: str
):
    before = kept(folder)
    change(theirs)
    with folder.open() as project:
        with pytest.raises(DeletionError, match=fact):
            project.import_lightrag(theirs)
        assert kept(folder) == before
        assert not (folder.root / "data" / "lightrag.partial").exists()
        project.import_lightrag(theirs, options=RunOptions(allow_deletes=True))
    assert kept(folder) != before


def test_a_document_whose_name_is_a_folder_of_another_one_goes_alone(
    folder: ProjectFolder, theirs: Path
):
    names = {"lamp.txt": "a", "harbour.txt": "a/b"}

    def name_alike(rows: Any) -> None:
        for row in rows.values():
            row["file_path"] = names.get(row["file_path"], row["file_path"])

    def delete(rows: Any) -> None:
        rows.pop(next(id for id, row in rows.items() if row["file_path"] == "a"))

    edit(theirs / DOCUMENTS, name_alike)
    with folder.open() as project:
        project.import_lightrag(theirs, options=RunOptions(allow_deletes=True))
        before = project.table("documents", "lightrag").set_index("source")["text"]
        edit(theirs / DOCUMENTS, delete)
        project.import_lightrag(theirs)
        after = project.table("documents", "lightrag").set_index("source")["text"]
    assert set(before.index) - set(after.index) == {"a"}
    assert after["a/b"] == before["a/b"]


def leave_few_nodes(path: Path) -> None:
    graph: Any = nx.read_graphml(path)
    graph.remove_nodes_from(list(graph)[3:])
    nx.write_graphml(graph, path)


@pytest.mark.parametrize(
    "damage", [os.unlink, lambda path: path.write_bytes(b"<graphml>"), leave_few_nodes]
)
def test_corrections_stay_where_the_graph_cannot_be_read(
    folder: ProjectFolder, theirs: Path, damage: Any
):
    _, lines = kept(folder)
    assert lines
    damage(theirs / GRAPH)
    with folder.open() as project:
        report = project.import_lightrag(theirs)
    assert kept(folder)[1] == lines
    assert any("corrections of earlier imports stay" in note for note in report.notes)


def decisions_of(folder: ProjectFolder) -> list[str]:
    """The corrections. A statement is cited by the first document of those that name its ends."""
    lines = map(json.loads, kept(folder)[1].splitlines())
    return sorted(str({key: line[key] for key in line if key != "document"}) for line in lines)


def lose_replies(theirs: Path, passage: str) -> None:
    chunks = json.loads((theirs / CHUNKS).read_text("utf-8")).values()
    about = [chunk for chunk in chunks if chunk["content"].startswith(passage)]
    assert about
    keys = {key for chunk in about for key in chunk["llm_cache_list"]}
    edit(theirs / REPLIES, lambda rows: [rows.pop(key) for key in keys])


def lose_all_replies(theirs: Path) -> None:
    edit(theirs / REPLIES, lambda rows: rows.clear())


def leave_unfinished(theirs: Path) -> None:
    """As LightRAG does while it reads a document anew: its part of the graph is gone."""

    def begin(rows: Any) -> None:
        next(row for row in rows.values() if row["file_path"] == "json.txt")["status"] = "parsing"

    edit(theirs / "kv_store_doc_status.json", begin)
    graph: Any = nx.read_graphml(theirs / GRAPH)
    graph.remove_nodes_from(["Book of Tides", "Ida Vale"])
    nx.write_graphml(graph, theirs / GRAPH)


@pytest.mark.parametrize(
    ("damage", "number"),
    [
        (lambda theirs: lose_replies(theirs, "Ida Vale wrote"), 1),
        (lambda theirs: lose_replies(theirs, "Otto Brun left"), 2),
        (lose_all_replies, 7),
        (leave_unfinished, 2),
    ],
)
def test_corrections_stay_where_the_index_lacks_replies(
    folder: ProjectFolder, theirs: Path, tmp_path: Path, damage: Any, number: int
):
    before, decided = sorted(kept(folder)[1].splitlines()), decisions_of(folder)
    shutil.copytree(theirs, tmp_path / "whole")
    damage(theirs)
    with folder.open() as project:
        report = project.import_lightrag(theirs, options=RunOptions(allow_deletes=True))
        assert decisions_of(folder) == decided
        noun = "correction" if number == 1 else "corrections"
        fact = f"{number} {noun} of earlier imports"
        assert any(fact in note and "lacks replies" in note for note in report.notes), report.notes
        report = project.import_lightrag(tmp_path / "whole")
        assert sorted(kept(folder)[1].splitlines()) == before
        assert not any("lacks replies" in note for note in report.notes)


def undo_description(theirs: Path) -> None:
    graph: Any = nx.read_graphml(theirs / GRAPH)
    graph.edges["Otto Brun", "Tessing"]["description"] = "He left for Tessing."
    nx.write_graphml(graph, theirs / GRAPH)


def test_a_correction_goes_whose_edit_was_undone_where_all_replies_are_there(
    folder: ProjectFolder, theirs: Path
):
    undo_description(theirs)
    lose_replies(theirs, "Ida Vale wrote")
    with folder.open() as project:
        project.import_lightrag(theirs)
    lines = kept(folder)[1].decode()
    assert "He left for good." not in lines
    assert "Book of Tides" in lines


def test_a_correction_taken_back_stays_so_after_an_index_that_lacks_replies(
    folder: ProjectFolder, theirs: Path, tmp_path: Path
):
    path = folder.root / "corrections.jsonl"
    others = [line for line in path.read_text("utf-8").splitlines() if "Book of Tides" not in line]
    path.write_text("".join(f"{line}\n" for line in others), encoding="utf-8")
    shutil.copytree(theirs, tmp_path / "whole")
    lose_replies(theirs, "Ida Vale wrote")
    with folder.open() as project:
        project.import_lightrag(theirs)
        project.import_lightrag(tmp_path / "whole")
    assert sorted(path.read_text("utf-8").splitlines()) == sorted(others)


def test_a_line_of_a_person_stays_when_an_edit_like_it_is_undone(tmp_path: Path, theirs: Path):
    folder = new_project(tmp_path / "p", NO_STORE, {})
    ends = {"source": "Otto Brun", "target": "Tessing"}
    line = {"kind": "describe_statement", "by": "ann", **ends, "description": "He left for good."}
    path = folder.root / "corrections.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with folder.open() as project:
        take_edits(project, examine_lightrag(theirs))
        assert len(read_lines(path)) == 7
        undo_description(theirs)
        take_edits(project, examine_lightrag(theirs))
    assert json.dumps(line) in path.read_text("utf-8").splitlines()


def cut_off(folder: Path) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("has_copy", [True, False])
def test_an_import_that_is_cut_off_leaves_no_second_copy(tmp_path: Path, has_copy: bool):
    copy = tmp_path / "data" / "lightrag"
    if has_copy:
        shutil.copytree(INDEX, copy)
    with pytest.raises(KeyboardInterrupt):
        copy_index(INDEX, copy, cut_off)
    assert [path.name for path in copy.parent.iterdir()] == ["lightrag"] * has_copy


def test_an_import_that_is_cut_off_between_two_names_keeps_the_copy(tmp_path: Path):
    copy = Path(shutil.copytree(INDEX, tmp_path / "lightrag"))
    before = lightrag_digest(copy)
    rename, names = Path.rename, list[str]()

    def renamed(path: Path, target: Path) -> Path:
        names.append(path.name)
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    with patch.object(Path, "rename", renamed), pytest.raises(KeyboardInterrupt):
        copy_index(INDEX, copy, lambda folder: None)
    assert names == ["lightrag", "new", "before"]
    assert lightrag_digest(copy) == before
    assert [path.name for path in tmp_path.iterdir()] == ["lightrag"]


def test_the_only_copy_outlives_a_kill_between_two_names(folder: ProjectFolder):
    copy = folder.root / "data" / "lightrag"
    before = lightrag_digest(copy)
    beside = copy.with_name("lightrag.partial")
    beside.mkdir()
    copy.rename(beside / "before")

    def fail(_: Path) -> None:
        raise UsageError("the source is gone meanwhile")

    with pytest.raises(UsageError, match="meanwhile"):
        copy_index(INDEX, copy, fail)
    assert lightrag_digest(copy) == before


@pytest.mark.parametrize(
    "address",
    [
        "POSTGRESQL://ann:geheim@h/x", "postgresql+psycopg://ann:geheim@h/x",
        " postgresql://ann:geheim@h/x", "host=h password=geheim", "postgresql:/ann:geheim@h/x",
        "postgresql://ann:geheim/x@h/y", "postgresql://ann:12/geheim@h/y",
    ],
)  # fmt: skip
def test_no_message_about_an_address_shows_its_password(folder: ProjectFolder, address: str):
    said = folder.invoke_refused("import", "lightrag", address)
    assert "geheim" not in said
    assert "PGPASSWORD" in said


def test_many_edits_are_taken_in_time_and_those_that_contradict_a_line_are_told(
    tmp_path: Path, theirs: Path
):
    graph: Any = nx.read_graphml(theirs / GRAPH)
    for number in range(600):
        name = f"Keeper {number}"
        graph.add_node(name, entity_type="person", description=f"Number {number}.", **BY_HAND)
        graph.add_edge("Ada Holm", name, keywords="met", description="They met.", **BY_HAND)
    nx.write_graphml(graph, theirs / GRAPH)
    folder = new_project(tmp_path / "p", NO_STORE, {})
    line = {"kind": "set_type", "entity": "周明", "to": "PERSON"}
    path = folder.root / "corrections.jsonl"
    path.write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
    index = examine_lightrag(theirs)
    with folder.open() as project:
        began = process_time()
        notes = take_edits(project, index)
        assert process_time() - began < 2, "each edit was compared with all others"
    assert len(read_lines(path)) == 1 + 1206
    assert sum("is not added: they contradict each other" in note for note in notes) == 1
