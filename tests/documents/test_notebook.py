"""Jupyter notebooks (IPYNB): texts and code in their order, without outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.documents.conversion import convert
from pipeline.verbs.load_documents import LoadParams, load_documents


def written(folder: Path, content: Any) -> Path:
    path = folder / "a.ipynb"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_cells_keep_their_order_and_outputs_are_left_out(tmp_path: Path):
    cells = [
        {"cell_type": "markdown", "source": ["# The harbour\n", "Built in 1871."]},
        {"cell_type": "code", "source": "x = 1\n", "outputs": [{"text": "a secret result"}]},
        {"cell_type": "code", "source": []},
        {"cell_type": "raw", "source": "As it is."},
    ]
    metadata = {"language_info": {"name": "python"}}
    path = written(tmp_path, {"nbformat": 4, "metadata": metadata, "cells": cells})
    assert convert(path).text == (
        "# The harbour\nBuilt in 1871.\n\n```python\nx = 1\n```\n\nAs it is."
    )
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert (list(documents["title"]), len(rejects)) == (["The harbour"], 0)


def test_the_third_format_has_worksheets_and_headings(tmp_path: Path):
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Lens"},
        {"cell_type": "code", "input": ["x = 1"]},
    ]
    path = written(tmp_path, {"nbformat": 3, "worksheets": [{"cells": cells}]})
    assert convert(path).text == "## Lens\n\n```\nx = 1\n```"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"nbformat": 4}',
        '{"nbformat": 4, "cells": 3}',
        '{"nbformat": 4, "cells": [3, null, {"source": null}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_notebook_or_an_empty_one_is_a_reject(tmp_path: Path, content: str):
    written(tmp_path, content)
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents.empty
    assert list(rejects["row_id"]) == ["a.ipynb"]
