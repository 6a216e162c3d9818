"""What is missing, extra, changed or altered in a store is found by name, and a load repairs
exactly that."""

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sqlalchemy import text

from pipeline.contract.schemas import COMMUNITIES
from pipeline.errors import DataError, UsageError
from pipeline.load.loader import LoadOptions, load
from pipeline.load.row_hashes import ExpectedTable, altered_ids, diff, with_hashes
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore
from pipeline.snapshots.tables import TableStore
from pipeline.stores.base import Live
from pipeline.stores.list_columns import to_arrow
from pipeline.stores.postgres.schema import CONSTANT_COLUMNS, TABLES
from pipeline.stores.postgres.store import PostgresStore
from pipeline.text.ids import document_id, entity_id
from pipeline.verify.references import Dangling
from pipeline.verify.table_check import Difference
from pipeline.verify.verify import Verification, verify
from tests.load.tables import SCHEMAS, corpus, save

PEOPLE = ["Ada", "Babbage", "Cayley", "De Morgan", "Euler", "Faraday"]
CORPUS = corpus(
    {f"{name}.txt": f"{name} wrote this." for name in PEOPLE},
    dict.fromkeys(PEOPLE, "person"),
    [(one, other, ["met"]) for one, other in itertools.pairwise(PEOPLE)],
)
OTHER = corpus({"a.txt": "Gauss."}, {"Gauss": "person"}, [])
MAX_TYPES = 100

OpenPostgres = Callable[..., PostgresStore]


@pytest.fixture
def manifest(snapshots: SnapshotStore) -> Manifest:
    return save(CORPUS, snapshots)


@pytest.fixture
def store(postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore) -> PostgresStore:
    """A store that holds what the manifest says."""
    opened = postgres()
    load(manifest, snapshots, [opened], MAX_TYPES)
    return opened


@pytest.fixture
def check(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
) -> Callable[..., Verification]:
    return lambda quick=False: verify(manifest, snapshots, [store], MAX_TYPES, quick)


@pytest.fixture
def repair(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
) -> Callable[..., dict]:
    """Load again: what was written, by table."""

    def repair(full: bool = False) -> dict:
        counts = load(manifest, snapshots, [store], MAX_TYPES, LoadOptions(full=full))["postgres"]
        return {
            table: {what: n for what, n in count.items() if n} for table, count in counts.items()
        }

    return repair


def change(store: PostgresStore, statement: str, **values: object) -> None:
    with store.connection() as connection:
        changed = connection.execute(text(statement), {"w": store.workspace, **values})
        assert changed.rowcount > 0


def differences(found: Verification) -> dict[str, dict[str, int]]:
    return {
        check.table: {difference.kind: difference.rows for difference in check.differences}
        for check in found.tables
        if check.differences
    }


def difference(found: Verification, table: str) -> Difference:
    [only] = [
        difference
        for check in found.tables
        if check.table == table
        for difference in check.differences
    ]
    return only


def test_a_fresh_load_agrees(check: Callable[..., Verification]):
    for found in (check(quick=False), check(quick=True)):
        assert found.agrees
        assert (found.repair, found.problems, found.dangling) == ("", (), ())
        stored = {each.table: each.stored for each in found.tables}
        assert stored == {each.table: each.expected for each in found.tables}
        assert set(stored) == set(TABLES)


def test_deleted_rows_are_found_by_name_and_a_load_repairs_exactly_those(
    store: PostgresStore, check: Callable[..., Verification], repair: Callable[..., dict]
):
    chosen = random.Random(5)
    lost = {
        table: chosen.sample(sorted(store.hashes(table)["id"].to_pylist()), 3) for table in TABLES
    }
    for table, ids in lost.items():
        change(
            store,
            f"DELETE FROM {TABLES[table].name} WHERE workspace = :w AND id = ANY(:ids)",
            ids=ids,
        )
    for quick in (True, False):
        found = check(quick)
        assert not found.agrees
        assert differences(found) == {key: {"missing": 3} for key in TABLES}
        assert found.repair == "graphmill load index"
        for table, ids in lost.items():
            assert {row.id for row in difference(found, table).examples} == set(ids)
        names = dict(CORPUS["entities"][["id", "name"]].itertuples(index=False, name=None))
        for table in ("entities", "nodes"):
            shown = {row.id: row.name for row in difference(found, table).examples}
            assert shown == {id: names[id] for id in lost[table]}
        assert all(" -> " in row.name for row in difference(found, "edges").examples)
    repaired = repair()
    assert {table: counts["inserted"] for table, counts in repaired.items()} == dict.fromkeys(
        TABLES, 3
    )
    assert all(counts.keys() == {"inserted", "unchanged"} for counts in repaired.values())
    assert check().agrees


