"""The doctor examines each input beside the folder: what it has, or why it cannot be listed."""

import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.doctor import inputs
from pipeline.doctor.checks import examine
from pipeline.doctor.finding import Finding
from pipeline.doctor.inputs import examine_inputs
from tests.buckets import Bucket
from tests.projects import NO_STORE, ProjectFolder, new_project

SECRET = "Zyxomandrel"
QUERY = "SELECT nr AS id, title, body AS text FROM cases"


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE)


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def found_in(project: ProjectFolder, *sources: Mapping[str, Any]) -> list[Finding]:
    project.edit_settings(inputs=[dict(source) for source in sources])
    with project.open() as opened:
        return list(examine_inputs(opened))


def cases(place: Path, rows: int) -> dict[str, Any]:
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE cases (nr, title, body)")
        connection.executemany("INSERT INTO cases VALUES (?, 'Lens', 'It.')", [*zip(range(rows))])
    connection.close()
    return {"type": "sql", "url": f"sqlite:///{place}", "query": QUERY}


def test_each_input_has_a_finding_with_what_it_has(project: ProjectFolder, tmp_path: Path):
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    (wiki / "a.md").write_text("A")
    (wiki / "b.md").write_text("B")
    code = tmp_path / "code"
    code.mkdir()
    for words in (
        ("init", "-q"),
        ("commit", "-q", "--allow-empty", "-m", "none"),
    ):
        identity = ("-c", "user.name=m", "-c", "user.email=m@example.org")
        subprocess.run(["git", "-C", str(code), *identity, *words], check=True)
    found = found_in(
        project,
        {"name": "wiki", "url": str(wiki), "include": "**/*.md"},
        {"name": "code", "type": "git", "url": str(code)},
        {"name": "cases", **cases(tmp_path / "cases.db", 3)},
        {"name": "none", **cases(tmp_path / "none.db", 0)},
        {"name": "lacks", **cases(tmp_path / "lacks.db", 2), "metadata": ["title", "owner"]},
    )
    assert [(finding.what, finding.verdict, finding.fact) for finding in found] == [
        ("input @wiki", "ok", "2 files for **/*.md"),
        ("input @code", "warning", "0 files for **/*"),
        ("input @cases", "ok", "3 rows"),
        ("input @none", "warning", "its query gives no row"),
        ("input @lacks", "warning", "2 rows, but its query gives no column 'owner'"),
    ]
    assert [finding.action for finding in found] == [
        "",
        "correct its url or include",
        "",
        "correct its query",
        "correct the query, or take it out of metadata",
    ]


def test_an_input_that_cannot_be_listed_says_why_and_shows_no_address(
    project: ProjectFolder, tmp_path: Path
):
    gone = tmp_path / SECRET
    closed = f"postgresql+psycopg://ann:{SECRET}@127.0.0.1:9/d"
    database = cases(tmp_path / "cases.db", 3)
    found = found_in(
        project,
        {"name": "gone", "url": str(gone)},
        {"name": "code", "type": "git", "url": str(gone)},
        {"name": "closed", "type": "sql", "url": closed, "query": QUERY},
        {"name": "columns", **database, "text": "words"},
        {"name": "changed", **database, "changed": "later"},
    )
    assert {finding.verdict for finding in found} == {"failed"}
    facts = [finding.fact for finding in found]
    assert facts[0] == "no such folder"
    assert facts[1] == "no such folder"
    assert "refused" in facts[2]
    assert "no column 'words' but id, title, text" in facts[3]
    assert "later" in facts[4]
    assert all(finding.action for finding in found)
    assert SECRET not in str(found)


def test_a_file_that_cannot_be_read_is_a_warning(project: ProjectFolder, tmp_path: Path):
    folder = tmp_path / "wiki"
    folder.mkdir()
    (folder / "a.md").write_text("A")
    (folder / "~$notes.docx").write_bytes(b"somebody")
    [sound] = found_in(project, {"name": "wiki", "url": str(folder)})
    assert (sound.verdict, sound.fact) == ("ok", "1 file for **/*")
    (folder / "b.md").symlink_to(folder / "b.md")
    [faulty] = found_in(project, {"name": "wiki", "url": str(folder)})
    assert faulty.verdict == "warning"
    assert faulty.fact.startswith("1 file for **/*, 1 cannot be read (@wiki/b.md: ")


def test_silent_inputs_hold_the_doctor_for_one_limit_together(
    project: ProjectFolder, tmp_path: Path, silent: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inputs, "SECONDS", 0.5)
    url = f"postgresql+psycopg://ann:{SECRET}@127.0.0.1:{silent}/d"
    database = {"type": "sql", "url": url, "query": QUERY}
    began = time.monotonic()
    found = found_in(
        project,
        {"name": "one", **database},
        {"name": "two", **database},
        {"name": "cases", **cases(tmp_path / "cases.db", 3)},
    )
    assert time.monotonic() - began < 5
    assert [finding.verdict for finding in found] == ["warning", "warning", "ok"]
    assert found[0].fact.startswith("not listed within 0.5 s")
    assert SECRET not in str(found)


def test_a_bucket_that_answers_is_counted(project: ProjectFolder, bucket: Bucket):
    bucket.objects.create("a.md", b"A")
    bucket.hold(project)
    project.edit_settings(snapshots="data/snapshots")
    [found] = found_in(project, {"name": "bucket", "type": "s3", "url": bucket.address})
    assert (found.verdict, found.fact) == ("ok", "1 file for **/*")


def test_the_doctor_lists_the_inputs_behind_the_folder(project: ProjectFolder, tmp_path: Path):
    project.edit_settings(inputs=[{"name": "gone", "url": str(tmp_path / "gone")}])
    with project.open() as opened:
        subjects = [finding.what for finding in examine(opened)]
    assert subjects.index("input @gone") == subjects.index("input") + 1
