"""A run that reads only changed files leaves the tables of one that reads all files, whatever the
runs before it did."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.engine.run_options import RunOptions, Selection
from pipeline.engine.runner import MOST_READINGS
from tests.engine.readings import watched
from tests.projects import ProjectFolder, new_project
from tests.sizes import size

WORKFLOW = "name: short\nsteps:\n  - verb: load_documents\n  - verb: chunk_documents\n"
UNREADABLE = b"\xff\xfe\x00"
CONTENTS = (
    b"A letter.",
    b"Another one.",
    b"",
    UNREADABLE,
    b"id,text\n1,One\n2,Two\n",
    b"id,text\n2,Zwei\n2,Again\n",
    b'id,text\n1,"The judge said "no" to it"\n2,Two\n',
)
NAMES = (
    "a.csv",
    "a.csv#2.txt",
    "b.txt",
    "b:2.txt",
    "far/a.csv",
    "far/b.txt",
    "far/away/c.txt",
    "p.png",
)
Night = Mapping[str, bytes | None]
"""The new contents of files; None where one is deleted."""
NIGHTS = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from(CONTENTS), max_size=4),
    min_size=2,
    max_size=4,
)
ALL_READ = RunOptions(Selection(force=("load_documents",)))


def new_folder(root: Path) -> ProjectFolder:
    folder = new_project(root, "embedded", {"base.txt": "What is always there."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    return folder


def change(folder: ProjectFolder, night: Night) -> None:
    for name, content in night.items():
        path = folder.root / "data" / "input" / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def tables_after(
    folder: ProjectFolder, options: RunOptions | None = None
) -> dict[str, pd.DataFrame]:
    with folder.open("max_delete_ratio=1") as project:
        project.index(options=options)
        return {name: project.table(name) for name in ("documents", "text_units", "rejects")}


@settings(
    max_examples=size(6, 100), deadline=None, phases=(Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.function_scoped_fixture,),
)  # fmt: skip
@given(nights=NIGHTS)
def test_an_incremental_read_leaves_the_tables_of_a_full_read(
    nights: list[Night], tmp_path_factory: pytest.TempPathFactory
):
    root = tmp_path_factory.mktemp("nights")
    some, every = new_folder(root / "some"), new_folder(root / "every")
    for night in [{}, *nights, {}]:
        for folder in (some, every):
            change(folder, night)
        found, expected = tables_after(some), tables_after(every, ALL_READ)
        for name, table in expected.items():
            pd.testing.assert_frame_equal(found[name], table)


def test_a_kept_document_stays_until_its_file_is_deleted(tmp_path: Path):
    folder = new_folder(tmp_path / "mill")
    change(folder, {"cases.csv": CONTENTS[4], "far/b.txt": b"From afar."})
    tables_after(folder)
    change(folder, {"cases.csv": UNREADABLE, "far/b.txt": b""})
    for elsewhere in ([], ["other.txt"], []):
        change(folder, {"other.txt": b"An edit elsewhere." if elsewhere else None})
        sources = sorted(tables_after(folder)["documents"]["source"])
        assert sources == sorted(
            ["base.txt", "cases.csv#1", "cases.csv#2", "far/b.txt", *elsewhere]
        )
    change(folder, {"cases.csv": None, "far/b.txt": b"Read again."})
    tables = tables_after(folder)
    assert dict(zip(tables["documents"]["source"], tables["documents"]["text"], strict=True)) == {
        "base.txt": "What is always there.", "far/b.txt": "Read again.",
    }  # fmt: skip
    assert tables["rejects"].empty


def test_a_run_reads_files_that_changed_or_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = new_folder(tmp_path / "mill")
    change(
        folder,
        {
            "a.csv": CONTENTS[5],
            "b.txt": b"A letter.",
            "far/b.txt": b"Caf\xe9, d\xe9j\xe0 vu, na\xefve \xe9l\xe8ve",
        },
    )
    tables_after(folder)
    readings = watched(monkeypatch)
    change(folder, {"b.txt": UNREADABLE})
    assert set(tables_after(folder)["rejects"]["reason"]) == {
        "duplicate_id",
        "encoding_guessed",
        "encoding",
        "kept_unread",
    }
    change(folder, {"far/a.csv": CONTENTS[4]})
    tables_after(folder)
    tables_after(folder)
    assert readings == [["b.txt"], ["b.txt", "far/a.csv"], ["b.txt"]]


def test_a_file_that_keeps_changing_is_read_again_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A file's content may not be the one that its hash stands for."""
    folder = new_folder(tmp_path / "mill")
    change(folder, {"b.txt": b"One.", "far/b.txt": b"From afar."})
    texts = iter(f"Writing {number}" for number in range(100))
    with monkeypatch.context() as patch:
        readings = watched(patch, after=lambda: change(folder, {"b.txt": next(texts).encode()}))
        tables_after(folder)
        assert len(readings) == MOST_READINGS
    readings = watched(monkeypatch)
    change(folder, {"b.txt": b"Writing 1"})
    assert dict(zip(*(tables_after(folder)["documents"][name] for name in ("source", "text")), strict=True)) == {  # noqa: E501
        "base.txt": "What is always there.", "b.txt": "Writing 1", "far/b.txt": "From afar.",
    }  # fmt: skip
    assert [sorted(names) for names in readings] == [["b.txt", "base.txt", "far/b.txt"]]
    tables_after(folder)
    assert len(readings) == 1
