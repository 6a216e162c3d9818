"""A night at half the price: steps in batch mode make the same tables, wherever the run is
killed."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.engine.run_report import RunReport
from pipeline.errors import AuthError, BudgetError, ModelError, WaitingError
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_replies import Messages, default_reply
from tests.servers.openai_server import OpenAIServer, Reply, openai_server
from tests.sizes import size
from tests.states import in_batches, is_extraction, set_args, step_of, table_hashes

UNITS = 12
SECONDS = 60
BATCH = {"poll_seconds": 0.02, "wait_minutes": 1, "least": 2}
CORPUS = {
    f"log-{number:02}.txt": (
        f"Captain Orla Venn of ship {number} sailed from Port {chr(65 + number)}ella to Tessing"
        f" Harbour with {7 * number + 1} barrels of oil for the house of Merchant"
        f" {chr(65 + number)}orren."
    )
    for number in range(UNITS)
}
SUMMARIES = ("extract_graph", "summarize_descriptions")


def new_folder(
    root: Path,
    endpoint: OpenAIServer,
    verbs: Iterable[str] = ("extract_graph",),
    gleanings: int = 0,
    **batch: Any,
) -> ProjectFolder:
    chat = {
        "base_url": endpoint.base_url, "api_key": endpoint.key, "max_retries": 2,
        "price": {"input": 1.0, "output": 2.0}, "batch": {**BATCH, **batch},
    }  # fmt: skip
    folder = new_project(root, NO_STORE, CORPUS, models={"chat": {"default": chat}})
    set_args(
        folder, summarize_descriptions={"max_tokens": 60}, extract_graph={"gleanings": gleanings}
    )
    in_batches(folder, *verbs)
    return folder


def index(folder: ProjectFolder, *overrides: str, **options: Any) -> RunReport:
    with folder.open(*overrides) as project:
        return project.index("index", options=RunOptions(**options))


def tables(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        return table_hashes(project)


def asked_directly(root: Path, gleanings: int = 0) -> dict[str, str]:
    with openai_server() as endpoint:
        folder = new_folder(root, endpoint, (), gleanings)
        assert index(folder).outcome == "completed"
        return tables(folder)


@pytest.fixture(scope="module")
def direct_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The tables of a run without batches."""
    return asked_directly(tmp_path_factory.mktemp("direct") / "p")


def nothing_left(endpoint: OpenAIServer) -> bool:
    return all(file.deleted for file in endpoint.files)


def billed_once(endpoint: OpenAIServer) -> bool:
    """No row of a batch and no call of the same words was answered twice."""
    bodies = [
        json.dumps(request.body, sort_keys=True)
        for request in endpoint.requests
        if request.kind in ("batch", "chat") and request.status == 200
    ]
    return len(bodies) == len(set(bodies))


def test_the_same_tables_as_by_direct_calls_and_the_next_run_asks_nothing(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai, SUMMARIES)
    report = index(folder)
    assert (report.outcome, tables(folder)) == ("completed", direct_tables)
    assert [len(openai.batches), openai.count("chat")] == [2, 0]
    assert openai.count("batch") > UNITS
    assert nothing_left(openai)
    before = len(openai.requests)
    assert index(folder).totals["calls"] == 0
    assert len(openai.requests) == before


def test_execution_is_no_part_of_what_a_step_is(tmp_path: Path, openai: OpenAIServer):
    folder = new_folder(tmp_path / "p", openai, ())
    index(folder)
    in_batches(folder, *SUMMARIES)
    before = len(openai.requests)
    assert {step.action for step in index(folder).steps} == {"reused"}
    assert len(openai.requests) == before


