"""The view Nights: the runs in pages, one of them, one under way, and what the next would do."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from pipeline.runs.project_lock import this_process
from pipeline.runs.reports import TOTALS, Runs, UnfinishedRun
from pipeline.serve.ui import runs
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.serve.serving import Serving, serving

HOSTILE = "<script>alert('1')<script>"
PAGE = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Three runs: one that left a file out, one with nothing to do, one that failed."""
    folder = new_project(tmp_path_factory.mktemp("runs") / "p", postgres_url, max_reject_ratio=1)
    folder.write(f"{HOSTILE}.pdf", "no PDF")
    for command in (
        ["run", "fast"],
        ["run", "fast"],
        ["run", "index", *("--set", "models.chat.default.base_url=''")],
    ):
        folder.invoke(*command)
    return folder


@pytest.fixture(scope="module")
def served(folder: ProjectFolder) -> Iterator[Serving]:
    keys = [
        f"serve.keys.wide={json.dumps({'key': 'w'})}",
        f"serve.keys.narrow={json.dumps({'key': 'n', 'where': {'title': 'x'}})}",
        "serve.api_key=all",
    ]  # fmt: skip
    with folder.open(*keys) as project, serving(project) as served:
        yield served


def page(served: Serving, address: str, key: str = "all") -> httpx2.Response:
    return httpx2.get(f"{served.url}/{address}", headers={**PAGE, "x-api-key": key}, timeout=60)


def test_runs_are_listed_the_newest_first_with_what_they_came_to(
    folder: ProjectFolder, served: Serving
):
    told = page(served, "runs").text
    ids = Runs.of(folder.root).known_ids()
    places = [told.index(f'href="runs/{run_id}"') for run_id in ids]
    assert places == sorted(places)
    assert [
        told.count(f">{outcome}</span></td>") for outcome in ("Failed", "Completed with rejects")
    ] == [1, 2]
    rows_written = sum(
        counts["inserted"]
        for counts in folder.open().run_details(ids[-1]).report["load"]["postgres"].values()
    )
    assert f'<td class="number">{rows_written:,}</td>' in told


@pytest.mark.parametrize(
    "changed",
    [
        {"load": {"postgres": {"chunks": {"inserted": "many"}}}}, {"load": {"postgres": 5}},
        {"totals": {}},
        {"steps": [{"step": "a", "verb": "b", "action": "no such", "reason": ""}]},
        {"ended": "yesterday"},
        {"health": {"units": HOSTILE}}, {"notes": 5},
    ],
)  # fmt: skip
def test_a_report_of_another_shape_is_damaged_and_costs_no_other_night(
    folder: ProjectFolder, served: Serving, changed: dict[str, object]
):
    file = folder.root / "data/runs" / f"{Runs.of(folder.root).known_ids()[-1]}.json"
    written = file.read_text()
    report = {name: value for name, value in json.loads(written).items() if name != "sha256"}
    try:
        file.write_text(json.dumps(report | changed))
        assert page(served, "runs").text.count('bad">Its report is damaged</span></td>') == 1
        assert page(served, f"runs/{file.stem}").status_code == 200
    finally:
        file.write_text(written)


def test_a_report_of_an_earlier_version_is_shown_as_far_as_it_goes(
    folder: ProjectFolder, served: Serving
):
    file = folder.root / "data/runs" / f"{Runs.of(folder.root).known_ids()[-1]}.json"
    written = file.read_text()
    report = json.loads(written)
    early = {
        name: report[name]
        for name in ("run_id", "workflow", "outcome", "exit_code", "message", "load")
    }
    early["totals"] = {name: report["totals"][name] for name in TOTALS}
    early["steps"] = [{**step, "reason": "of old"} for step in report["steps"]]
    early["steps"] = [
        {name: step[name] for name in ("step", "verb", "action", "reason")}
        for step in early["steps"]
    ]
    try:
        file.write_text(json.dumps(early))
        assert "of old" in page(served, f"runs/{file.stem}").text
    finally:
        file.write_text(written)


def test_the_list_goes_on_from_page_to_page(
    folder: ProjectFolder, served: Serving, monkeypatch: pytest.MonkeyPatch
):  # fmt: skip
    monkeypatch.setattr(runs, "PAGE", 2)
    newest, middle, oldest = Runs.of(folder.root).known_ids()
    first, second, beyond = (page(served, f"runs?page={number}").text for number in (1, 2, 9))
    assert (newest in first, middle in first, oldest in first) == (True, True, False)
    assert 'rel="next" href="runs?page=2"' in first
    assert oldest in second
    assert 'rel="prev" href="runs?page=1"' in second
    assert oldest not in beyond
    assert page(served, "runs?page=0").status_code == 422


