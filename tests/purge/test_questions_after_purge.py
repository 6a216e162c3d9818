"""Check questions between a purge and the next run, when some vectors are zeros."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from pipeline.project import Project
from pipeline.runs.adapters import postgres_store
from pipeline.stores.postgres.schema import VECTOR_TABLES
from pipeline.stores.reads import VectorSearch
from tests.purge.test_asks_nothing import SECRET_NAME, project_with
from tests.servers.openai_server import OpenAIServer

MODES = ("naive", "local", "global", "hybrid", "mix", "graph", "community")
QUESTION = "Who founded the Brack Institute?"
ALL = 10_000
ZEROS = "SELECT id FROM {} WHERE workspace = %s AND vector_norm(embedding) = 0"


def ids_of_zeros(postgres_url: str, workspace: str) -> dict[str, set[str]]:
    """Return the ids of the rows whose vector is zeros, by table."""
    with psycopg.connect(postgres_url) as connection:
        return {
            name: {
                id for (id,) in connection.execute(ZEROS.format(table.name).encode(), [workspace])
            }
            for name, table in VECTOR_TABLES.items()
        }


def numbers_in(found: Any) -> list[float]:
    if isinstance(found, dict):
        return [number for value in found.values() for number in numbers_in(value)]
    if isinstance(found, list):
        return [number for value in found for number in numbers_in(value)]
    return [found] if isinstance(found, float) else []


def hits(project: Project, vector: np.ndarray) -> dict[str, list[tuple[str, float]]]:
    """Return all that a search of each table finds."""
    store = postgres_store(project.settings, project.root)
    found = {name: store.nearest([VectorSearch(name, vector, ALL)])[0] for name in VECTOR_TABLES}
    store.close()
    return found


@pytest.mark.parametrize("exact_below", [2, 5000], ids=["by index", "by comparing all"])
def test_rows_without_a_vector_are_no_hits_and_no_score_is_nan(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, exact_below: int
):
    stores = {"postgres": {"url": postgres_url, "exact_below": exact_below}}
    folder = project_with(tmp_path / "mill", postgres_url, openai, stores=stores)
    with folder.open() as project:
        project.run("communities")
        project.purge(SECRET_NAME)
        workspace = project.settings.workspace
        with psycopg.connect(
            postgres_url
        ) as connection:  # as where a purge finds no vector of a shared text
            connection.execute(
                "UPDATE lightrag_chunks SET embedding = subvector(embedding, 1,"
                " vector_dims(embedding)) * array_fill(0, ARRAY[vector_dims(embedding)])::vector"
                " WHERE workspace = %s AND id = (SELECT min(id) FROM lightrag_chunks WHERE"
                " workspace = %s AND content LIKE '%%Brack Institute%%')",
                [workspace, workspace],
            )
        zeros = ids_of_zeros(postgres_url, workspace)
        assert len(zeros["chunks"]) == 1
        assert zeros["entities"]
        live = project.stores.vectors.live()
        assert live is not None
        vector = project.embedding_like(live.embedding).embed([QUESTION])[0]
        for table, found in hits(project, vector).items():
            assert zeros[table].isdisjoint(id for id, _ in found)
            assert all(math.isfinite(score) for _, score in found)
        for mode in MODES:
            found = project.query_data(QUESTION, mode=mode)
            assert all(
                math.isfinite(number) for number in numbers_in(json.loads(json.dumps(found)))
            )
        store = postgres_store(project.settings, project.root)
        passages = store.chunks(sorted(zeros["chunks"]), vector)
        store.close()
        assert [passage.score for passage in passages] == [0.0]