def test_usage_is_at_half_the_price_and_sums_to_what_the_endpoint_counted(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_folder(tmp_path / "p", openai, SUMMARIES, discount=0.5)
    report = index(folder)
    rows = [request for request in openai.requests if request.kind == "batch"]
    with folder.open() as project:
        usage = project.usage()
    asked, said = (
        sum(getattr(row, name) for row in rows) for name in ("prompt_tokens", "completion_tokens")
    )
    assert [usage["input_tokens"].sum(), usage["output_tokens"].sum(), len(usage)] == [
        asked,
        said,
        len(rows),
    ]
    assert usage["cost"].sum() == pytest.approx((asked + 2 * said) / 1e6 / 2)
    assert report.totals["cost"] == pytest.approx(usage["cost"].sum())
    assert set(usage["document_id"][usage["step"] == "extract_graph"]) == set(_document_ids(folder))


def _document_ids(folder: ProjectFolder) -> list[str]:
    with folder.open() as project:
        return project.table("documents")["id"].tolist()


def test_gleanings_are_a_batch_of_their_own(tmp_path: Path, openai: OpenAIServer):
    folder = new_folder(tmp_path / "p", openai, gleanings=1)
    assert index(folder).outcome == "completed"
    assert [batch.total for batch in openai.batches] == [UNITS, UNITS]
    assert tables(folder) == asked_directly(tmp_path / "direct", gleanings=1)
    assert nothing_left(openai)


def test_held_it_ends_with_exit_code_4_and_the_next_run_goes_on(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai, wait_minutes=0)
    openai.batch_hold = True
    done = folder.invoke("index", "--json")
    report = done.json
    assert (done.exit_code, report["exit_code"], report["outcome"]) == (4, 4, "waiting")
    assert "batch_000001: not ready yet; run the same command later" in done.stderr
    assert report["steps"][-1]["action"] == "waiting"
    with pytest.raises(WaitingError):
        index(folder)
    openai.batch_hold = False
    assert index(folder, "models.chat.default.batch.wait_minutes=1").outcome == "completed"
    assert [len(openai.batches), openai.count("batch")] == [1, UNITS]
    assert sum(file.purpose == "batch" for file in openai.files) == 1
    assert tables(folder) == direct_tables
    assert nothing_left(openai)


def test_what_was_added_while_a_batch_is_held_is_another_batch(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_folder(tmp_path / "p", openai, wait_minutes=0)
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        index(folder)
    for number in range(3):
        folder.write(
            f"more-{number}.txt", f"Mira Vale kept the Harrow Light in the year 187{number}."
        )
    folder.delete("log-00.txt")
    openai.batch_hold = False
    assert index(folder, "models.chat.default.batch.wait_minutes=1").outcome == "completed"
    assert [batch.total for batch in openai.batches] == [UNITS, 3]
    assert nothing_left(openai)
    assert billed_once(openai)


LATER = {"Retry-After": "60"}
HELD, REFUSED = Reply(hold=True), Reply(status=503, headers=LATER)
MOMENTS: dict[str, tuple[str, list[Reply | int], int]] = {
    "before the upload": ("files", [REFUSED], 1),
    "in the upload": ("files", [HELD], 1),
    "before the batch is made": ("batches", [REFUSED], 1),
    "before its id is noted": ("batches", [HELD], 1),
    "before the first look": ("batches", [200, REFUSED], 2),
    "in the download": ("files", [200, HELD], 2),
    "before the files are deleted": ("files", [200, 200, REFUSED], 3),
    "while the files are deleted": ("files", [200, 200, HELD], 3),
    "before the last file is deleted": ("files", [200, 200, 200, REFUSED], 4),
}


REDUCED = ["before its id is noted", "before the first look", "before the files are deleted"]


@pytest.mark.parametrize("moment", size(REDUCED, list(MOMENTS)))
def test_killed_and_run_again(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str], moment: str
):
    kind, script, requests = MOMENTS[moment]
    folder = new_folder(tmp_path / "p", openai)
    openai.script(kind, script)
    kill_when(folder, lambda: openai.count(kind) >= requests)
    openai.await_silence()
    assert openai.next_scripted(kind) is None
    assert index(folder).outcome == "completed"
    assert tables(folder) == direct_tables
    assert [
        len(openai.batches),
        openai.count("batch"),
        sum(map(is_extraction, openai.requests)),
    ] == [1, UNITS, 0]
    assert billed_once(openai)
    assert nothing_left(openai)
    with folder.open() as project:
        extracted = project.usage().query("step == 'extract_graph'")
    assert len(extracted) == UNITS


def kill_when(folder: ProjectFolder, reached: Callable[[], bool]) -> None:
    """Start an index run in a process of its own, and kill it then."""
    process = subprocess.Popen(
        folder.command_line("index", "--log", "json"),
        env=folder.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + SECONDS
        while not reached():
            assert process.poll() is None, "it had ended before"
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_an_expired_batch(tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]):
    folder = new_folder(tmp_path / "p", openai)
    openai.batch_expire_after = 5
    assert index(folder).outcome == "completed"
    assert openai.count("batch") == 5
    assert tables(folder) == direct_tables
    assert billed_once(openai)
    assert nothing_left(openai)


def test_rows_of_an_expired_batch_are_rejected_and_asked_in_the_next_run(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai, failed="reject")
    openai.batch_expire_after = 5
    report = index(folder)
    assert report.outcome == "completed_with_rejects"
    assert report.exit_code == 3
    assert step_of(report).reject_reasons == {"expired": UNITS - 5}
    openai.batch_expire_after = None
    again = index(folder)
    assert (again.outcome, step_of(again).reason) == ("completed", "retry")
    assert [batch.total for batch in openai.batches] == [UNITS, UNITS - 5]
    assert tables(folder) == direct_tables
    assert billed_once(openai)


def test_rows_that_failed_in_the_batch(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    filtered = Reply("The prompt triggered the content_filter.", status=400)
    replies: list[Reply | int] = [200, filtered, 500]
    openai.script("batch", replies)
    folder = new_folder(tmp_path / "p", openai, failed="reject")
    assert step_of(index(folder)).reject_reasons == {"content_filter": 1, "server_error": 1}
    with folder.open() as project:
        assert list(project.table("rejects", "index")["kind"]) == ["row", "row"]
    assert step_of(index(folder, "models.chat.default.batch.failed=direct")).rejects == 0
    assert tables(folder) == direct_tables


def test_rows_that_failed_in_the_batch_are_asked_directly(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    openai.script("batch", [200, 500, 500])
    folder = new_folder(tmp_path / "p", openai)
    assert index(folder).outcome == "completed"
    assert tables(folder) == direct_tables
    with folder.open() as project:
        cost = project.usage().query("step == 'extract_graph'")["cost"]
    assert len(cost) == UNITS


def test_unreadable_replies_are_mended_in_the_next_batch(tmp_path: Path, openai: OpenAIServer):
    """Equal to what direct calls make of the same replies."""

    def mumbling(messages: Messages, body: Any) -> Reply:
        prompt = str(messages[-1]["content"])
        return (
            Reply("Mumble.")
            if "ship 3 " in prompt and len(messages) == 1
            else default_reply(messages, body)
        )

    openai.reply = mumbling
    folder = new_folder(tmp_path / "p", openai, least=1)
    report = index(folder)
    assert [batch.total for batch in openai.batches] == [UNITS, 1]
    with openai_server(reply=mumbling) as other:
        direct = new_folder(tmp_path / "direct", other, ())
        assert step_of(index(direct)).recovered == step_of(report).recovered == 1
        assert tables(folder) == tables(direct)


@dataclass(frozen=True)
class Recovered:
    rows: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, folder: ProjectFolder) -> "Recovered":
        with folder.open() as project:
            rejects = project.table("rejects", "index").query("kind == 'recovered'")
        return cls({step: frozenset(rows) for step, rows in rejects.groupby("step")["row_id"]})


def test_a_worse_reply_of_a_batch_replaces_no_usable_one(tmp_path: Path, openai: OpenAIServer):
    def answering(first: Reply) -> Callable[[Messages, Any], Reply]:
        def reply(messages: Messages, body: Any) -> Reply:
            weak = "ship 3 " in str(messages[-1]["content"]) and len(messages) == 1
            return first if weak else default_reply(messages, body)

        return reply

    openai.reply = answering(Reply("Mumble."))
    folder = new_folder(tmp_path / "p", openai, least=1)
    index(folder)
    recovered, before = Recovered.of(folder), tables(folder)
    openai.reply = answering(Reply(""))
    for _ in range(2):
        assert step_of(index(folder, again=recovered.rows)).recovered == 1
        assert Recovered.of(folder) == recovered
        assert tables(folder) == before
    assert [batch.total for batch in openai.batches] == [UNITS, 1, 1, 1]


def test_many_rows_are_several_batches(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai, max_requests=5)
    openai.max_batch_requests = 5
    assert index(folder).outcome == "completed"
    assert [batch.total for batch in openai.batches] == [5, 5, 2]
    assert tables(folder) == direct_tables
    assert nothing_left(openai)


def test_few_rows_go_directly(tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]):
    folder = new_folder(tmp_path / "p", openai, least=UNITS + 1)
    index(folder)
    assert [openai.count("files"), openai.count("batches")] == [0, 0]
    assert tables(folder) == direct_tables


def directly(folder: ProjectFolder) -> None:
    path = folder.root / "workflows" / "index.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("execution: batch", "execution: direct")
    )


