"""The number of statements of a question does not depend on its options.

Each statement is a round trip to a database that may be far away.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pipeline.project import Project
from pipeline.stores.postgres import database
from tests.projects import DOCUMENTS, new_project

MOST = {"naive": 4, "local": 9, "global": 7, "hybrid": 11, "mix": 11, "graph": 15}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Project]:
    folder: Path = tmp_path_factory.mktemp("statements") / "p"
    with new_project(folder, postgres_url, DOCUMENTS).open() as project:
        project.run("fast")
        project.query_data(
            "Who built it?", mode="graph"
        )  # what is done once: a connection, what is remembered
        yield project


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the statements sent from now on; no connection is considered idle meanwhile."""
    monkeypatch.setattr(database, "IDLE_SECONDS", math.inf)
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def counted(cursor: psycopg.Cursor, query: Any, *rest: Any, **options: Any) -> psycopg.Cursor:
        sent.append(str(query))
        return execute(cursor, query, *rest, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    return sent


@pytest.mark.parametrize("mode", MOST)
@pytest.mark.parametrize("top_k", [2, 60])
def test_a_question_takes_no_more_statements(
    project: Project, statements: list[str], mode: str, top_k: int
):
    project.query_data("Who built the Harrow Light?", mode=mode, top_k=top_k, chunk_top_k=top_k)
    assert 0 < len(statements) <= MOST[mode], "\n".join(statements)