ALTERED = {
    "documents": 'metadata = \'{"path": "elsewhere"}\'',
    "chunks": "embedding = (SELECT array_agg(1)::vector FROM generate_series(1, 4))",
    "entities": "content = NULL",
    "relationships": "embedding = '[1,2]'",
    "sources": "chunk_ids = chunk_ids || ARRAY['']",
    "nodes": "degree = NULL",
    "edges": "weight = weight + 1e-12",
    "reports": "rating = 10",
    "claims": "status = 'FALSE'",
    "statements": "attributes = '{\"since\": 1871}'",
    "attributes": "value = '1000'",
    "communities": "entity_ids = entity_ids[2:]",
}


def test_rows_changed_under_their_hashes_are_found_and_repaired_by_a_full_load(
    store: PostgresStore, check: Callable[..., Verification], repair: Callable[..., dict]
):
    changed = {table: min(store.hashes(table)["id"].to_pylist()) for table in ALTERED}
    for table, id in changed.items():
        change(
            store,
            f"UPDATE {TABLES[table].name} SET {ALTERED[table]} WHERE workspace = :w AND id = :id",
            id=id,
        )
    assert check(quick=True).agrees
    found = check()
    assert differences(found) == {key: {"altered": 1} for key in TABLES}
    assert {table: [row.id for row in difference(found, table).examples] for table in changed} == {
        table: [id] for table, id in changed.items()
    }
    assert found.repair == "graphmill load index --full"
    assert all(counts.keys() == {"unchanged"} for counts in repair().values())
    assert {
        table: counts["updated"] for table, counts in repair(full=True).items()
    } == dict.fromkeys(TABLES, 1)
    assert check().agrees
    assert all(counts.keys() == {"unchanged"} for counts in repair(full=True).values())


def test_a_vector_that_is_gone_is_found(store: PostgresStore, check: Callable[..., Verification]):
    change(store, "UPDATE lightrag_chunks SET embedding = NULL WHERE workspace = :w")
    assert differences(check()) == {"chunks": {"altered": len(PEOPLE)}}


def test_another_hash_and_an_extra_row_are_found(
    store: PostgresStore, check: Callable[..., Verification], repair: Callable[..., dict]
):
    change(
        store,
        "UPDATE graphmill_nodes SET row_hash = 'x' WHERE workspace = :w AND display_name = 'Ada'",
    )
    change(
        store,
        "INSERT INTO lightrag_entities (workspace, id, entity_name, row_hash) VALUES (:w, 'ent-x',"
        " :name, 'x')",
        name="Nobody\n\x1b[31m" + "x" * 99,
    )
    found = check()
    assert differences(found) == {"nodes": {"differing": 1}, "entities": {"extra": 1}}
    [ada] = difference(found, "nodes").examples
    [nobody] = difference(found, "entities").examples
    assert (ada.name, ada.id) == ("Ada", entity_id("Ada"))
    assert nobody.name == "Nobody [31m" + "x" * 46 + "..."
    assert differences(check(quick=True)) == differences(found)
    repaired = repair()
    assert (repaired["nodes"]["updated"], repaired["entities"]["deleted"]) == (1, 1)
    assert check().agrees


