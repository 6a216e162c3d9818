"""Steps that a run leaves as they are, and steps that it forces."""

import pytest

from pipeline.engine.plan import plan
from pipeline.engine.run_options import ALL, Selection
from pipeline.engine.run_report import Progress
from pipeline.engine.runner import IndexResult, Runner
from pipeline.errors import UsageError
from pipeline.snapshots.store import SnapshotStore
from tests.engine.small_project import SmallProject
from tests.engine.small_verbs import CALLS


def run(project: SmallProject, selection: Selection = ALL) -> IndexResult:
    CALLS.clear()
    store = SnapshotStore(project.root / "snapshots")
    return Runner(project.resources, store, Progress(), selection=selection).run(
        project.workflow, "run"
    )


def actions(result: IndexResult) -> list[str]:
    return [f"{report.action} {report.reason}".strip() for report in result.steps]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(start="describe_numbers"), ["reused", "reused", "reused", "ran prompt"]),
        (Selection(start="keep_even"), ["reused", "reused", "reused", "ran prompt"]),
        (Selection(only=("read_numbers",)), ["ran input", "reused", "reused", "reused"]),
        (
            Selection(only=("read_numbers", "keep_even")),
            ["ran input", "ran input", "reused", "reused"],
        ),
        (Selection(skip=("describe_again",)), ["ran input", "ran input", "ran input", "reused"]),
        (
            Selection(force=("read_numbers",)),
            ["ran forced", "ran input", "ran input", "ran prompt"],
        ),
        (
            Selection(start="keep_even", force=("keep_even",)),
            ["reused", "ran forced", "reused", "ran prompt"],
        ),
    ],
)
def test_a_selection_decides_which_steps_run(
    project: SmallProject, selection: Selection, expected: list[str]
):
    run(project)
    project.numbers("1", "2", "3", "4", "6")
    project.prompts["ask_again"] = "Once more $number"
    assert actions(run(project, selection)) == expected


def test_the_plan_says_what_the_run_does(project: SmallProject):
    run(project)
    store = SnapshotStore(project.root / "snapshots")
    selection = Selection(force=("keep_even",), skip=("describe_again",))
    planned = plan(project.workflow, project.resources, store, selection)
    assert [(entry.action, entry.reason) for entry in planned] == [
        ("reuse", ""), ("run", "forced"), ("maybe", "input"), ("reuse", ""),
    ]  # fmt: skip
    assert actions(run(project, selection)) == ["reused", "ran forced", "reused", "reused"]
    assert CALLS == ["keep_even"]


def test_a_forced_step_makes_the_same_tables(project: SmallProject):
    first = run(project)
    forced = run(
        project,
        Selection(force=("read_numbers", "keep_even", "describe_numbers", "describe_again")),
    )
    assert actions(forced) == ["ran forced"] * 4
    assert forced.manifest == first.manifest


def test_steps_that_were_skipped_run_in_the_next_whole_run(project: SmallProject):
    run(project)
    project.numbers("2", "4", "6")
    run(project, Selection(only=("read_numbers",)))
    result = run(project)
    assert actions(result) == ["reused", "ran input", "ran input", "ran input"]
    assert result.manifest.tables["texts"].rows == 3


@pytest.mark.parametrize("place", ["start", "only", "skip", "force"])
def test_an_unknown_step_is_a_usage_error(project: SmallProject, place: str):
    selection = Selection(**{place: "nonsense" if place == "start" else ("nonsense",)})
    with pytest.raises(
        UsageError,
        match="workflow 'small': no step 'nonsense'; have: read_numbers, keep_even, desc",
    ):
        run(project, selection)
    assert CALLS == []


def test_a_step_that_was_never_completed_cannot_be_left(project: SmallProject):
    with pytest.raises(UsageError, match="step 'read_numbers': never completed"):
        run(project, Selection(start="keep_even"))
    run(project)
    for path in (project.root / "snapshots").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(UsageError, match="what it wrote is gone or damaged"):
        run(project, Selection(skip=("keep_even",)))
