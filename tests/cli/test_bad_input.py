"""What goes wrong gets one clear line, the right exit code, and costs nothing already computed."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectFolder, new_project
from tests.servers.openai_replies import Messages, content_of, default_reply
from tests.servers.openai_server import OpenAIServer, Reply

UNREACHABLE = "http://127.0.0.1:9/v1"
CANARY = "sk-canary-5f1e"


@pytest.fixture
def project(tmp_path: Path, postgres_url: str) -> ProjectFolder:
    return new_project(tmp_path / "p", postgres_url)


def _fails(project: ProjectFolder, code: int, *arguments: str) -> str:
    """The command's one line of complaint."""
    done = project.invoke(*arguments)
    assert done.exit_code == code, (done.stdout, done.stderr)
    complaints = [line for line in done.stderr.splitlines() if line.startswith("graphmill:")]
    assert len(complaints) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert CANARY not in done.stderr + done.stdout
    return complaints[0]


def test_no_project(tmp_path: Path) -> None:
    complaint = _fails(ProjectFolder(tmp_path), 2, "run")
    assert "settings.yaml" in complaint
    assert "graphmill init" in complaint


def test_a_worker_without_an_address_or_a_port(project: ProjectFolder) -> None:
    assert "no address; give the scheduler's" in _fails(project, 2, "worker")
    assert "tcp://10.0.0.5 names no port" in _fails(project, 2, "worker", "tcp://10.0.0.5")


def test_an_empty_folder(project: ProjectFolder) -> None:
    for path in (project.root / "data/input").iterdir():
        path.unlink()
    complaint = _fails(project, 1, "run", "fast")
    assert "data/input" in complaint
    assert "no documents" in complaint


def test_a_missing_folder(project: ProjectFolder) -> None:
    complaint = _fails(project, 2, "run", "fast", "--set", "input.path=data/elsewhere")
    assert "data/elsewhere" in complaint


def test_a_condition_that_orders_dates_by_a_word(project: ProjectFolder) -> None:
    complaint = _fails(project, 2, "query", "Who?", "--where", "date >= banana")
    assert "'date' >= banana: no date; write one as 2024-05-31" in complaint


def test_an_unknown_key(project: ProjectFolder) -> None:
    project.edit_settings(quary={"mode": "local"})
    assert "did you mean 'query'" in _fails(project, 2, "plan", "fast")


def test_a_missing_environment_variable(project: ProjectFolder) -> None:
    project.edit_settings(models={"chat": {"default": {"api_key": "${NO_SUCH_VARIABLE}"}}})
    complaint = _fails(project, 2, "plan", "fast")
    assert "NO_SUCH_VARIABLE" in complaint
    assert "api_key" in complaint


def test_an_unknown_workflow_names_those_there_are(project: ProjectFolder) -> None:
    assert "fast, graphrag, graphrag_cache, graphrag_reports, index" in _fails(
        project, 2, "run", "nightly"
    )


def test_no_key(project: ProjectFolder) -> None:
    assert "OPENAI_API_KEY" in _fails(project, 2, "run", "index")


def test_a_wrong_key_fails_at_once(project: ProjectFolder, openai: OpenAIServer) -> None:
    project.env = {"OPENAI_BASE_URL": openai.base_url, "OPENAI_API_KEY": CANARY}
    started = time.monotonic()
    complaint = _fails(project, 2, "index", "index")
    assert "refused the key" in complaint
    assert openai.count("chat") == 0
    assert not list((project.root / "data").glob("snapshots/text_units/*"))
    assert (
        time.monotonic() - started < 60
    )  # the look itself takes at most 4 s; this machine may be busy


def test_an_endpoint_that_is_not_there(project: ProjectFolder) -> None:
    project.env = {"OPENAI_BASE_URL": UNREACHABLE, "OPENAI_API_KEY": CANARY}
    complaint = _fails(
        project, 1, "index", "index", "--set", "models.chat.default.wait_for_model=2"
    )
    assert UNREACHABLE in complaint
    assert "running" in complaint


def test_a_database_that_is_not_there_loses_nothing(project: ProjectFolder) -> None:
    address = f"postgresql://someone:{CANARY}@127.0.0.1:9/nowhere"
    complaint = _fails(project, 1, "run", "fast", "--set", f"stores.postgres.url={address}")
    assert "127.0.0.1:9" in complaint
    assert "stores.postgres.url" in complaint
    report = project.report("run", "fast")
    assert {step["action"] for step in report["steps"]} == {"reused"}


