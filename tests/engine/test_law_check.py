"""A verb that breaks its law is found on a project's own tables, and one that holds it is not."""

from pathlib import Path

import pytest

from pipeline.engine.law_check import HeldStep
from pipeline.errors import DataError, UsageError
from tests.projects import NO_STORE, ProjectFolder, new_project, project_with_verb
from tests.servers.openai_server import OpenAIServer

DOCUMENTS = {
    f"{number:02}.txt": (
        f"Mira Vale built Harrow Light {number} in Quill. Idra Senn saw Harrow Light {number + 1}."
    )
    for number in range(12)
}
VERB = """
import pandas as pd

from pipeline.contract.laws import Uses
from pipeline.contract.registry import verb
from pipeline.contract.schemas import DOCUMENTS, INT, STRING, TEXT_UNITS, table

COUNTS = table("id", id=STRING, rows=INT)


def touched(rows, before, now):
    return TOUCHED


@verb(inputs={"text_units": TEXT_UNITS, "documents": DOCUMENTS}, outputs={"counts": COUNTS}, LAW)
def count_rows(text_units: pd.DataFrame, documents: pd.DataFrame) -> pd.DataFrame:
    BODY
"""
NIGHT = 'keyed={"text_units": ("document_id",), "documents": ("id",)}, row_of={"counts": "id"}'
OF_ONE_DOCUMENT = """of_each = text_units.groupby("document_id").size()
    return pd.DataFrame({"id": of_each.index, "rows": of_each.to_numpy()})"""
OF_ALL = 'return pd.DataFrame({"id": documents["id"], "rows": len(text_units)})'
OF_TITLES = """rows = documents["text"].str.len().sum() if len(documents) else 0
    return pd.DataFrame({"id": text_units["id"], "rows": rows})"""
OF_THE_LONGEST = """longest = text_units.assign(rows=text_units["text"].str.len()).nlargest(3, "rows")
    return pd.DataFrame({"id": longest["document_id"], "rows": longest["rows"]})"""  # noqa: E501
BY_TOUCH = 'rowwise="text_units", row_of={"counts": "id"}, lookup={"documents": touched}'


def with_verb(root: Path, law: str, body: str, touched: str = "None") -> ProjectFolder:
    source = VERB.replace("LAW", law).replace("BODY", body).replace("TOUCHED", touched)
    return project_with_verb(root, DOCUMENTS, source, "count_rows")


def held(folder: ProjectFolder) -> HeldStep:
    with folder.open() as project:
        project.index("fast")
        before = sorted(folder.root.rglob("*"))
        found = project.check_laws("fast")
        assert sorted(folder.root.rglob("*")) == before
    assert [step.verdict for step in found[:2]] == ["source", "holds"]
    return found[2]


@pytest.mark.parametrize(
    ("law", "body", "verdict"),
    [
        (NIGHT, OF_ONE_DOCUMENT, "holds"),
        (NIGHT, OF_ALL, "breaks"),
        ('rowwise="text_units"', OF_ALL, "whole"),
        (BY_TOUCH, OF_TITLES, "breaks"),
    ],
)
def test_the_result_for_changed_groups_equals_that_for_all_rows(
    tmp_path: Path, law: str, body: str, verdict: str
):
    none_touched = "pd.Series(False, index=rows.index)"
    found = held(with_verb(tmp_path / "p", law, body, none_touched))
    assert found.verdict == verdict
    assert ("'counts', by 'count_rows'" in found.message) is (verdict == "breaks")


def test_a_verb_that_does_not_take_some_groups_alone_breaks_its_law(tmp_path: Path):
    body = 'if len(documents) < 5:\n        raise ValueError("all are needed")\n    ' + OF_ALL
    found = held(with_verb(tmp_path / "p", NIGHT, body))
    assert found.verdict == "breaks"
    assert "raised ValueError: all are needed" in found.message


@pytest.mark.parametrize(
    ("touched", "told"),
    [
        ("None", "NoneType"),
        ("pd.Series(True, index=range(2))", "a Series of 2 bool"),
        ("rows['order']", "a Series of 12 int64"),
    ],
)
def test_a_lookup_function_that_returns_no_boolean_for_each_row_is_refused(
    tmp_path: Path, touched: str, told: str
):
    folder = with_verb(tmp_path / "p", BY_TOUCH, OF_TITLES, touched)
    with folder.open() as project:
        project.index("fast")
        folder.write("00.txt", "Another text.")
        with pytest.raises(
            DataError,
            match=f"verb 'count_rows': .* lookup of 'documents' returned {told} for 12 rows",
        ):
            project.index("fast")


def test_a_project_without_a_run_says_so(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS)
    with folder.open() as project, pytest.raises(UsageError, match="no run yet"):
        project.check_laws("fast")


def test_a_source_whose_table_no_run_has_says_so(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS)
    with folder.open() as project:
        project.index("fast")
    step = {"verb": "filter_documents", "args": {"where": {"title": "a"}}}
    folder.edit_settings(input={"steps": [step]})
    with folder.open() as project, pytest.raises(UsageError, match="no table documents_loaded"):
        project.check_laws("fast")


def test_the_command_holds_a_workflow_that_asks_models_and_asks_none(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS, openai)
    assert folder.invoke("index", "index").exit_code == 0
    asked = len(openai.requests)
    found = folder.invoke("check-laws", "index", "--json")
    assert found.exit_code == 0
    assert {step["verdict"] for step in found.json} == {"source", "holds"}
    assert len(openai.requests) == asked


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_verb_that_keeps_the_longest_rows_breaks_its_law_whatever_the_seed(
    tmp_path: Path, seed: int
):
    folder = with_verb(tmp_path / "p", NIGHT, OF_THE_LONGEST)
    with folder.open() as project:
        project.index("fast")
        found = project.check_laws("fast", seed=seed)[2]
    assert found.verdict == "breaks"
    assert f"seed {seed}" in found.message or f"seed {seed + 1}" in found.message
