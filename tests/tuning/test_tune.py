"""Tuning of prompts against the test endpoint."""

from pathlib import Path

import pytest
import yaml

from pipeline.errors import BudgetError, ModelError, UsageError
from pipeline.models.base import GENEROUS_REPLY
from pipeline.tuning.questions import TuningBrief
from pipeline.tuning.tune import TuneOptions
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import models

PRICE = {"input": 1.0, "output": 2.0}


@pytest.fixture
def folder(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    documents = {
        **DOCUMENTS,
        "money.txt": "The lamp cost $text and ${more}. ```Mira Vale``` paid Anselm Torr.",
    }
    settings = {"models": {"chat": models(openai, price=PRICE)["chat"]}}
    return new_project(tmp_path / "tuned", "embedded", documents, openai, **settings)


def prompts(folder: ProjectFolder) -> dict[str, str]:
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in (folder.root / "prompts").glob("*.md")
    }


def test_new_prompts_stand_beside_the_old_ones_and_work(
    folder: ProjectFolder, openai: OpenAIServer
):
    before = prompts(folder)
    with folder.open() as project:
        tuning = project.tune()
        first = prompts(folder)
        assert project.tune().calls == 0
        assert {name: first[name] for name in before} == before
        assert set(tuning.prompts.values()) == {
            "extract_graph.tuned",
            "summarize_descriptions.tuned",
        }
        assert set(prompts(folder)) - set(first) == {
            "extract_graph.tuned-2",
            "summarize_descriptions.tuned-2",
        }
        assert tuning.findings.entity_types == ("person", "lighthouse", "institute", "event")
        tuned = first["extract_graph.tuned"]
        assert tuned.startswith("You are a historian of lighthouses.")
        assert tuned.index("Examples from such texts") < tuned.index("$text")
        follow(folder, tuning.snippet)
        openai.forget()
        project.index()
    asked = [str(request.messages) for request in openai.requests if request.kind == "chat"]
    assert all("historian of lighthouses" in prompt for prompt in asked)
    assert "person, lighthouse, institute, event" in asked[0]


def follow(folder: ProjectFolder, snippet: str) -> None:
    """Apply the changes that the snippet describes."""
    steps = yaml.safe_load(snippet.partition("# settings.yaml")[0])
    path = folder.root / "workflows" / "index.yaml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    for new in steps:
        step = next(step for step in workflow["steps"] if step["verb"] == new["verb"])
        step |= new
    path.write_text(yaml.safe_dump(workflow), encoding="utf-8")


def test_the_forecast_makes_no_call_and_matches_the_tuning(
    folder: ProjectFolder, openai: OpenAIServer
):
    with folder.open() as project:
        estimate = project.forecast_tuning()
        assert openai.requests == []
        assert list((folder.root / "data").glob("usage/*")) == []
        tuning = project.tune()
        assert estimate.calls == (tuning.calls, tuning.calls) == (7, 7)
        assert estimate.input_tokens[0] <= tuning.input_tokens * 1.3
        assert tuning.cost is not None
        assert estimate.cost is not None
        assert estimate.cost[0] <= tuning.cost * 1.3
        usage = project.usage()
        assert set(usage["step"]) == {"tune"}
        assert len(usage) == 7
        assert usage["cost"].sum() == pytest.approx(tuning.cost)
        assert project.forecast_tuning().calls == (0, 0)


def test_a_budget_stops_it_and_the_next_time_goes_on(folder: ProjectFolder, openai: OpenAIServer):
    with folder.open() as project:
        with pytest.raises(BudgetError):
            project.tune(options=TuneOptions(max_tokens=1))
        assert not [name for name in prompts(folder) if "tuned" in name]
        done = openai.count("chat")
        assert 0 < done < 7
        assert project.tune().calls == 7 - done


def test_a_model_that_declines_writes_nothing(folder: ProjectFolder, openai: OpenAIServer):
    openai.script(
        "chat", [Reply("I'm sorry, but I cannot help with that."), Reply("I'm sorry, I can't.")]
    )
    with folder.open() as project, pytest.raises(ModelError, match=r"domain: .*nothing is written"):
        project.tune()
    assert not [name for name in prompts(folder) if "tuned" in name]


def test_answers_given_by_the_user_need_no_call(folder: ProjectFolder):
    with folder.open() as project:
        known = TuneOptions(examples=0, wanted=TuningBrief("lamps", "English", ("lamp",)))
        assert project.tune(options=known).calls == 1


def test_the_command_shows_the_bill_and_what_to_write(folder: ProjectFolder):
    shown = folder.invoke("tune", "--plan")
    assert shown.exit_code == 0
    assert " 7 " in shown.stdout
    done = folder.invoke("tune", "--examples", "1")
    assert "prompts/extract_graph.tuned.md" in done.stdout
    assert "entity_types: [" in done.stdout
    assert folder.invoke("tune", "--plan", "--json").json["calls"] == [2, 2]


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(UsageError, match="--sample"):
        TuneOptions(sample=0)


def test_every_call_has_a_limit(folder: ProjectFolder, openai: OpenAIServer):
    with folder.open() as project:
        assert project.tune().calls
    chats = [request.body for request in openai.requests if request.kind == "chat"]
    assert all(body["max_tokens"] >= GENEROUS_REPLY for body in chats)