def test_a_run_shows_its_steps_its_load_and_what_it_left_out_as_text(
    folder: ProjectFolder, served: Serving
):
    _, second, first = Runs.of(folder.root).known_ids()
    told = page(served, f"runs/{first}").text
    assert "Ran: never ran before" in told
    assert "1 by load_documents: parse" in told
    assert "&lt;script&gt;alert(&#39;1&#39;)&lt;script&gt;.pdf" in told
    assert "<script>alert" not in told
    assert '<th scope="row">chunks</th>' in told
    again = page(served, f"runs/{second}").text
    assert "Reused" in again
    assert 'role="img" aria-label="Duration of 2 runs, ' in again


def test_the_list_draws_its_runs_and_says_the_same_as_a_table(served: Serving):
    told = page(served, "runs").text
    for title in ("Duration", "Rows written"):
        assert f'role="img" aria-label="{title} of 3 runs, from ' in told
    assert "fast, " in told  # of which workflow each was: there are two
    assert told.count("<circle") == 0
    assert told.index("<svg") < told.index('<table class="runs">')


def test_what_the_next_run_would_do_with_nothing_to_read_is_said(tmp_path: Path):
    empty = new_project(tmp_path / "p", NO_STORE, {}, workflow="fast")
    with (
        empty.open("serve.api_key=all", "serve.keys.wide={key: w}") as project,
        serving(project, ready=False) as served,
    ):
        told = page(served, "runs/plan")
        assert (told.status_code, "put documents there" in told.text) == (200, True)
        assert str(tmp_path) not in page(served, "runs/plan", "w").text


def test_a_run_that_is_not_known_is_not_found(served: Serving):
    for address in ("runs/none", "runs/..%2F..%2Fsettings", "ui/runs/none"):
        assert page(served, address).status_code == 404, address


def test_why_a_run_failed_is_told_to_the_operator_alone(folder: ProjectFolder, served: Serving):
    failed = Runs.of(folder.root).known_ids()[0]
    message = folder.open().run_details(failed).entry.message
    assert message.split("'")[0] in page(served, f"runs/{failed}").text
    told = page(served, f"runs/{failed}", "w").text
    assert "Failed" in told
    assert message.split("'")[0] not in told
    first = page(served, f"runs/{Runs.of(folder.root).known_ids()[-1]}", "w").text
    assert "1 by load_documents: parse" in first


@pytest.mark.parametrize("address", ["runs", "runs/plan", "runs/x", "ui/runs/x"])
def test_who_sees_some_documents_only_sees_no_run(served: Serving, address: str):
    assert page(served, address, "n").status_code == 403
    assert page(served, address, "").status_code in (303, 401)


def test_a_run_under_way_is_followed(folder: ProjectFolder, served: Serving):
    runs = Runs.of(folder.root)
    with runs.alone():
        begun = UnfinishedRun(
            runs.new_id(), "fast", this_process(), "extract_graph_fast", 3, 10, 40, 90
        )
        runs.note(begun)
        assert f'href="runs/{begun.run_id}">A run is under way.</a>' in page(served, "runs").text
        told = page(served, f"runs/{begun.run_id}").text
        assert f'data-run="{begun.run_id}"' in told
        assert "At extract_graph_fast, step 3 of 10: 40 of 90" in " ".join(told.split())
        far = page(served, f"ui/runs/{begun.run_id}").json()
        assert (far["step"], far["done"], far["expected"]) == ("extract_graph_fast", 40, 90)
    assert page(served, f"ui/runs/{begun.run_id}").json() is None
    assert "Killed, or the machine went down" in page(served, f"runs/{begun.run_id}").text
    (folder.root / "data" / "runs" / f"{begun.run_id}.begun").unlink()


def test_the_plan_of_the_next_run_changes_nothing(folder: ProjectFolder, served: Serving):
    def tables() -> list[Path]:
        return sorted((folder.root / "data" / "snapshots").rglob("*"))

    before = tables()
    workflow = folder.open().settings.workflow
    told = page(served, "runs/plan").text
    assert f"Workflow {workflow}." in told
    assert (
        "to go on with &#39;fast&#39; name it" in told
    )  # the run would be refused, and who may know is told why
    assert "name it" not in page(served, "runs/plan", "w").text
    for step in folder.open().workflow().steps:
        assert f'<th scope="row">{step.id}</th>' in told
    assert tables() == before
