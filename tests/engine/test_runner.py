from pathlib import Path

import pandas as pd
import pytest

from pipeline.contract.registry import verb
from pipeline.contract.schemas import REJECTS, STRING
from pipeline.contract.schemas import table as schema
from pipeline.engine.run_report import Progress, StepReport
from pipeline.engine.runner import IndexResult, Runner
from pipeline.errors import AuthError, DataError, SettingsError, VerbError
from pipeline.snapshots.store import SnapshotStore
from tests.engine.small_project import WORKFLOW, SmallProject
from tests.engine.small_verbs import CALLS, NUMBERS

IDS = schema("id", id=STRING)


def runner(project: SmallProject) -> Runner:
    return Runner(project.resources, SnapshotStore(project.root / "snapshots"), Progress())


def run(project: SmallProject) -> IndexResult:
    CALLS.clear()
    return runner(project).run(project.workflow, "run-1")


def table(project: SmallProject, result: IndexResult, name: str) -> pd.DataFrame:
    return runner(project).snapshots.tables.read(result.manifest.tables[name])


def written(project: SmallProject) -> dict[Path, int]:
    files = [path for path in (project.root / "snapshots").rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in files}


def actions(result: IndexResult) -> list[str]:
    return [f"{report.action} {report.reason}".strip() for report in result.steps]


def test_every_table_has_its_snapshot_in_the_manifest(project: SmallProject):
    result = run(project)
    assert set(result.manifest.tables) == {"numbers", "evens", "texts", "more_texts", "rejects"}
    assert table(project, result, "evens")["value"].tolist() == [2, 4]
    assert table(project, result, "texts")["text"].tolist() == ["Say 2 (2)", "Say 4 (2)"]
    assert runner(project).snapshots.manifest("small") == result.manifest


def test_a_second_run_calls_nothing_and_writes_nothing(project: SmallProject):
    run(project)
    before = written(project)
    result = run(project)
    assert CALLS == []
    assert actions(result) == ["reused"] * 4
    assert sum(report.calls for report in result.steps) == 0
    assert written(project) == before


def test_an_equal_output_stops_the_rebuild(project: SmallProject):
    run(project)
    project.numbers("1", "2", "3", "4", "5")
    result = run(project)
    assert actions(result) == ["ran input", "ran input", "reused", "reused"]
    assert CALLS == ["read_numbers", "keep_even"]


def test_an_incremental_run_gives_the_tables_of_a_fresh_one(
    project: SmallProject, tmp_path_factory
):
    for lines in (["1", "2"], ["2", "x", "8"], ["4", "8", "y", "10"]):
        project.numbers(*lines)
        result = run(project)
    fresh = SmallProject(tmp_path_factory.mktemp("fresh"))
    fresh.numbers("4", "8", "y", "10")
    assert run(fresh).manifest.tables == result.manifest.tables


def test_rejects_are_gathered_under_the_name_of_their_step(project: SmallProject):
    project.numbers("2", "two", "4")
    project.chat.failures = {"4": "bad_request"}
    result = run(project)
    rejects = table(project, result, "rejects")
    assert list(rejects[["step", "row_id", "reason"]].itertuples(index=False, name=None)) == [
        ("describe_again", "4", "bad_request"),
        ("describe_numbers", "4", "bad_request"),
        ("read_numbers", "two", "parse"),
    ]
    assert [report.rejects for report in result.steps] == [1, 0, 1, 1]
    assert [dict(report.reject_reasons) for report in result.steps][:2] == [{"parse": 1}, {}]
    assert result.reject_ratio == 0.5
    assert actions(run(project)) == ["reused"] * 4
    assert run(project).manifest == result.manifest


@pytest.mark.parametrize("reason", ["timeout", "server_error"])
def test_a_step_with_a_transient_error_is_tried_again(project: SmallProject, reason: str):
    project.chat.failures = {"4": reason}
    assert run(project).reject_ratio == 0.5
    again = run(project)
    assert actions(again) == ["reused", "reused", "ran retry", "ran retry"]
    project.chat.failures = {}
    mended = run(project)
    assert table(project, mended, "texts")["id"].tolist() == ["2", "4"]
    assert table(project, mended, "rejects").empty
    assert actions(run(project)) == ["reused"] * 4


def test_a_model_that_cannot_work_fails_the_run_before_any_work(project: SmallProject):
    project.chat.broken = AuthError("models.chat.default: the key was refused; set another")
    with pytest.raises(AuthError):
        run(project)
    assert CALLS == []
    assert not (project.root / "snapshots").exists()


