"""The main job, end to end, over real servers."""

import asyncio
from pathlib import Path

import networkx as nx
import pytest

from pipeline.errors import StoreError, UsageError
from pipeline.query.stream import Done, Sources, Token
from pipeline.stores.base import Store
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer
from tests.stored import stored_hashes

MODES = ["naive", "local", "global", "hybrid", "mix"]


def _rows(store: Store) -> dict[str, int]:
    """Return how many rows the workspace has in each table of the database."""
    return {table: len(hashes) for table, hashes in stored_hashes(store).items()}


def test_index_loads_what_the_snapshots_hold(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
) -> None:
    project = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    first = project.report("run", "index")
    assert (first["outcome"], first["exit_code"]) == ("completed", 0)
    assert first["totals"]["calls"] == openai.count("chat") == len(DOCUMENTS)
    with project.open(*project.endpoint_overrides) as opened:
        rows = _rows(opened.stores.all[0])
        assert rows == {
            "documents": len(opened.table("documents")),
            "chunks": len(opened.table("text_units")),
            "entities": len(opened.table("entities")),
            "relationships": len(opened.table("relationships")),
            "nodes": len(opened.table("entities")),
            "edges": len(opened.table("relationships")),
            "sources": len(opened.table("entities")) + len(opened.table("relationships")),
            "statements": len(opened.table("statements")),
            **dict.fromkeys(("reports", "claims", "attributes", "communities"), 0),
        }
    assert rows == {
        table: counts["inserted"] for table, counts in first["load"]["postgres"].items()
    }

    second = project.report("run", "index")
    assert {step["action"] for step in second["steps"]} == {"reused"}
    assert second["totals"]["calls"] == 0
    assert openai.count("chat") == first["totals"]["calls"]
    for counts in second["load"]["postgres"].values():
        assert (counts["inserted"], counts["updated"], counts["deleted"]) == (0, 0, 0)
    assert project.report("status")["run_id"] == second["run_id"]


def test_a_graph_in_neo4j_gives_the_same_records(
    tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress, openai: OpenAIServer
) -> None:
    plain = new_project(tmp_path / "plain", postgres_url, endpoint=openai)
    graph = {
        "graph": "neo4j",
        "neo4j": {
            "uri": neo4j_address.uri,
            "user": neo4j_address.user,
            "password": neo4j_address.password,
            "database": neo4j_address.database,
        },
    }
    other = new_project(tmp_path / "other", postgres_url, endpoint=openai, stores=graph)
    assert plain.report("run", "index")["outcome"] == "completed"
    first = other.report("run", "index")
    assert first["outcome"] == "completed"
    with plain.open(*plain.endpoint_overrides) as a, other.open(*other.endpoint_overrides) as b:
        rows = _rows(b.stores.all[1])
        entities, relationships = len(b.table("entities")), len(b.table("relationships"))
        assert rows == {"sourced_nodes": entities, "sourced_edges": relationships, "communities": 0}
        assert first["load"]["neo4j"]["nodes"]["inserted"] == entities
        assert first["load"]["neo4j"]["relationships"]["inserted"] == relationships
        for mode in MODES:
            options = {
                "mode": mode,
                "hl_keywords": ("founding",),
                "ll_keywords": ("Brack Institute",),
            }
            assert a.query_data("Who founded it?", **options) | {
                "timings_ms": 0,
                "question_id": "",
            } == b.query_data("Who founded it?", **options) | {"timings_ms": 0, "question_id": ""}
    second = other.report("run", "index")
    for store in second["load"].values():
        for counts in store.values():
            assert (counts["inserted"], counts["updated"], counts["deleted"]) == (0, 0, 0)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    project = new_project(tmp_path_factory.mktemp("loaded") / "p", postgres_url)
    assert project.report("run", "fast")["outcome"] == "completed"
    return project


def test_the_graph_is_a_networkx_graph(loaded: ProjectFolder, tmp_path: Path) -> None:
    with loaded.open() as project:
        graph = project.graph()
        nx.write_graphml(graph, tmp_path / "mine.graphml")
        read = nx.read_graphml(tmp_path / "mine.graphml")
        assert dict(read.nodes(data=True)) == dict(graph.nodes(data=True))
        assert list(read.edges(data=True)) == list(graph.edges(data=True))
        around = project.picture("brack institute")
        names = {told["name"] for _, told in around.graph.nodes(data=True)}
        assert {"Brack Institute", "Idra Senn", "Anselm Torr"} <= names
        assert all({"x", "y"} <= told.keys() for _, told in around.graph.nodes(data=True))
        question = "Who founded the Brack Institute?"
        evidence, found = (
            project.picture(question, mode="local"),
            project.query_data(question, mode="local"),
        )
        assert {told for *_, told in evidence.graph.edges(data="id")} == {
            link["id"] for link in found["relationships"]
        }
        assert set(evidence.graph) >= {entity["id"] for entity in found["entities"]}
        assert question in evidence._repr_html_()


