from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pipeline.contract import fingerprint
from pipeline.engine import plan as planning
from pipeline.engine.plan import plan
from pipeline.engine.run_report import Progress
from pipeline.engine.runner import Runner
from pipeline.snapshots.store import SnapshotStore
from tests.engine.small_project import WORKFLOW, SmallProject
from tests.engine.small_verbs import CALLS


@dataclass
class Built:
    """Return a project that has run once."""

    project: SmallProject
    patch: pytest.MonkeyPatch

    @property
    def store(self) -> SnapshotStore:
        return SnapshotStore(self.project.root / "snapshots")

    def run(self) -> list[tuple[str, str]]:
        result = Runner(self.project.resources, self.store, Progress()).run(
            self.project.workflow, "run-1"
        )
        return [(report.action, report.reason) for report in result.steps]

    def plan(self) -> list[str]:
        planned = plan(self.project.workflow, self.project.resources, self.store)
        return [f"{entry.action} {entry.reason}".strip() for entry in planned]

    def edit_workflow(self, old: str, new: str) -> None:
        assert old in WORKFLOW
        self.project.workflow_text = WORKFLOW.replace(old, new)

    def edit_code(self, name: str) -> None:
        real = planning.code_fingerprint

        def edited(function: Callable[..., object]) -> str:
            return real(function) + ("*" if function.__name__ == name else "")

        self.patch.setattr(planning, "code_fingerprint", edited)

    def delete_snapshot(self, table: str) -> None:
        for path in self.store.root.glob(f"{table}/*.parquet"):
            path.unlink()


@pytest.fixture
def built(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> Built:
    built = Built(project, monkeypatch)
    assert built.plan() == ["run new"] * 4
    built.run()
    CALLS.clear()
    return built


def test_after_a_run_all_is_reused(built: Built):
    assert built.plan() == ["reuse"] * 4


def test_a_plan_runs_no_verb_and_writes_nothing(built: Built):
    built.project.numbers("5", "6")
    before = sorted(built.store.root.rglob("*"))
    built.plan()
    assert CALLS == []
    assert sorted(built.store.root.rglob("*")) == before


CASES: dict[str, tuple[Callable[[Built], None], list[str]]] = {
    "a document": (
        lambda built: built.project.numbers("1", "2"),
        ["run input", "maybe input", "maybe input", "maybe input"],
    ),
    "the code of a verb": (
        lambda built: built.edit_code("keep_even"),
        ["reuse", "run code", "maybe input", "maybe input"],
    ),
    "the code of a verb used twice": (
        lambda built: built.edit_code("describe_numbers"),
        ["reuse", "reuse", "run code", "run code"],
    ),
    "an arg": (
        lambda built: built.edit_workflow(
            "outputs: {kept: evens}", "args: {divisor: 4}\n    outputs: {kept: evens}"
        ),
        ["reuse", "run params", "maybe input", "maybe input"],
    ),
    "a prompt": (
        lambda built: built.project.prompts.update(ask="Tell $number"),
        ["reuse", "reuse", "run prompt", "reuse"],
    ),
    "a model": (
        lambda built: setattr(built.project.chat, "name", "owl"),
        ["reuse", "reuse", "run model", "run model"],
    ),
    "a library": (
        lambda built: built.patch.setattr(fingerprint, "version", lambda name: "99"),
        ["reuse", "run library", "maybe input", "maybe input"],
    ),
    "a snapshot that is gone": (
        lambda built: built.delete_snapshot("more_texts"),
        ["reuse", "reuse", "reuse", "run missing"],
    ),
    "the tables' names": (
        lambda built: built.edit_workflow("texts: more_texts", "texts: other_texts"),
        ["reuse", "reuse", "reuse", "reuse"],
    ),
    "a step's name": (
        lambda built: built.edit_workflow("id: describe_again", "id: renamed"),
        ["reuse", "reuse", "reuse", "reuse"],
    ),
    "an arg written out that was the default": (
        lambda built: built.edit_workflow(
            "outputs: {kept: evens}", "args: {divisor: 2}\n    outputs: {kept: evens}"
        ),
        ["reuse", "reuse", "reuse", "reuse"],
    ),
    "the first of several reasons": (
        lambda built: (built.edit_code("keep_even"), built.project.numbers("2"))[0],
        ["run input", "run code", "maybe input", "maybe input"],
    ),
}


@pytest.mark.parametrize(("edit", "expected"), CASES.values(), ids=CASES)
def test_an_edit_changes_the_steps_it_should_and_no_others(
    built: Built, edit: Callable[[Built], None], expected: list[str]
):
    edit(built)
    assert built.plan() == expected
    for (action, reason), planned in zip(built.run(), expected, strict=True):
        outcomes = {"reuse": ["reused"], "maybe input": ["reused", "ran input"]}
        assert f"{action} {reason}".strip() in outcomes.get(planned, [f"ran {planned[4:]}"])
    assert built.plan() == ["reuse"] * 4


def test_going_back_to_what_was_is_a_reuse(built: Built):
    built.project.numbers("2", "8")
    built.run()
    built.project.numbers("1", "2", "3", "4")
    assert built.plan() == ["reuse"] * 4


def test_another_workflow_reuses_what_is_the_same(built: Built):
    built.edit_workflow("name: small", "name: other")
    assert built.plan() == ["reuse"] * 4
