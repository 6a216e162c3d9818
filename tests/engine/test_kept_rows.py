"""Rows that are kept are those that would be made again: after each night the tables are a full build's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.engine import runner
from pipeline.engine.plan import PlannedStep, kept_rows
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project

HARBOUR = DOCUMENTS["harbour.txt"]
ADDED = "The Harbour of Quill was named after Idra Senn.\n"
NIGHTS: Mapping[str, tuple[Mapping[str, str | None], int | None]] = {
    "a sentence": ({"institute.txt": DOCUMENTS["institute.txt"] + ADDED}, 1),
    "a title": (
        {"harbour.txt": HARBOUR.replace("The Harbour of Quill", "Anselm Torr's Harbour")},
        None,
    ),
    "a new document": ({"new.txt": "Optics\n\nAnselm Torr taught optics to Mira Vale."}, None),
    "a deleted document": ({"observatory.txt": None}, None),
}
"""What changes, None for what goes; and of how many text units the names are read anew, None for all."""


def tables(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        assert project.index("fast").outcome == "completed"
        return {name: snapshot.sha256 for name, snapshot in project.snapshots.manifest("fast").tables.items()}


@pytest.mark.parametrize("night", NIGHTS)
def test_fast_extraction_reads_again_what_changed_unless_titles_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, night: str
):
    changes, read_again = NIGHTS[night]
    folder = new_project(tmp_path / "p", NO_STORE)
    tables(folder)
    read: dict[str, int | None] = {}

    def watched(planned: PlannedStep, inputs: Mapping[str, pd.DataFrame], *rest: Any) -> Any:
        kept = kept_rows(planned, inputs, *rest)
        read[planned.step.id] = len(kept.inputs[planned.step.verb.rowwise]) if kept else None
        return kept

    monkeypatch.setattr(runner, "kept_rows", watched)
    for name, text in changes.items():
        if text is None:
            folder.delete(name)
        else:
            folder.write(name, text)
    documents = {name: text for name, text in {**DOCUMENTS, **changes}.items() if text is not None}
    assert tables(folder) == tables(new_project(tmp_path / "fresh", NO_STORE, documents))
    assert read["extract_graph_fast"] == read_again
