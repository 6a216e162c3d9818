"""The worked example of docs/incremental.md is what a run does with these three documents."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.changed_groups import StepDelta
from tests.projects import NO_STORE, new_project

PAGE = (Path(__file__).parents[2] / "docs" / "incremental.md").read_text(encoding="utf-8")
DOCUMENTS = {
    "bridge.md": "# The Bridge\n\nMira Vale built the Harrow Bridge.\n",
    "letter.txt": "Dear Anselm\n\nMira Vale met Idra Senn.\n",
    "school.txt": "The School\n\nIdra Senn taught at Quill School.\n",
}
EDITED = "Dear Anselm\n\nMira Vale met Governor Pell.\n"


def table_of_page() -> dict[str, tuple[str, list[str]]]:
    """Return the changed groups and the rows read, by sub-step, as the page says."""
    section = PAGE.partition("| sub-step | changed groups | rows read |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|(.*)\|$", section, re.MULTILINE)
    return {
        name: (groups, sorted(re.findall(r"\w+ \d+ of \d+", read))) for name, groups, read in rows
    }


def test_the_rows_of_the_page_are_those_that_the_run_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert all(line in PAGE for text in (*DOCUMENTS.values(), EDITED) for line in text.split("\n"))
    project = new_project(tmp_path / "p", NO_STORE, DOCUMENTS)
    find_changed_groups = StepDelta.find_changed_groups
    found: dict[str, tuple[str, list[str]]] = {}
    names: dict[str, set[str]] = {}

    def watched(delta: StepDelta) -> Any:
        groups = find_changed_groups(delta)
        step, read = delta.part.function.__name__, list[str]()
        if groups is not None and len(groups):
            [(_, frames)] = delta.read_groups(groups, None)
            read = [
                f"{name} {len(rows)} of {delta.now[name].rows}" for name, rows in frames.items()
            ]
        state = "all" if groups is None else "some" if len(groups) else "none"
        found[step] = state, sorted(read)
        names[step] = set() if groups is None else set(groups.to_pylist())
        return groups

    with project.open() as opened:
        opened.index("fast")
        monkeypatch.setattr(StepDelta, "find_changed_groups", watched)
        project.write("letter.txt", EDITED)
        opened.index("fast")
        entities = opened.table("merged_entities", "fast")
    page = table_of_page()
    assert len(page) == 10
    assert {name: found[name][1] for name in page} == {
        name: read for name, (_, read) in page.items()
    }
    for name, (groups, _) in page.items():
        state = re.split(r"\W", groups)[0]
        assert found[name][0] == (state if state in ("all", "none") else "some")
    ids = dict(zip(entities["id"], entities["name"], strict=True))
    changed = {ids[group] for group in names["merge_entities"]}
    assert changed == set(page["merge_entities"][0].split(", "))