@pytest.mark.parametrize("mode", MODES)
def test_fast_answers_with_sources_and_without_a_key(loaded: ProjectFolder, mode: str) -> None:
    found = loaded.report("query", "Who founded the Brack Institute?", "--mode", mode)
    assert found["mode"] == mode
    assert found["answer"].startswith("No chat model is configured")
    assert not found["abstained"]
    texts = {chunk["id"]: chunk for chunk in found["chunks"]}
    assert any("Idra Senn" in chunk["content"] for chunk in texts.values())
    for chunk in texts.values():
        whole = DOCUMENTS[chunk["source"]]
        assert whole[chunk["start"] : chunk["end"]] == chunk["content"]
    assert {reference["document_id"] for reference in found["references"]} == {
        chunk["document_id"] for chunk in texts.values()
    }


def test_answers_stream_and_async(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> None:
    folder = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    assert folder.report("run", "fast")["outcome"] == "completed"
    with folder.open(*folder.endpoint_overrides) as project:
        answer = project.query("Who founded the Brack Institute?")
        assert answer.text
        assert not answer.abstained
        events = list(project.query_stream("Who founded the Brack Institute?"))
        assert isinstance(events[0], Sources)
        assert all(isinstance(event, Token) for event in events[1:-1])
        assert isinstance(events[-1], Done)
        assert "".join(event.text for event in events[1:-1] if isinstance(event, Token))

        async def ask() -> str:
            async for event in project.aquery_stream("Who founded the Brack Institute?"):
                assert event
            return (await project.aquery("Who founded the Brack Institute?")).text

        assert asyncio.run(ask()) == answer.text


def test_edit_rename_and_delete_reach_the_stores(tmp_path: Path, postgres_url: str) -> None:
    project = new_project(tmp_path / "p", postgres_url)
    project.report("run", "fast")
    project.delete("observatory.txt")
    project.write("harbour.txt", DOCUMENTS["harbour.txt"].replace("Mira Vale", "Dana Holt"))
    changed = project.report("run", "fast")
    assert changed["load"]["postgres"]["documents"]["deleted"] == 1
    fresh = new_project(tmp_path / "fresh", postgres_url, {})
    for name in ("harbour.txt", "institute.txt"):
        fresh.write(name, (project.root / "data/input" / name).read_text(encoding="utf-8"))
    fresh.report("run", "fast")
    with project.open() as a, fresh.open() as b:
        for name in a.snapshots.manifest("fast").tables:
            assert a.table(name).equals(b.table(name)) or name == "rejects", name
    found = project.report("query", "Who built the Harrow Light?")
    assert "Dana Holt" in str(found)
    assert "Mira Vale" not in str(found)


def test_communities_reuse_what_index_has_done(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
) -> None:
    project = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    project.report("index", "index")
    calls = openai.count("chat")
    report = project.report("index", "communities")
    ran = [step["step"] for step in report["steps"] if step["action"] == "ran"]
    assert ran == [
        "detect_communities",
        "report_communities",
        "compose_report_texts",
        "embed_reports",
    ]
    with project.open() as opened:
        communities = opened.table("communities", "communities")
        assert (
            openai.count("chat") - calls
            == len(communities)
            == len(opened.table("community_reports", "communities"))
        )
        links = opened.table("relationships", "communities")
        degree = opened.table("entities", "communities").set_index("id")["degree"]
        ranks = [
            degree[source] + degree[target]
            for source, target in links[["source_entity_id", "target_entity_id"]].itertuples(
                index=False
            )
        ]
        assert (
            links["rank"].tolist()
            == (links["source_degree"] + links["target_degree"]).tolist()
            == ranks
        )
        assert opened.graph("communities").number_of_nodes() == len(
            opened.table("entities", "communities")
        )


def test_a_query_before_a_load_says_what_to_do(tmp_path: Path, postgres_url: str) -> None:
    project = new_project(tmp_path / "p", postgres_url)
    with project.open() as opened, pytest.raises(UsageError, match="nothing is loaded"):
        opened.query("anything?")


def test_a_database_that_is_down_is_found_before_anything_is_paid(
    tmp_path: Path, openai: OpenAIServer
) -> None:
    project = new_project(
        tmp_path / "p", "postgresql://nobody@127.0.0.1:9/nothing", endpoint=openai
    )
    with project.open(*project.endpoint_overrides) as opened:
        with pytest.raises(StoreError, match=r"stores\.postgres\.url: .* does not answer"):
            opened.run("index")
        assert openai.count("chat") == 0
        assert opened.index("index").outcome == "completed"
