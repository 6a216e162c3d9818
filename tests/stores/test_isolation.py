"""Two workspaces with the same names in one pair of databases: neither is ever found in the
other."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.load.loader import load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Store
from pipeline.stores.connection import read_together
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.schema import VECTOR_TABLES
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import AttributeLimit, GraphStore, VectorStore
from pipeline.text.ids import entity_id, relationship_id
from tests.load.tables import corpus, save
from tests.records import column
from tests.sizes import size
from tests.stored import nearest

TURNS = size(8, 1000)
SEED = 5
NAMES = [f"Person {number}" for number in range(12)]
SHARED = "Both have this text."
CANARIES = ("canary", "nightingale")
DIMENSIONS = {"canary": 4, "nightingale": 6}
VERSIONS = 3
MAX_TYPES = 100
NAMED = ("entities", "relationships", "reports")
SIZES = {
    "chunks": 9, "near": 30, "entities": 10, "relationships": 9, "around": 9, "units": 10,
    "reports": 10, "claims": 10, "statements": 9, "attributes": 10,
    "communities": 10,
}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """A workspace and the versions it is loaded with: all that they hold, but for names, has its
    canary in it."""

    canary: str
    vectors: PostgresStore
    graph: GraphStore
    stores: tuple[Store, ...]
    versions: tuple[Manifest, ...]


def version(canary: str, number: int, snapshots: SnapshotStore) -> Manifest:
    names = NAMES[number : number + 10]
    tables = corpus(
        {
            "shared.txt": SHARED,
            **{f"{place}.txt": f"{canary} text {place}" for place in range(number, number + 8)},
        },
        dict.fromkeys(names, canary),
        [(one, other, [canary, f"{canary} {number}"]) for one, other in itertools.pairwise(names)],
        DIMENSIONS[canary],
    )
    documents, entities, links = tables["documents"], tables["entities"], tables["relationships"]
    tables["documents"] = documents.assign(title=canary)
    tables["entities"] = entities.assign(
        description=f"{canary} {number}", text_unit_ids=[[f"chunk-{canary}"]] * 10
    )
    tables["relationships"] = links.assign(description=f"{canary} {number}")
    tables["community_reports"] = tables["community_reports"].assign(summary=f"{canary} {number}")
    tables["covariates"] = tables["covariates"].assign(description=f"{canary} {number}")
    tables["statements"] = tables["statements"].assign(description=f"{canary} {number}")
    tables["attributes"] = tables["attributes"].assign(value=f"{canary} {number}", type="string")
    return save(tables, snapshots, model=canary)


@pytest.mark.parametrize("graph_in", ["postgres", "neo4j"])
def test_no_read_or_write_reaches_another_workspace(
    request: pytest.FixtureRequest,
    postgres: Callable[..., PostgresStore],
    tmp_path: Path,
    graph_in: str,
):
    snapshots = SnapshotStore(tmp_path)

    def opened(canary: str) -> Side:
        vectors = postgres(f"-{canary}", exact_below=10)
        versions = tuple(version(canary, number, snapshots) for number in range(VERSIONS))
        if graph_in == "postgres":
            return Side(canary, vectors, PostgresGraph(vectors), (vectors,), versions)
        graph = request.getfixturevalue("neo4j")(f"-{canary}")
        return Side(canary, vectors, graph, (vectors, graph), versions)

    sides, chance = [opened(canary) for canary in CANARIES], random.Random(SEED)
    shown: dict[str, int | None] = dict.fromkeys(CANARIES, 0)
    for side in sides:
        load(side.versions[0], snapshots, side.stores, MAX_TYPES)
    read = 0
    for _ in range(TURNS):
        one = chance.choice(sides)
        turn = chance.random()
        if turn < 0.25:
            number = shown[one.canary] = chance.randrange(VERSIONS)
            load(one.versions[number], snapshots, one.stores, MAX_TYPES)
        elif turn < 0.35:
            shown[one.canary] = None
            for store in one.stores:
                store.drop()
        else:
            read += check(one, shown[one.canary])
    assert read + sum(check(side, shown[side.canary]) for side in sides) > TURNS


def check(side: Side, shown: int | None) -> int:
    """Ask for what both have, by name and by vectors; how many rows were found."""
    ids = [entity_id(name) for name in NAMES]
    pairs = [relationship_id(one, other) for one, other in itertools.pairwise(ids)]
    question = np.ones(DIMENSIONS[side.canary], np.float32)

    def everything(vectors: VectorStore, graph: GraphStore) -> dict[str, list[Any]]:
        near = {table: nearest(vectors, table, question, 99) for table in VECTOR_TABLES}
        for other in set(DIMENSIONS.values()) - {len(question)}:
            assert nearest(vectors, "chunks", np.ones(other, np.float32), 99) == []
        return {
            "chunks": vectors.chunks([id for id, _ in near["chunks"]], question),
            "near": [id for table in NAMED for id, _ in near[table]],
            "entities": graph.entities(ids),
            "relationships": graph.relationships(pairs),
            "around": graph.relationships_of(ids, 999),
            "units": graph.shared_units(ids),
            "reports": vectors.reports_at(1, 99),
            "claims": vectors.claims_of(ids, 99),
            "statements": vectors.statements_of(pairs, 99),
            "attributes": vectors.attributes_of(ids, AttributeLimit(9, 9, 9)),
            "communities": graph.communities_of(ids, 1),
        }

    found, notes = read_together(side.vectors, side.graph, everything)
    assert notes == ()
    assert {table: len(rows) for table, rows in found.items()} == _sizes(shown)
    if shown is None:
        return 0
    assert set(column(found["chunks"], "title")) == {side.canary}
    assert all(
        text == SHARED or text.startswith(side.canary)
        for text in column(found["chunks"], "content")
    )
    for table in ("entities", "relationships", "around"):
        assert set(column(found[table], "description")) == {f"{side.canary} {shown}"}
    assert set(column(found["reports"], "summary")) == {f"{side.canary} {shown}"}
    for table in ("claims", "statements"):
        assert set(column(found[table], "description")) == {f"{side.canary} {shown}"}
    assert set(column(found["attributes"], "value")) == {f"{side.canary} {shown}"}
    assert set(column(found["entities"], "type")) == {side.canary.upper()}
    for words in column(found["around"], "keywords"):
        assert list(words) == [side.canary, f"{side.canary} {shown}"]
    assert set(column(found["units"], "text_unit_id")) == {f"chunk-{side.canary}"}
    assert set(column(found["units"], "neighbours")) <= {1, 2}
    return sum(map(len, found.values()))


def _sizes(shown: int | None) -> dict[str, int]:
    if shown is None:
        return dict.fromkeys(SIZES, 0)
    return SIZES
