"""The commands of docs/lightrag.md run, in their order, on an index that LightRAG has made."""

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.import_pages import follow
from tests.verbs.lightrag_folders import INDEX

PAGE = (Path(__file__).parents[2] / "docs" / "lightrag.md").read_text("utf-8")


def test_the_commands_bring_the_index_into_the_stores(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(INDEX, tmp_path / "rag_storage")
    first, _, new_files = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    settings = {"stores": {"postgres": {"url": postgres_url}}}
    lines = f"{first}{new_files}".splitlines()
    follow(lines, tmp_path, settings, ["--mode", "naive"], "lamp.txt")
