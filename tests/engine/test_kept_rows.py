"""Rows that are kept equal those that a full build would make, after each run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.engine.changed_groups import StepDelta
from pipeline.engine.run_options import RunOptions
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.sizes import size

DOCUMENTS = {
    "harbour.md": (
        "# The Harbour of Quill\n\nMira Vale built the Harrow Light in 1871, at Quill Point.\n"
    ),
    "institute.md": "# The Brack Institute\n\nIdra Senn also endowed the\nTollen Observatory.\n",
    "observatory.md": (
        "# The Tollen Observatory\n\nIt was opened by Governor Pell. Anselm Torr ground its lens.\n"
    ),
    "letter.txt": "CONFIDENTIAL\n\nAnselm Torr saw the Harbour of Quill.\n",
}
HARBOUR, LETTER = DOCUMENTS["harbour.md"], DOCUMENTS["letter.txt"]
NIGHTS: Mapping[str, tuple[Mapping[str, str | None], int]] = {
    "a sentence": ({"institute.md": DOCUMENTS["institute.md"] + "It lies in Tessing.\n"}, 1),
    "a title that a letter holds, and its new name that nothing holds": (
        {"harbour.md": HARBOUR.replace("The Harbour of Quill", "The Port")}, 2
    ),
    "a new document that another one names": ({"torr.md": "# Anselm Torr\n\nHe taught optics."}, 3),
    "a new document that nothing names": ({"new.md": "# Optics\n\nHe taught in Tessing."}, 1),
    "a letter with the same letterhead": ({"second.txt": LETTER.replace("Torr", "Moor")}, 1),
    "a deleted document that another one names": ({"observatory.md": None}, 1),
    "a deleted document that nothing names": ({"institute.md": None}, 0),
    "a title that is another's too": ({"copy.md": "# The Tollen Observatory\n\nIt burnt down.\n"},
        3),
}  # fmt: skip
"""The changed files, None for a deleted one, and the number of text units whose names are extracted
again."""


def tables(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        assert project.index("fast", options=RunOptions(allow_deletes=True)).outcome == "completed"
        return {
            name: snapshot.sha256
            for name, snapshot in project.snapshots.manifest("fast").tables.items()
        }


def change(folder: ProjectFolder, changes: Mapping[str, str | None]) -> None:
    for name, text in changes.items():
        if text is None:
            folder.delete(name)
        else:
            folder.write(name, text)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("first") / "p", NO_STORE, DOCUMENTS)
    tables(folder)
    return folder


@pytest.mark.parametrize("night", NIGHTS)
def test_fast_extraction_reads_again_what_changed_and_what_may_hold_a_title_that_did(
    first: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, night: str
):
    changes, read_again = NIGHTS[night]
    folder = first.copy(tmp_path / "p")
    read: dict[str, int] = {}

    find_changed_groups = StepDelta.find_changed_groups

    def watched(delta: StepDelta) -> Any:
        groups = find_changed_groups(delta)
        if groups is not None and len(groups):
            [(_, frames)] = delta.read_groups(groups, None)
            read[delta.part.function.__name__] = len(frames[next(iter(delta.part.inputs))])
        return groups

    monkeypatch.setattr(StepDelta, "find_changed_groups", watched)
    change(folder, changes)
    documents = {name: text for name, text in {**DOCUMENTS, **changes}.items() if text is not None}
    assert tables(folder) == tables(new_project(tmp_path / "fresh", NO_STORE, documents))
    assert read.get("extract_graph_fast", 0) == read_again


NAMES = ("Mira Vale", "Harrow Light", "MIRA VALE", "Vale", "Notes", "林海灯塔")
TEXTS = (
    "Mira Vale lit the Harrow\nLight.",
    "Later Vale saw Ann Moor (Notes).",
    "林海灯塔在海边。",
    "nothing here",
)
DOCUMENT = st.tuples(
    st.sampled_from(("# {}\n\n", "{}\n\n", "---\ntitle: {}\n---\n")), st.sampled_from(NAMES)
).flatmap(
    lambda head: st.sampled_from(TEXTS).map(lambda text: f"{head[0].format(head[1])}{text}\n")
)
CHANGES = st.dictionaries(
    st.sampled_from([f"{number}.md" for number in range(5)]), st.none() | DOCUMENT, max_size=3
)


@settings(
    max_examples=size(2, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=st.lists(CHANGES, min_size=1, max_size=size(3, 6)))
def test_after_any_history_of_titles_the_tables_are_those_of_a_full_build(
    tmp_path_factory: pytest.TempPathFactory, history: Sequence[Mapping[str, str | None]]
):
    root = tmp_path_factory.mktemp("nights")
    documents: dict[str, str] = {
        "first.md": "# Ann Moor\n\nAnn Moor met Mira Vale.\n",
        "0.md": "Notes\n\nVale came.",
    }
    folder = new_project(root / "p", NO_STORE, documents)
    tables(folder)
    for night in history:
        changes = {
            name: text for name, text in night.items() if text is not None or name in documents
        }
        change(folder, changes)
        documents = {
            name: text for name, text in {**documents, **changes}.items() if text is not None
        }
        tables(folder)
    assert tables(folder) == tables(new_project(root / "fresh", NO_STORE, documents))