def test_only_the_first_rows_by_name_are_reported(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    many = corpus({"a.txt": "All."}, {f"Person {number:02}": "person" for number in range(30)}, [])
    [nodes] = [
        c
        for c in verify(save(many, snapshots), snapshots, [store], MAX_TYPES).tables
        if c.table == "nodes"
    ]
    missing = nodes.differences[0]
    assert (missing.kind, missing.rows) == ("missing", 30)
    assert [row.name for row in missing.examples] == [f"Person {number:02}" for number in range(10)]


def test_dangling_ids_in_a_store_are_found(
    store: PostgresStore, check: Callable[..., Verification]
):
    id = document_id("Ada.txt")
    change(store, "DELETE FROM graphmill_documents WHERE workspace = :w AND id = :id", id=id)
    change(store, "DELETE FROM graphmill_nodes WHERE workspace = :w AND display_name = 'Babbage'")
    found = check()
    dangling = {(d.where, d.table, d.column, d.target): d for d in found.dangling}
    assert {key: d.count for key, d in dangling.items()} == {
        ("postgres", "chunks", "full_doc_id", "documents"): 1,
        ("postgres", "attributes", "document_id", "documents"): len(PEOPLE),
        ("postgres", "edges", "source_entity_id", "nodes"): 1,
        ("postgres", "edges", "target_entity_id", "nodes"): 1,
        ("postgres", "communities", "entity_ids", "nodes"): 2,
    }
    [example] = dangling["postgres", "chunks", "full_doc_id", "documents"].examples
    assert (example.name, example.id) == ("Ada wrote this.", id)


def test_dangling_ids_in_the_snapshots_are_found(store: PostgresStore, snapshots: SnapshotStore):
    nowhere = [np.array(["chunk-x"], dtype=object), *CORPUS["entities"]["text_unit_ids"][1:]]
    broken = {
        **CORPUS,
        "documents": CORPUS["documents"].iloc[1:],
        "entities": CORPUS["entities"].assign(text_unit_ids=nowhere),
    }
    manifest = save(broken, snapshots)
    load(manifest, snapshots, [store], MAX_TYPES)
    found = verify(manifest, snapshots, [store], MAX_TYPES, quick=True)
    assert [(d.where, d.table, d.column, d.count) for d in found.dangling] == [
        ("snapshots", "text_units", "document_id", 1),
        ("snapshots", "entities", "text_unit_ids", 1),
    ]
    assert not found.agrees
    assert found.repair == ""


def test_references_of_communities_are_checked_if_there_are_any(
    store: PostgresStore, snapshots: SnapshotStore
):
    ada = entity_id("Ada")
    rows = [
        ("com-1", 0, "", ["com-2"], [ada, "ent-x"], [], [], 1, "one"),
        ("com-2", 1, "com-9", [], [ada], [], [], 1, "two"),
    ]
    manifest = save(CORPUS, snapshots)
    table = snapshots.tables.write(
        "communities", COMMUNITIES.encode(COMMUNITIES.frame(rows), "communities")
    )
    manifest = replace(manifest, tables={**manifest.tables, "communities": table})
    found = verify(manifest, snapshots, [store], MAX_TYPES)
    told = [
        (d.table, d.column, d.target, d.examples[0].id, d.examples[0].name) for d in found.dangling
    ]
    assert told[:2] == [
        ("communities", "parent", "communities", "com-9", "two"),
        ("communities", "entity_ids", "entities", "ent-x", "one"),
    ]
    reports, members = len(CORPUS["community_reports"]), len(CORPUS["nodes"])
    assert {d.column: d.count for d in found.dangling[2:]} == {
        "id": reports, "parent": reports - 1, "community_id": members,
    }  # fmt: skip


def test_dangling_sources_are_found(store: PostgresStore, check: Callable[..., Verification]):
    for table, column in (
        ("graphmill_reports", "chunk_ids"),
        ("graphmill_claims", "text_unit_id"),
        ("graphmill_statements", "relationship_id"),
        ("graphmill_attributes", "entity_id"),
        ("graphmill_attributes", "document_id"),
    ):
        [[first]] = store_rows(store, f"SELECT min(id) FROM {table} WHERE workspace = :w")
        nowhere = "ARRAY['chunk-x', 'chunk-y']" if column == "chunk_ids" else "'chunk-z'"
        change(
            store,
            f"UPDATE {table} SET {column} = {nowhere} WHERE workspace = :w AND id = :id",
            id=first,
        )
    change(
        store,
        "UPDATE graphmill_communities SET parent = 'com-x' WHERE workspace = :w AND parent <> ''",
    )
    found = {(d.table, d.column, d.target): d.count for d in check().dangling}
    assert found == {
        ("reports", "chunk_ids", "chunks"): 2,
        ("claims", "text_unit_id", "chunks"): 1,
        ("statements", "relationship_id", "relationships"): 1,
        ("attributes", "entity_id", "entities"): 1,
        ("attributes", "document_id", "documents"): 1,
        ("communities", "parent", "communities"): len(PEOPLE),
    }


def test_references_of_an_extra_row_are_checked(
    store: PostgresStore, check: Callable[..., Verification]
):
    change(
        store,
        "INSERT INTO graphmill_edges (workspace, id, source, target, source_entity_id,"
        " target_entity_id, row_hash) VALUES (:w, 'rel-x', 'Ada', 'Nobody', :ada, 'ent-x', 'x')",
        ada=entity_id("Ada"),
    )
    change(
        store,
        "INSERT INTO graphmill_sources (workspace, id, chunk_ids, row_hash) "
        "VALUES (:w, 'rel-x', ARRAY['chunk-x', 'chunk-y'], 'x')",
    )
    found = check()
    assert differences(found) == {"edges": {"extra": 1}, "sources": {"extra": 1}}
    assert [row.name for row in difference(found, "edges").examples] == ["Ada -> Nobody"]
    dangling = {d.column: (d.count, [row.name for row in d.examples]) for d in found.dangling}
    assert dangling == {
        "target_entity_id": (1, ["Ada -> Nobody"]),
        "chunk_ids": (2, ["rel-x", "rel-x"]),
    }


def test_rows_that_agree_are_hashed_without_decoding_them(
    store: PostgresStore,
    manifest: Manifest,
    snapshots: SnapshotStore,
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[Sequence[str] | None] = []
    whole: list[str] = []

    class Asked(PostgresStore):
        def rows(self, table: str, columns: Sequence[str] | None = None):
            asked.append(columns)
            return super().rows(table, columns)

    def table(self: TableStore, snapshot: Snapshot, columns: list[str] | None = None) -> pa.Table:
        whole.extend(columns or ["all"])
        return read(self, snapshot, columns)

    read = TableStore.read_arrow
    monkeypatch.setattr(TableStore, "read_arrow", table)
    shown = Asked(store.url, store.workspace)
    assert verify(manifest, snapshots, [shown], MAX_TYPES).agrees
    load(manifest, snapshots, [shown], MAX_TYPES, LoadOptions(full=True))
    shown.close()
    assert asked == [[]] * 2 * len(TABLES)
    assert not {"vector", "all"} & set(whole)


def store_rows(store: PostgresStore, query: str) -> list:
    with store.connection() as connection:
        return list(connection.execute(text(query), {"w": store.workspace}).all())


def test_an_empty_workspace_is_reported(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore, store: PostgresStore
):
    found = verify(manifest, snapshots, [postgres("-empty")], MAX_TYPES)
    assert found.problems == ("postgres: nothing is loaded; run 'graphmill load index'",)
    assert differences(found)["nodes"] == {"missing": len(PEOPLE)}
    with pytest.raises(UsageError, match="no tables yet; run 'graphmill index moon'"):
        verify(Manifest("moon"), snapshots, [store], MAX_TYPES)


def test_another_version_and_another_workflow_are_reported(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    newer = save(OTHER, snapshots)
    [problem] = verify(newer, snapshots, [store], MAX_TYPES).problems
    assert problem.startswith("postgres: version ")
    assert problem.endswith("run 'graphmill load index'")
    [problem] = verify(replace(manifest, workflow="fast"), snapshots, [store], MAX_TYPES).problems
    assert problem.startswith(
        "postgres: workflow 'index' is loaded, not 'fast'; run 'graphmill verify index'"
    )
    [problem] = verify(save(CORPUS, snapshots, model="n"), snapshots, [store], MAX_TYPES).problems
    assert "vectors of {'model': 'm'} are loaded, not of {'model': 'n'}" in problem
    change(store, "UPDATE graphmill_live SET schema_version = 1 WHERE workspace = :w")
    [problem] = verify(manifest, snapshots, [store], MAX_TYPES).problems
    assert "loaded by an earlier graphmill (schema 1)" in problem
    change(store, "UPDATE graphmill_live SET schema_version = 99 WHERE workspace = :w")
    with pytest.raises(DataError, match="newer graphmill"):
        verify(manifest, snapshots, [store], MAX_TYPES)


def test_stores_that_show_different_versions_are_reported(
    postgres: OpenPostgres, store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    other = replace(postgres("-other"), name="second")
    load(save(OTHER, snapshots), snapshots, [other], MAX_TYPES)
    problems = verify(manifest, snapshots, [store, other], MAX_TYPES).problems
    other.close()
    assert problems[0].startswith("second: version ")
    assert problems[1].startswith("stores: they show different versions (postgres ")


def test_the_advice_names_a_command_also_where_no_load_repairs_what_differs():
    dangling = (Dangling("snapshots", "mentions", "entity_id", "entities", 1, ()),)
    found = Verification("index", "1", False, (), (), dangling, "graphmill load index")
    assert not found.agrees
    assert found.repair == ""
    assert found.advice.endswith("write them again: graphmill run index --force merge_graphs")


def test_a_load_during_the_verification_is_reported(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
):
    class Loading(PostgresStore):
        def rows(self, table: str, columns: Sequence[str] | None = None):
            load(save(OTHER, snapshots), snapshots, [store], MAX_TYPES)
            return super().rows(table, columns)

    read = Loading(store.url, store.workspace)
    found = verify(manifest, snapshots, [read], MAX_TYPES)
    read.close()
    assert found.problems[-1] == "postgres: loaded while it was read; run 'graphmill verify' again"
    assert found.repair == ""
    assert found.advice == "a store was loaded while it was read; run 'graphmill verify' again"


METADATA = {
    "floats": [1e16, -1e300, 1e15, 0.1, -0.0, 1e-7, 5e-324, 2.0, 123456789012345678.0],
    "integers": [0, -1, 2**80],
    "texts": ["", "ü", "日本", "\u202eRTL", "a\tb\n", '"quoted" \\ `', "😀"],
    "": {"z": None, "a": [True, False, {}, []], "😀": {"b": 1, "a": 2}},
}


def test_rows_come_back_as_they_were_written_bit_for_bit(
    postgres: OpenPostgres, snapshots: SnapshotStore
):
    hostile = ["DETACH DELETE n;", "`x`', \"", "\u202eRTL", "😀", "n" * 10_000]
    made = corpus(
        {f"{name[:9]}.txt": name for name in hostile},
        dict.fromkeys(hostile, "ty`pe"),
        [(hostile[0], hostile[1], ["met", "`'\"\t"]), (hostile[1], hostile[2], [])],
        dimensions=300,
    )
    made["documents"] = made["documents"].assign(metadata=json.dumps(METADATA))
    made["relationships"] = made["relationships"].assign(weight=[1 / 3, 5e-324])
    store, manifest = postgres(), save({name: made[name] for name in SCHEMAS}, snapshots)
    load(manifest, snapshots, [store], MAX_TYPES)
    for table in TABLES:
        rows = pd.concat(store.rows(table))
        hashed_again = with_hashes(rows.drop(columns=["row_hash", "content_hash"]))["row_hash"]
        assert (
            rows["row_hash"].tolist() == rows["content_hash"].tolist() == hashed_again.tolist()
        ), table
        assert set(rows.columns) == {column.name for column in TABLES[table].columns} - set(
            CONSTANT_COLUMNS
        ) | {"content_hash"}
    vectors = to_arrow(pd.concat(store.rows("chunks"))["embedding"])
    assert (vectors.type.value_type, len(vectors[0])) == (pa.float32(), 300)
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_a_row_with_a_missing_text_is_not_altered(postgres: OpenPostgres):
    store = postgres()
    titles = pd.Series([None, "x"], dtype=object)
    rows = with_hashes(
        pd.DataFrame(
            {"id": ["a", "b"], "title": titles, "source": "s", "metadata": [{}, {}], "date": ""}
        )
    )
    with store.writing(Live("index", "1", {"model": "m"}, 4)) as writer:
        writer.apply("documents", diff(rows, {}))
        writer.publish()
    [read] = store.rows("documents")
    assert read.sort_values("id")["title"].fillna("").tolist() == ["", "x"]
    assert not altered_ids([read], ExpectedTable.of(rows, rows)).to_pylist()


def test_a_row_that_exists_twice_is_altered():
    rows = with_hashes(pd.DataFrame({"id": ["a", "b", "c"], "n": [1, 2, 3]}))
    expected, read = ExpectedTable.of(rows, rows), rows.assign(content_hash=rows["row_hash"])
    assert altered_ids([read], expected).to_pylist() == []
    assert altered_ids([read, read.iloc[1:2]], expected).to_pylist() == ["b"]
    assert altered_ids([read.iloc[[0, 0, 1]]], expected).to_pylist() == ["a"]
