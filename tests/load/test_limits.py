"""More than a graph database takes: relationship types, and mentions of one entity."""

from collections import Counter
from collections.abc import Callable

import pandas as pd

from pipeline.load.loader import load
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import SOURCES
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.sizes import size

MENTIONS, CAP = size((2000, 50), (100_000, 5000))
TYPES, MAX_TYPES = 40, 5

OpenPostgres = Callable[..., PostgresStore]
OpenNeo4j = Callable[..., Neo4jStore]


def test_an_entity_with_very_many_mentions_is_loaded_and_verified(
    postgres: OpenPostgres, neo4j: OpenNeo4j, snapshots: SnapshotStore
):
    texts = {f"{number}.txt": f"Ada met Babbage, time {number}." for number in range(MENTIONS)}
    tables = corpus(texts, {"Ada": "person", "Babbage": "person"}, [("Ada", "Babbage", ["met"])])
    units = sorted(tables["text_units"]["id"])
    for table in ("entities", "relationships"):
        tables[table] = tables[table].assign(text_unit_ids=[units] * len(tables[table]))
    relational, native = postgres(), neo4j(max_source_ids=CAP)
    manifest, stores = save(tables, snapshots), [relational, native]
    load(manifest, snapshots, stores, MAX_TYPES)
    assert verify(manifest, snapshots, stores, MAX_TYPES).agrees
    for graph, most in ((PostgresGraph(relational), SOURCES), (native, min(SOURCES, CAP))):
        [found] = graph.entities([entity_id("Ada")])
        assert list(found.text_unit_ids) == units[:most]
    lists = pd.concat(relational.rows("sources")).set_index("id")["chunk_ids"]
    all_of_them = lists[entity_id("Ada")]
    assert list(all_of_them) == units
    counted = native.driver.execute_query(
        "MATCH (n:Entity {workspace: $workspace})-[r]->(:Entity) "
        "RETURN n.source_count, r.source_count, size(r.source_id)",
        {"workspace": native.workspace},
        database_=native.database,
    )
    assert [record.values() for record in counted.records] == [[MENTIONS, MENTIONS, CAP]]
    for store in load(manifest, snapshots, stores, MAX_TYPES).values():
        assert all(counts["unchanged"] == sum(counts.values()) for counts in store.values())


def test_the_rarest_of_too_many_relationship_types_become_related(
    postgres: OpenPostgres, neo4j: OpenNeo4j, snapshots: SnapshotStore
):
    """The most frequent types are kept. Of the others, only the keyword is kept."""
    names = [f"Person {number}" for number in range(60)]
    words = [f"word {place % TYPES}" for place in range(59)] + ["word 0"] * 3
    links = list(zip(names, names[1:], words, strict=False))
    links += [(names[place], names[place + 5], "word 0") for place in range(3)]
    tables = corpus(
        {"a.txt": "All."}, dict.fromkeys(names, "person"), [(a, b, [word]) for a, b, word in links]
    )
    stores = [postgres(), neo4j()]
    manifest = save(tables, snapshots)
    load(manifest, snapshots, stores, MAX_TYPES)
    assert verify(manifest, snapshots, stores, MAX_TYPES).agrees
    for store in stores:
        [rows] = store.rows(next(table for table in store.tables if table.endswith("edges")))
        counts = Counter(rows["type"])
        assert len(counts) == MAX_TYPES + 1
        assert counts["WORD_0"] == 5
        rare = rows[rows["type"] == "RELATED"]
        assert len(rare) == counts["RELATED"] > TYPES
        assert all(next(iter(keywords)).startswith("word ") for keywords in rare["keywords"])
    load(manifest, snapshots, stores, TYPES)
    assert verify(manifest, snapshots, stores, TYPES).agrees
    for store in stores:
        [rows] = store.rows(next(table for table in store.tables if table.endswith("edges")))
        assert "RELATED" not in set(rows["type"])
