"""``format: auto``: one trial before the first extraction decides, and the project keeps what it
came to."""

from pathlib import Path

import pytest

from pipeline.models.base import GENEROUS_REPLY
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_replies import Reply
from tests.servers.openai_server import OpenAIServer
from tests.servers.small_models import json_alone, json_without_limits, no_format

DOCUMENTS = 3
FILE = "formats.yaml"


@pytest.fixture
def project(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    write_format(folder, "auto")
    return folder


def write_format(folder: ProjectFolder, format: str) -> None:
    workflow = folder.root / "workflows" / "index.yaml"
    text = workflow.read_text()
    before = next(
        word
        for word in ("gleanings: 0", "format: auto", "format: json", "format: records")
        if word in text
    )
    workflow.write_text(text.replace(before, f"format: {format}"))


def decided(folder: ProjectFolder) -> list[str]:
    """Return the lines of the file without its comments."""
    path = folder.root / FILE
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if not line.startswith("#")]


def step_of(report: dict, step: str = "extract_graph") -> dict:
    return next(one for one in report["steps"] if one["step"] == step)


def graphs_asked(openai: OpenAIServer) -> list[str]:
    """Return the format of each request for a graph."""
    chats = [request for request in openai.requests if request.kind == "chat"]
    graphs = [chat for chat in chats if "knowledge graph it contains" in str(chat.body["messages"])]
    return ["json" if "response_format" in graph.body else "records" for graph in graphs]


def test_a_model_that_writes_records_is_asked_for_records(
    project: ProjectFolder, openai: OpenAIServer
):
    report = project.report("index", "index")
    assert report["outcome"] == "completed"
    assert graphs_asked(openai) == ["records"] * (1 + DOCUMENTS)
    assert decided(project) == ['"gpt-4o-mini": records']
    assert step_of(report)["calls"] == 1 + DOCUMENTS


@pytest.mark.parametrize("reply", [json_alone, json_without_limits])
def test_a_model_that_writes_json_alone_is_asked_for_json(
    project: ProjectFolder, openai: OpenAIServer, reply: object
):
    openai.reply = reply
    report = project.report("index", "index")
    assert report["outcome"] == "completed"
    assert decided(project) == ['"gpt-4o-mini": json']
    assert graphs_asked(openai)[0] == "records"
    assert set(graphs_asked(openai)[1:]) == {"json"}
    assert step_of(report)["rows"]["extractions"] > 0


def test_a_request_for_json_shows_no_record_and_bounds_what_the_model_may_write(
    project: ProjectFolder, openai: OpenAIServer
):
    """A small model mixes records into its JSON if the prompt shows some, and loops in unbounded
    lists."""
    write_format(project, "json")
    assert project.report("index", "index")["outcome"] == "completed"
    bodies = [request.body for request in openai.requests if request.kind == "chat"]
    assert len(bodies) == DOCUMENTS
    for body in bodies:
        assert "<|>" not in str(body["messages"])
        schema = str(body["response_format"])
        assert "maxItems" in schema
        assert "maxLength" in schema
        assert body["max_tokens"] < GENEROUS_REPLY


