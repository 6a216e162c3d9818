"""Check that a purge asks no model and reads no input, and that the next run makes what is
missing."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.bill.counting_models import Tally
from pipeline.models.base import ChatRequest
from pipeline.models.cache.lookup import completion_key
from pipeline.models.cache.replies import Completion, ReplyCache
from pipeline.project import Project
from pipeline.purge.recorded_steps import Missing, SilentChat
from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer
from tests.projects import ProjectFolder, new_project, read_yaml, write_yaml
from tests.purge.test_purge import CANARY, KEPT, SECRET, found_in
from tests.servers.openai_server import OpenAIServer
from tests.states import models, postgres_rows, set_args, table_hashes

SECRET_NAME = "secret.txt"
PRICE = {"price": {"input": 0.15, "output": 0.6}}


def calls(openai: OpenAIServer) -> tuple[int, int]:
    return openai.count("chat"), openai.count("embeddings")


def project_with(
    root: Path,
    postgres_url: str,
    openai: OpenAIServer,
    documents: dict[str, str] | None = None,
    **settings: Any,
) -> ProjectFolder:
    """Create a project whose chat model and vectors come from the endpoint, and that summarizes
    early."""
    folder = new_project(
        root, postgres_url, documents or {**KEPT, SECRET_NAME: SECRET}, openai, **settings
    )
    asked = models(openai, **PRICE)
    asked["embedding"]["default"] |= PRICE
    folder.edit_settings(models=asked)
    set_args(folder, summarize_descriptions={"max_tokens": 15})
    return folder


def sources(project: Project, workflow: str) -> set[str]:
    return set(project.table("documents", workflow)["source"])


def edit_prompt(folder: ProjectFolder, name: str) -> str:
    """Add a word to a prompt, and return its former text."""
    path = folder.root / f"prompts/{name}.md"
    before = path.read_text(encoding="utf-8")
    path.write_text(f"Please. {before}", encoding="utf-8")
    return before


@pytest.mark.parametrize("workflow", ["index", "claims"])
def test_a_purge_asks_nothing_and_the_next_run_comes_to_what_a_full_build_does(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, workflow: str
):
    purged = project_with(tmp_path / "purged", postgres_url, openai)
    fresh = project_with(tmp_path / "fresh", postgres_url, openai, KEPT)
    with purged.open() as project:
        project.run(workflow)
        before = calls(openai)
        project.purge(SECRET_NAME)
        assert calls(openai) == before
        assert project.verify(workflow).agrees
        assert sources(project, workflow) == set(KEPT)
        project.cache.close()
    assert found_in(purged.root, CANARY) == []
    plan = purged.report("plan", workflow)["estimate"]["calls"]
    openai.forget()
    with purged.open() as project:
        assert project.run(workflow).outcome == "completed"
        asked = sum(calls(openai))
        assert plan[0] <= asked <= plan[1]
        assert asked > 0
        assert project.verify(workflow).agrees
        openai.forget()
        project.run(workflow)
        assert calls(openai) == (0, 0)
    with fresh.open() as other, purged.open() as project:
        other.run(workflow)
        assert table_hashes(project, workflow) == table_hashes(other, workflow)
        names = [one.settings.workspace for one in (project, other)]
    assert postgres_rows(postgres_url, names[0]) == postgres_rows(postgres_url, names[1])


def test_an_edited_prompt_does_not_matter_and_taking_it_back_pays_for_nothing(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = project_with(tmp_path / "mill", postgres_url, openai)
    with folder.open() as project:
        project.run("communities")
    kept = {name: edit_prompt(folder, name) for name in ("extract_graph", "report_communities")}
    before = calls(openai)
    with folder.open() as project:
        project.purge(SECRET_NAME)
        assert calls(openai) == before
        assert len(project.table("extractions", "communities")) > 0
        assert len(project.table("community_reports", "communities")) > 0
    for name, text in kept.items():
        (folder.root / f"prompts/{name}.md").write_text(text, encoding="utf-8")
    with folder.open() as project:
        steps = {step.step: step for step in project.run("communities").steps}
    assert steps["extract_graph"].calls == 0


def test_a_reply_in_an_earlier_form_of_its_request_counts_as_needed(tmp_path: Path):
    """``purge --history`` deletes every reply whose key is not collected."""
    identity = {"model": "m"}
    earlier = ChatRequest("row", ({"role": "user", "content": "as an earlier version asked"},))
    request = ChatRequest(
        "row", ({"role": "user", "content": "as it is asked now"},), earlier=(earlier,)
    )
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    paid = completion_key(identity, earlier)
    cache.store_completion(paid, "m", Completion("answered", "stop", 5, 5, valid=True))
    tally, missing = Tally(tokenizer(DEFAULT_ENCODING)), Missing()
    (reply,) = SilentChat(identity, cache, tally, missing).complete([request])
    cache.close()
    assert (reply.text, bool(missing)) == ("answered", False)
    assert paid in tally.keys


def test_an_abandoned_workflow_is_not_brought_up_to_date(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = project_with(tmp_path / "mill", postgres_url, openai)
    with folder.open() as project:
        project.index("claims")
        folder.write(
            "later.txt", "The Weir\n\nGovernor Pell built the Dunmore Weir with Anselm Torr."
        )
        project.run("index")
        before = calls(openai)
        project.purge(SECRET_NAME)
        assert calls(openai) == before
        assert sources(project, "claims") == set(KEPT)
        assert sources(project, "index") == {*KEPT, "later.txt"}


def test_new_input_other_settings_and_a_prompt_that_cannot_be_used_change_nothing(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = project_with(tmp_path / "mill", postgres_url, openai)
    with folder.open() as project:
        project.run("index")
    folder.write("a.txt", KEPT["a.txt"] + " Idra Senn came to see it.")
    folder.write("later.txt", "The Weir\n\nGovernor Pell built the Dunmore Weir.")
    folder.edit_settings(models=models(openai, model="another", **PRICE))
    (folder.root / "prompts/extract_graph.md").write_text("$nobody fills this", encoding="utf-8")
    path = folder.root / "workflows/index.yaml"
    workflow = read_yaml(path)
    workflow["steps"] = [
        {**step, "args": {"size": 40}} if step["verb"] == "chunk_documents" else step
        for step in workflow["steps"]
    ]
    write_yaml(path, workflow)
    before = calls(openai)
    with folder.open() as project:
        report = project.purge(SECRET_NAME)
        assert calls(openai) == before
        assert report.exit_code == 0
        assert sources(project, "index") == set(KEPT)
        assert "came to see" not in project.table("documents", "index")["text"].str.cat()
        project.cache.close()
    assert found_in(folder.root, CANARY) == []


def test_the_question_says_what_the_next_run_has_to_ask_and_its_price(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = project_with(tmp_path / "mill", postgres_url, openai)
    with folder.open() as project:
        project.run("communities")
        before = calls(openai)
        survey = project.survey(SECRET_NAME)
        assert calls(openai) == before
        asks = survey.asks
        assert asks.calls > 0
        assert asks.cost is not None
        assert asks.cost > 0
        line = next(line for line in survey.lines() if line.startswith("no model is asked now"))
        assert f"{asks.calls} call" in line
        assert f"{asks.cost:.4f}" in line
        assert SECRET_NAME in sources(project, "communities")
        project.purge(SECRET_NAME)
        openai.forget()
        project.run("communities")
    assert sum(calls(openai)) >= asks.calls


def test_rows_whose_reply_went_are_rejects_that_say_so(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = project_with(tmp_path / "mill", postgres_url, openai)
    with folder.open() as project:
        project.run("communities")
        project.purge(SECRET_NAME)
        rejects = project.table("rejects", "communities")
        purged = rejects[rejects["reason"] == "purged"]
        assert {"report_communities"} <= set(purged["step"])
        project.run("communities")
        assert "purged" not in set(project.table("rejects", "communities")["reason"])


def test_a_document_that_comes_back_after_its_purge_is_read_again(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = project_with(tmp_path / "mill", postgres_url, openai)
    with folder.open() as project:
        project.run("index")
        project.purge(SECRET_NAME)
        folder.write(SECRET_NAME, SECRET)
        project.run("index")
        assert sources(project, "index") == {*KEPT, SECRET_NAME}


def test_what_is_missing_is_made_though_the_next_run_has_other_changes_too(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    later = {"later.txt": "The Weir\n\nOrrin Fell built the Dunmore Weir."}
    purged = project_with(tmp_path / "purged", postgres_url, openai)
    fresh = project_with(tmp_path / "fresh", postgres_url, openai, {**KEPT, **later})
    with purged.open() as project:
        project.run("index")
        project.purge(SECRET_NAME)
    purged.write("later.txt", later["later.txt"])
    with purged.open() as project, fresh.open() as other:
        project.run("index")
        other.run("index")
        assert table_hashes(project) == table_hashes(other)
