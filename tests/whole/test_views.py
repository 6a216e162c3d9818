"""A view is what a project with its documents alone would be: its tables, its workspace, and after
any change of documents, conditions or settings; it asks no chat model, and a purge reaches it."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from pipeline.engine.bill.forecast import totals
from pipeline.engine.run_options import RunOptions
from pipeline.errors import (
    BudgetError,
    NothingLoadedError,
    OtherOwnerError,
    SettingsError,
    UsageError,
)
from pipeline.project import Project
from pipeline.snapshots.manifests import view_of
from pipeline.stores.loaded_workspaces import LoadedWorkspaces
from tests.projects import NO_STORE, ProjectFolder, new_project, workspace_of
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import size
from tests.states import models, neo4j_rows, postgres_rows
from tests.whole.moments import LOAD, STATEMENT, run_apart

VIEW = "open"
WHERE = {"secret": False}
SERVE = {"views": {VIEW: {"where": WHERE}}}
OF_REPORTS = {"community_reports", "report_texts", "report_embeddings"}
NAMES = [
    "Mira Vale",
    "Anselm Torr",
    "Governor Pell",
    "Wenna Marsh",
    "Harrow Light",
    "Brack Institute",
    "Tollen Quay",
]
VERBS = ["built", "sold", "studied at", "feared", "wrote to", "paid", "opened"]
CANARY = "Zyxwane"
CORPORA = [(workflow, seed) for workflow in ("fast", "claims") for seed in range(size(1, 20))]
NIGHTS = size(2, 4)
Rows = dict[str, dict[str, Any]]


def drawn_row(draw: random.Random, number: int, secret: bool | None = None) -> dict[str, Any]:
    """A document; the secret ones name what no other one does, and titles that others mention."""
    hidden = draw.random() < 0.4 if secret is None else secret
    names = [*NAMES, f"{CANARY} Trust"] if hidden else NAMES
    sentences = [
        f"{draw.choice(names)} {draw.choice(VERBS)} {draw.choice(names)} in"
        f" {1800 + draw.randrange(90)}."
        for _ in range(draw.randint(2, 8))
    ]
    title = draw.choice([*NAMES, f"Record {number}"])
    return {"id": f"d{number}", "title": title, "text": " ".join(sentences), "secret": hidden}


def changed(draw: random.Random, rows: Rows) -> Rows:
    """Some documents are edited, shown or hidden, taken out and added."""
    kept = {id: row for id, row in rows.items() if draw.random() > 0.15}
    for id in draw.sample(sorted(kept), len(kept) // 3):
        kept[id] = {**drawn_row(draw, 0), "id": id}
    fresh = [drawn_row(draw, draw.randrange(100, 10_000)) for _ in range(draw.randint(1, 3))]
    return {**kept, **{row["id"]: row for row in fresh}}


def put(
    folder: ProjectFolder, rows: Mapping[str, Mapping[str, Any]], only_open: bool = False
) -> None:
    shown = [row for row in rows.values() if not (only_open and row["secret"])]
    folder.write("documents.jsonl", "".join(json.dumps(row) + "\n" for row in shown))


def first_rows(seed: int) -> Rows:
    draw = random.Random(seed)
    rows = [drawn_row(draw, number, secret=number % 3 == 0) for number in range(9)]
    return {row["id"]: row for row in rows}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, postgres_url: str) -> ProjectFolder:
    made = new_project(
        tmp_path / "p", postgres_url, {}, serve=SERVE, workflow="fast", max_reject_ratio=1
    )
    put(made, first_rows(1))
    return made


def assert_equal_tables(project: Project, alone: Project, workflow: str) -> None:
    """The tables of the view are those of the project that has its documents alone, but for
    reports."""
    own = view_of(project.snapshots.manifest(workflow), VIEW).tables
    wanted = alone.snapshots.manifest(workflow).tables
    assert set(own) == set(wanted) - OF_REPORTS - {"rejects"}
    for name, table in own.items():
        if not name.endswith("_embeddings"):
            assert table.sha256 == wanted[name].sha256, name
            continue
        found, expected = (
            project.snapshots.tables.read(table),
            alone.snapshots.tables.read(wanted[name]),
        )
        assert list(found["id"]) == list(expected["id"]), name
        vectors = [np.array(list(rows["vector"])) for rows in (found, expected)]
        assert np.allclose(*vectors, atol=1e-5), name


@pytest.mark.parametrize(("workflow", "seed"), CORPORA)
def test_the_tables_of_a_view_are_those_of_a_project_with_its_documents_alone(
    tmp_path: Path, endpoint: OpenAIServer, workflow: str, seed: int
):
    """Over several nights, each of which is compared with a first night."""
    draw, rows = random.Random(seed), first_rows(seed)
    folder = new_project(tmp_path / "p", NO_STORE, {}, endpoint, serve=SERVE, max_reject_ratio=1)
    for night in range(NIGHTS):
        put(folder, rows)
        single = new_project(tmp_path / f"alone{night}", NO_STORE, {}, endpoint, max_reject_ratio=1)
        put(single, rows, only_open=True)
        with (
            folder.open(*folder.endpoint_overrides) as project,
            single.open(*single.endpoint_overrides) as alone,
        ):
            report = project.index(workflow)
            alone.index(workflow)
            assert_equal_tables(project, alone, workflow)
        asked = {step.step: step.calls for step in report.steps if step.step.endswith(f"@{VIEW}")}
        assert asked
        assert set(asked.values()) == {
            0
        }  # also of the embedding model, which is that of this machine
        rows = changed(draw, rows)


def test_its_workspace_is_that_of_such_a_project_and_verify_covers_it(
    folder: ProjectFolder, tmp_path: Path, postgres_url: str
):
    rows = first_rows(1)
    single = new_project(tmp_path / "alone", postgres_url, {}, workflow="fast")
    shown = f"{workspace_of(folder.root)}--{VIEW}"
    for night in range(2):
        put(folder, rows)
        put(single, rows, only_open=True)
        with folder.open() as project, single.open() as alone:
            report = project.run()
            alone.run()
            own, wanted = (
                postgres_rows(postgres_url, shown),
                postgres_rows(postgres_url, alone.settings.workspace),
            )
            assert CANARY not in repr(own)
            for rows_of in (own, wanted):
                [(live,)] = rows_of["graphmill_live"]
                del live["version"], live["workflow"]  # which name the view
            assert own == wanted
            assert own["graphmill_nodes"]
            shown_units = {row["id"] for (row,) in own["lightrag_chunks"]}
            stating_units = {row["text_unit_id"] for (row,) in own["graphmill_statements"]}
            assert stating_units
            assert stating_units <= shown_units
            assert project.verify().agrees
            assert (
                night == 0 or report.load[f"postgres (view {VIEW})"]["documents"]["unchanged"] > 0
            )
            again = project.run()
            assert all(counts["inserted"] + counts["updated"] + counts["deleted"] == 0
                       for tables in again.load.values() for counts in tables.values())  # fmt: skip
        rows = changed(random.Random(5), rows)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM lightrag_entities WHERE workspace = %s", [shown])
    with folder.open() as project:
        found = project.verify()
        assert not found.agrees
        assert any(
            check.store == f"postgres (view {VIEW})" and check.differences for check in found.tables
        )
        project.load()
        assert project.verify().agrees


def test_the_plan_counts_texts_of_a_view_once_and_a_budget_holds_for_them(
    tmp_path: Path, endpoint: OpenAIServer
):
    """Where all documents are in the view, it needs no vector and no call that the project does not
    need."""
    sections = models(endpoint)
    for section in sections.values():
        section["default"]["price"] = {"input": 1.0}
    folder = new_project(tmp_path / "p", NO_STORE, {}, models=sections, max_reject_ratio=1)
    put(folder, first_rows(3))
    everything = "serve.views={all: {where: {id: {matches: '*'}}}}"
    other = "serve.views={open: {where: {secret: false}}}"
    with folder.open() as project:
        without = totals(project.forecast("index"))
    with folder.open(everything) as project:
        assert [
            entry.planned.step.id
            for entry in project.forecast("index")
            if entry.planned.step.id.endswith("@all")
        ]
        assert totals(project.forecast("index"))["calls"][0] == without["calls"][0]
        project.index("index")
        asked = len(project.usage())
    with folder.open(other) as project:
        plan = {entry.planned.step.id: entry for entry in project.forecast("index")}
        calls = sum(entry.estimate.calls[0] for entry in plan.values())
        of_chat = [entry for entry in plan.values() if "chat" in entry.planned.step.models]
        assert sum(entry.estimate.calls[1] for entry in of_chat) == 0
        assert (
            calls > 0
        )  # texts of what both sides tell of are others where the hidden side is not read
        with pytest.raises(BudgetError):
            project.index("index", options=RunOptions(max_tokens=1))
        project.index("index")
        assert len(project.usage()) - asked == calls


def test_a_purge_reaches_the_workspace_of_a_view(folder: ProjectFolder, postgres_url: str):
    folder.write("purged.txt", f"The {CANARY} Company\n\nMira Vale founded the {CANARY} Company.")
    with folder.open(f"serve.views={{{VIEW}: {{where: {{secret: {{'!=': true}}}}}}}}") as project:
        project.run()
        shown = project.settings.of_view(VIEW).workspace
        assert CANARY in repr(postgres_rows(postgres_url, shown))
        report = project.purge("purged.txt")
        assert report.exit_code == 0
        assert CANARY not in repr(postgres_rows(postgres_url, shown))
        assert postgres_rows(postgres_url, shown)["graphmill_nodes"]
        assert project.verify().agrees
        assert {workspace.name for workspace in LoadedWorkspaces(folder.root).all()} == {
            project.settings.workspace,
            shown,
        }


def graph_rows(address: Neo4jAddress, workspace: str) -> dict[str, list[str]]:
    """Return the nodes and relationships without the node about the load, which names the view."""
    found = neo4j_rows(address, workspace)
    nodes = [row for row in found["nodes"] if "GraphmillLive" not in row]
    return {**found, "nodes": nodes}


def test_the_graph_of_a_view_in_neo4j_is_that_of_a_project_with_its_documents_alone(
    folder: ProjectFolder, tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress
):
    in_neo4j = {"graph": "neo4j", "neo4j": vars(neo4j_address)}
    single = new_project(tmp_path / "alone", postgres_url, {}, workflow="fast", max_reject_ratio=1)
    for project_folder in (folder, single):
        project_folder.edit_settings(stores={"postgres": {"url": postgres_url}, **in_neo4j})
    rows = first_rows(1)
    for _ in range(2):
        put(folder, rows)
        put(single, rows, only_open=True)
        with folder.open() as project, single.open() as alone:
            project.run()
            alone.run()
            assert project.verify().agrees
            own = project.over_view(VIEW).query_data("Mira Vale", mode="local")
            wanted = alone.query_data("Mira Vale", mode="local")
        of_view = graph_rows(neo4j_address, f"{workspace_of(folder.root)}--{VIEW}")
        of_single = graph_rows(neo4j_address, workspace_of(single.root))
        assert of_view["nodes"]
        assert of_view == of_single
        assert CANARY in repr(neo4j_rows(neo4j_address, workspace_of(folder.root)))
        assert own["entities"] == wanted["entities"]
        rows = changed(random.Random(5), rows)


def test_a_view_that_settings_have_no_more_is_told_and_stands_in_the_way_of_a_purge_until_it_is_dropped(  # noqa: E501
    folder: ProjectFolder, postgres_url: str
):
    folder.write("purged.txt", f"The {CANARY} Company\n\nMira Vale founded the {CANARY} Company.")
    with folder.open("serve.views={gone: {where: {secret: {'!=': true}}}}") as project:
        project.run()
        shown = project.settings.of_view("gone").workspace
    with folder.open() as project:
        assert any(
            f"'graphmill workspace drop {shown}' deletes it" in note for note in project.run().notes
        )
        with pytest.raises(UsageError, match=f"graphmill workspace drop {shown}"):
            project.purge("purged.txt")
        project.drop_workspace(shown)
        assert not project.run().notes
        assert project.purge("purged.txt").exit_code == 0
    assert not any(postgres_rows(postgres_url, shown).values())


def test_a_view_of_other_conditions_is_not_read_before_it_is_loaded_anew(folder: ProjectFolder):
    with folder.open("serve.views={open: {where: {secret: [true, false]}}}") as project:
        project.run()
        assert project.over_view(VIEW).query_data("Mira Vale", mode="naive")["chunks"]
    with folder.open() as project:
        with pytest.raises(
            NothingLoadedError, match=r"does not show view 'open' as serve\.views has it now"
        ):
            project.over_view(VIEW).query_data("Mira Vale", mode="naive")
        assert not project.verify().agrees
        with pytest.raises(
            UsageError, match="has no tables of it as settings have it; run 'graphmill run fast'"
        ):
            project.load()
        project.run()
        assert project.over_view(VIEW).query_data("Mira Vale", mode="naive")["chunks"]
        assert project.verify().agrees


def test_an_earlier_run_that_has_not_the_view_leaves_its_workspace(
    folder: ProjectFolder, postgres_url: str
):
    with folder.open("serve.views={}") as project:
        first = project.run()
    put(folder, first_rows(2))
    with folder.open() as project:
        project.run()
        shown = project.settings.of_view(VIEW).workspace
        before = postgres_rows(postgres_url, shown)
        report = project.load(options=RunOptions(manifest=first.run_id))
        assert any("its workspace is left as it is" in note for note in report.notes)
        assert postgres_rows(postgres_url, shown) == before


def test_killed_in_a_load_the_next_run_goes_on_with_the_views(tmp_path: Path, postgres_url: str):
    """Also where the workspace was loaded, and its view was not."""

    def first_night(name: str) -> ProjectFolder:
        made = new_project(tmp_path / name, postgres_url, {}, serve=SERVE, workflow="fast")
        put(made, first_rows(1))
        return made

    whole = first_night("whole")
    moments = run_apart(whole, "fast")
    statements = [
        place for place,
        moment in enumerate(moments) if moment.stage == LOAD and moment.act == STATEMENT
    ]  # fmt: skip
    with whole.open() as project:
        wanted = postgres_rows(postgres_url, project.settings.of_view(VIEW).workspace)[
            "graphmill_nodes"
        ]
    loaded = []
    for share in (0.5, 0.8):
        killed = first_night(f"killed-{share}")
        run_apart(killed, "fast", statements[int(share * len(statements))])
        with killed.open() as project:
            shown = project.settings.of_view(VIEW).workspace
            loaded.append(
                (
                    project.stores.live() is not None,
                    project.over_view(VIEW).stores.live() is not None,
                )
            )
            project.run()
            assert project.verify().agrees
            assert postgres_rows(postgres_url, shown)["graphmill_nodes"] == wanted
    assert (True, False) in loaded


def test_the_workspace_of_another_owner_is_no_view(
    folder: ProjectFolder, tmp_path: Path, postgres_url: str
):
    theirs = new_project(tmp_path / "theirs", postgres_url, workflow="fast")
    workspace = f"{workspace_of(folder.root)}--{VIEW}"
    with theirs.open(f"workspace={workspace}") as project:
        project.run()
    before = postgres_rows(postgres_url, workspace)
    with folder.open() as project:
        with pytest.raises(OtherOwnerError, match="give the view another name"):
            project.run(
                options=RunOptions(take_over=(project.workspaces()["postgres"][workspace].owner,))
            )
        with pytest.raises(NothingLoadedError):
            project.over_view(VIEW).query_data("Mira Vale", mode="naive")
    assert postgres_rows(postgres_url, workspace) == before


def test_a_view_of_no_document_is_loaded_and_finds_nothing(folder: ProjectFolder):
    with folder.open("serve.views={open: {where: {title: nothing is called so}}}") as project:
        project.run()
        assert project.verify().agrees
        assert project.over_view(VIEW).query_data("Mira Vale", mode="local")["entities"] == []


REFUSED: list[tuple[str, Callable[[Project], object], type[Exception], str]] = [
    ("{open: {where: {secret: {'~': 1}}}}", lambda project: project.workflow("fast"), SettingsError,
     r"serve\.views\.open\.where: 'secret' has no operator '~'"),
    ("{open: {where: {secret: false}}}", lambda project: project.run("graphrag"), UsageError,
     r"serve\.views\.open: workflow 'graphrag' has a table that cannot be made of some documents"),
]  # fmt: skip


@pytest.mark.parametrize(("views", "act", "error", "told"), REFUSED)
def test_what_cannot_be_a_view_is_refused(
    folder: ProjectFolder,
    views: str,
    act: Callable[[Project], object],
    error: type[Exception],
    told: str,
):
    with folder.open(f"serve.views={views}") as project, pytest.raises(error, match=told):
        act(project)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("{Open: {where: {secret: false}}}", "Open"),
        ("{open: {where: {}}}", "where"),
        ("{open: {}}", "where"),
    ],
)
def test_settings_of_a_view(folder: ProjectFolder, settings: str, told: str):
    with pytest.raises(SettingsError, match=told):
        folder.open(f"serve.views={settings}")


def test_plan_and_doctor_show_the_size_of_views(folder: ProjectFolder):
    before = folder.report("plan")
    assert before["views"] == {VIEW: {"documents": None, "text_units": None, "entities": None}}
    with folder.open() as project:
        project.run()
    after = folder.report("plan")
    assert after["views"][VIEW]["documents"] == 6
    assert any(note.startswith("view open: 6 documents, 6 text units, ") for note in after["notes"])
    with folder.open() as project:
        findings = [one for one in project.doctor() if one.what == "serve.views"]
    assert [(one.verdict, one.fact[:24]) for one in findings] == [
        ("ok", "view open: 6 documents, ")
    ]
