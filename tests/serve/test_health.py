"""/health asks the stores; queries outlive a restart of the database."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import text

from pipeline.serve import health
from pipeline.stores.postgres.reads import PostgresReads
from tests.projects import ProjectFolder, new_project
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION, events_in, serving, wait_until
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer, Reply
from tests.servers.postgres_server import OwnServer, server_folder


@pytest.fixture
def database() -> Iterator[OwnServer]:
    with server_folder() as folder:
        yield OwnServer(folder)


def test_it_turns_bad_and_good_again_with_the_database(
    tmp_path: Path, database: OwnServer, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", database.start())
    openai.reply = lambda messages, body: Reply("An answer of some length. " * 4, pause=0.1)
    settings = [*models_of(openai), "cache=''", "query.mode=naive", "serve.api_key=k"]
    with folder.open(*settings) as project, serving(project) as served:
        status, body = served.health()
        assert (status, body["status"], body["stores"]["postgres"]["status"]) == (
            503,
            "unavailable",
            "empty",
        )
        assert "nothing is loaded; run 'graphmill run'" in body["problem"]
        refused = served.ask()
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "nothing_loaded")

        project.run("fast")
        status, body = served.health()
        assert (status, body["status"], body["workflow"], body["chat"]) == (200, "ok", "fast", True)
        assert served.ask().status_code == 200

        with served.client.stream("POST", "/query/stream", json={"query": QUESTION}) as answer:
            pieces = answer.iter_text()
            begun = next(pieces)
            database.kill()
            status, body = served.health()
            assert (status, body["stores"]["postgres"]["status"]) == (503, "unavailable")
            assert "the embedded one starts with any command" in body["problem"]
            told = httpx2.get(f"{served.url}/health")
            assert told.status_code == 503
            assert (told.json()["problem"], told.json()["stores"]["postgres"]["problem"]) == (
                "",
                "",
            )
            assert events_in(begun + "".join(pieces))[-1].name == "done"  # it had all that it needs

        threading.Timer(1, database.start).start()
        assert served.ask("/query/data").status_code == 200  # which has waited for the database
        wait_until(lambda: served.health()[0] == 200)


def test_a_database_that_stays_away(folder: ProjectFolder):
    away = "stores.postgres.url=postgresql://someone:secret@127.0.0.1:9/none"
    with folder.open(away) as project, serving(project) as served:
        status, body = served.health()
        assert (status, body["stores"]["postgres"]["status"]) == (503, "unavailable")
        for path in ("/query", "/query/data", "/query/stream"):
            answer = served.ask(path)
            assert (answer.status_code, answer.json()["error"]["type"]) == (
                503,
                "store_unavailable",
            )
            assert int(answer.headers["retry-after"]) > 0
            assert "secret" not in answer.text


def test_vectors_of_another_model_cannot_be_searched(folder: ProjectFolder):
    other = [
        "models.embedding.default.base_url=http://127.0.0.1:9",
        "models.embedding.default.model=other",
    ]
    with (
        folder.open(*other, "models.embedding.default.provider=openai") as project,
        serving(project) as served,
    ):
        status, body = served.health()
        assert (status, body["stores"]["postgres"]["status"]) == (503, "ok")
        assert "its vectors were made by" in body["problem"]


def test_what_an_earlier_version_has_loaded_is_not_well(folder: ProjectFolder):
    with folder.open("workspace=earlier") as project:
        project.load("fast")
        vectors = project.stores.vectors
        assert isinstance(vectors, PostgresReads)
        with vectors.connection() as connection:
            connection.execute(
                text("UPDATE graphmill_live SET schema_version = 6 WHERE workspace = 'earlier'")
            )
        with serving(project) as served:
            status, body = served.health()
            assert (status, body["status"], body["stores"]["postgres"]["status"]) == (
                503,
                "unavailable",
                "ok",
            )
            assert "loaded by an earlier graphmill (schema 6)" in body["problem"]
            assert served.ask("/query/data").status_code == 503
        project.drop_workspace("earlier")


def test_each_store_is_asked(
    folder: ProjectFolder, neo4j_address: Neo4jAddress, monkeypatch: pytest.MonkeyPatch
):
    user, password = (
        f"stores.neo4j.user={neo4j_address.user}",
        f"stores.neo4j.password={neo4j_address.password}",
    )
    neo4j = ["stores.graph=neo4j", user, password]
    with (
        folder.open(*neo4j, f"stores.neo4j.uri={neo4j_address.uri}") as project,
        serving(project) as served,
    ):
        _, body = served.health()
        assert [body["stores"][name]["status"] for name in ("postgres", "neo4j")] == ["ok", "empty"]
    with (
        folder.open(*neo4j, "stores.neo4j.uri=bolt://127.0.0.1:9") as project,
        serving(project) as served,
    ):
        monkeypatch.setattr(health, "PATIENCE", 20.0)
        status, body = served.health()
        assert (status, body["stores"]["neo4j"]["status"]) == (503, "unavailable")
        assert "bolt://127.0.0.1:9 does not answer" in body["problem"]


def test_a_store_that_hangs_keeps_no_other_from_answering(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(health, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        neo4j = [
            "stores.graph=neo4j",
            f"stores.neo4j.uri=bolt://127.0.0.1:{silent.getsockname()[1]}",
        ]
        with (
            folder.open(*neo4j, "stores.neo4j.password=p") as project,
            serving(project, ready=False) as served,
        ):
            for _ in range(4):
                _, body = served.health()
                states = {name: store["status"] for name, store in body["stores"].items()}
                assert states == {"postgres": "ok", "neo4j": "unavailable"}
                assert "neo4j: does not answer within" in body["problem"]


def test_those_who_ask_at_once_are_told_the_same(folder: ProjectFolder):
    with folder.open() as project, serving(project) as served:
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(served.health()[0])) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 20
