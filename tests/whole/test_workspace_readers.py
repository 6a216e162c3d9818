"""Who reads a workspace that another owner has: refused, or told whose it is; and what it does not
decide."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.errors import OtherOwnerError
from pipeline.runs.owner import has_owner, owner_of
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import serving

QUESTION = ("query", "Who met Babbage?", "--mode", "naive")


@dataclass(frozen=True)
class Two:
    """``mine`` has loaded the workspace ``name``; ``theirs``, whose settings name it too, has
    tables of its own."""

    mine: ProjectFolder
    theirs: ProjectFolder
    name: str

    @property
    def told(self) -> str:
        return f"workspace '{self.name}': belongs to owner {owner_of(self.mine.root)} (loaded from "


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Two:
    root = tmp_path_factory.mktemp("readers")
    mine = new_project(
        root / "mine", postgres_url, {"one.txt": "Ada Byron met Charles Babbage in London."}
    )
    with mine.open() as project:
        project.run("fast")
        name = project.settings.workspace
    theirs = new_project(
        root / "theirs", postgres_url, {"other.txt": "Emmy Noether met David Hilbert."}
    )
    theirs.edit_settings(workspace=name)
    with theirs.open() as project:
        project.index("fast")
    return Two(mine, theirs, name)


def test_a_question_is_refused_or_names_the_workspace(two: Two):
    refused = two.theirs.invoke_refused(*QUESTION)
    assert two.told in refused
    assert f"name it: --set workspace={two.name}; " in refused
    named = two.theirs.invoke(*QUESTION, "--set", f"workspace={two.name}")
    assert named.exit_code == 0
    assert "Babbage" in named.stdout
    assert f"graphmill: {two.told}" in named.stderr
    assert two.mine.invoke(*QUESTION).stderr == ""


def test_what_is_found_and_measured_says_whose_it_is(two: Two):
    question = [{"question": "Who met Babbage?", "documents": ["one.txt"]}]
    with two.theirs.open() as project, pytest.raises(OtherOwnerError):
        project.evaluate(question, modes=["naive"])
    with two.theirs.open(f"workspace={two.name}") as project:
        [note] = project.query_data("Who met Babbage?", mode="naive")["notes"]
        assert note.startswith(two.told)
        assert project.evaluate(question, modes=["naive"]).notes == (note,)


def test_a_server_says_so_as_well(two: Two):
    with two.theirs.open() as project, serving(project) as served:
        answer = served.ask("/query/data")
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "other_owner")
        status, body = served.health()
        assert (status, two.told in body["problem"]) == (503, True)
    with two.theirs.open(f"workspace={two.name}") as project, serving(project) as served:
        assert two.told in "\n".join(served.ask("/query/data").json()["notes"])
        assert served.health()[0] == 200


def test_who_only_looks_gets_no_owner(two: Two, tmp_path: Path, postgres_url: str):
    """As a server beside the nightly machine, with the settings alone."""
    reader = new_project(tmp_path / "reader", postgres_url, {})
    reader.edit_settings(workspace=two.name)
    assert two.told in reader.invoke_refused(*QUESTION)
    assert reader.invoke(*QUESTION, "--set", f"workspace={two.name}").exit_code == 0
    assert reader.invoke("workspace", "list").exit_code == 0
    assert not has_owner(reader.root)


def test_verify_compares_nothing_with_anothers_rows(two: Two):
    for words in (
        ["verify", "fast"],
        ["verify", "fast", "--quick"],
        ["verify", "fast", "--set", f"workspace={two.name}"],
    ):
        done = two.theirs.invoke(*words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert two.told in done.stderr
        assert "so nothing is compared: " in done.stderr
    assert two.mine.invoke("verify", "--quick").exit_code == 0


def test_anothers_workspace_decides_nobodys_workflow(two: Two):
    """Settings of both name 'index'; 'fast' is what the workspace shows."""
    with two.mine.open() as mine, two.theirs.open() as theirs:
        assert [mine.shown_workflow(), theirs.shown_workflow()] == ["fast", "index"]
        assert theirs.live_workflow() is None


def test_a_retry_takes_over_as_a_run_does(two: Two):
    workspace, owner = f"workspace={two.name[:50]}-retry", owner_of(two.mine.root)
    with two.mine.open(workspace) as project:
        project.load("fast")
    retry = ("retry", "fast", "--set", workspace)
    assert f"add --take-over {owner}" in two.theirs.invoke_refused(*retry)
    done = two.theirs.invoke(*retry, "--take-over", owner, "--yes")
    assert done.exit_code == 0, done.stderr
    with two.theirs.open(workspace) as project:
        assert project.verify("fast", quick=True).agrees
