"""Check that every table of PostgreSQL is verified and repaired, so that a table added later is not
forgotten."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from pipeline.engine.run_options import RunOptions
from pipeline.stores.postgres.schema import (
    DERIVED_TABLES,
    METADATA,
    SORT_COLUMNS,
    TABLES,
    UNVERIFIED_TABLES,
)
from tests.projects import write_yaml
from tests.servers.openai_replies import Messages, Reply, default_reply
from tests.servers.openai_server import OpenAIServer
from tests.states import postgres_rows
from tests.verify.test_between import communities

WORKFLOW = "claims"
ONTOLOGY = {
    "entity_types": [{"name": "PERSON", "properties": ["height"]}],
    "otherwise": "keep",
}


def with_height(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Give the first entity of each text a property, beside what is usually said."""
    usual = default_reply(messages, body)
    found = re.match(r'\("entity"<\|>(.+?)<\|>', usual.text or "")
    if found is None:
        return usual
    return replace(usual, text=f'("property"<|>{found[1]}<|>height<|>2)##\n{usual.text}')


def test_each_table_of_the_schema_is_compared_or_a_note_of_a_load():
    compared = {table.name for table in (*TABLES.values(), *DERIVED_TABLES.values())}
    notes = {table.name for table in UNVERIFIED_TABLES}
    assert set(SORT_COLUMNS) == compared
    assert compared.isdisjoint(notes)
    assert set(METADATA.tables) == compared | notes


def test_a_missing_row_of_any_table_is_found_and_restored(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    openai.reply = with_height
    folder = communities(tmp_path / "every", postgres_url, openai)
    write_yaml(folder.root / "ontology.yaml", ONTOLOGY)
    with folder.open(*folder.endpoint_overrides) as project:
        adopted = project.vocabulary_to_adopt()
        assert adopted is not None
        project.adopt_ontology(adopted)
    folder.report("run", WORKFLOW)
    with folder.open(*folder.endpoint_overrides) as project:
        workspace = project.settings.workspace
        before = postgres_rows(postgres_url, workspace)
        assert [table for table in SORT_COLUMNS if not before[table]] == []
        for table in SORT_COLUMNS:
            with psycopg.connect(postgres_url) as connection:
                connection.execute(
                    f"DELETE FROM {table} WHERE workspace = %s AND ctid = "
                    f"(SELECT min(ctid) FROM {table} WHERE workspace = %s)".encode(),
                    [workspace, workspace],
                )
            found = project.verify(WORKFLOW)
            assert not found.agrees, table
            project.load(WORKFLOW, options=RunOptions(full=found.repair.endswith("--full")))
            assert postgres_rows(postgres_url, workspace)[table] == before[table]
        assert project.verify(WORKFLOW).agrees
