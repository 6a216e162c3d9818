"""The commands that say what was done and what it cost, and the options that steer a run, in this
process."""

from pathlib import Path

import pytest

from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import is_extraction, models, set_args

STEPS = [
    "load_documents", "chunk_documents", "compose_prompt_headers", "extract_graph", "add_links",
    "merge_graphs", "summarize_descriptions", "compute_degrees",
    "list_statements", "compose_texts", "compose_headers", "embed_text_units", "embed_entities",
    "embed_relationships",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    bound = models(openai, price={"input": 1.0, "output": 2.0})
    folder = new_project(
        tmp_path / "p", NO_STORE, DOCUMENTS, models={"chat": bound["chat"]}, max_reject_ratio=1
    )
    set_args(folder, chunk_documents={"size": 60})
    return folder


def actions(folder: ProjectFolder, *arguments: str) -> dict[str, tuple[str, str]]:
    done = folder.invoke("index", *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return {step["step"]: (step["action"], step["reason"]) for step in done.json["steps"]}


def test_rejects_and_retry(folder: ProjectFolder, openai: OpenAIServer, postgres_url: str):
    folder.edit_settings(stores={"postgres": {"url": postgres_url}})
    openai.script("chat", [Reply("The content_filter was triggered.", status=400)])
    first = folder.invoke("index")
    assert first.exit_code == 0
    assert "content_filter" in first.stdout
    shown = folder.invoke("rejects")
    assert shown.stdout.splitlines()[0].split()[:4] == [
        "extract_graph",
        "lost",
        "row",
        "content_filter",
    ]
    assert shown.stdout.splitlines()[-1] == "index: lost: 1 row content_filter"
    (reject,) = folder.invoke("rejects", "--json").json
    assert (reject["step"], reject["kind"], reject["reason"]) == (
        "extract_graph",
        "row",
        "content_filter",
    )
    assert folder.invoke("rejects", "--reason", "timeout", "--json").json == []
    assert folder.invoke("rejects", "--reason", "timeout").stdout == "index: no rejects\n"
    openai.forget()
    assert {action for action, _ in actions(folder).values()} == {"reused"}
    retried = folder.invoke("retry", "--json").json
    reasons = {step["step"]: step["reason"] for step in retried["steps"]}
    assert (retried["outcome"], reasons["extract_graph"]) == ("completed", "retry")
    assert retried["load"]
    assert not any("asked for again" in note for note in retried["notes"])
    assert sum(map(is_extraction, openai.requests)) == 1
    assert folder.invoke("rejects", "--json").json == []
    nothing_left = folder.invoke("retry").stdout
    assert "0 rejects" in nothing_left
    assert "no row was lost or cut, so no row was asked again" in nothing_left


def test_usage(folder: ProjectFolder, openai: OpenAIServer):
    openai.script("chat", [500])
    folder.invoke("index")
    calls = [request for request in openai.requests if request.kind == "chat"]
    sums = [
        len(calls),
        sum(r.prompt_tokens for r in calls),
        sum(r.completion_tokens for r in calls),
    ]
    names = {
        "run": 1, "step": len({"extract_graph"}), "document": len(DOCUMENTS), "model": 1,
        "outcome": 2,
    }  # fmt: skip
    for by, count in names.items():
        rows = folder.invoke("usage", "--by", by, "--json").json
        assert len(rows) == count
        assert [
            sum(row[name] for row in rows) for name in ("calls", "input_tokens", "output_tokens")
        ] == sums
        assert sum(row["cost"] for row in rows) == pytest.approx((sums[1] + 2 * sums[2]) / 1e6)
        shown = folder.invoke("usage", "--by", by).stdout.splitlines()
        assert shown[0].split()[:2] == [by, "calls"]
        assert len(shown) == count + 1
    (run,) = folder.invoke("usage", "--json").json
    assert folder.invoke("usage", "--run", run["run_id"], "--json").json == [run]
    assert folder.invoke("usage", "--run", "2001", "--json").json == []
    assert len(folder.invoke("usage", "--run", "2001").stdout.splitlines()) == 1


def test_a_plan_says_that_the_chat_model_is_not_set(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE)
    (note,) = [line for line in folder.invoke("plan").stdout.splitlines() if "models.chat" in line]
    assert note.startswith("note: models.chat.default: no api_key and no base_url, so a run would")
    assert "models.chat" not in folder.invoke("plan", "fast").stdout


def test_usage_by_something_else(folder: ProjectFolder):
    done = folder.invoke("usage", "--by", "moon", "--json")
    assert (done.exit_code, done.json["outcome"]) == (2, "failed")
    assert "cannot sum by 'moon'; by: run, step, document, model, outcome" in done.stderr


def test_steps_that_are_left_as_they_are(folder: ProjectFolder):
    assert list(actions(folder)) == STEPS
    folder.write("harbour.txt", "Idra Senn endowed the Harbour of Quill.")
    assert {action for action, _ in actions(folder, "--from", "merge_graphs").values()} == {
        "reused"
    }
    only = actions(folder, "--only", "load_documents", "--only", "chunk_documents")
    assert {step for step, (action, _) in only.items() if action == "ran"} == set(STEPS[:2])
    skipped = actions(folder, "--skip", "extract_graph")
    assert skipped["extract_graph"] == ("reused", "")
    assert skipped["embed_text_units"] == ("ran", "input")
    assert actions(folder)["extract_graph"] == ("ran", "input")


def test_a_step_is_forced_and_its_replies_are_known(folder: ProjectFolder, openai: OpenAIServer):
    folder.invoke("index")
    openai.forget()
    forced = actions(folder, "--force", "extract_graph")
    assert forced["extract_graph"] == ("ran", "forced")
    assert {action for step, (action, _) in forced.items() if step != "extract_graph"} == {"reused"}
    assert openai.count("chat") == 0
    plan = folder.invoke("plan", "--force", "merge_graphs", "--json").json
    planned = {step["step"]: (step["action"], step["reason"]) for step in plan["steps"]}
    assert planned["merge_graphs"] == ("run", "forced")
    assert planned["summarize_descriptions"] == ("maybe", "input")


@pytest.mark.parametrize("option", ["--from", "--only", "--skip", "--force"])
def test_a_step_that_is_not_there(folder: ProjectFolder, option: str):
    done = folder.invoke("index", option, "dance", "--json")
    assert (done.exit_code, done.json["exit_code"]) == (2, 2)
    assert "no step 'dance'; have: load_documents" in done.stderr


def test_a_limit_of_tokens(folder: ProjectFolder, openai: OpenAIServer):
    folder.edit_settings(models={"chat": models(openai, concurrency=1)["chat"]})
    done = folder.invoke("index", "--max-tokens", "1", "--json")
    assert (done.exit_code, done.json["outcome"], openai.count("chat")) == (5, "stopped", 1)
    assert "of --max-tokens 1 are used; everything answered is kept" in done.stderr
    assert [step["action"] for step in done.json["steps"]][-1] == "stopped"
    shown = folder.invoke("index", "--max-tokens", "1")
    assert (shown.exit_code, shown.stdout) == (5, "")
    assert openai.count("chat") == 2
    assert folder.invoke("index", "--max-tokens", "100000").exit_code == 0
    assert openai.count("chat") == len(DOCUMENTS)


def test_the_peak_of_memory(folder: ProjectFolder):
    assert all(
        step["peak_mb"] > 0
        for step in folder.invoke("index", "--memory-profile", "--json").json["steps"]
    )
    folder.write("more.txt", "Idra Senn endowed the Harbour of Quill.")
    assert " MB" in folder.invoke("index", "--memory-profile").stderr
    assert {step["peak_mb"] for step in folder.invoke("index", "--json").json["steps"]} == {None}


def test_plan(folder: ProjectFolder, openai: OpenAIServer):
    openai.forget()
    first = folder.invoke("plan", "--json").json
    assert openai.requests == []
    extraction = first["steps"][STEPS.index("extract_graph")]
    assert (extraction["action"], extraction["reason"]) == ("maybe", "input") or extraction[
        "action"
    ] == "run"
    estimate = extraction["estimate"]
    assert (estimate["rows"], estimate["known"], estimate["calls"]) == (
        len(DOCUMENTS),
        0,
        [len(DOCUMENTS)] * 2,
    )
    assert extraction["input_tokens"] == estimate["input_tokens"][0] > 0
    assert first["estimate"]["calls"][0] == sum(step["calls"] for step in first["steps"])
    shown = folder.invoke("plan").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["step", *STEPS, "all", "note:", "note:", "note:"]
    assert f"{extraction['input_tokens']:,}" in shown[1 + STEPS.index("extract_graph")]
    assert f"  {len(DOCUMENTS)} calls, 0." in shown[1 + STEPS.index("extract_graph")]
    assert shown[-3] == f"note: documents: {len(DOCUMENTS)} new, 0 edited, 0 gone"
    assert "the most is an estimate, no bound" in shown[-2]
    assert shown[-1].startswith("note: time: not known yet; neither an earlier run nor doctor")
    assert extraction["estimate"]["seconds"] is first["estimate"]["seconds"] is None
    assert first["documents"] == {"new": len(DOCUMENTS), "edited": 0, "gone": 0}
    assert first["estimate"]["expected"]["calls"] >= len(DOCUMENTS)
    folder.invoke("index")
    after = folder.invoke("plan", "--json").json
    assert {step["action"] for step in after["steps"]} == {"reuse"}
    assert after["estimate"]["calls"] == after["estimate"]["input_tokens"] == [0, 0]
    assert after["estimate"]["seconds"] == [0, 0]
    shown = folder.invoke("plan").stdout.splitlines()
    assert (shown[0].split(), shown[-1]) == (["step", "action"], "all: no model is asked, cost 0")
    folder.write("more.txt", "Idra Senn endowed the Harbour of Quill.")
    again = folder.invoke("plan", "--json").json
    least, most = again["steps"][STEPS.index("extract_graph")]["estimate"]["seconds"]
    assert 0 < least <= most
    assert any(note.startswith("time of model calls") for note in again["notes"])
