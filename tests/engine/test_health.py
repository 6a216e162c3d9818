"""What the tables of a run say of its extraction."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.engine.health import health
from pipeline.errors import DataError
from pipeline.schemas import EXTRACTIONS, MERGED_ENTITIES, MERGED_RELATIONSHIPS, REJECTS, TEXT_UNITS, TableSchema
from pipeline.snapshots import Snapshot, SnapshotStore
from pipeline.verbs.merge_graphs import merge_graphs
from tests.projects import new_project
from tests.servers.openai_server import OpenAIServer, Reply
from tests.verbs.graphs import entity, extractions, link


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


def snapshots(store: SnapshotStore, tables: dict[str, tuple[TableSchema, pd.DataFrame]]) -> dict[str, Snapshot]:
    return {name: store.write(name, schema.encode(frame, name)) for name, (schema, frame) in tables.items()}


def measured(store: SnapshotStore, units: dict[str, Any], rejected: tuple[str, ...] = ()) -> dict[str, float]:
    found, texts = extractions(units)
    merged, links, _, _ = merge_graphs(found, texts)
    rejects = REJECTS.frame([("extract", unit, "row", "timeout", "no answer") for unit in rejected])
    tables = snapshots(store, {
        "text_units": (TEXT_UNITS, texts), "extractions": (EXTRACTIONS, found), "rejects": (REJECTS, rejects),
        "merged_entities": (MERGED_ENTITIES, merged), "merged_relationships": (MERGED_RELATIONSHIPS, links),
    })  # fmt: skip
    return health(tables, store)


def test_counts(store: SnapshotStore):
    units = {
        "d/0": [entity("Ada"), entity("Otto"), link("Ada", "Otto")],
        "d/1": [{**entity("Nobody"), "grounded": False}, link("Ada", "Phantom")],
        "d/2": [link("Ghost", "Phantom")],
        "d/3": [],
    }
    assert measured(store, units, rejected=("d/3",)) == {
        "text_units": 4, "without_entities": 2, "entities_per_unit": 0.75, "ungrounded": 1,
        "orphan_relationships": 2,
    }  # fmt: skip


def test_nothing_extracted_from_what_was_answered_fails_the_run(store: SnapshotStore):
    with pytest.raises(DataError, match="not one entity in 2 text units; look at the model"):
        measured(store, {"d/0": [], "d/1": []})
    with pytest.raises(DataError, match="not one entity in 1 text units"):
        measured(store, {"d/0": [], "d/1": []}, rejected=("d/1",))


def test_where_all_was_rejected_the_rejects_say_so(store: SnapshotStore):
    assert measured(store, {"d/0": [], "d/1": []}, rejected=("d/0", "d/1"))["without_entities"] == 2
    assert measured(store, {})["entities_per_unit"] == 0


def test_a_workflow_without_extraction_has_no_health(store: SnapshotStore):
    texts = extractions({"d/0": []})[1]
    assert health(snapshots(store, {"text_units": (TEXT_UNITS, texts)}), store) == {}


def test_a_run_whose_extraction_is_empty_fails_and_leaves_the_stores(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, endpoint=openai)
    with folder.open(*folder.endpoint_overrides) as project:
        assert project.run("index").health["without_entities"] == 0
        loaded = project.stores.vectors.live()
        openai.reply = lambda messages, body: Reply("<|COMPLETE|>")
        folder.write("harbour.txt", "Another text.")
        folder.write("institute.txt", "And another.")
        folder.write("observatory.txt", "And a third.")
        for _ in range(2):
            with pytest.raises(DataError, match="not one entity in 3 text units"):
                project.run("index")
            report = project.status()
            assert report
            assert report["outcome"] == "failed"
            assert project.stores.vectors.live() == loaded
