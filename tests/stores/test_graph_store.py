"""What every graph store does, on real servers."""

import threading
from collections.abc import Callable

import pytest

from pipeline.load.projection import type_name
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.text.ids import clean, clean_name, entity_id, relationship_id
from tests.records import column
from tests.stores.graphs import (
    LIVE,
    Graph,
    LoadableGraph,
    edge,
    expected_entities,
    expected_links,
    expected_relationships,
    expected_relationships_of,
    expected_shared_units,
    graph,
    node,
    random_graph,
)

SEEDS = range(3)
HOSTILE = [
    "`) DETACH DELETE n //",
    "x'; DROP TABLE graphmill_nodes; --",
    'quote " and \\ and \\u0027 and $workspace and {id}',
    "back`tick``s",
    "emoji 👩‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "\u202eright to left\u202c שלום مرحبا",
    "e\u0301 and \u00e9",
    "<SEP>##<|>",
    "%s %(id)s :id ?",
    "long " + "x" * 10_000,
]

OpenGraph = Callable[..., LoadableGraph]


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_equal_a_plain_reference(open_graph: OpenGraph, seed: int):
    stored = random_graph(seed)
    opened = open_graph()
    opened.load(stored)
    entities = [*stored.nodes["id"][:-13:-1], "ent-unknown"]
    unknown = relationship_id(entity_id("Unknown"), stored.nodes["id"][0])
    relationships = [*stored.edges["id"][:-21:-1], unknown, "rel-unknown"]
    assert opened.reads.entities(entities) == expected_entities(stored, entities)
    assert opened.reads.relationships(relationships) == expected_relationships(
        stored, relationships
    )
    for limit in (1, 7, 1000):
        found = opened.reads.relationships_of(entities, limit)
        assert found == expected_relationships_of(stored, entities, limit)
        assert opened.reads.links(entities, 2, limit) == expected_links(stored, entities, 2, limit)
    assert opened.reads.shared_units(entities) == expected_shared_units(stored, entities)


def test_a_read_without_ids_finds_nothing(open_graph: OpenGraph):
    opened = open_graph()
    opened.load(random_graph(0))
    assert not opened.reads.entities([])
    assert not opened.reads.relationships([])
    assert not opened.reads.relationships_of([], 10)
    assert not opened.reads.links([], 9, 10)
    assert not opened.reads.shared_units([])
    assert not opened.reads.relationships_of(["ent-unknown"], 10)


def test_an_id_asked_twice_is_found_once(open_graph: OpenGraph):
    opened = open_graph()
    stored = random_graph(0)
    opened.load(stored)
    id, link = stored.nodes["id"][0], stored.edges["id"][0]
    assert column(opened.reads.entities([id, id]), "id") == [id]
    assert column(opened.reads.relationships([link, link]), "id") == [link]
    assert len(opened.reads.relationships_of([id, id], 100)) == len(
        opened.reads.relationships_of([id], 100)
    )
    assert opened.reads.shared_units([id, id]) == opened.reads.shared_units([id])
    assert opened.reads.links([id, id], 9, 100) == opened.reads.links([id], 9, 100)


