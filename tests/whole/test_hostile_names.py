"""What is poison to query languages, encodings and JSON goes from the input folder to the databases
as plain text."""

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.models.parse.lenient_json import keywords_of, name_of
from pipeline.project import Project
from pipeline.stores.reads import GraphStore
from pipeline.text.ids import clean, entity_id, relationship_id
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_replies import Messages, content_of, default_reply, wants_json
from tests.servers.openai_server import OpenAIServer, Reply
from tests.sizes import size
from tests.states import neo4j_rows, postgres_rows, set_args

POISON = [
    "back`tick``s` of `Ada",
    "'; DROP TABLE graphmill_nodes; --",
    '") DETACH DELETE n //',
    "`) MATCH (n) DETACH DELETE n //",
    'says "no" and \\ and \\u0027 and $workspace and {id} and %(id)s and :id',
    "tab\tand nul \x00 and bell \x07 and escape \x1b[31m",
    "line one\nline two\r\nline three\rfour",
    "\u202eright to left\u202c שלום مرحبا",
    "emoji 👩‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "lone \ud800 surrogates \udfff",
    "noncharacters \ufffe\uffff and \u2028 separators",
    "<SEP>##<|>(entity)",
    "e\u0301 and ﬁ and Ⅷ",
    "../../etc/passwd",
    "{{ 7 * 7 }} ${PATH} <script>alert(1)</script>",
]
NOTHING = ["\x00\x01", "\ud800", " \t\u3000 ", '""', "", "***"]
LONG = "Long " + "x" * 9995
METADATA = {
    "nul \x00 \ud800": {"deep\x00": ["\x00", "\udfff", {"\u0000": "a\u0000b"}]},
    "quotes": POISON,
    "large": [1e308, 5e-324, -0.0, 2**63, 10**400],
    "long": LONG,
    "'; DROP TABLE graphmill_documents; --": True,
    "": None,
}


def hostile_reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Every poison is an entity, its own type and a keyword, and related to the next."""
    if not wants_json(body):
        return default_reply(messages, body)
    names = [*POISON, *NOTHING, LONG]
    entities = [
        {"name": name, "type": name, "description": f"{name}\n\tof\x00 it"} for name in names
    ]
    relationships = [
        {
            "source": source, "target": target, "description": source, "keywords": [source, target],
            "strength": math.nan if place % 2 else math.inf,
        }
        for place, (source, target) in enumerate(zip(names, [*names[1:], names[0]], strict=True))
    ]  # fmt: skip
    escaped = "File" in content_of(messages[-1])
    return Reply(
        json.dumps({"entities": entities, "relationships": relationships}, ensure_ascii=escaped)
    )


def write_poison(project: ProjectFolder) -> None:
    records = [
        {"id": text, "title": text, "text": f"Text {text} ends.", **METADATA}
        for text in [*POISON, *NOTHING]
    ]
    lines = [json.dumps(record) for record in records]
    lines += [
        '{"id": "infinite", "text": "Too large.", "n": [1e400, -1e400]}',
        '{"text": "No number.", "n": NaN}',
    ]
    project.write("records.jsonl", "\n".join(lines))
    for place, text in enumerate(POISON):
        name = text.encode("utf-8", "replace").decode().replace("/", "∕").replace("\x00", "")
        project.write(f"{place} {name}.txt", f"File {place}\n\n{clean(text)}")
    (project.root / "data" / "input" / "controls.txt").write_bytes(
        b"Nul \x00 in \x1b[31m and \xed\xa0\x80 in a file."
    )
    project.write("nothing.txt", "\x00\x01 \x02")


@pytest.fixture(params=["postgres", "neo4j"])
def graph_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "postgres":
        return {"graph": "postgres"}
    address: Neo4jAddress = request.getfixturevalue("neo4j_address")
    return {
        "graph": "neo4j",
        "neo4j": {
            "uri": address.uri,
            "user": address.user,
            "password": address.password,
            "database": address.database,
        },
    }


def test_poison_is_text_from_the_input_folder_to_the_databases(
    tmp_path: Path,
    postgres_url: str,
    openai: OpenAIServer,
    graph_settings: dict[str, Any],
    request: pytest.FixtureRequest,
):
    neighbour = new_project(
        tmp_path / "neighbour", postgres_url, endpoint=openai, stores=graph_settings
    )
    with neighbour.open(*neighbour.endpoint_overrides) as opened:
        assert opened.run("fast").outcome == "completed"
    before = everything(request, postgres_url, neighbour)

    folder = new_project(
        tmp_path / "p", postgres_url, DOCUMENTS, openai, stores=graph_settings, max_reject_ratio=1
    )  # fmt: skip
    write_poison(folder)
    # The reply to every short text names all the poison: more than the limit that a run sets for
    # such a text.
    no_limit = "models.chat.default.max_tokens=100000"
    set_args(folder, extract_graph={"format": "json"})
    openai.reply = hostile_reply
    with folder.open(*folder.endpoint_overrides, no_limit) as project:
        report = project.run("index")
        assert report.outcome in ("completed", "completed_with_rejects")
        found = project.verify("index")
        assert found.agrees, found
        assert_literal(project, project.stores.graph)
        again = project.load("index").load
        assert again
        for tables in again.values():
            for counts in tables.values():
                assert counts["unchanged"] == sum(counts.values())
        for text in size(POISON[:3] + POISON[9:10], POISON):
            assert project.query(
                text, hl_keywords=(clean(text),), ll_keywords=(clean(text),)
            ).to_json()
    assert everything(request, postgres_url, neighbour) == before


def everything(request: pytest.FixtureRequest, url: str, project: ProjectFolder) -> dict[str, Any]:
    """What the databases hold of the project's workspace."""
    with project.open() as opened:
        workspace, graph = opened.settings.workspace, opened.settings.stores.graph
    rows: dict[str, Any] = postgres_rows(url, workspace)
    return rows | (
        neo4j_rows(request.getfixturevalue("neo4j_address"), workspace) if graph == "neo4j" else {}
    )


def assert_literal(project: Project, graph: GraphStore) -> None:
    names = [name_of(text) for text in POISON]
    found = graph.entities([entity_id(name) for name in names])
    assert {entity.id: entity.name for entity in found} == {entity_id(name): name for name in names}
    assert all("of it" in entity.description for entity in found)
    assert len(project.table("entities")) == len(names)
    links = [
        relationship_id(entity_id(one), entity_id(other))
        for one, other in itertools.pairwise(names)
    ]
    keywords = [list(link.keywords) for link in graph.relationships(links)]
    assert keywords == [list(keywords_of(pair)) for pair in itertools.pairwise(map(clean, POISON))]
    documents = project.table("documents")
    metadata = [json.loads(cell) for cell in documents["metadata"]]
    records = [entry for entry in metadata if "quotes" in entry]
    assert len(records) == len(POISON) + len(NOTHING)
    assert records[0]["quotes"] == [clean(text) for text in POISON]
    assert project.table("rejects")["message"].str.contains("is no JSON value").sum() == 2
    assert documents["source"].tolist() == [clean(source) for source in documents["source"]]
    assert records[0]["nul  "] == {"deep": ["", "", {"": "ab"}]}
    assert records[0]["long"] == LONG
