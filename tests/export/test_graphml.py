from pathlib import Path

import networkx as nx
import pytest

from pipeline.export.kinds import export
from tests.export.hostile import hostile_tables, source_of


def shown(text: str) -> str:
    return text.replace("\ufffe", "").replace("\uffff", "")


@pytest.fixture
def graph(tmp_path: Path) -> nx.Graph:
    exported = export("graphml", source_of(hostile_tables(), tmp_path), tmp_path / "out")
    assert list(exported.files) == ["graph.graphml"]
    return nx.read_graphml(exported.folder / "graph.graphml", force_multigraph=True)


def test_networkx_finds_the_same_graph(graph: nx.Graph):
    tables = hostile_tables()
    assert graph.is_directed()
    assert graph.number_of_nodes() == len(tables["entities"])
    assert graph.number_of_edges() == len(tables["relationships"])
    for entity in tables["entities"].itertuples():
        found = graph.nodes[entity.id]
        assert (found["name"], found["label"]) == (shown(entity.name), shown(entity.name))
        assert (found["description"], found["degree"]) == (shown(entity.description), entity.degree)
        assert found["text_unit_ids"] == "; ".join(entity.text_unit_ids)
        assert found["types"] == "; ".join(f"{shown(type['type'])} ({type['count']})" for type in entity.types)
    degree = dict(zip(tables["entities"]["id"], tables["entities"]["degree"], strict=True))
    for link in tables["relationships"].itertuples():
        found = graph.edges[link.source_entity_id, link.target_entity_id, link.id]
        assert found["keywords"] == shown("; ".join(link.keywords))
        assert (found["source_name"], found["target_name"]) == (shown(link.source), shown(link.target))
        rank = degree[link.source_entity_id] + degree[link.target_entity_id]
        assert (found["weight"], found["rank"]) == (link.weight, rank)


def test_parallel_edges_and_characters_that_xml_has_not(tmp_path: Path):
    """From a verb of somebody else, which has cleaned nothing."""
    tables = hostile_tables()
    twice = tables["relationships"].iloc[[0, 0]].assign(id=["rel-one", "rel-two"], description="\x00bell\x07 \r\nend")
    exported = export("graphml", source_of({**tables, "relationships": twice}, tmp_path), tmp_path / "out")
    graph = nx.read_graphml(exported.folder / "graph.graphml")
    assert {(key, data["description"]) for *_, key, data in graph.edges(keys=True, data=True)} == {
        ("rel-one", "bell \nend"), ("rel-two", "bell \nend"),
    }  # fmt: skip


def test_an_empty_graph(tmp_path: Path):
    tables = hostile_tables()
    empty = {**tables, "entities": tables["entities"][:0], "relationships": tables["relationships"][:0]}
    exported = export("graphml", source_of(empty, tmp_path), tmp_path / "out")
    assert len(nx.read_graphml(exported.folder / "graph.graphml")) == 0
