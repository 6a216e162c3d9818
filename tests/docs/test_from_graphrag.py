"""The commands of docs/from-graphrag.md run, in their order, on an index that GraphRAG has made."""

import re
from pathlib import Path

import pytest

from tests.docs.import_pages import follow
from tests.verbs.graphrag_folders import unpack

PAGE = (Path(__file__).parents[2] / "docs" / "from-graphrag.md").read_text("utf-8")


def test_the_commands_bring_the_index_into_the_stores(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    theirs = unpack(tmp_path / "graphrag")
    first, new_files, _ = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    settings = {"stores": {"postgres": {"url": postgres_url}}, "graphrag": {"path": str(theirs)}}
    follow(f"{first}{new_files}".splitlines(), tmp_path, settings, [], "Circle of")
