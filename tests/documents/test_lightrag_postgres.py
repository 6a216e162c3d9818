"""An index of LightRAG 1.5.7 in PostgreSQL gives what the same index in files gives."""

import json
import shutil
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import psycopg
import pytest
from psycopg.types.json import Jsonb

from pipeline.documents.lightrag import read_files
from pipeline.documents.lightrag_postgres import copy_tables
from pipeline.errors import DataError, SettingsError, StoreError, UsageError
from pipeline.runs.import_lightrag import open_index
from tests.projects import NO_STORE, new_project
from tests.servers.postgres_server import make_database
from tests.verbs.lightrag_folders import GRAPH, INDEX, edit_graph

DDL = """
CREATE TABLE LIGHTRAG_DOC_FULL (id VARCHAR(255), workspace VARCHAR(255), doc_name VARCHAR(1024),
    content TEXT, meta JSONB, sidecar_location TEXT, parse_format VARCHAR(32) DEFAULT 'raw',
    content_hash TEXT, process_options TEXT, chunk_options JSONB, parse_engine TEXT,
    PRIMARY KEY (workspace, id));
CREATE TABLE LIGHTRAG_DOC_STATUS (workspace varchar(255) NOT NULL, id varchar(255) NOT NULL,
    content_summary varchar(255), status varchar(64), file_path TEXT, chunks_list JSONB,
    PRIMARY KEY (workspace, id));
CREATE TABLE LIGHTRAG_DOC_CHUNKS (id VARCHAR(255), workspace VARCHAR(255),
    full_doc_id VARCHAR(256), chunk_order_index INTEGER, tokens INTEGER, content TEXT,
    file_path TEXT, llm_cache_list JSONB DEFAULT '[]', heading JSONB, sidecar JSONB,
    PRIMARY KEY (workspace, id));
CREATE TABLE LIGHTRAG_LLM_CACHE (workspace varchar(255) NOT NULL, id varchar(255) NOT NULL,
    original_prompt TEXT, return_value TEXT, chunk_id VARCHAR(255), cache_type VARCHAR(32),
    queryparam JSONB, PRIMARY KEY (workspace, id));
CREATE TABLE LIGHTRAG_VDB_ENTITY_made_up_8d (workspace VARCHAR(255), id VARCHAR(255));
CREATE TABLE lightrag_graph_nodes (workspace TEXT NOT NULL,
    namespace TEXT NOT NULL DEFAULT 'chunk_entity_relation', id TEXT NOT NULL,
    properties JSONB NOT NULL DEFAULT '{}', PRIMARY KEY (workspace, namespace, id));
CREATE TABLE lightrag_graph_edges (workspace TEXT NOT NULL,
    namespace TEXT NOT NULL DEFAULT 'chunk_entity_relation', src_id TEXT NOT NULL,
    tgt_id TEXT NOT NULL, properties JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (workspace, namespace, src_id, tgt_id));
"""
"""The tables of LightRAG 1.5.7, without columns of times and indexes."""
TABLES = ("documents", "text_units", "extractions", "entities", "relationships")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(INDEX, tmp_path_factory.mktemp("theirs") / "rag_storage"))
    edit_graph(folder)
    return folder


@pytest.fixture(scope="module")
def url(index: Path, postgres_url: str) -> str:
    address = make_database(postgres_url, "lightrag_index")
    files = list(read_files(index).values())
    documents, status, chunks, replies = files
    with psycopg.connect(address) as connection:
        connection.execute(DDL)
        for id, row in documents.items():
            connection.execute(
                "INSERT INTO lightrag_doc_full (workspace, id, doc_name, content, parse_format)"
                " VALUES ('w', %s, %s, %s, %s)",
                [id, row["file_path"], row["content"], row["parse_format"]],
            )
        for id, row in status.items():
            connection.execute(
                "INSERT INTO lightrag_doc_status (workspace, id, status, chunks_list)"
                " VALUES ('w', %s, %s, %s)",
                [id, row["status"], Jsonb(row["chunks_list"])],
            )
        for id, row in chunks.items():
            cells = [id, row["full_doc_id"], row["chunk_order_index"], row["content"]]
            connection.execute(
                "INSERT INTO lightrag_doc_chunks (workspace, id, full_doc_id, chunk_order_index,"
                " content, llm_cache_list) VALUES ('w', %s, %s, %s, %s, %s)",
                [*cells, Jsonb(row["llm_cache_list"])],
            )
        for id, row in replies.items():
            connection.execute(
                "INSERT INTO lightrag_llm_cache (workspace, id, return_value, cache_type)"
                " VALUES ('w', %s, %s, %s)",
                [id, row["return"], row["cache_type"]],
            )
        graph: Any = nx.read_graphml(index / GRAPH)
        for id, properties in graph.nodes(data=True):
            connection.execute(
                "INSERT INTO lightrag_graph_nodes (workspace, id, properties) VALUES ('w', %s, %s)",
                [id, Jsonb(properties)],
            )
        for source, target, properties in graph.edges(data=True):
            connection.execute(
                "INSERT INTO lightrag_graph_edges (workspace, src_id, tgt_id, properties)"
                " VALUES ('w', %s, %s, %s)",
                [source, target, Jsonb(properties)],
            )
    return address


