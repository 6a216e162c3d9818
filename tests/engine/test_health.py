"""Figures of an extraction from the tables of a run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.contract.schemas import DOCUMENTS as ALL_DOCUMENTS
from pipeline.contract.schemas import (
    EXTRACTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
    TEXT_UNITS,
    TableSchema,
)
from pipeline.engine.extraction_check import health, refuse_all_empty
from pipeline.engine.extraction_notes import extraction_notes
from pipeline.engine.workflow_file import read_workflow
from pipeline.errors import DataError
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.verbs.merge_graphs import MergeParams, merge_graphs
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.openai_replies import Messages, default_reply
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import is_extraction, postgres_versions, set_args
from tests.verbs.graphs import entity, extractions, link


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


def snapshots(
    store: SnapshotStore, tables: dict[str, tuple[TableSchema, pd.DataFrame]]
) -> dict[str, Snapshot]:
    return {
        name: store.tables.write(name, schema.encode(frame, name))
        for name, (schema, frame) in tables.items()
    }


def measured(
    store: SnapshotStore,
    units: dict[str, Any],
    rejected: tuple[str, ...] = (),
    params: MergeParams = MergeParams(),
) -> dict[str, float]:
    found, texts = extractions(units)
    merged, links, _, _, rejects = merge_graphs(found, texts, params)
    rejects = REJECTS.frame([
        *rejects.itertuples(index=False, name=None),
        *(("extract_graph", unit, "row", "timeout", "no answer") for unit in rejected),
    ])  # fmt: skip
    tables = snapshots(store, {
        "text_units": (TEXT_UNITS, texts), "extractions": (EXTRACTIONS, found),
        "rejects": (REJECTS, rejects),
        "merged_entities": (MERGED_ENTITIES, merged), "merged_relationships": (MERGED_RELATIONSHIPS,
            links),
    })  # fmt: skip
    return health(tables, store, INDEX)


ROOT = Path(__file__).parents[2]
INDEX, ON_CPU = (
    read_workflow(ROOT / "workflows" / f"{name}.yaml", {}) for name in ("index", "fast")
)
UNITS = {
    "d/0": [entity("Ada"), entity("Otto"), link("Ada", "Otto")],
    "d/1": [{**entity("Nobody"), "grounded": False}, {**link("Ada", "Phantom"), "grounded": False}],
    "d/2": [link("Ghost", "Phantom")],
    "d/3": [],
}


def test_health_counts_units_entities_and_records(store: SnapshotStore):
    assert measured(store, UNITS, rejected=("d/3",)) == {
        "text_units": 4, "rejected_units": 1, "without_entities": 1, "only_title": 0,
        "entities_per_unit": 0.75,
        "ungrounded": 2, "cut_units": 0, "share_without_end_mark": 0.0, "orphan_relationships": 2,
    }  # fmt: skip
    assert measured(store, {"d/0": []}, rejected=("d/0",))["without_entities"] == 0
    assert measured(store, {"d/0": []})["without_entities"] == 1
    assert measured(store, {})["entities_per_unit"] == 0


def test_units_whose_only_entity_is_their_title_are_counted(store: SnapshotStore):
    units = {
        "d/0": [entity("Island Baby"), entity("Island Baby (film)")],
        "d/1": [entity("Ada")],
        "d/2": [],
    }
    found, texts = extractions(units)
    documents = ALL_DOCUMENTS.frame([("d", "Island Baby (film)", "", "", "{}", "", "given")])
    tables = {
        "documents": (ALL_DOCUMENTS, documents),
        "text_units": (TEXT_UNITS, texts),
        "extractions": (EXTRACTIONS, found),
        "rejects": (REJECTS, REJECTS.frame()),
    }
    counts = health(snapshots(store, tables), store, INDEX)
    assert (counts["only_title"], counts["without_entities"]) == (1, 1)
    [note] = extraction_notes(counts, INDEX)
    assert "in 2 of 3 text units" in note
    assert not list(extraction_notes({**counts, "only_title": 0}, INDEX))
    assert not list(extraction_notes({}, INDEX))


def test_text_units_that_were_rejected_are_not_text_units_without_entities(store: SnapshotStore):
    counts = measured(
        store, {"d/0": [entity("Ada")], "d/1": [], "d/2": []}, rejected=("d/1", "d/2")
    )
    assert (counts["rejected_units"], counts["without_entities"]) == (2, 0)
    assert not list(extraction_notes(counts, INDEX))


def test_rejected_files_of_an_import_are_no_text_units(store: SnapshotStore):
    counts = measured(store, {"d/0": [entity("Ada")]}, rejected=("kv_store_doc_status.json: d/9",))
    assert (counts["rejected_units"], counts["without_entities"]) == (0, 0)


def test_where_a_model_finds_nothing_the_advice_is_to_look_at_the_model(store: SnapshotStore):
    [note] = extraction_notes(
        measured(store, {"d/0": [], "d/1": [], "d/2": [entity("Ada")]}), INDEX
    )
    assert "look at the model with 'graphmill doctor'" in note
    assert "capital letters" not in note
    assert "extract_graph_fast" not in note


@pytest.mark.parametrize(
    ("text", "caseless"), [("كتب الحارس في الليل.", True), ("Nothing is named here.", False)]
)
def test_capital_letters_are_spoken_of_only_where_a_corpus_has_none(
    store: SnapshotStore, text: str, caseless: bool
):
    found, texts = extractions({"d/0": []})
    tables = {
        "text_units": (TEXT_UNITS, texts.assign(text=text)),
        "extractions": (EXTRACTIONS, found),
        "rejects": (REJECTS, REJECTS.frame()),
    }
    counts = health(snapshots(store, tables), store, ON_CPU)
    assert counts["share_of_caseless_letters"] == float(caseless)
    [note] = extraction_notes(counts, ON_CPU)
    assert ("scripts without capital letters" in note) == caseless
    assert "doctor" not in note


def test_replies_without_an_end_mark_and_cut_ones_are_told_with_what_asks_again(
    store: SnapshotStore,
):
    units = {f"d/{number}": [entity("Ada")] for number in range(20)}
    found, texts = extractions(units)

    def told(unended: int, cut: int) -> tuple[dict[str, float], str]:
        rejects = [
            ("extract_graph", f"d/{n}", "unended", "unended", "no mark") for n in range(unended)
        ]
        rejects += [("extract_graph", f"d/{n}", "cut", "truncated", "cut") for n in range(cut)]
        tables = {
            "text_units": (TEXT_UNITS, texts),
            "extractions": (EXTRACTIONS, found),
            "rejects": (REJECTS, REJECTS.frame(rejects)),
        }
        counts = health(snapshots(store, tables), store, INDEX)
        return counts, "\n".join(extraction_notes(counts, INDEX))

    counts, notes = told(unended=1, cut=0)
    assert counts["share_without_end_mark"] == 0.05
    assert "5% of the replies have no end mark" in notes
    assert "'graphmill retry index --unended --plan'" in notes
    counts, notes = told(unended=0, cut=2)
    assert (counts["cut_units"], counts["share_without_end_mark"]) == (2, 0)
    assert "the replies to 2 text units were cut" in notes
    assert "'graphmill retry index'" in notes
    assert told(0, 0)[1] == ""


@pytest.mark.parametrize(
    ("found_in", "counted"), [("heading", 1), ("first_line", 0), ("file_name", 1), (None, 1)]
)
def test_a_title_that_is_no_name_is_not_what_a_unit_is_about(
    store: SnapshotStore, found_in: str | None, counted: int
):
    found, texts = extractions({"d/0": [entity("Ada")]})
    documents = ALL_DOCUMENTS.encode(
        ALL_DOCUMENTS.frame([("d", "Ada met Otto", "", "", "{}", "", found_in)]), "documents"
    )
    tables = snapshots(store, {
        "text_units": (TEXT_UNITS, texts), "extractions": (EXTRACTIONS, found),
        "rejects": (REJECTS, REJECTS.frame()),
    })  # fmt: skip
    earlier = (
        documents if found_in else documents.drop_columns(["title_from"])
    )  # as versions before left it
    assert (
        health({**tables, "documents": store.tables.write("documents", earlier)}, store, INDEX)[
            "only_title"
        ]
        == counted
    )


def test_records_of_a_text_unit_that_is_not_there_hinder_no_count(store: SnapshotStore):
    found, texts = extractions({"d/0": [entity("Ada")], "d/1": [entity("Ada")]})
    tables = {
        "documents": (
            ALL_DOCUMENTS,
            ALL_DOCUMENTS.frame([("d", "Ada", "", "", "{}", "", "given")]),
        ),
        "text_units": (TEXT_UNITS, texts[texts["id"] == "d/0"]),
        "extractions": (EXTRACTIONS, found),
        "rejects": (REJECTS, REJECTS.frame()),
    }
    assert health(snapshots(store, tables), store, INDEX)["only_title"] == 1


@pytest.mark.parametrize(("title", "counted"), [("Ada Moor", 1), ("ada moor", 0), ("IMG_2031", 0)])
def test_a_title_that_is_a_files_name_counts_where_it_may_name_something(
    store: SnapshotStore, title: str, counted: int
):
    found, texts = extractions({"d/0": [entity(title)]})
    document = ("d", title, "", "", "{}", "", "file_name")
    tables = {
        "documents": (ALL_DOCUMENTS, ALL_DOCUMENTS.frame([document])),
        "text_units": (TEXT_UNITS, texts),
        "extractions": (EXTRACTIONS, found),
        "rejects": (REJECTS, REJECTS.frame()),
    }
    assert health(snapshots(store, tables), store, INDEX)["only_title"] == counted


def test_run_and_plan_say_that_a_script_without_capitals_has_no_names(tmp_path: Path):
    texts = {
        "a.md": "# المنارة\n\nكتب الحارس في الليل. هبت الريح.",
        "b.md": "# الميناء\n\nوصلت السفينة صباحا.",
    }
    folder = new_project(tmp_path / "p", NO_STORE, texts)
    report = folder.report("index", "fast")
    assert (report["health"]["only_title"], report["health"]["text_units"]) == (2, 2)
    assert any("nothing was found but the title" in note for note in report["notes"])
    assert any(
        "nothing was found but the title" in note for note in folder.report("plan", "fast")["notes"]
    )


def test_orphans_that_are_dropped_are_counted(store: SnapshotStore):
    assert measured(store, UNITS, params=MergeParams(orphans="drop"))["orphan_relationships"] == 2


@pytest.mark.parametrize("ungrounded", ["keep", "flag", "drop"])
def test_ungrounded_records_are_counted_whatever_becomes_of_them(
    tmp_path: Path, openai: OpenAIServer, ungrounded: str
):
    folder = new_project(tmp_path / "mill", NO_STORE, endpoint=openai)
    set_args(folder, extract_graph={"ungrounded": ungrounded})

    def inventive(messages: Messages, body: Mapping[str, Any]) -> Reply:
        said = default_reply(messages, body)
        phantom = '("entity"<|>Phantom Menace<|>person<|>It is in no text.)##'
        return (
            replace(said, text=phantom + (said.text or ""))
            if "<|COMPLETE|>" in str(messages)
            else said
        )

    openai.reply = inventive
    with folder.open(*folder.endpoint_overrides) as project:
        assert project.index("index").health["ungrounded"] == 3


def refused(store: SnapshotStore, units: dict[str, Any], rejected: tuple[str, ...] = ()) -> None:
    found, texts = extractions(units)
    rejects = REJECTS.frame([("extract", unit, "row", "timeout", "no answer") for unit in rejected])
    outputs = snapshots(store, {"extractions": (EXTRACTIONS, found), "rejects": (REJECTS, rejects)})
    refuse_all_empty({"text_units": texts}, outputs, store)


def test_nothing_extracted_from_what_was_answered_fails_the_run(store: SnapshotStore):
    with pytest.raises(DataError, match="not one entity in 2 text units; look at the model"):
        refused(store, {"d/0": [], "d/1": []})
    with pytest.raises(DataError, match="not one entity in 1 text units"):
        refused(store, {"d/0": [], "d/1": []}, rejected=("d/1",))


def test_an_extraction_with_only_rejects_does_not_fail_the_run(store: SnapshotStore):
    refused(store, {"d/0": [], "d/1": []}, rejected=("d/0", "d/1"))
    refused(store, {})
    refused(store, UNITS)


def test_a_workflow_without_extraction_has_no_health(store: SnapshotStore):
    texts = extractions({"d/0": []})[1]
    assert health(snapshots(store, {"text_units": (TEXT_UNITS, texts)}), store, INDEX) == {}


def nothing(messages: Messages, body: Mapping[str, Any]) -> Reply:
    return Reply("<|COMPLETE|>")


def bad_request(messages: Messages, body: Mapping[str, Any]) -> Reply:
    return Reply("unsupported parameter", status=400)


@pytest.fixture
def loaded(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """Return a project whose stores are loaded, and whose documents have all changed since."""
    folder = new_project(tmp_path / "mill", postgres_url, endpoint=openai)
    with folder.open(*folder.endpoint_overrides) as project:
        assert project.run("index").outcome == "completed"
    for name in DOCUMENTS:
        folder.write(name, f"{name}\n\nMira Vale met Anselm Torr.")
    openai.forget()
    return folder


def test_a_run_whose_extraction_is_empty_fails_leaves_the_stores_and_the_next_one_asks_again(
    loaded: ProjectFolder, postgres_url: str, openai: OpenAIServer
):
    openai.reply = nothing
    with loaded.open(*loaded.endpoint_overrides) as project:
        workspace = project.settings.workspace
        before = postgres_versions(postgres_url, workspace)
        for night in (1, 2):
            with pytest.raises(
                DataError, match=r"not one entity in 3 text units.*the next run asks again"
            ):
                project.run("index")
            report = project.status()
            assert report
            assert report["outcome"] == "failed"
            assert postgres_versions(postgres_url, workspace) == before
            assert openai.count("chat") == 3 * night
        openai.reply = default_reply
        mended = project.run("index")
        assert (mended.outcome, mended.health["without_entities"]) == ("completed", 0)
        assert sum(map(is_extraction, openai.requests)) == 3 * 3
        assert postgres_versions(postgres_url, workspace) != before


@pytest.mark.parametrize("max_reject_ratio", [0.1, 1])
def test_a_run_in_which_too_much_was_rejected_leaves_the_stores(
    loaded: ProjectFolder, postgres_url: str, openai: OpenAIServer, max_reject_ratio: float
):
    """Whatever the limit, stores are not loaded where every row was rejected."""
    openai.reply = bad_request
    with loaded.open(*loaded.endpoint_overrides, f"max_reject_ratio={max_reject_ratio}") as project:
        workspace = project.settings.workspace
        before = postgres_versions(postgres_url, workspace)
        report = project.run("index")
        assert (report.exit_code, report.outcome, report.load) == (3, "completed_with_rejects", {})
        assert (
            "100% of a step's rows or records are lost; the stores are left as they were"
            in report.message
        )
        assert "'graphmill load index' loads what there is" in report.message
        assert project.run("index").exit_code == 3
        assert postgres_versions(postgres_url, workspace) == before
        openai.reply = default_reply
        assert (project.retry("index").exit_code, openai.count("chat", 200)) == (0, 3)
        assert postgres_versions(postgres_url, workspace) != before


def test_text_units_that_a_server_refused_are_not_said_to_have_nothing_in_them(
    tmp_path: Path, openai: OpenAIServer
):
    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        is_harbour = "The Harbour of Quill" in messages[-1]["content"]
        return default_reply(messages, body) if is_harbour else bad_request(messages, body)

    openai.reply = reply
    run = new_project(tmp_path / "p", NO_STORE, DOCUMENTS, openai).invoke(
        "index", "--set", "max_reject_ratio=0.9"
    )
    assert (run.exit_code, "2 left out" in run.stdout + run.stderr) == (0, True), run.stderr
    assert "nothing was found" not in run.stdout
    assert "capital letters" not in run.stdout


def test_tables_are_loaded_below_the_limit_and_by_an_explicit_load(
    loaded: ProjectFolder, postgres_url: str, openai: OpenAIServer
):
    refused = next(iter(DOCUMENTS))

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        in_refused = f"{refused}\n" in messages[-1]["content"]
        return bad_request(messages, body) if in_refused else default_reply(messages, body)

    openai.reply = reply
    with loaded.open(*loaded.endpoint_overrides) as project:
        workspace = project.settings.workspace
        before = postgres_versions(postgres_url, workspace)
        assert project.run("index").exit_code == 3
        assert postgres_versions(postgres_url, workspace) == before
        assert project.load("index").exit_code == 0
        assert postgres_versions(postgres_url, workspace) != before
    with loaded.open(*loaded.endpoint_overrides, "max_reject_ratio=0.5") as project:
        report = project.run("index")
        assert (report.exit_code, bool(report.load)) == (0, True)
