"""What was done to Neo4j by hand, or by a load that was cut off, is found by name and repaired."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import pytest

from pipeline.load.loader import LoadOptions, load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.neo4j.writer import Neo4jWriter
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphState
from pipeline.stores.records import Entity
from pipeline.text.ids import entity_id, relationship_id
from pipeline.verify.verify import Verification, verify
from tests.load.tables import corpus, save
from tests.sizes import size

PEOPLE = ["Ada", "Babbage", "Cayley", "De Morgan", "Euler", "Faraday"]
CORPUS = corpus(
    {"a.txt": "All of them."},
    dict.fromkeys(PEOPLE, "person"),
    [(one, other, ["met"]) for one, other in itertools.pairwise(PEOPLE)],
)
OTHER = corpus(
    {"a.txt": "Some."}, {"Ada": "person", "Gauss": "person"}, [("Ada", "Gauss", ["met"])]
)
MAX_TYPES = 100

OpenNeo4j = Callable[..., Neo4jStore]


@pytest.fixture
def manifest(snapshots: SnapshotStore) -> Manifest:
    return save(CORPUS, snapshots)


@pytest.fixture
def loaded(neo4j: OpenNeo4j, manifest: Manifest, snapshots: SnapshotStore) -> Neo4jStore:
    store = neo4j()
    load(manifest, snapshots, [store], MAX_TYPES)
    return store


def change(store: Neo4jStore, query: LiteralString, **parameters: object) -> None:
    found = store.driver.execute_query(
        query, {"w": store.workspace, **parameters}, database_=store.database
    )
    assert found.summary.counters.contains_updates


def differences(found: Verification) -> dict[str, dict[str, int]]:
    return {
        check.table: {difference.kind: difference.rows for difference in check.differences}
        for check in found.tables
        if check.differences
    }


ADA = (
    "MATCH (a:Entity {workspace: $w, displayName: 'Ada'})-[r]->(b:Entity {displayName: 'Babbage'}) "
)
STRAYS: dict[str, LiteralString] = {
    "copied elsewhere": (
        ADA + "MATCH (c:Entity {workspace: $w, displayName: 'Cayley'}) "
        "CREATE (c)-[copy:MET]->(a) SET copy = properties(r)"
    ),
    "moved": (
        ADA + "MATCH (c:Entity {workspace: $w, displayName: 'Cayley'}) "
        "CREATE (c)-[copy:MET]->(a) SET copy = properties(r) DELETE r"
    ),
    "turned": ADA + "CREATE (b)-[copy:MET]->(a) SET copy = properties(r) DELETE r",
    "copied": ADA + "CREATE (a)-[copy:MET]->(b) SET copy = properties(r)",
    "copied with another hash": (
        ADA + "CREATE (a)-[copy:MET]->(b) SET copy = properties(r), copy.row_hash = 'x'"
    ),
}


NEXT_LOADS = ("the same", "full", "another version")


@pytest.mark.parametrize(
    ("stray", "next_load"),
    size(
        [(stray, NEXT_LOADS[number % len(NEXT_LOADS)]) for number, stray in enumerate(STRAYS)],
        [(stray, next_load) for stray in STRAYS for next_load in NEXT_LOADS],
    ),
)
def test_misplaced_relationships_are_deleted_by_each_kind_of_load(
    loaded: Neo4jStore, manifest: Manifest, snapshots: SnapshotStore, stray: str, next_load: str
):
    change(loaded, STRAYS[stray])
    for quick in (True, False):
        found = verify(manifest, snapshots, [loaded], MAX_TYPES, quick)
        assert differences(found) == {"relationships": {"differing": 1}}
        assert found.repair == "graphmill load index"
    if next_load == "another version":
        manifest = save(OTHER, snapshots)
    load(manifest, snapshots, [loaded], MAX_TYPES, LoadOptions(full=next_load == "full"))
    assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees


def test_deleted_rows_are_found_by_name_and_a_load_repairs_exactly_those(
    loaded: Neo4jStore, manifest: Manifest, snapshots: SnapshotStore
):
    lost = random.Random(5).sample(sorted(loaded.hashes("sourced_edges")["id"].to_pylist()), 3)
    change(loaded, "MATCH (:Entity {workspace: $w})-[r]->() WHERE r.id IN $ids DELETE r", ids=lost)
    found = verify(manifest, snapshots, [loaded], MAX_TYPES, quick=True)
    assert differences(found) == {"relationships": {"missing": 3}}
    [missing] = [difference for check in found.tables for difference in check.differences]
    links = CORPUS["relationships"].set_index("id")
    assert {row.id: row.name for row in missing.examples} == {
        id: f"{links.loc[id, 'source']} -> {links.loc[id, 'target']}" for id in lost
    }
    counts = load(manifest, snapshots, [loaded], MAX_TYPES)["neo4j"]
    assert counts["relationships"] == {"inserted": 3, "updated": 0, "deleted": 0, "unchanged": 2}
    names = random.Random(6).sample(PEOPLE, 3)
    change(
        loaded,
        "MATCH (n:Entity {workspace: $w}) WHERE n.displayName IN $names DETACH DELETE n",
        names=names,
    )
    found = verify(manifest, snapshots, [loaded], MAX_TYPES)
    [missing] = [d for check in found.tables if check.table == "nodes" for d in check.differences]
    assert (missing.kind, [row.name for row in missing.examples]) == ("missing", sorted(names))
    counts = load(manifest, snapshots, [loaded], MAX_TYPES)["neo4j"]
    assert counts["nodes"] == {"inserted": 3, "updated": 0, "deleted": 0, "unchanged": 3}
    assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees


ALTERED: Sequence[LiteralString] = (
    "REMOVE n:PERSON SET n:CITY",
    "SET n.name_key = 'nobody'",
    "REMOVE n.source_count",
    "SET n.source_id = []",
    "SET n.degree = 'many'",
    "REMOVE n.degree",
    "SET n.description = 7",
    "REMOVE n.displayName",
)


@pytest.mark.parametrize("altered", [ALTERED[:4], ALTERED[4:]], ids=["first half", "second half"])
def test_rows_changed_under_their_hashes_are_found_and_repaired_by_a_full_load(
    loaded: Neo4jStore,
    manifest: Manifest,
    snapshots: SnapshotStore,
    altered: Sequence[LiteralString],
):
    """Each change is made to a person of its own, so that one load repairs several."""
    persons = PEOPLE[-len(altered) :]
    for person, deed in zip(persons, altered, strict=True):
        change(loaded, "MATCH (n:Entity {workspace: $w, name_key: $key}) " + deed, key=person)
    found = verify(manifest, snapshots, [loaded], MAX_TYPES)
    nodes = [each for check in found.tables if check.table == "nodes" for each in check.differences]
    assert [(each.kind, each.rows) for each in nodes] == [("altered", len(altered))]
    assert {row.id for row in nodes[0].examples} == {entity_id(person) for person in persons}
    assert found.repair == "graphmill load index --full"
    load(manifest, snapshots, [loaded], MAX_TYPES, LoadOptions(full=True))
    assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees


MEMBERS = "MATCH (n)-[r:IN_COMMUNITY]->(c:Community {workspace: $w, title: 'Of Ada'}) "
GONE = {
    "a member": MEMBERS + "DELETE r",
    "a parent": "MATCH (:Community {workspace: $w, title: 'Of Ada'})-[r:PARENT]->() DELETE r",
    "a community": "MATCH (c:Community {workspace: $w, title: 'Of Ada'}) DETACH DELETE c",
}


@pytest.mark.parametrize("gone", GONE)
def test_a_missing_member_or_parent_of_a_community_is_found(
    loaded: Neo4jStore, manifest: Manifest, snapshots: SnapshotStore, gone: str
):
    change(loaded, GONE[gone])
    kind = "missing" if gone == "a community" else "differing"
    for quick in (True, False):
        found = verify(manifest, snapshots, [loaded], MAX_TYPES, quick)
        assert differences(found) == {"communities": {kind: 1}}
        assert [
            row.name for check in found.tables for d in check.differences for row in d.examples
        ] == ["Of Ada"]
        assert found.repair == "graphmill load index"
    counts = load(manifest, snapshots, [loaded], MAX_TYPES)["neo4j"]["communities"]
    assert counts["inserted"] + counts["updated"] == 1
    assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees


def test_an_exchanged_member_is_found_by_reading_all_rows(
    loaded: Neo4jStore, manifest: Manifest, snapshots: SnapshotStore
):
    change(
        loaded,
        MEMBERS
        + "MATCH (o:Entity {workspace: $w, displayName: 'Euler'}) CREATE (o)-[:IN_COMMUNITY]->(c)"
        " DELETE r",
    )
    assert verify(manifest, snapshots, [loaded], MAX_TYPES, quick=True).agrees
    found = verify(manifest, snapshots, [loaded], MAX_TYPES)
    assert differences(found) == {"communities": {"altered": 1}}
    load(manifest, snapshots, [loaded], MAX_TYPES, LoadOptions(full=True))
    assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees


@pytest.mark.parametrize("killed_at", ["members", "parents"])
def test_communities_that_were_cut_off_are_finished(
    neo4j: OpenNeo4j, snapshots: SnapshotStore, monkeypatch: pytest.MonkeyPatch, killed_at: str
):
    store, other, manifest = neo4j(atomic_rows=0), save(OTHER, snapshots), save(CORPUS, snapshots)
    load(other, snapshots, [store], MAX_TYPES)
    write = Neo4jWriter._write_rows

    def cut_off(writer: Neo4jWriter, table: str, *rest: Any) -> None:
        if table == killed_at:
            raise RuntimeError("killed")
        write(writer, table, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Neo4jWriter, "_write_rows", cut_off)
        with pytest.raises(RuntimeError, match="killed"):
            load(manifest, snapshots, [store], MAX_TYPES)
    load(manifest, snapshots, [store], MAX_TYPES)
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_a_node_without_its_name_key_is_written_again(
    loaded: Neo4jStore, manifest: Manifest, snapshots: SnapshotStore
):
    change(loaded, "MATCH (n:Entity {workspace: $w, displayName: 'Ada'}) REMOVE n.name_key")
    found = verify(manifest, snapshots, [loaded], MAX_TYPES, quick=True)
    assert differences(found) == {"nodes": {"differing": 1}}
    assert load(manifest, snapshots, [loaded], MAX_TYPES)["neo4j"]["nodes"]["updated"] == 1
    assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees


def test_readers_see_a_missing_property_as_empty(
    loaded: Neo4jStore, postgres: Callable[..., PostgresStore]
):
    ids = [entity_id(name) for name in ("Ada", "Babbage")]
    change(
        loaded,
        "MATCH (n:Entity {workspace: $w, displayName: 'Ada'})-[r]->() "
        "SET n = {workspace: n.workspace, id: n.id}, r = {workspace: r.workspace, id: r.id}",
    )
    change(
        loaded,
        "MATCH (a:Entity {workspace: $w, displayName: 'Babbage'}), (b:Entity {workspace: $w,"
        " displayName: 'Euler'}) CREATE (a)-[:MET {workspace: $w}]->(b)",
    )

    def read(vectors: object, graph: Neo4jStore) -> list:
        link = graph.relationships([relationship_id(*ids)])
        return [graph.entities(ids), link, graph.relationships_of(ids, 9), graph.shared_units(ids)]

    (entities, link, around, units), _ = read_together(postgres(), loaded, read)
    assert entities[0] == Entity(
        ids[0], name="", type="", description="", degree=0, text_unit_ids=[]
    )
    [row] = link
    assert (row.source, row.target, row.description, row.keywords) == ("", "Babbage", "", [])
    assert (row.weight, row.rank, row.text_unit_ids) == (0.0, 1, [])  # the degree of the other end
    assert len(around) == 2
    assert {unit.entity_id for unit in units} == {ids[1]}


def test_a_repair_that_was_cut_off_does_not_stay_under_way(
    neo4j: OpenNeo4j, manifest: Manifest, snapshots: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    """All rows are right again after the repair; only the mark of a load under way differs."""
    store = neo4j(atomic_rows=2)
    load(manifest, snapshots, [store], MAX_TYPES)
    version = store.shown().version
    change(store, "MATCH (n:Entity {workspace: $w}) DETACH DELETE n")
    with monkeypatch.context() as patched:
        patched.setattr(Neo4jWriter, "_read_and_check_states", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            load(manifest, snapshots, [store], MAX_TYPES)
    assert store.shown() == GraphState(version, loading=True)
    found = verify(manifest, snapshots, [store], MAX_TYPES)
    assert (differences(found), found.problems) == (
        {},
        ("neo4j: a load is under way, or was cut off; run 'graphmill load index'",),
    )
    load(manifest, snapshots, [store], MAX_TYPES)
    assert store.shown() == GraphState(version, loading=False)
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_a_first_load_that_was_cut_off_is_reported_with_the_rows_it_left(
    neo4j: OpenNeo4j, manifest: Manifest, snapshots: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    store = neo4j(atomic_rows=2)
    with monkeypatch.context() as patched:
        patched.setattr(Neo4jWriter, "_write_communities", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            load(manifest, snapshots, [store], MAX_TYPES)
    for quick in (True, False):
        found = verify(manifest, snapshots, [store], MAX_TYPES, quick)
        problem = "neo4j: its first load is under way, or was cut off; run 'graphmill load index'"
        assert found.problems[0] == problem
        stored = {check.table: check.stored for check in found.tables}
        assert stored == {"nodes": len(PEOPLE), "relationships": len(PEOPLE) - 1, "communities": 0}
        assert differences(found) == {"communities": {"missing": len(PEOPLE) + 1}}
    load(manifest, snapshots, [store], MAX_TYPES)
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def _killed(writer: Neo4jWriter, *_: object) -> None:
    raise RuntimeError("killed")


def test_other_dimensions_are_said_to_be_loaded(
    loaded: Neo4jStore,
    postgres: Callable[..., PostgresStore],
    manifest: Manifest,
    snapshots: SnapshotStore,
):
    stores = [postgres(), loaded]
    load(manifest, snapshots, stores, MAX_TYPES)
    change(loaded, "MATCH (live:GraphmillLive {workspace: $w}) SET live.dimensions = 7")
    [problem] = verify(manifest, snapshots, stores, MAX_TYPES).problems
    assert problem.startswith("neo4j: it records 7 dimensions, not 4")
    load(manifest, snapshots, stores, MAX_TYPES)
    assert verify(manifest, snapshots, stores, MAX_TYPES).agrees


def test_the_record_of_a_load_is_written_again_after_somebody_altered_it(
    loaded: Neo4jStore, manifest: Manifest, snapshots: SnapshotStore
):
    for tables in ("junk", "[]", '{"sourced_nodes": 1}', 7):
        change(loaded, "MATCH (n:Entity {workspace: $w, displayName: 'Ada'}) DETACH DELETE n")
        change(
            loaded,
            "MATCH (live:GraphmillLive {workspace: $w}) SET live.tables = $tables",
            tables=tables,
        )
        found = verify(manifest, snapshots, [loaded], MAX_TYPES)
        assert differences(found)["nodes"] == {"missing": 1}, tables
        counts = load(manifest, snapshots, [loaded], MAX_TYPES)["neo4j"]
        assert counts["nodes"]["inserted"] == 1, tables
        assert verify(manifest, snapshots, [loaded], MAX_TYPES).agrees, tables
    assert set(loaded.workspaces()) >= {loaded.workspace}
