"""A project that an earlier version has made goes on: what it has paid for is not asked again."""

import json
import sqlite3
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest

from pipeline.files import sha256_of
from pipeline.project import Project
from tests.projects import ProjectFolder
from tests.servers.openai_server import OpenAIServer

HERE = Path(__file__).parent
"""``earlier_project.zip``: of ``index`` with builtin vectors: two text units failed for a passing
reason, four documents came later, and the run over all was killed as it asked.
``earlier_claims.zip``: of ``claims`` with resolution, gleanings and vectors of the endpoint, the
cache alone. ``earlier_batch.zip``: extractions are asked in a batch, which is under way.
``earlier_loaded.zip``: of ``fast``, loaded, with a dump of its PostgreSQL. In each
``expected.json``: how the version that made it went on, and its code."""

ANEW = {"documents", "relationships", "text_units", "relationship_records"}
"""Tables that are new or have other columns since: origins of titles, dates, headings, and no
ranks."""

ADDED = {"extractions": "attributes"}
"""Columns that are new, and empty in the tables of a project that did not ask for them."""


@dataclass(frozen=True)
class Earlier:
    folder: ProjectFolder
    expected: dict[str, Any]

    def read(self, name: str) -> str:
        return (self.folder.root / name).read_text(encoding="utf-8")

    @property
    def tables(self) -> dict[str, str]:
        return _as_before(self.expected["tables"])


def unpacked(name: str, root: Path, openai: OpenAIServer) -> Earlier:
    with zipfile.ZipFile(HERE / name) as archive:
        archive.extractall(root)
    expected = json.loads((root / "expected.json").read_text(encoding="utf-8"))
    return Earlier(ProjectFolder(root, openai.env), expected)


def steps_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    steps = report["steps"]
    if any(step["reason"] == "library" for step in steps):
        pytest.skip("it was made with other versions of libraries")
    return steps


def test_every_step_runs_again_and_no_reply_is_asked_again(tmp_path: Path, openai: OpenAIServer):
    """The code is another one, so each step runs; the cache answers all that was paid for."""
    earlier = unpacked("earlier_project.zip", tmp_path / "p", openai)
    folder, expected = earlier.folder, earlier.expected
    steps_of(folder.report("index", "index"))
    assert openai.count("chat") == expected["chats"]
    openai.forget()
    again = folder.report("index", "index")["steps"]
    assert {step["action"] for step in again} == {"reused"}
    assert openai.count("chat") == 0
    with folder.open(*folder.endpoint_overrides) as project:
        assert _as_before(file_hashes(project)) == earlier.tables


def test_a_batch_under_way_is_collected_and_nothing_is_asked_anew(
    tmp_path: Path, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    earlier = unpacked("earlier_batch.zip", tmp_path / "p", openai)
    for name, value in openai.env.items():
        monkeypatch.setenv(name, value)
    sent = json.loads(earlier.read("batch.json"))
    file = openai.file_store.add(sent["filename"], "batch", sent["content"].encode())
    batch = openai.batch_store.create(
        {
            "input_file_id": file.id, "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": sent["metadata"],
        }
    )  # fmt: skip
    assert (file.id, batch.id) == (sent["file"], sent["batch"])
    at_this_address(earlier.folder)
    for _ in range(50):
        report = earlier.folder.report("index", "index")
        if report["outcome"] != "waiting":
            break
    steps_of(report)
    assert [report["outcome"], len(openai.batches), openai.count("chat")] == ["completed", 1, 0]
    with earlier.folder.open() as project:
        assert _as_before(file_hashes(project)) == earlier.tables


def test_the_cache_of_an_earlier_version_answers_a_whole_run_of_claims(
    tmp_path: Path, openai: OpenAIServer
):
    """Every request of every step is what it was, to the byte: no table is there, and nothing is
    asked."""
    earlier = unpacked("earlier_claims.zip", tmp_path / "p", openai)
    calls = earlier.expected["calls"]
    here = [
        *earlier.folder.endpoint_overrides,
        f"models.embedding.default.base_url={openai.base_url}",
    ]
    with earlier.folder.open(*here) as project:
        asking = {step.id for step in project.workflow("claims").steps if step.models}
        report = project.index("claims")
        assert project.snapshots.manifest("claims").tables["community_reports"].rows
    assert set(calls) == asking
    assert report.outcome == "completed"
    assert {
        step.step: (step.calls, step.cached_calls) for step in report.steps if step.step in asking
    } == {step: (0, made) for step, made in calls.items()}
    assert (openai.count("chat"), openai.count("embeddings")) == (0, 0)


def at_this_address(folder: ProjectFolder) -> None:
    """A batch is known by its endpoint's address, which a test server has anew each time."""
    with folder.open() as project:
        digest = project.chat("default").endpoint.digest
    with closing(sqlite3.connect(folder.root / "data/cache.sqlite")) as cache, cache:
        assert cache.execute("UPDATE batches SET endpoint = ?", [digest]).rowcount == 1


def test_the_texts_that_an_earlier_version_has_loaded_keep_their_vectors(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    earlier = unpacked("earlier_loaded.zip", tmp_path / "p", openai)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE earlier")
    url = postgres_url.replace("/postgres?", "/earlier?")
    assert url != postgres_url
    restore(earlier.read("dump.sql"), url)
    monkeypatch.setenv("EARLIER_URL", url)
    before = vectors_of_texts(url)
    assert before
    report = earlier.folder.report("run", "fast")
    steps_of(report)
    assert vectors_of_texts(url) == before


def file_hashes(project: Project) -> dict[str, str]:
    """Of the tables as the earlier version wrote them, each one file without hashes of rows."""
    hashes = {}
    for name, snapshot in project.snapshots.manifest("index").tables.items():
        path = project.root / "as-before.parquet"
        table = project.snapshots.tables.read_arrow(snapshot)
        if added := ADDED.get(name):
            assert table[added].null_count == table.num_rows
            table = table.drop_columns([added])
        pq.write_table(
            table,
            path,
            compression="zstd",
            row_group_size=100_000,
            store_schema=False,
        )
        hashes[name] = sha256_of(path)
    return hashes


def _as_before(tables: dict[str, str]) -> dict[str, str]:
    return {name: sha256 for name, sha256 in tables.items() if name not in ANEW}


def restore(dump: str, url: str) -> None:
    """All of pg_dump's but psql's own commands."""
    statements = "\n".join(line for line in dump.splitlines() if not line.startswith("\\"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


def vectors_of_texts(url: str) -> dict[str, tuple[str, str]]:
    """Return the text and the vector of each loaded text unit by its id."""
    query = "SELECT id, content, embedding::text FROM lightrag_chunks"
    with psycopg.connect(url) as connection:
        return {id: (content, vector) for id, content, vector in connection.execute(query)}
