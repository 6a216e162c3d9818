"""docs/verbs.md names every verb as it is, and its workflow can be read."""

import re
from pathlib import Path

import pytest

from pipeline.engine.workflow_file import read_workflow
from tests.docs.verb_table import PAGE, page_with, verb_table


def test_the_table_is_that_of_the_registry():
    """Else: python -m tests.docs.verb_table"""
    assert page_with(verb_table()) == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["verbs.md", "graphrag.md"])
def test_the_workflows_shown_can_be_read(page: str, tmp_path: Path):
    text = (PAGE.parent / page).read_text(encoding="utf-8")
    shown = [
        block
        for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        if block.startswith("name:")
    ]
    assert shown
    for block in shown:
        name = block.split()[1]
        (tmp_path / f"{name}.yaml").write_text(block, encoding="utf-8")
        assert read_workflow(tmp_path / f"{name}.yaml", {"input": {}}).name == name