def test_the_trial_is_in_the_plan_and_the_second_run_asks_nothing(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = json_alone
    planned = project.report("plan", "index")
    assert step_of(planned)["estimate"]["calls"] == [1 + DOCUMENTS, 2 + DOCUMENTS]
    assert any("format: auto is not decided yet" in note for note in planned["notes"])
    assert openai.count("chat") == 0
    project.report("index", "index")
    openai.forget()
    after = project.report("plan", "index")
    assert after["estimate"]["calls"] == [0, 0]
    assert not any("format: auto" in note for note in after["notes"])
    again = project.report("index", "index")
    assert {step["action"] for step in again["steps"]} == {"reused"}
    assert openai.count("chat") == 0


def test_what_was_decided_is_the_same_step_as_the_word_itself(
    project: ProjectFolder, openai: OpenAIServer
):
    project.report("index", "index")
    openai.forget()
    write_format(project, "records")
    assert step_of(project.report("index", "index"))["action"] == "reused"
    assert openai.count("chat") == 0


def test_an_edited_line_runs_the_step_again_in_that_format(
    project: ProjectFolder, openai: OpenAIServer
):
    project.report("index", "index")
    openai.forget()
    (project.root / FILE).write_text("gpt-4o-mini: json   # my decision\n")
    planned = step_of(project.report("plan", "index"))
    assert [planned["action"], planned["reason"]] == ["run", "params"]
    project.report("index", "index")
    assert set(graphs_asked(openai)) == {"json"}
    assert (project.root / FILE).read_text() == "gpt-4o-mini: json   # my decision\n"


def test_a_deleted_line_is_found_again_and_costs_nothing_where_the_reply_is_known(
    project: ProjectFolder, openai: OpenAIServer
):
    project.report("index", "index")
    openai.forget()
    (project.root / FILE).unlink()
    assert project.report("plan", "index")["estimate"]["calls"] == [0, 0]
    assert step_of(project.report("index", "index"))["action"] == "reused"
    assert decided(project) == ['"gpt-4o-mini": records']
    assert openai.count("chat") == 0


def test_a_deleted_line_is_decided_by_calls_for_the_trial_replies_that_are_not_known(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = json_alone
    project.report("index", "index")
    openai.forget()
    (project.root / FILE).unlink()
    assert step_of(project.report("plan", "index"))["estimate"]["calls"][1] >= 1
    project.report("index", "index")
    assert decided(project) == ['"gpt-4o-mini": json']
    assert graphs_asked(openai) == [
        "records"
    ]  # its bad reply is asked for again; the one in JSON is known


def test_other_models_keep_their_lines(project: ProjectFolder):
    (project.root / FILE).write_text("# mine\nqwen2.5: json")
    project.report("index", "index")
    assert (project.root / FILE).read_text() == '# mine\nqwen2.5: json\n"gpt-4o-mini": records\n'


def test_a_model_that_writes_neither_ends_the_run_before_the_documents_are_paid_for(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = no_format
    done = project.invoke("index", "index")
    assert done.exit_code == 1
    assert "no format that can be read" in done.stderr
    assert "graphmill doctor" in done.stderr
    assert graphs_asked(openai) == ["records", "json"]
    assert decided(project) == []


def test_a_server_that_fails_decides_nothing(project: ProjectFolder, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("The server had an error.", status=500)
    done = project.invoke("index", "index", "--set", "models.chat.default.max_retries=0")
    assert done.exit_code == 1
    assert "The server had an error." in done.stderr
    assert "run again" in done.stderr
    assert graphs_asked(openai) == ["records"]
    assert decided(project) == []


def test_a_server_that_does_not_answer_in_time_decides_nothing(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply("Request timeout.", status=408)
    done = project.invoke("index", "index", "--set", "models.chat.default.max_retries=0")
    assert done.exit_code == 1
    assert "run again" in done.stderr
    assert graphs_asked(openai) == ["records"]
    assert decided(project) == []


def test_the_trial_obeys_the_budget(project: ProjectFolder, openai: OpenAIServer):
    openai.reply = json_alone
    done = project.invoke("index", "index", "--max-tokens", "10")
    assert done.exit_code == 5
    assert openai.count("chat") == 1
    assert decided(project) == []


def test_without_documents_nothing_is_tried(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, {"empty.txt": ""}, endpoint=openai)
    write_format(folder, "auto")
    folder.invoke("index", "index")
    assert openai.count("chat") == 0
    assert decided(folder) == []


def test_the_trial_is_in_the_usage_of_the_step(project: ProjectFolder, openai: OpenAIServer):
    openai.reply = json_alone
    project.report("index", "index")
    with project.open() as opened:
        usage = opened.usage()
    trials = usage[usage["row_id"] == "format-trial"]
    assert list(trials["step"]) == ["extract_graph"] * 2
    assert (trials["cost"] > 0).all()


@pytest.mark.parametrize(
    "text", ["[records]", "gpt-4o-mini: xml", "gpt-4o-mini: [", "gpt-4o-mini: auto"]
)
def test_a_file_that_says_something_else_is_refused(
    project: ProjectFolder, openai: OpenAIServer, text: str
):
    (project.root / FILE).write_text(text)
    assert FILE in project.invoke_refused("plan", "index")
    assert openai.count("chat") == 0


def test_a_project_that_names_a_format_reads_no_file(project: ProjectFolder, openai: OpenAIServer):
    (project.root / FILE).write_text("gpt-4o-mini: [")
    write_format(project, "records")
    assert project.report("index", "index")["outcome"] == "completed"
    assert graphs_asked(openai) == ["records"] * DOCUMENTS


def test_a_purge_keeps_what_was_paid_for_though_the_line_is_gone(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = json_alone
    project.report("index", "index")
    (project.root / FILE).unlink()
    done = project.invoke("purge", "--history", "--yes")
    assert done.exit_code == 0, done
    openai.forget()
    (project.root / FILE).write_text("gpt-4o-mini: json\n")
    project.report("index", "index", "--force", "extract_graph")
    assert openai.count("chat") == 0


def test_a_model_that_loops_in_the_trial_ends_at_the_limit(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply(endless=True)
    done = project.invoke("index", "index", "--set", "models.chat.default.timeout=5")
    assert done.exit_code == 1
    assert "no format that can be read" in done.stderr
    trials = [request.body for request in openai.requests if request.kind == "chat"]
    assert [trial["max_tokens"] for trial in trials] == [GENEROUS_REPLY] * 2