def test_second_load_writes_nothing(open_graph: OpenGraph):
    opened = open_graph()
    stored = random_graph(1)
    first = opened.load(stored)
    assert first["nodes"] == {
        "inserted": len(stored.nodes),
        "updated": 0,
        "deleted": 0,
        "unchanged": 0,
    }
    second = opened.load(stored)
    for table, rows in stored.tables(opened.store).items():
        unchanged = {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": len(rows)}
        assert second[table.removeprefix("sourced_")] == unchanged


@pytest.mark.parametrize("seed", SEEDS)
def test_a_load_over_another_equals_a_fresh_one(open_graph: OpenGraph, seed: int):
    before, after = random_graph(seed), random_graph(seed, content=1)
    over, fresh = open_graph("-over"), open_graph("-fresh")
    over.load(before)
    counts = over.load(after)
    assert all(
        counts[table][kind] for table in counts for kind in ("inserted", "updated", "deleted")
    )
    for table, rows in (("nodes", after.nodes), ("edges", after.edges)):
        gone = set(getattr(before, table)["id"]) - set(rows["id"])
        assert counts[table]["deleted"] == len(gone)
    fresh.load(after)
    found, expected = over.content(), fresh.content()
    for read in expected:
        assert found[read] == expected[read]
    assert found["entities"] == expected_entities(after, sorted(after.nodes["id"]))
    assert found["relationships"] == expected_relationships(after, sorted(after.edges["id"]))


def test_a_load_without_rows_deletes_every_row(open_graph: OpenGraph):
    opened = open_graph()
    opened.load(random_graph(2))
    opened.load(graph([]))
    assert not any(opened.content().values())


def test_a_workspace_does_not_see_rows_of_another(open_graph: OpenGraph):
    one, other = open_graph("-one"), open_graph("-other")
    first, second = random_graph(0), random_graph(0, content=1)
    one.load(first)
    other.load(second)
    one.load(graph([]))
    assert other.content()["entities"] == expected_entities(second, sorted(second.nodes["id"]))
    assert other.content()["relationships"] == expected_relationships(
        second, sorted(second.edges["id"])
    )
    assert not one.content()["entities"]


def test_direction_is_kept(open_graph: OpenGraph):
    opened = open_graph()
    there, back = edge("A", "B", "ACQUIRED"), edge("B", "A", "SUED")
    opened.load(graph([node("A"), node("B")], [there, back]))
    found = opened.reads.relationships([there[0], back[0]])
    assert [(link.source, link.target) for link in found] == [("A", "B"), ("B", "A")]
    assert len(opened.reads.relationships_of([entity_id("A")], 10)) == 2


def test_two_directions_are_one_neighbour(open_graph: OpenGraph):
    opened = open_graph()
    nodes = [node("A", units=["u"]), node("B", units=["u"])]
    opened.load(graph(nodes, [edge("A", "B"), edge("B", "A")]))
    assert column(opened.reads.shared_units([entity_id("A")]), "neighbours") == [1]


def test_hostile_names_are_kept_literally(open_graph: OpenGraph):
    names = [clean_name(name) for name in HOSTILE]
    texts = [clean(f"{name}\n\tsecond line\x00\r\n{name}") for name in HOSTILE]
    nodes = [
        (entity_id(name), name, type_name(name, "UNKNOWN"), text, [name], 1)
        for name, text in zip(names, texts, strict=True)
    ]
    edges = [
        edge(
            source,
            target,
            type_name(source, "RELATED"),
            description=text,
            keywords=[source, target],
            units=[source],
        )
        for source, target, text in zip(names, names[1:] + names[:1], texts, strict=True)
    ]
    hostile = graph(nodes, edges)
    bystander = open_graph("-bystander")
    bystander.load(random_graph(0))
    opened = open_graph()
    opened.load(hostile)
    assert opened.load(hostile)["nodes"]["unchanged"] == len(HOSTILE)
    content = opened.content()
    assert content["entities"] == expected_entities(hostile, sorted(hostile.nodes["id"]))
    assert content["relationships"] == expected_relationships(hostile, sorted(hostile.edges["id"]))
    assert len(bystander.content()["entities"]) == len(random_graph(0).nodes)


def test_hostile_ids_and_types_are_values(open_graph: OpenGraph):
    """They are values even if a projection has not cleaned them."""
    opened = open_graph()
    label = "X`) DETACH DELETE n // $("
    ids = sorted(name for name in HOSTILE if len(name) < 1000)
    nodes = [(id, id, label, "", [id], 0) for id in ids]
    link = edge("A", "B", label)
    opened.load(graph([*nodes, node("A"), node("B")], [link]))
    assert column(opened.reads.entities(ids), "type") == [label] * len(ids)
    assert column(opened.reads.relationships([*ids, link[0]]), "source") == ["A"]


def test_an_entity_is_no_neighbour_of_itself(open_graph: OpenGraph):
    opened = open_graph()
    link = edge("A", "A")
    opened.load(graph([node("A", units=["u"])], [link]))
    assert column(opened.reads.shared_units([entity_id("A")]), "neighbours") == [0]
    assert len(opened.reads.relationships([link[0]])) == 1
    assert len(opened.reads.relationships_of([entity_id("A")], 10)) == 1


def test_live_is_what_was_published(open_graph: OpenGraph):
    opened = open_graph()
    assert opened.store.live() is None
    opened.load(random_graph(0))
    assert opened.store.live() == LIVE


def test_a_load_that_is_not_published_is_not_shown(open_graph: OpenGraph):
    opened = open_graph()
    with pytest.raises(RuntimeError, match="pulled"):
        _publish_and_fail(opened)
    assert opened.store.live() is None


def _publish_and_fail(opened: LoadableGraph) -> None:
    with opened.store.writing(LIVE) as writer:
        writer.publish()
        raise RuntimeError("plug pulled")


def test_a_load_repairs_what_a_broken_load_left(open_graph: OpenGraph):
    stored = random_graph(0)
    opened = open_graph()
    opened.load(random_graph(0, content=1))
    broken = graph([node("A")], [])
    with pytest.raises(RuntimeError, match="pulled"):
        _load_halfway(opened, broken)
    opened.load(stored)
    assert opened.content()["entities"] == expected_entities(stored, sorted(stored.nodes["id"]))
    assert opened.content()["relationships"] == expected_relationships(
        stored, sorted(stored.edges["id"])
    )


def _load_halfway(opened: LoadableGraph, stored: Graph) -> None:
    with opened.store.writing(LIVE) as writer:
        table, nodes = next(iter(stored.tables(opened.store).items()))
        writer.apply(table, diff(with_hashes(nodes), writer.hashes(table)))
        raise RuntimeError("plug pulled")


def test_a_second_load_of_the_workspace_waits(open_graph: OpenGraph):
    opened, second = open_graph(), open_graph()
    finished = threading.Event()

    def load_second() -> None:
        second.load(random_graph(0))
        finished.set()

    thread = threading.Thread(target=load_second)
    with opened.store.writing(LIVE):
        thread.start()
        assert not finished.wait(0.5)
    assert finished.wait(20)
    thread.join()


def test_workspaces_load_side_by_side(open_graph: OpenGraph):
    one, other = open_graph("-one"), open_graph("-other")
    one.load(random_graph(0))
    with one.store.writing(LIVE) as writer:
        other.load(random_graph(0))
        writer.publish()
    assert other.store.live() == LIVE


@pytest.mark.parametrize("seed", SEEDS)
def test_both_stores_return_identical_records(
    seed: int, postgres: Callable[..., PostgresStore], neo4j: Callable[..., Neo4jStore]
):
    stored = random_graph(seed, content=2)
    relational, native = postgres(), neo4j()
    graphs = [LoadableGraph(relational, PostgresGraph(relational)), LoadableGraph(native, native)]
    for opened in graphs:
        opened.load(stored)
    ids = list(stored.nodes["id"])[3:15]
    links = list(stored.edges["id"])[::-2]
    for read in (
        lambda reads: reads.entities(ids),
        lambda reads: reads.relationships(links),
        lambda reads: reads.relationships_of(ids, 9),
        lambda reads: reads.shared_units(ids),
        lambda reads: reads.links(ids, 2, 20),
        lambda reads: reads.entities([]),
        lambda reads: reads.relationships_of([], 9),
        lambda reads: reads.shared_units([]),
    ):
        one, other = (read(opened.reads) for opened in graphs)
        assert one == other
