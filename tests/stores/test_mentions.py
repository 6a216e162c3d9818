"""Entities of text units and text units of entities, on a real PostgreSQL."""

from collections.abc import Callable
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Live
from pipeline.stores.postgres.schema import SOURCE_LISTS, name_partition
from pipeline.stores.postgres.store import PostgresStore

OpenStore = Callable[..., PostgresStore]
UNITS = {
    "ent-a": ["c1", "c2"],
    "ent-b": ["c2"],
    "ent-c": [],
    "ent-hub": [f"c{number}" for number in range(2, 60)],
}


def rows(ids: list[str], **columns: list) -> pd.DataFrame:
    vectors = [np.array([place + 1, 1], dtype=np.float32) for place in range(len(ids))]
    return with_hashes(pd.DataFrame({"id": ids, **columns, "embedding": vectors}))


def lists(units: dict[str, list[str]]) -> pd.DataFrame:
    return with_hashes(pd.DataFrame({"id": list(units), "chunk_ids": list(units.values())}))


@pytest.fixture
def store(postgres: OpenStore) -> PostgresStore:
    store = postgres()
    names = [id.removeprefix("ent-").upper() for id in UNITS]
    entities = rows(list(UNITS), entity_name=names, content=names)
    chunks = rows(
        ["c2", "c1"],
        full_doc_id=["doc-1", "doc-1"], chunk_order_index=[1, 0], tokens=[1, 1],
        content=["灯塔 two " * 50, "one"],
        char_start=[0, 0], char_end=[1, 1], heading="", header="",
    )  # fmt: skip
    documents = with_hashes(
        pd.DataFrame(
            {"id": ["doc-1"], "title": ["One"], "source": ["one.txt"], "metadata": [{}], "date": ""}
        )
    )
    with store.writing(Live("index", "1", {"model": "m"}, 2)) as writer:
        sources = lists(UNITS)
        tables = {
            "documents": documents,
            "chunks": chunks,
            "entities": entities,
            "sources": sources,
        }
        for table, frame in tables.items():
            writer.apply(table, diff(frame, writer.hashes(table)))
        writer.publish()
    return store


def found(store: PostgresStore, units: list[str], entities: list[str], most: int) -> list[tuple]:
    return [astuple(entity) for entity in store.mentions(units, entities, most)]


def test_mentions_are_the_entities_of_the_text_units(store: PostgresStore):
    assert found(store, ["c1"], [], 9) == [("ent-a", "A", ["c1", "c2"])]
    assert found(store, ["c2", "c-unknown"], [], 99) == [
        ("ent-a", "A", ["c1", "c2"]), ("ent-b", "B", ["c2"]), ("ent-hub", "HUB", UNITS["ent-hub"]),
    ]  # fmt: skip


def test_mentions_include_the_entities_that_are_asked_for(store: PostgresStore):
    assert found(store, [], ["ent-c", "ent-b", "ent-unknown"], 9) == [
        ("ent-b", "B", ["c2"]),
        ("ent-c", "C", []),
    ]
    assert found(store, [], [], 9) == []


@pytest.mark.parametrize(("most", "expected"), [(1, []), (57, []), (58, UNITS["ent-hub"])])
def test_an_entity_in_too_many_text_units_is_returned_without_them(
    store: PostgresStore, most: int, expected: list[str]
):
    assert found(store, ["c9"], [], most) == [("ent-hub", "HUB", expected)]


def test_mentions_with_the_openings_of_their_passages(store: PostgresStore):
    mentioned, openings = store.opened_mentions(["c2"], ["ent-c"], 9, 99, 4)
    assert mentioned == store.mentions(["c2"], ["ent-c"], 9)
    assert openings == store.openings(["c1", "c2"], 4) != {}
    assert store.opened_mentions(["c2"], ["ent-c"], 9, 1, 4) == (
        mentioned,
        store.openings(["c1"], 4),
    )
    assert store.opened_mentions([], [], 9, 99, 4) == ([], {})


def test_an_opening_is_the_title_and_the_first_characters(store: PostgresStore):
    opened = store.openings(["c2", "c-unknown", "c1"], 4)
    assert opened == {"c1": ("One", "one"), "c2": ("One", "灯塔 t")}
    assert not store.openings([], 4)


def test_embeddings_are_returned_by_id(store: PostgresStore):
    vectors = store.embeddings("entities", ["ent-b", "ent-unknown"])
    assert {id: vector.tolist() for id, vector in vectors.items()} == {"ent-b": [2, 1]}


def test_a_hub_is_found_by_the_index_and_its_list_is_not_read(store: PostgresStore):
    """The list of an entity with 50,000 text units is stored out of line. It is read only if it is
    returned."""
    units = [f"chunk-{number:032x}" for number in range(50_000)]
    ids = ["ent-0", *(f"ent-other{number}" for number in range(3000))]
    hub = rows(ids, entity_name=ids, content=ids)
    sources = dict(zip(ids, [units, *([unit] for unit in units[1000:4000])], strict=True))
    with store.writing(Live("index", "2", {"model": "m"}, 2)) as writer:
        writer.apply("entities", diff(hub, {}))
        writer.apply("sources", diff(lists(sources), {}))
        writer.publish()
    with store.connection() as connection:
        [[table]] = connection.execute(
            text(
                "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = to_regclass(:name)"
            ),
            {"name": _partition(store)},
        ).all()
    written = _read(store, table)
    assert _by_index(store, units[7], 30) == [("ent-0", "ent-0", [])]
    after_few = _read(store, table)
    assert len(_by_index(store, units[7], 50_000)[0][2]) == 50_000
    assert after_few - written < 0.2 * (_read(store, table) - after_few)


def _by_index(store: PostgresStore, unit: str, most: int) -> list[tuple]:
    """As of a table that is worth an index."""
    with store.reading() as at_moment:
        assert at_moment.moment
        at_moment.moment.connection.execute(text("SET LOCAL enable_seqscan = off"))
        return found(at_moment, [unit], [], most)


def _partition(store: PostgresStore) -> str:
    return name_partition(SOURCE_LISTS, store.workspace)


def _read(store: PostgresStore, table: str) -> int:
    """Pages of a table that were read so far."""
    query = text(
        "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_all_tables WHERE schemaname || '.' ||"
        " relname = :name"
    )
    with store.connection() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    with store.connection() as connection:
        return connection.execute(query, {"name": table}).scalar_one()