def test_tables_give_what_the_folder_gives(index: Path, url: str, tmp_path: Path):
    one, two = (new_project(tmp_path / name, NO_STORE, {}) for name in ("one", "two"))
    with one.open() as of_folder:
        of_folder.import_lightrag(index)
        shown = two.invoke("import", "lightrag", url, "--json")
        assert shown.exit_code == 0, shown.stderr
        with two.open() as of_tables:
            for name in TABLES:
                expected = of_folder.table(name, "lightrag")
                pd.testing.assert_frame_equal(of_tables.table(name, "lightrag"), expected)
            again = of_tables.import_lightrag(url)
            assert {step.action for step in again.steps} == {"reused"}
            told = of_tables.rejects("lightrag")["row_id"].tolist()
    assert "lightrag_vdb_entity_made_up_8d" in told
    lines = [(p.root / "corrections.jsonl").read_text("utf-8").splitlines() for p in (one, two)]
    assert sorted(lines[0]) == sorted(lines[1])
    for path in two.root.rglob("*"):
        assert not (path.is_file() and url.encode() in path.read_bytes()), path


def test_a_workspace_must_be_named_if_there_are_several(url: str, tmp_path: Path):
    with pytest.raises(SettingsError, match="no workspace 'x' \\(have: w\\)"):
        copy_tables(url, "x", tmp_path / "copy")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO lightrag_doc_full (workspace, id) VALUES ('v', 'd')")
        connection.commit()
        try:
            with pytest.raises(SettingsError, match="no single workspace \\(have: v, w\\)"):
                copy_tables(url, "", tmp_path / "copy")
            copy_tables(url, "w", tmp_path / "copy")
        finally:
            connection.execute("DELETE FROM lightrag_doc_full WHERE workspace = 'v'")
    assert len(json.loads((tmp_path / "copy" / "kv_store_full_docs.json").read_text())) == 5


def test_other_databases_are_refused_without_their_address(
    url: str, postgres_url: str, tmp_path: Path
):
    other = make_database(postgres_url, "no_lightrag")
    with pytest.raises(SettingsError, match="name the database of LightRAG"):
        copy_tables(other, "", tmp_path / "copy")
    with psycopg.connect(other) as connection:
        connection.execute("CREATE TABLE lightrag_doc_full (id TEXT, workspace TEXT)")
        connection.execute("INSERT INTO lightrag_doc_full VALUES ('d', 'w')")
    with pytest.raises(DataError, match=r"only tables of LightRAG 1\.5\.7"):
        copy_tables(other, "", tmp_path / "copy")
    with pytest.raises(SettingsError) as told:
        copy_tables("postgresql://ann:secret@localhost:1/x?port", "", tmp_path / "copy")
    assert "secret" not in str(told.value)
    # Nothing listens at port 1. The next attempt may succeed, so the exit code is 1 and not 2.
    with pytest.raises(StoreError, match="the database does not answer") as refused:
        copy_tables("postgresql://ann:secret@127.0.0.1:1/x", "", tmp_path / "copy")
    assert (refused.value.exit_code, "secret" in str(refused.value)) == (1, False)
    assert not (tmp_path / "copy").exists()


def test_an_address_of_another_database_is_refused_without_it():
    with (
        pytest.raises(UsageError, match="mysql is not read; name LightRAG's") as refused,
        open_index("mysql://ann:secret@host/lightrag"),
    ):
        pass
    assert "secret" not in str(refused.value)


def test_a_table_that_may_not_be_read_is_told(url: str, tmp_path: Path):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    stranger = url.replace("postgres:@", "stranger:@")
    assert stranger != url
    with pytest.raises(StoreError, match=r"permission denied for table .*; allow reading it"):
        copy_tables(stranger, "", tmp_path / "copy")


def test_characters_that_graphml_lacks_end_no_import(url: str, tmp_path: Path):
    cells = {"entity_type": "be\x07ll", "description": "It \x1brings.\uffff"}
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO lightrag_graph_nodes (workspace, id, properties) VALUES ('w', %s, %s)",
            ["Old\x01 Margit", Jsonb(cells)],
        )
        connection.commit()
        try:
            copy_tables(url, "w", tmp_path / "copy")
        finally:
            connection.execute("DELETE FROM lightrag_graph_nodes WHERE id LIKE 'Old%'")
    graph: Any = nx.read_graphml(tmp_path / "copy" / GRAPH)
    assert graph.nodes["Old Margit"] == {"entity_type": "bell", "description": "It rings."}