def test_a_model_that_is_not_needed_is_not_asked(project: SmallProject):
    run(project)
    project.chat.broken = AuthError("refused")
    assert actions(run(project)) == ["reused"] * 4


def test_steps_before_a_failure_are_reused(project: SmallProject, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("lost")

    failing = runner(project)
    with monkeypatch.context() as patch:
        patch.setattr(project.chat, "converse", fail)
        with pytest.raises(VerbError, match="raised RuntimeError: lost"):
            failing.run(project.workflow, "run-1")
    assert [(report.step, report.action) for report in failing.reports] == [
        ("read_numbers", "ran"),
        ("keep_even", "ran"),
        ("describe_numbers", "failed"),
    ]
    assert actions(run(project))[:2] == ["reused", "reused"]


def test_a_verb_that_breaks_its_schema_is_a_data_error(project: SmallProject):
    def keep_even(numbers: pd.DataFrame) -> pd.DataFrame:
        return numbers[["id"]]

    verb(inputs={"numbers": NUMBERS}, outputs={"kept": NUMBERS})(keep_even)
    with pytest.raises(
        DataError, match=r"step 'keep_even': table 'evens': missing columns \['value'\]"
    ):
        run(project)


def test_a_table_without_the_columns_a_verb_reads_is_refused_before_anything_runs(
    project: SmallProject,
):
    project.workflow_text = WORKFLOW + "  - {verb: keep_even, id: odd, inputs: {numbers: texts}}\n"
    with pytest.raises(
        SettingsError,
        match=r"step 'odd': table 'texts' has no column 'value'.*connect 'numbers' to",
    ):
        run(project)
    assert CALLS == []


def test_a_verb_sees_only_the_columns_it_declares(project: SmallProject):
    seen: list[list[str]] = []

    def look(ids: pd.DataFrame) -> pd.DataFrame:
        seen.append(list(ids.columns))
        return ids

    verb(inputs={"ids": IDS}, outputs={"looked": IDS})(look)
    project.workflow_text = WORKFLOW + "  - {verb: look, inputs: {ids: texts}}\n"
    run(project)
    assert seen == [["id"]]


def test_reports_count_rows_calls_tokens_and_cost(project: SmallProject):
    reports = {report.step: report for report in run(project).steps}
    described = reports["describe_numbers"]
    assert (described.rows, described.verb) == ({"texts": 2}, "describe_numbers")
    assert (described.calls, described.input_tokens, described.output_tokens, described.cost) == (
        2,
        20,
        4,
        1.0,
    )
    assert (reports["read_numbers"].calls, reports["read_numbers"].cost) == (0, 0)


def test_progress_reports_every_step(project: SmallProject):
    events: list[object] = []

    class Told(Progress):
        def step_started(self, step: str, position: int, steps: int) -> None:
            events.append((step, position, steps))

        def step_advanced(self, step: str, done: int, expected: int) -> None:
            events.append((step, done, expected))

        def step_finished(self, report: StepReport) -> None:
            events.append(report.step)

    Runner(project.resources, SnapshotStore(project.root / "s"), Told()).run(
        project.workflow, "run-1"
    )
    start = events.index(("describe_numbers", 3, 4))
    assert events[start:][:5] == [
        ("describe_numbers", 3, 4),
        ("describe_numbers", 0, 2),
        ("describe_numbers", 1, 2),
        ("describe_numbers", 2, 2),
        "describe_numbers",
    ]


def test_a_run_without_rejects_has_an_empty_table_of_rejects(project: SmallProject):
    result = run(project)
    assert list(table(project, result, "rejects").columns) == REJECTS.columns
    assert result.reject_ratio == 0


def test_a_verb_may_reject_rows_for_reasons_of_its_own(project: SmallProject):
    def check_numbers(numbers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        odd = numbers["value"] % 2 == 1
        return numbers[~odd], REJECTS.frame(
            [("", id, "row", "odd", "it is odd") for id in numbers.loc[odd, "id"]]
        )

    project.workflow_text = (
        "name: small\nsteps:\n  - verb: read_numbers\n    args: {path: numbers.txt}\n  - verb:"
        " check_numbers\n"
    )
    tables = {"inputs": {"numbers": NUMBERS}, "outputs": {"checked": NUMBERS, "rejects": REJECTS}}
    verb(**tables)(check_numbers)
    with pytest.raises(
        DataError,
        match=r"step 'check_numbers': rejects have reasons that nothing declares: odd; declare",
    ):
        runner(project).run(project.workflow, "run-1")
    verb(**tables, reasons={"odd": "a number that is odd"})(check_numbers)
    result = runner(project).run(project.workflow, "run-2")
    assert result.steps[1].reject_reasons == {"odd": 2}
