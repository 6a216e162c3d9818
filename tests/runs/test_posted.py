"""Texts that a program adds, and the arguments that become of a DataFrame."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.documents.front_matter import split_front_matter
from pipeline.errors import UsageError
from pipeline.runs.posted import own_folder, rows_of, states_of
from tests.projects import NO_STORE, new_project, read_yaml, write_yaml


def test_texts_of_each_form_are_documents_of_the_next_run(tmp_path: Path):
    with new_project(tmp_path / "p", NO_STORE, {}).open() as project:
        [first] = project.add("One text.")
        assert project.add(["One text.", "Another."])[0] == first
        assert project.add({"a": "A text.", "b": "A text too."}) == ["a.md", "b.md"]
        frame = pd.DataFrame(
            {"text": ["Of a row.", "Of two."], "title": ["Row", None], "n": [np.int64(3), 4],
             "tags": [["x"], None], "day": [pd.NaT, pd.NaT]},
        )  # fmt: skip
        ids = project.add(frame)
        written = (project.input_folder / "posted" / ids[0]).read_text(encoding="utf-8")
        assert split_front_matter(written)[0] == {"title": "Row", "n": 3, "tags": ["x"]}
        changed = project.changed_documents("fast")
        assert list(changed["change"]) == ["new"] * 6
        assert project.remove(["a", "b.md", "none"]) == 2
        assert project.remove(first) == 1
        assert len(project.changed_documents("fast")) == 3


def test_an_id_is_the_same_where_other_rows_of_the_frame_have_none(tmp_path: Path):
    frame = pd.DataFrame({"id": [7, np.nan], "text": ["Of seven.", "Of none."]})
    assert frame["id"].dtype == float
    with new_project(tmp_path / "p", NO_STORE, {}).open() as project:
        assert project.add(frame)[0] == project.add({"7": "Of seven."})[0]


@pytest.mark.parametrize("cell", [7, 7.0])
def test_a_number_replaces_the_document_whose_id_an_earlier_version_wrote_with_a_fraction(
    tmp_path: Path, cell: float
):
    with new_project(tmp_path / "p", NO_STORE, {}).open() as project:
        project.add({"7.0": "Old.", "8": "Eight."})
        frame = pd.DataFrame({"id": [cell, cell + 1], "text": ["New.", "Eight too."]})
        assert project.add(frame) == ["7.0.md", "8.md"]
        assert [one.id for one in own_folder(project).kept()] == ["7.0.md", "8.md"]
        project.add({"7": "Another document."})
        assert project.add(frame)[0] == "7.md"


@pytest.mark.parametrize("cell", ["7", 7.5, 10**17 + 1, True, "inf"])
def test_an_id_that_is_no_whole_number_or_has_no_fraction_stays_as_it_is(
    tmp_path: Path, cell: object
):
    with new_project(tmp_path / "p", NO_STORE, {}).open() as project:
        project.add({"7.0": "Seven.", "1e+17": "Many.", "1.0": "One."})
        assert project.add(pd.DataFrame({"id": [cell], "text": ["A text."]})) == [f"{cell}.md"]


def test_a_number_that_no_float_holds_is_an_id_as_it_is(tmp_path: Path):
    with new_project(tmp_path / "p", NO_STORE, {}).open() as project:
        frame = pd.DataFrame({"id": [10**309], "text": ["A text."]})
        [row] = rows_of(frame, own_folder(project))
    assert row["id"] == str(10**309)


def test_a_document_that_runs_no_longer_match_is_left_out_and_a_new_one_is_refused(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, {})
    with folder.open() as project:
        project.add({"old": "A text."})
        own = own_folder(project)
        assert [one.state for one in states_of(project, own, own.kept())] == ["waiting"]
    workflow = folder.root / "workflows" / "index.yaml"
    written = read_yaml(workflow)
    written["steps"][0] = {"verb": "load_documents", "args": {"file_pattern": "**/*.pdf"}}
    write_yaml(workflow, written)
    with folder.open() as project:
        own = own_folder(project)
        [old] = states_of(project, own, own.kept())
        assert (old.state, old.left_out[0]["reason"]) == ("left_out", "file_pattern")
        with pytest.raises(UsageError, match=r"'posted/new\.md' does not match"):
            project.add({"new": "A text."})
        assert [one.id for one in own.kept()] == ["old.md"]


def test_what_cannot_be_added_is_refused_and_nothing_is_written(tmp_path: Path):
    with new_project(tmp_path / "p", NO_STORE, {}).open() as project:
        texts = ["One.", "Two."]
        wrong: list[Any] = [
            ["right", " "], {"../a": "text"}, pd.DataFrame({"texts": ["a"]}), 5, None, b"text",
            ["right", None], ["right", float("nan")], {1: "text"}, {"a": None},
            pd.DataFrame({"id": ["a", "a"], "text": texts}),
            pd.DataFrame({"id": ["a", "A"], "text": texts}),
            pd.DataFrame({"text": ["One.", np.nan]}),
            pd.DataFrame([["One.", "x", "y"]], columns=["text", "tag", "tag"]),
        ]  # fmt: skip
        for each in wrong:
            with pytest.raises(UsageError):
                project.add(each)
        assert not (project.input_folder / "posted").exists()


def test_the_workflow_is_read_only_where_its_pattern_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = new_project(tmp_path / "p", NO_STORE, {})
    with folder.open() as project:
        project.add({"old": "A text."})
        read: list[str] = []

        with monkeypatch.context() as patched:
            patched.setattr("pipeline.runs.posted._pattern_of", lambda project: read.append("x"))
            own = own_folder(project)
            assert [one.id for one in own.kept()] == ["old.md"]
            assert own.find("old") is not None
        assert read == []
        assert own_folder(project).unread("new.md") == ""
