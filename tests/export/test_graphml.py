import json
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest

from pipeline.export.graph import graph_of, without_parallels
from pipeline.export.kinds import export
from tests.export.hostile import hostile_tables, source_of


def shown(text: str) -> str:
    return text.replace("\ufffe", "").replace("\uffff", "")


@pytest.fixture
def graph(tmp_path: Path) -> nx.Graph:
    exported = export("graphml", source_of(hostile_tables(), tmp_path), tmp_path / "out")
    assert list(exported.files) == ["graph.graphml"]
    return nx.read_graphml(exported.folder / "graph.graphml", force_multigraph=True)


def test_networkx_reads_the_same_graph(graph: nx.Graph):
    tables = hostile_tables()
    assert graph.is_directed()
    assert graph.number_of_nodes() == len(tables["entities"])
    assert graph.number_of_edges() == len(tables["relationships"])
    for entity in tables["entities"].itertuples():
        found = graph.nodes[entity.id]
        assert (found["name"], found["label"]) == (shown(entity.name), shown(entity.name))
        assert (found["description"], found["degree"]) == (shown(entity.description), entity.degree)
        assert found["text_unit_ids"] == "; ".join(entity.text_unit_ids)
        assert found["types"] == "; ".join(
            f"{shown(type['type'])} ({type['count']})" for type in entity.types
        )
    degree = dict(zip(tables["entities"]["id"], tables["entities"]["degree"], strict=True))
    for link in tables["relationships"].itertuples():
        found = graph.edges[link.source_entity_id, link.target_entity_id, link.id]
        assert found["keywords"] == shown("; ".join(link.keywords))
        assert (found["source_name"], found["target_name"]) == (
            shown(link.source),
            shown(link.target),
        )
        rank = degree[link.source_entity_id] + degree[link.target_entity_id]
        assert (found["weight"], found["rank"]) == (link.weight, rank)


def test_an_edge_has_its_statements_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Batches of both tables end at different relationships."""
    monkeypatch.setattr("pipeline.snapshots.table_rows.BATCH_ROWS", 3)
    tables = hostile_tables()
    one = tables["relationships"]["id"][0]
    dated = tables["statements"].query("relationship_id == @one")
    later = dated.assign(
        id="fact-later", type="chief", valid_from="2019", valid_to="2021-05",
        attributes='{"post": "first"}',
    )  # fmt: skip
    silent = tables["relationships"]["id"][1]
    tables["statements"] = pd.concat([tables["statements"], later]).query(
        "relationship_id != @silent"
    )
    exported = export("graphml", source_of(tables, tmp_path), tmp_path / "out")
    graph = nx.read_graphml(exported.folder / "graph.graphml", force_multigraph=True)
    found = {id: told.get("statements") for *_, id, told in graph.edges(keys=True, data=True)}
    assert found[silent] is None
    for link in tables["relationships"].itertuples():
        if link.id in (one, silent):
            continue
        [statement] = json.loads(found[link.id])
        assert statement == {
            "type": shown(link.keywords[0]) if len(link.keywords) else "",
            "description": shown(link.description),
            "text_unit_id": link.text_unit_ids[0],
        }
    assert {
        "type": "chief",
        "description": shown(dated["description"].iloc[0]),
        "text_unit_id": dated["text_unit_id"].iloc[0],
        "valid_from": "2019",
        "valid_to": "2021-05",
        "attributes": {"post": "first"},
    } in json.loads(found[one])


def test_parallel_edges_are_kept_and_characters_invalid_in_xml_removed(tmp_path: Path):
    """A verb of the user's own may write texts that are not cleaned."""
    tables = hostile_tables()
    twice = (
        tables["relationships"]
        .iloc[[0, 0]]
        .assign(id=["rel-one", "rel-two"], description="\x00bell\x07 \r\nend")
    )
    exported = export(
        "graphml", source_of({**tables, "relationships": twice}, tmp_path), tmp_path / "out"
    )
    graph = nx.read_graphml(exported.folder / "graph.graphml")
    assert {(key, data["description"]) for *_, key, data in graph.edges(keys=True, data=True)} == {
        ("rel-one", "bell \nend"), ("rel-two", "bell \nend"),
    }  # fmt: skip


def test_communities_and_places_are_attributes(graph: nx.Graph):
    tables = hostile_tables()
    assert (
        sum("x" in told for _, told in graph.nodes(data=True)) == len(tables["entities"]) - 1
    )  # one has no place
    for node in tables["placed_nodes"].dropna().itertuples():
        found = graph.nodes[node.entity_id]
        assert (found["x"], found["y"], found[f"community_{node.level}"]) == (
            node.x,
            node.y,
            node.community_id,
        )
        assert (found["level"], found["community"]) == (1, found["community_1"])


def test_without_communities_nodes_have_no_attributes_of_them(tmp_path: Path):
    tables = {name: table for name, table in hostile_tables().items() if not name.endswith("nodes")}
    exported = export("graphml", source_of(tables, tmp_path), tmp_path / "out")
    graph = nx.read_graphml(exported.folder / "graph.graphml")
    told = {name for _, told in graph.nodes(data=True) for name in told}
    assert told.isdisjoint({"community", "community_0", "level", "x", "y"})


def test_missing_values_become_no_attributes(tmp_path: Path):
    """Verbs of the user's own may write such values."""
    tables = hostile_tables()
    tables["relationships"]["description"] = None
    tables["relationships"]["weight"] = float("nan")
    edges = [told for *_, told in graph_of(source_of(tables, tmp_path)).edges(data=True)]
    assert not {name for told in edges for name in told} & {"description", "weight"}
    assert {type(cell) for told in edges for cell in told.values()} <= {str, int}


def test_only_the_chosen_entities_and_edges_between_them_are_in_the_graph(tmp_path: Path):
    tables = hostile_tables()
    chosen = set(tables["entities"]["id"][:2])
    graph = graph_of(source_of(tables, tmp_path), chosen)
    assert set(graph) == chosen
    links = tables["relationships"]
    between = links[links["source_entity_id"].isin(chosen) & links["target_entity_id"].isin(chosen)]
    assert {key for *_, key in graph.edges(keys=True)} == set(between["id"])


def test_the_simple_graph_is_written_and_read_by_networkx(tmp_path: Path):
    """As ``write_graphml(project.graph())``."""
    tables = hostile_tables()
    graph = without_parallels(graph_of(source_of(tables, tmp_path)))
    nx.write_graphml(graph, tmp_path / "mine.graphml")
    found = nx.read_graphml(tmp_path / "mine.graphml")
    assert dict(found.nodes(data=True)) == dict(graph.nodes(data=True))
    ids = {told["id"] for *_, told in found.edges(data=True)}
    assert ids == set(tables["relationships"]["id"])
    assert list(found.edges(data=True)) == list(graph.edges(data=True))


def test_an_empty_graph_is_written(tmp_path: Path):
    tables = hostile_tables()
    empty = {
        **tables,
        "entities": tables["entities"][:0],
        "relationships": tables["relationships"][:0],
    }
    exported = export("graphml", source_of(empty, tmp_path), tmp_path / "out")
    assert len(nx.read_graphml(exported.folder / "graph.graphml")) == 0
