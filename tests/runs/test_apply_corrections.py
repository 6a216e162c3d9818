"""Corrections that are applied now: no source is read anew, nobody is asked, and the next run
ends where it would have ended without them."""

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import GraphmillError, LockedError, UsageError
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, workspace_of, write_yaml
from tests.servers.openai_server import OpenAIServer, Reply, openai_server
from tests.sizes import size
from tests.states import models, postgres_rows, set_args, table_hashes
from tests.whole.test_resolution_run import resolving

DOCUMENTS = {
    "harbour.txt": (
        "Mira Vale built the Harrow Light at Quill Point. The Harrow Light stands at Quill Point."
        " Mira Vale met Anselm Torr. Anselm Torr drew the Harrow Light for Mira Vale."
    ),
    "institute.txt": (
        "Idra Senn founded the Brack Institute. Anselm Torr taught optics at the Brack Institute."
        " Idra Senn met Governor Pell. Mira Vale studied at the Brack Institute."
    ),
    "observatory.txt": (
        "Governor Pell opened the Tollen Observatory. Anselm Torr ground the lens of the Tollen"
        " Observatory. Idra Senn endowed the Tollen Observatory. M. Vale saw Governor Pell."
    ),
}
LATER = "Nobody came to Quill Point. Governor Pell left the Brack Institute to Rhoda Kell."
WORKFLOWS = ("communities", "claims", "resolved", "kept_reports", "with_view")
"""Workflows of init; names that a model judges; reports that stand for a while; those judged names
with a view for some."""
IN_EVERY_RUN = ("with_view",)
"""The workflow of the reduced form."""
SEEDS = [
    (workflow, seed) for workflow in size(IN_EVERY_RUN, WORKFLOWS) for seed in range(size(1, 20))
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


def folder_of(root: Path, store: str, endpoint: OpenAIServer, workflow: str) -> ProjectFolder:
    """A project all of whose models are behind the endpoint, and whose descriptions are mostly
    summarized. Its own workflow has the name."""
    folder = new_project(root, store, DOCUMENTS, models=models(endpoint), workflow=workflow)
    set_args(folder, "index", summarize_descriptions={"max_tokens": 12})
    if workflow in ("resolved", "with_view"):
        resolving(folder, "index")
    if workflow == "kept_reports":
        set_args(folder, "communities", report_communities={"keep_within": 0.4})
    if workflow == "with_view":
        where = {"source": {"in": ["harbour.txt", "observatory.txt", "later.txt"]}}
        folder.edit_settings(serve={"views": {"some": {"where": where}}})
    path = folder.root / "workflows" / f"{workflow}.yaml"
    if not path.exists():
        base = "communities" if workflow == "kept_reports" else "index"
        write_yaml(path, {"name": workflow, "extends": base, "steps": []})
    return folder


def correct_at_random(project: Project, workflow: str, draw: random.Random) -> None:
    """Add some corrections about names and statements of the last run, and take one back."""
    names = sorted(project.table("entities", workflow)["name"])
    links = project.table("relationships", workflow)
    ends = sorted(zip(links["source"], links["target"], strict=True))
    for _ in range(draw.randint(2, 4)):
        one, two = draw.sample(names, 2)
        source, target = draw.choice(ends)
        statement = {"source": source, "target": target}
        fields: dict[str, Any] = draw.choice(
            [
                {"kind": "rename", "entity": one, "to": two},
                {"kind": "rename", "entity": one, "to": f"{one} the Elder"},
                {"kind": "delete_entity", "entity": one},
                {"kind": "set_type", "entity": one, "to": "HERON"},
                {"kind": "describe_entity", "entity": one, "description": "A tall bird."},
                {"kind": "turn_statement", **statement},
                {"kind": "delete_statement", **statement},
            ]
        )
        # Two of them may contradict each other.
        with suppress(GraphmillError):
            project.add_correction(fields, workflow)
    lines = project.corrections(workflow)
    if len(lines) > 1 and draw.random() < 0.5:
        project.undo_correction(draw.choice(lines).decision.id, workflow)


@pytest.mark.parametrize(("workflow", "seed"), SEEDS)
def test_applied_and_then_run_is_run_alone_is_a_full_build(
    tmp_path: Path, postgres_url: str, endpoint: OpenAIServer, workflow: str, seed: int
):
    draw = random.Random(seed)
    applied = folder_of(tmp_path / "applied", postgres_url, endpoint, workflow)
    with applied.open() as project:
        project.index(workflow)
    alone = applied.copy(tmp_path / "alone")
    alone.edit_settings(workspace=workspace_of(alone.root))
    whole = folder_of(tmp_path / "whole", postgres_url, endpoint, workflow)
    with applied.open() as project:
        project.run(workflow)
        for _ in range(draw.randint(1, 2)):
            correct_at_random(project, workflow, draw)
            applied.write("later.txt", LATER)
            documents = project.snapshots.manifest(workflow).tables["documents"]
            endpoint.forget()
            report = project.apply_corrections(workflow)
            assert report.exit_code == 0
            assert not endpoint.requests
            assert report.totals["calls"] == 0
            assert project.snapshots.manifest(workflow).tables["documents"] == documents
            verified = project.verify(workflow)
            assert verified.agrees, verified
        project.run(workflow)
        verified = project.verify(workflow)
        assert verified.agrees, verified
    lines = applied.root / "corrections.jsonl"
    for other in (alone, whole):
        (other.root / lines.name).write_bytes(lines.read_bytes())
        other.write("later.txt", LATER)
        with other.open() as project:
            project.run(workflow)
    told = lines.read_text()
    shown = [table_hashes(folder.open(), workflow) for folder in (applied, alone, whole)]
    assert shown[0] == shown[1], told
    if workflow == "kept_reports":
        # What it keeps for a lower price is no full build, with or without corrections.
        return
    assert shown[0] == shown[2], told
    rows = [
        postgres_rows(postgres_url, workspace_of(folder.root)) for folder in (applied, alone, whole)
    ]
    assert rows[0] == rows[1], told
    assert rows[0] == rows[2], told


def test_what_waits_is_counted_and_the_next_run_asks_for_it(
    tmp_path: Path, postgres_url: str, endpoint: OpenAIServer
):
    folder = folder_of(tmp_path / "p", postgres_url, endpoint, "communities")
    with folder.open() as project:
        project.index()
        before = project.table("community_reports")
        named = project.table("entities").set_index("name")["id"]
        vectors = project.table("entity_embeddings").set_index("id")["vector"]
        project.add_correction(
            {"kind": "describe_entity", "entity": "Mira Vale", "description": "A builder."}
        )
        endpoint.forget()
        report = project.apply_corrections()
        assert not endpoint.requests
        waiting = {step.step: step.waiting for step in report.steps if step.waiting}
        assert {"report_communities", "embed_entities"} <= set(waiting)
        assert any("report_communities: " in note for note in report.notes)
        assert "A builder." in set(project.table("entities")["description"])
        assert project.table("community_reports").equals(before)
        kept = project.table("entity_embeddings").set_index("id")["vector"]
        mira = named["Mira Vale"]
        assert list(kept[mira]) == list(vectors[mira])
        planned = {step.step.id: step.action for step in project.plan()}
        assert planned["embed_entities"] == "run"
        project.index()
        assert endpoint.requests
        fresh = project.table("entity_embeddings").set_index("id")["vector"]
        assert list(fresh[mira]) != list(vectors[mira])
        endpoint.forget()
        project.index()
        assert not endpoint.requests


def test_a_row_that_was_lost_waits_too_and_is_asked_for_by_the_next_run(
    tmp_path: Path, postgres_url: str, endpoint: OpenAIServer
):
    folder = folder_of(tmp_path / "p", postgres_url, endpoint, "index")
    with folder.open() as project:
        refusal = Reply("I'm sorry, but I can't assist with that.")
        endpoint.script("chat", [*[200] * len(DOCUMENTS), refusal])
        project.run()
        (lost,) = project.rejects()["row_id"]
        # The lost row itself is not what the correction is about.
        named = project.table("entities").set_index("id")["name"]
        other = next(name for id, name in named.items() if id != lost)
        project.add_correction({"kind": "set_type", "entity": other, "to": "HERON"})
        endpoint.forget()
        project.apply_corrections()
        assert not endpoint.requests
        assert list(project.rejects()["reason"]) == ["waiting"]
        project.run()
        assert endpoint.count("chat") == 1
        assert project.rejects().empty


def test_a_workflow_that_never_ran_and_one_that_was_edited_are_refused(
    tmp_path: Path, endpoint: OpenAIServer
):
    folder = folder_of(tmp_path / "p", NO_STORE, endpoint, "index")
    with folder.open() as project:
        with pytest.raises(UsageError, match="no run yet"):
            project.apply_corrections("index")
        project.index("index")
        project.add_correction({"kind": "set_type", "entity": "Mira Vale", "to": "HERON"}, "index")
    set_args(folder, "index", summarize_descriptions={"max_tokens": 13})
    with folder.open() as project:
        manifest = project.snapshots.manifest("index")
        with pytest.raises(UsageError, match="'summarize_descriptions': its params have changed"):
            project.apply_corrections("index")
        assert project.snapshots.manifest("index") == manifest


def test_no_source_is_looked_at(tmp_path: Path, postgres_url: str, endpoint: OpenAIServer):
    folder = folder_of(tmp_path / "p", postgres_url, endpoint, "fast")
    with folder.open() as project:
        project.run()
        documents = project.table("documents")
        shutil.rmtree(project.input_folder)
        project.add_correction({"kind": "set_type", "entity": "Mira Vale", "to": "HERON"})
        assert project.apply_corrections().exit_code == 0
        assert project.table("documents").equals(documents)
        entities = project.table("entities").set_index("name")
        assert entities.loc["Mira Vale", "type"] == "HERON"


def test_a_run_under_way_is_told(tmp_path: Path, postgres_url: str, endpoint: OpenAIServer):
    folder = folder_of(tmp_path / "p", postgres_url, endpoint, "fast")
    with folder.open() as project:
        project.index("fast")
        with project.runs.alone(), folder.open() as other, pytest.raises(LockedError):
            other.apply_corrections("fast")
        done = folder.invoke("corrections", "apply", "fast")
        assert done.exit_code == 0, done.stderr
