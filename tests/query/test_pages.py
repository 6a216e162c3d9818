from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.query.context import find_page, remove_page_starts
from tests.documents.test_pdf import prose, written
from tests.projects import new_project

TOLD = (
    "Ada Holm built the Skarrow Lamp.",
    "Otto Vale kept the harbour books.",
    "Cora Lund sailed from Tessing.",
)


def test_a_source_says_on_which_page_it_stands(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    folder = new_project(tmp_path / "p", postgres_url, {"plain.txt": "Nobody sailed from Orvane."})
    written(prose(*(" ".join([told] * 60) for told in TOLD)), folder.root / "data/input/lamp.pdf")
    with folder.open() as project:
        project.run("fast")
        found = project.query_data("Who sailed from Tessing?", mode="naive", chunk_top_k=1)
        (chunk,), (reference,) = found["chunks"], found["references"]
        text, pages = (
            project.table("documents").set_index("source").at["lamp.pdf", name]
            for name in ("text", "metadata")
        )
        assert chunk["page"] == 3
        assert '"pages": [0, ' in pages
        assert "Cora Lund" in text[chunk["start"] : chunk["end"]]
        assert reference["page"] == 3
        assert reference["metadata"].keys() == chunk["metadata"].keys() == {"converter"}
        plain = project.query_data("Who sailed from Orvane?", mode="naive", chunk_top_k=1)
        assert [chunk.get("page") for chunk in plain["chunks"]] == [None]
        assert "page" not in plain["references"][0]
    monkeypatch.chdir(folder.root)
    asked = CliRunner().invoke(
        app, ["query", "Who sailed from Tessing?", "--mode", "naive", "--chunk-top-k", "1"]
    )
    assert "(lamp.pdf, p. 3)" in asked.output


@pytest.mark.parametrize(
    ("metadata", "start", "page"),
    [
        ({"pages": [0, 10, 10, 30]}, 0, 1),
        ({"pages": [0, 10, 10, 30]}, 9, 1),
        ({"pages": [0, 10, 10, 30]}, 10, 3),
        ({"pages": [0, 10, 10, 30]}, 99, 4),
        ({"pages": 320}, 5, None),
        ({"pages": "7-9"}, 5, None),
        ({"pages": []}, 5, None),
        ({"pages": [7, 9]}, 8, None),
        ({"pages": [0, "9"]}, 8, None),
        ({}, 5, None),
        (None, 5, None),
    ],
)
def test_pages_are_those_of_a_conversion(
    metadata: dict[str, Any] | None, start: int, page: int | None
):
    assert find_page(metadata, start) == page
    assert remove_page_starts(metadata) == ({} if page else metadata)