def test_a_query_without_a_load(project: ProjectFolder) -> None:
    assert "graphmill run" in _fails(project, 2, "query", "Who?")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("query", ""), "query"),
        (("query", "Who?", "--mode", "psychic"), "mode"),
        (("query", "Who?", "--top-k", "0"), "top_k"),
        (("plan", "--set", "workspace=Not Allowed"), "workspace"),
        (("plan", "--set", "nonsense"), "--set"),
    ],
)
def test_usage(project: ProjectFolder, arguments: tuple[str, ...], named: str) -> None:
    assert named in _fails(project, 2, *arguments)


def test_rejects_above_the_threshold(project: ProjectFolder, openai: OpenAIServer) -> None:
    project.env = openai.env
    openai.reply = _none_of_the_observatory
    report = project.report("index", "index")
    assert (report["outcome"], report["exit_code"]) == ("completed_with_rejects", 3)
    with project.open() as opened:
        rejects = opened.table("rejects")
    assert rejects["step"].tolist() == ["extract_graph"]
    assert rejects["reason"].tolist() == ["parse"]
    assert project.report("index", "index", "--set", "max_reject_ratio=0.5")["exit_code"] == 0


def _none_of_the_observatory(messages: Messages, body: Mapping[str, Any]) -> Reply:
    about_it = any("Governor Pell" in content_of(message) for message in messages)
    return Reply("The weather is fine today.") if about_it else default_reply(messages, body)


def test_a_row_that_failed_for_a_passing_reason_is_asked_again(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    project.env = openai.env
    openai.script("chat", [500])
    override = ("--set", "models.chat.default.max_retries=0")
    first = project.report("index", "index", *override)
    assert first["totals"]["rejects"] == 1
    calls = openai.count("chat")
    second = project.report("index", "index", *override)
    assert (second["outcome"], second["totals"]["calls"]) == ("completed", 1)
    assert openai.count("chat") == calls + 1


def test_json_of_a_failure(project: ProjectFolder) -> None:
    done = project.invoke("run", "index", "--json")
    report = done.json
    assert (report["outcome"], report["exit_code"], done.exit_code) == ("failed", 2, 2)
    assert "OPENAI_API_KEY" in report["message"]


def test_strange_files(project: ProjectFolder) -> None:
    folder = project.root / "data/input"
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    (folder / "nothing.txt").write_bytes(b"")
    (folder / "chinese.txt").write_bytes(
        "港口的灯塔\n\n林晚樵在白壶茶馆讲述了海港灯塔的故事。".encode("gb18030")
    )
    (folder / "wide.txt").write_bytes(
        "\ufeffThe Wide File\n\nWritten in two bytes a letter.".encode("utf-16")
    )
    (folder / "nul.txt").write_bytes(b"The Nul File\n\nA byte of \x00 zero hides here.")
    (folder / "records.jsonl").write_text(
        '{"id": "a", "title": "One", "text": "The first \\ud800 record."}\n{"id": "b", "text": \n',
        encoding="utf-8",
    )
    (folder / "copy.txt").write_bytes((folder / "harbour.txt").read_bytes())
    (folder / "long.txt").write_text("a" * 300_000 + " end", encoding="utf-8")
    report = project.report("run", "fast", "--set", "max_reject_ratio=1")
    assert report["outcome"] == "completed_with_rejects"
    with project.open() as opened:
        documents, rejects = opened.table("documents"), opened.table("rejects")
    texts = dict(zip(documents["source"], documents["text"], strict=True))
    assert "林晚樵" in texts["chinese.txt"]
    assert "two bytes" in texts["wide.txt"]
    assert "A byte of  zero" in texts["nul.txt"]
    assert texts["copy.txt"] == texts["harbour.txt"]
    assert len(texts) == 9
    assert set(rejects["reason"]) == {
        "unsupported",
        "empty",
        "parse",
        "in_part",
        "encoding_guessed",
    }


def test_options_of_a_conversation_are_wrong_before_its_first_question(
    project: ProjectFolder,
) -> None:
    assert "mode: Input should be 'naive'" in _fails(project, 2, "chat", "--mode", "nave")