def test_a_step_that_asks_directly_again_has_the_replies_of_its_batch(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai, wait_minutes=0)
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        index(folder)
    directly(folder)
    openai.batch_hold = False
    openai.batch_store.poll(openai.batches[0].id)
    report = index(folder)
    assert tables(folder) == direct_tables
    assert [openai.count("batch"), sum(map(is_extraction, openai.requests))] == [UNITS, 0]
    with folder.open() as project:
        extracted = project.usage().query("step == 'extract_graph'")
    assert len(extracted) == step_of(report).calls == UNITS
    assert billed_once(openai)
    assert nothing_left(openai)


def test_a_batch_that_no_step_goes_on_with_is_cancelled_and_what_it_answered_kept(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai, wait_minutes=0)
    openai.batch_hold, openai.batch_cancelled_after = True, 5
    with pytest.raises(WaitingError):
        index(folder)
    directly(folder)
    index(folder)
    assert [batch.status for batch in openai.batches] == ["cancelled"]
    assert [openai.count("batch"), sum(map(is_extraction, openai.requests))] == [5, UNITS - 5]
    assert tables(folder) == direct_tables
    assert billed_once(openai)
    assert nothing_left(openai)


def test_a_batch_of_a_step_that_is_reused_is_left_until_it_comes(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_folder(tmp_path / "p", openai, wait_minutes=0)
    index(folder, "models.chat.default.batch.wait_minutes=1")
    openai.batch_hold = True
    for number in range(2):
        folder.write(
            f"more-{number}.txt", f"Mira Vale kept the Harrow Light in the year 187{number}."
        )
    with pytest.raises(WaitingError):
        index(folder)
    for number in range(2):
        folder.delete(f"more-{number}.txt")
    assert {step.action for step in index(folder).steps} == {"reused"}
    assert openai.batches[1].status == "in_progress"
    openai.batch_hold = False
    openai.batch_store.poll(openai.batches[1].id)
    report = index(folder)
    assert {step.action for step in report.steps} == {"reused"}
    assert report.totals["calls"] == 2
    assert nothing_left(openai)
    before = len(openai.requests)
    assert index(folder).totals["calls"] == 0
    assert len(openai.requests) == before


def test_a_refused_batch_ends_the_run_and_the_next_one_goes_on(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai)
    openai.max_batch_requests = 5
    with pytest.raises(ModelError, match=f"{UNITS} requests, more than the limit of 5"):
        index(folder)
    assert nothing_left(openai)
    openai.max_batch_requests = 50
    assert index(folder).outcome == "completed"
    assert tables(folder) == direct_tables
    assert nothing_left(openai)


def test_a_batch_above_the_budget_is_not_made(
    tmp_path: Path, openai: OpenAIServer, direct_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", openai)
    with pytest.raises(BudgetError, match=r"a batch of about .* is more than --max-cost"):
        index(folder, max_cost=0.0001)
    assert [openai.batches, openai.files] == [[], []]
    done = folder.invoke("index", "--max-tokens", "100", "--json")
    assert (done.exit_code, done.json["outcome"]) == (5, "stopped")
    assert [openai.batches, openai.files] == [[], []]
    assert index(folder, max_cost=1).outcome == "completed"
    assert tables(folder) == direct_tables


def test_a_key_that_the_batch_api_refuses(tmp_path: Path, openai: OpenAIServer):
    folder = new_folder(tmp_path / "p", openai)
    openai.script("files", [401])
    with pytest.raises(AuthError, match="the endpoint refused the key"):
        index(folder)
    assert index(folder).outcome == "completed"
    assert nothing_left(openai)
