"""Entity resolution in a project: one workflow, judged by the endpoint's model, pinned and
undone."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.errors import SettingsError, UsageError
from pipeline.project import Project
from pipeline.text.ids import entity_id
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import is_extraction, models, table_hashes

DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light. The Brack Institute paid Mira Vale.",
    "b.txt": "Anselm Torr taught at the Bräck Institute. Governor Pell Torr met Mira Vale.",
    "c.txt": "Governor Pell opened the Harrow-Light. Anselm Torr ground its lens.",
}
MERGED = {name: f"{name}_apart" for name in ("merged_entities", "merged_relationships", "mentions")}
RESOLVED = {
    "resolved_entities": "merged_entities",
    "resolved_relationships": "merged_relationships",
}
STEP: dict[str, Any] = {
    "verb": "resolve_entities",
    "args": {"similarity": 0.75},
    "inputs": MERGED,
    "outputs": {**RESOLVED, "resolved_mentions": "mentions"},
    "prompts": {"judge": "resolve_entities"},
    "models": {"chat": "default"},
}


def resolving(
    folder: ProjectFolder, name: str = "index", step: dict[str, Any] = STEP
) -> ProjectFolder:
    """With the step after merge_graphs, as docs/resolution.md says."""
    path = folder.root / "workflows" / f"{name}.yaml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    place = next(
        number for number, step in enumerate(workflow["steps"]) if step["verb"] == "merge_graphs"
    )
    workflow["steps"][place]["outputs"] = MERGED
    workflow["steps"].insert(place + 1, step)
    path.write_text(yaml.safe_dump(workflow), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    settings = {"models": {"chat": models(openai)["chat"]}}
    return resolving(new_project(tmp_path / "kept", "embedded", DOCUMENTS, openai, **settings))


def names(project: Project, workflow: str | None = None) -> set[str]:
    return set(project.table("entities", workflow)["name"])


def test_a_pin_and_its_undoing_cost_no_extraction(folder: ProjectFolder, openai: OpenAIServer):
    with folder.open() as project:
        project.index()
        found = names(project)
        assert "Brack Institute" in found
        assert "Bräck Institute" not in found
        assert "Governor Pell Torr" not in found  # the model's verdict
        told = project.names_of(entity_id("Brack Institute"))
        assert [one["name"] for one in told.merged] == ["Bräck Institute"]
        openai.forget()
        assert (
            project.undo_resolution("Brack Institute", "Bräck Institute").done == "pinned different"
        )
        project.index()
        assert names(project) == found | {"Bräck Institute"}
        assert project.undo_resolution("Brack Institute", "Bräck Institute").done == "pin removed"
        project.pin("same", "Mira Vale", "Anselm Torr")
        report = project.index()
        assert names(project) == found - {"Mira Vale"} or names(project) == found - {"Anselm Torr"}
        assert not [request for request in openai.requests if is_extraction(request)]
        assert {step.step: step.reason for step in report.steps}["resolve_entities"] == "input"
        with pytest.raises(UsageError, match="neither pinned nor merged"):
            project.undo_resolution("Mira Vale", "Harrow Light")


def test_an_incremental_run_resolves_as_a_full_one(folder: ProjectFolder, tmp_path: Path):
    fresh = folder.copy(tmp_path / "fresh")
    folder.delete("b.txt")
    with folder.open() as project:
        project.index()
    folder.write("b.txt", DOCUMENTS["b.txt"])
    with folder.open() as nightly, fresh.open() as whole:
        nightly.index()
        whole.index()
        assert table_hashes(nightly) == table_hashes(whole)


def test_the_plan_counts_the_judge(folder: ProjectFolder, openai: OpenAIServer):
    with folder.open() as project:
        before = {entry.planned.step.id: entry.estimate for entry in project.forecast()}
        assert openai.requests == []
        assert before["resolve_entities"].calls[0] == 0
        assert before["resolve_entities"].calls[1] > 0
        report = project.index()
        assert next(step for step in report.steps if step.step == "resolve_entities").calls == 1
        after = {entry.planned.step.id: entry for entry in project.forecast()}
        assert after["resolve_entities"].planned.action == "reuse"


def test_the_commands_list_pin_and_undo(folder: ProjectFolder, openai: OpenAIServer):
    endpoint = [part for override in folder.endpoint_overrides for part in ("--set", override)]
    assert folder.invoke("index", *endpoint).exit_code == 0
    shown = folder.invoke("resolutions", "list")
    assert "merge     rule     spelling" in shown.stdout
    listed = folder.invoke("resolutions", "list", "--decision", "merge", "--json").json
    assert {row["decision"] for row in listed} == {"merge"}
    pinned = folder.invoke(
        "resolutions", "pin", "different", "Brack Institute", "Nobody Known", "--json"
    )
    assert pinned.json["unknown"] == ["Nobody Known"]
    assert (
        "pin removed"
        in folder.invoke("resolutions", "undo", "Nobody Known", "brack institute").stdout
    )
    assert (folder.root / "corrections.jsonl").read_text(encoding="utf-8") == ""


def test_a_pin_of_an_earlier_version_holds_and_can_be_undone(folder: ProjectFolder):
    pins = folder.root / "resolutions.csv"
    pins.write_text("decision,a,b,note\ndifferent,Mira Vale,Nobody Known,\n", encoding="utf-8")
    with folder.open() as project:
        assert project.undo_resolution("Mira Vale", "Nobody Known").file == pins
        assert pins.read_text(encoding="utf-8") == "decision,a,b,note\n"


def test_a_workflow_without_the_step_says_so(folder: ProjectFolder):
    with folder.open() as project, pytest.raises(UsageError, match="no step resolve_entities"):
        project.resolutions("fast")


def test_without_a_judge_no_chat_model_is_needed(tmp_path: Path):
    step = {name: part for name, part in STEP.items() if name not in ("prompts", "models")}
    folder = resolving(new_project(tmp_path / "fast", "embedded", DOCUMENTS), "fast", step)
    with folder.open() as project:
        report = project.index("fast")
        assert report.exit_code == 0
        assert set(project.resolutions("fast")["by"]) == {"rule"}
        assert {"Brack Institute", "Bräck Institute"} & names(project, "fast") == {
            "Brack Institute"
        }


def test_a_role_that_is_not_there_is_no_optional_one(folder: ProjectFolder):
    resolving(folder, "fast", {**STEP, "models": {"judge": "default"}})
    with folder.open() as project, pytest.raises(SettingsError, match="unknown roles"):
        project.workflow("fast")


BEARERS = {
    "bourbon.txt": (
        "Agnes\n\nAgnes was a daughter of Henry II, Duke of Bourbon. Later Henry II left for Quill."
    ),
    "spain.txt": "Corunna\n\nIn 1520 Henry II, King of Spain, sailed from Corunna.",
    "bare.txt": "Quill\n\nThey fled from Henry II in 1648.",
}


def test_nights_tell_people_of_one_name_apart_as_a_full_run_does(tmp_path: Path):
    kept = new_project(tmp_path / "kept", "embedded", {"bourbon.txt": BEARERS["bourbon.txt"]})
    nights = [("spain.txt", True), ("bare.txt", True), ("bourbon.txt", False)]
    there = {"bourbon.txt"}
    with kept.open() as nightly:
        nightly.index("fast")
    for night, (name, comes) in enumerate(nights):
        if comes:
            kept.write(name, BEARERS[name])
            there.add(name)
        else:
            kept.delete(name)
            there.discard(name)
        fresh = new_project(
            tmp_path / f"fresh{night}", "embedded", {name: BEARERS[name] for name in there}
        )
        with kept.open() as nightly, fresh.open() as whole:
            nightly.index("fast")
            whole.index("fast")
            assert table_hashes(nightly, "fast") == table_hashes(whole, "fast")
            disputed = {"bourbon.txt", "spain.txt"} <= there
            assert ("Henry II, King of Spain" in names(nightly, "fast")) == disputed
            assert ("Henry II" in names(nightly, "fast")) == ("bare.txt" in there or not disputed)
