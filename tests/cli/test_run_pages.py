"""A run as a page: report --html of any run, run --report of the one that is made, however it
ends."""

import os
import signal
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.cli.run_pages import page_of_run
from pipeline.errors import INTERRUPTED, UsageError
from pipeline.files import write_text
from pipeline.runs.reports import Runs, UnfinishedRun
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_replies import Reply, default_reply
from tests.servers.openai_server import OpenAIServer

HOSTILE = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>"
WAIT = 120
ONE_AT_A_TIME = ["--set", "models.chat.default.concurrency=1"]


class Page(HTMLParser):
    """The tags of a page, its words, and the attributes by which it would run or load something."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.active: list[str] = []
        self.words = ""
        self.text = file.read_text("utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.active += [
            name
            for name, value in attrs
            if name.startswith("on") or name in ("src", "style", "action")
        ]
        self.active += [
            value or ""
            for name, value in attrs
            if name == "href" and not (value or "").startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def is_alone(self) -> bool:
        """It needs and asks nothing else."""
        runs = {"script", "img", "link", "iframe", "object", "embed", "form"} & set(self.tags)
        loads = any(word in self.text for word in ("url(", "@import", "http://", "https://"))
        return not runs and not self.active and not loads and "default-src 'none'" in self.text


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, workflow="fast", max_reject_ratio=1)


def test_the_report_of_a_run_is_one_file_in_which_all_that_others_wrote_is_text(
    folder: ProjectFolder,
):
    folder.write(f"{HOSTILE.replace('/', '')}.txt", "")
    # It is rejected by both runs, so a chart has something to show however short the runs are.
    folder.write("broken.pdf", "no PDF")
    folder.write("light.txt", f"{HOSTILE} Mira Vale built the Harrow Light.")
    first = folder.invoke("index", "--json").json
    folder.write("quay.txt", "Osric Hale dredged the Tollen Quay.")
    second = folder.invoke("index", "--json").json
    file = folder.root / "a page.html"
    assert folder.invoke("report", "--html", str(file)).exit_code == 0
    page = Page(file)
    assert page.is_alone
    assert second["run_id"] in page.words
    assert "Completed" in page.words
    assert "1 new, 0 edited, 0 gone" in page.words
    assert (
        HOSTILE.replace("/", "") in page.words
    )  # the name of an empty file, among what was left out
    for step in second["steps"]:
        assert step["step"] in page.words
    assert "Ran: what it reads has changed" in page.words
    assert second["totals"]["rejects"] == 1
    assert page.tags.count("svg") >= 1
    assert folder.invoke("report", first["run_id"][:22], "--html", str(file)).exit_code == 0
    assert first["run_id"] in Page(file).words
    assert "Ran: never ran before" in Page(file).words


def test_without_a_page_it_tells_of_the_run_as_status_does(folder: ProjectFolder):
    report = folder.invoke("index", "--json").json
    folder.invoke("index")
    told = folder.invoke("report", report["run_id"]).stdout
    assert told.startswith(f"run {report['run_id']}, workflow fast: began ")
    assert folder.invoke("report", report["run_id"], "--json").json == report


def test_a_run_that_is_not_known_and_a_folder_that_is_not_there(folder: ProjectFolder):
    assert "no run yet" in folder.invoke("report").stderr
    folder.invoke("index")
    refused = folder.invoke("report", "1999")
    assert (refused.exit_code, "run '1999': no such run; the newest are: " in refused.stderr) == (
        2,
        True,
    )
    assert folder.invoke("report", "../../settings").exit_code == 2
    runs = len(Runs.of(folder.root).known_ids())
    for command, option in (
        ("report", "--html"),
        ("index", "--report"),
        ("run", "--report"),
        ("retry", "--report"),
    ):
        refused = folder.invoke(command, option, str(folder.root / "none" / "p.html"))
        assert (refused.exit_code, f"{option} " in refused.stderr, "make it" in refused.stderr) == (
            2,
            True,
            True,
        )
    os.mkfifo(folder.root / "pipe")
    for elsewhere, said in (
        ("/proc/p.html", "name another folder"),
        (str(folder.root / "pipe"), "name a file"),
    ):
        refused = folder.invoke("run", "--report", elsewhere)
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    assert len(Runs.of(folder.root).known_ids()) == runs  # it is said before any work


def test_a_page_takes_the_place_of_nothing_but_a_file(folder: ProjectFolder):
    folder.invoke("index")
    pipe = folder.root / "pipe"
    os.mkfifo(pipe)
    refused = folder.invoke("report", "--html", str(pipe))
    assert (refused.exit_code, "a device or a pipe" in refused.stderr, pipe.is_fifo()) == (
        2,
        True,
        True,
    )
    with pytest.raises(UsageError, match="a device or a pipe"):
        write_text(pipe, "page")
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("20261123T01", "ends in .html"), ("-", "ends in .html"),
        ("settings.yaml", "ends in .html"),
        ("data/input/page.html", "the project's own files"), ("workflows/new.html",
            "the project's own files"),
        ("mine.html", "no page of graphmill"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("command", "option"), [("report", "--html"), ("run", "--report")])
def test_a_page_takes_the_place_of_nothing_but_a_page(
    folder: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    option: str,
    name: str,
    said: str,
):
    monkeypatch.chdir(folder.root)
    Path("mine.html").write_text("<!DOCTYPE html><title>graphmill</title>")
    there = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    refused = folder.invoke(command, option, name)
    assert (refused.exit_code, f"{option} {name}: " in refused.stderr, said in refused.stderr) == (
        2,
        True,
        True,
    )
    assert {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()} == there


def test_a_page_that_cannot_be_written_in_the_end_changes_no_runs_outcome(
    folder: ProjectFolder, capsys: pytest.CaptureFixture[str]
):
    pages = folder.root / "pages"
    pages.mkdir()
    (pages / "p.html").touch()  # as mktemp does
    with page_of_run(folder.root, None, pages / "p.html"), folder.open() as project:
        assert project.index().outcome == "completed"
        (pages / "p.html").unlink()
        pages.rmdir()
        pages.touch()
    assert f"'graphmill report --html {pages / 'p.html'}' writes it" in capsys.readouterr().err


def test_the_page_of_a_run_that_failed_says_why(folder: ProjectFolder):
    file = folder.root / "p.html"
    folder.edit_settings(
        workflow="index", models={"chat": {"default": {"api_key": "", "base_url": ""}}}
    )
    failed = folder.invoke("index", "--report", str(file))
    assert failed.exit_code == 2
    page = Page(file)
    assert page.is_alone
    assert "Failed" in page.words
    assert Runs.of(folder.root).known_ids()[0] in page.words
    assert failed.stderr.strip().removeprefix("graphmill: ") in page.words


def test_the_page_of_a_run_that_was_refused_before_it_began(folder: ProjectFolder):
    file = folder.root / "p.html"
    refused = folder.invoke("index", "no such workflow", "--report", str(file))
    assert refused.exit_code == 2
    page = Page(file)
    assert page.is_alone
    assert "A run that did not begin" in page.words
    assert "no such workflow" in page.words
    folder.invoke("index")
    with Runs.of(folder.root).alone():
        assert folder.invoke("index", "--report", str(file)).exit_code == 1
    assert "another run holds this project" in Page(file).words


def test_the_page_of_a_run_whose_budget_is_spent(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    file = tmp_path / "p.html"
    assert (
        folder.invoke(
            "index", "--max-tokens", "10", *ONE_AT_A_TIME, "--report", str(file)
        ).exit_code
        == 5
    )
    page = Page(file)
    assert page.is_alone
    assert "Stopped" in page.words
    assert "--max-tokens" in page.words
    assert openai.key not in page.text


def test_the_page_of_a_run_that_was_interrupted(tmp_path: Path, openai: OpenAIServer):
    folder, file = new_project(tmp_path / "p", NO_STORE, endpoint=openai), tmp_path / "p.html"
    openai.reply = lambda messages, body: Reply("late", delay=2)
    process = subprocess.Popen(
        folder.command_line("index", "--report", str(file)), env=folder.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + WAIT
    while not openai.count("chat") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT) == INTERRUPTED
    assert "interrupted" in Page(file).words


def test_a_run_with_rejects_shows_which_rows_and_why(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(
        tmp_path / "p",
        NO_STORE,
        {"a.txt": "Mira Vale built it.", "b.txt": f"Osric Hale {HOSTILE} {'left ' * 99}"},
        openai,
    )
    folder.edit_settings(max_reject_ratio=0.9)
    openai.reply = lambda messages, body: (
        Reply("", "content_filter") if "Osric" in str(messages) else default_reply(messages, body)
    )
    file = tmp_path / "p.html"
    folder.invoke("index", "--report", str(file))
    words = Page(file).words
    assert "Completed with rejects" in words
    assert "1 by extract_graph: content_filter" in words
    assert f"Osric Hale {HOSTILE} left left" in words  # the row itself, cut
    assert "left " * 70 not in words
    assert Page(file).is_alone


def test_a_run_that_has_not_reported_is_told_as_far_as_it_came(folder: ProjectFolder):
    report = folder.invoke("index", "--json").json
    runs = Runs.of(folder.root)
    begun = UnfinishedRun(runs.new_id(), "fast", "1 on elsewhere", "chunk_documents", 2, 10, 3, 9)
    runs.note(begun)
    file = folder.root / "p.html"
    assert folder.invoke("report", "--html", str(file)).exit_code == 0
    assert "Killed, or the machine went down" in Page(file).words
    assert "At chunk_documents, step 2 of 10: 3 of 9" in Page(file).words
    assert "killed; at chunk_documents" in folder.invoke("report").stdout
    assert report["run_id"] < begun.run_id
