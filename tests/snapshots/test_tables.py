"""The identity of a table is that of its rows, whichever runs made it and whichever files hold
it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import INT, STRING, STRINGS, TYPE_COUNTS, VECTOR, table
from pipeline.snapshots import small_files, table_rows, tables
from pipeline.snapshots.manifests import snapshot_of
from pipeline.snapshots.row_hashes import (
    HASH_BYTES,
    group_numbers,
    in_one_alone,
    row_hashes,
    table_digest,
)
from pipeline.snapshots.store import SnapshotStore
from pipeline.snapshots.tables import HASH, Snapshot
from tests.sizes import size

SCHEMA = table("id", id=STRING, text=STRING, n=INT, words=STRINGS, types=TYPE_COUNTS)
Rows = dict[str, str]
Night = tuple[bool, list[tuple[str, str]]]

KEYS = st.sampled_from([f"id{number:02}" for number in range(40)])
TEXTS = st.sampled_from(["", "a", "b", "中", "a\tb"])
NIGHTS = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(KEYS, TEXTS), max_size=6)), max_size=25
)


def encoded(rows: Rows) -> pa.Table:
    cells = [
        {
            "id": id,
            "text": text,
            "n": len(text),
            "words": [text, id],
            "types": [{"type": text, "count": 1}],
        }
        for id, text in rows.items()
    ]
    return SCHEMA.encode(SCHEMA.frame(cells), "rows")


def edited(rows: Rows, edits: list[tuple[str, str]]) -> Rows:
    """Return the rows after edits; an empty text deletes a row."""
    return {id: text for id, text in {**rows, **dict(edits)}.items() if text}


def pairs(rows: pa.Table) -> list[tuple[str, str]]:
    return sorted(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))


@pytest.fixture(autouse=True)
def as_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the few rows of these tests as those of large files are read.

    That small files are read alike is in test_small_files.py.
    """
    monkeypatch.setattr(small_files, "MOST_BYTES_OF_FILE", -1)


@settings(
    max_examples=size(20, 300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    first=st.dictionaries(KEYS, st.sampled_from(["a", "b"])),
    nights=NIGHTS,
    whole_below=st.sampled_from([1, 12]),
    bucket_rows=st.sampled_from([2, 9, 100]),
    row_group=st.sampled_from([2, 100]),
)
def test_the_identity_of_a_table_does_not_depend_on_the_runs_that_made_it(
    tmp_path_factory: pytest.TempPathFactory,
    first: Rows,
    nights: list[Night],
    whole_below: int,
    bucket_rows: int,
    row_group: int,
):
    store, fresh = (SnapshotStore(tmp_path_factory.mktemp("snapshots")) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "WHOLE_BELOW", whole_below)
        patch.setattr(tables, "BUCKET_ROWS", bucket_rows)
        patch.setattr(tables, "MOST_ADDITIONS", 3)
        patch.setattr(tables, "ROW_GROUP", row_group)
        patch.setattr(table_rows, "BATCH_ROWS", 5)
        patch.setattr(table_rows, "LEAST_ROWS", 2)
        patch.setattr(table_rows, "REFILL_BELOW", 2)
        rows = first
        snapshot = store.tables.write("rows", encoded(rows), SCHEMA.order)
        for by_key, edits in nights:
            before, last = rows, snapshot
            rows = edited(rows, edits)
            if by_key:
                keys = pa.array(sorted({id for id, _ in edits}), STRING)
                some = encoded({id: text for id, text in rows.items() if id in dict(edits)})
                snapshot = store.tables.replace_rows("rows", last, "id", keys, some)
            else:
                snapshot = store.tables.write("rows", encoded(rows), SCHEMA.order, last)
            whole = fresh.tables.write("rows", encoded(rows), SCHEMA.order)
            assert (snapshot.sha256, snapshot.rows) == (whole.sha256, whole.rows)
            assert store.tables.read_arrow(snapshot).equals(encoded(rows))
            assert pa.Table.from_batches(
                store.tables.read_batches(snapshot), encoded(rows).schema
            ).equals(encoded(rows))
            assert pairs(
                pa.Table.from_batches(store.tables.read_unordered(snapshot), encoded(rows).schema)
            ) == sorted(rows.items())
            assert store.tables.read_first(snapshot, ["text", "id"]).equals(
                encoded(rows)[:1].select(["text", "id"])
            )
            gone, new = store.tables.difference(last, snapshot, ["id", "text"])
            assert pairs(gone) == sorted(before.items() - rows.items())
            assert pairs(new) == sorted(rows.items() - before.items())
            found = store.tables.select(
                snapshot, ["id", "text"], pa.array(["id07", "a"]), ["text", "id"]
            )
            assert found["id"].to_pylist() == sorted(
                id for id, text in rows.items() if id == "id07" or text == "a"
            )
            numbers = group_numbers(encoded(rows)["id"], 2)
            assert (
                store.tables.count_by_bucket(snapshot, 2).tolist()
                == np.bincount(numbers, minlength=4).tolist()
            )
            for number in range(4):
                there = store.tables.read_bucket(snapshot, f"{number:02b}", ["text", "n", "id"])
                assert there.equals(
                    encoded(rows).filter(pa.array(numbers == number)).select(["text", "n", "id"])
                )


def test_buckets_are_those_of_the_key_where_no_row_lacks_it(store: SnapshotStore):
    schema = table("id", "n", id=STRING, n=INT, text=STRING)
    rows = [{"id": f"id{number}", "n": number, "text": "a"} for number in range(9)]
    whole = store.tables.write("rows", schema.encode(schema.frame(rows), "rows"), schema.order)
    assert store.tables.can_read_buckets(whole, "id", 2)
    assert not store.tables.can_read_buckets(whole, "text", 2)
    assert not store.tables.can_read_buckets(whole, "id", 3)  # each row would be read by eight
    lacking = store.tables.write(
        "rows", schema.encode(schema.frame([*rows, {"text": "b"}]), "rows"), schema.order
    )
    assert not store.tables.can_read_buckets(lacking, "id", 2)
    by_number = store.tables.write("rows", schema.encode(schema.frame(rows), "rows"), ("n", "id"))
    assert not store.tables.can_read_buckets(by_number, "n", 2)


def test_rows_with_null_keys_are_ordered_like_rows_of_one_key(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    schema = table("id", "n", id=STRING, n=INT, text=STRING)

    def written(texts: str, before: Snapshot | None = None) -> Snapshot:
        rows = [{"id": id, "n": None, "text": text} for id in ("a", None) for text in texts]
        return store.tables.write(
            "rows", schema.encode(schema.frame(rows), "rows"), schema.order, before
        )

    night = written("fcedabg", written("fcedab"))
    assert len(night.files) > 1
    assert store.tables.read_arrow(night).equals(store.tables.read_arrow(written("abcdefg")))


def test_few_rows_of_a_large_table_cost_a_small_file(store: SnapshotStore):
    rows = {f"id{number:06}": f"text {number} " * 20 for number in range(20_000)}
    before = store.tables.write("rows", encoded(rows), SCHEMA.order)
    large = sum((store.root / path).stat().st_size for path in before.paths)
    after = store.tables.write(
        "rows", encoded({**rows, "id000007": "another"}), SCHEMA.order, before
    )
    more = sum((store.root / path).stat().st_size for path in set(after.paths) - set(before.paths))
    assert after.files[0].path == before.files[0].path
    assert more < large / 20


def test_a_file_is_rewritten_when_it_is_outgrown(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    rows = {f"id{number:03}": "a" for number in range(100)}
    snapshot = store.tables.write("rows", encoded(rows), SCHEMA.order)
    for number in range(60):
        rows[f"id{number:03}"] = "b"
        snapshot = store.tables.write("rows", encoded(rows), SCHEMA.order, snapshot)
        assert len(snapshot.files) <= tables.MOST_ADDITIONS + 1
        assert snapshot.files[0].gone_rows <= tables.OUTGROWN * len(rows)


def test_tables_that_grow_alike_are_not_merged_in_one_run(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    """Most runs write only the new rows; runs that merge write a few times as many."""
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    names = [f"table{number}" for number in range(4)]
    rows = {f"id{number:03}": "a" for number in range(900)}
    snapshots = {name: store.tables.write(name, encoded(rows), SCHEMA.order) for name in names}
    written: list[int] = []
    for night in range(16):
        rows |= {f"new{night:02}{number}": "b" for number in range(5)}
        before = snapshots
        snapshots = {
            name: store.tables.write(name, encoded(rows), SCHEMA.order, before[name])
            for name in names
        }
        there = {file.path for name in names for file in before[name].files}
        written.append(
            sum(
                file.rows
                for name in names
                for file in snapshots[name].files
                if file.path not in there
            )
        )
    assert max(written) <= 5 * min(written)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_table_that_grows_past_a_threshold_rewrites_nothing_at_once(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
):
    """A bucket is split only when it is rewritten; the identity of a table does not depend on its
    files."""
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    monkeypatch.setattr(tables, "BUCKET_ROWS", 100)
    rows = {f"id{number:04}": "a" for number in range(100 + more - 5)}
    snapshot = store.tables.write("rows", encoded(rows), SCHEMA.order)
    first = snapshot.files[0].path
    assert len(snapshot.files) == 1
    for night in range(10):
        rows[f"new{night}"] = "b"
        snapshot = store.tables.write("rows", encoded(rows), SCHEMA.order, snapshot)
        assert snapshot.files[0].path == first
        fresh = SnapshotStore(tmp_path / f"fresh{night}").tables.write(
            "rows", encoded(rows), SCHEMA.order
        )
        assert (snapshot.sha256, snapshot.rows) == (fresh.sha256, fresh.rows)
        assert len(fresh.files) == (1 if len(rows) < 100 else 2)


def test_only_an_outgrown_bucket_is_rewritten(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    monkeypatch.setattr(tables, "BUCKET_ROWS", 100)
    rows = {f"id{number:04}": "a" for number in range(320)}
    before = store.tables.write("rows", encoded(rows), SCHEMA.order)
    assert [file.bucket for file in before.files] == ["00", "01", "10", "11"]
    numbers = row_hashes(encoded(rows), "id")[:, 0] >> 6
    edited = {id: "b" if number == 2 else "a" for id, number in zip(rows, numbers, strict=True)}
    after = store.tables.write("rows", encoded(edited), SCHEMA.order, before)
    kept = {file.path for file in before.files} & {file.path for file in after.files}
    assert kept == {file.path for file in before.files if file.bucket != "10"}
    assert not any(file.added or file.gone for file in after.files)
    few = dict(list(rows.items())[:30])
    assert [
        file.bucket for file in store.tables.write("rows", encoded(few), SCHEMA.order, after).files
    ] == [""]


def test_the_record_of_an_earlier_version_shows_which_files_were_added(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    rows = {f"id{number:03}": "a" for number in range(50)}
    before = store.tables.write("rows", encoded(rows), SCHEMA.order)
    rows["id007"] = "b"
    after = store.tables.write("rows", encoded(rows), SCHEMA.order, before)
    files = [
        {name: cell for name, cell in asdict(file).items() if name in EARLIER}
        for file in after.files
    ]
    assert snapshot_of({**asdict(after), "files": files}).files == after.files


EARLIER = ("path", "rows", "gone", "gone_rows")


def test_row_groups_without_a_value_are_not_read(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "ROW_GROUP", 10)
    read: list[list[int]] = []
    read_row_groups = pq.ParquetFile.read_row_groups

    def noted(file: pq.ParquetFile, groups: list[int], **options: Any) -> pa.Table:
        read.append(groups)
        return read_row_groups(file, groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    snapshot = store.tables.write(
        "rows", encoded({f"id{number:03}": "a" for number in range(100)}), SCHEMA.order
    )
    assert (
        store.tables.select(snapshot, ["id"], pa.array(["id055", "id09"]), ["text"]).num_rows == 1
    )
    assert read == [[], [5], [5]]


def test_a_table_with_other_columns_shares_no_file(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    rows = pa.table(
        {"id": pa.array([f"id{number}" for number in range(9)], STRING), "n": pa.array([0] * 9)}
    )
    before = store.tables.write("rows", rows, ("id",))
    renamed = rows.rename_columns(["id", "m"])
    assert store.tables.read_arrow(store.tables.write("rows", renamed, ("id",), before)).equals(
        renamed
    )
    converted = rows.set_column(1, "n", rows["n"].cast(pa.float64()))
    assert store.tables.read_arrow(store.tables.write("rows", converted, ("id",), before)).equals(
        converted
    )


def test_a_dry_run_writes_beside_the_kept_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    store = SnapshotStore(tmp_path / "kept")
    rows = {f"id{number:03}": "a" for number in range(100)}
    kept = store.tables.write("rows", encoded(rows), SCHEMA.order)
    files = sorted(store.root.rglob("*"))
    beside = SnapshotStore(tmp_path / "beside", beneath=store)
    tried = beside.tables.replace_rows(
        "rows", kept, "id", pa.array(["id007"], STRING), encoded({"id007": "b"})
    )
    assert pairs(beside.tables.read_arrow(tried)) == sorted({**rows, "id007": "b"}.items())
    assert sorted(store.root.rglob("*")) == files
    assert not store.tables.exists(tried)


def test_rows_are_found_by_numbers_and_by_texts(store: SnapshotStore):
    rows = pa.table({"id": pa.array(["a", "b", "c"], STRING), "n": [1, 2, None]})
    found = store.tables.select(
        store.tables.write("rows", rows, ("id",)),
        ["id", "n"],
        pa.array(["2", "c", "", "x"], STRING),
        ["id"],
    )
    assert found["id"].to_pylist() == ["b", "c"]


def test_writing_an_equal_table_returns_the_known_snapshot(store: SnapshotStore):
    before = store.tables.write("rows", encoded({"id1": "a"}), SCHEMA.order)
    assert store.tables.write("rows", encoded({"id1": "a"}), SCHEMA.order, before) is before


def test_rows_of_one_key_have_an_order_too(store: SnapshotStore):
    schema = table("id", id=STRING, text=STRING)
    one, two = (
        schema.encode(schema.frame([("k", text) for text in texts]), "rows")
        for texts in ("ab", "ba")
    )
    assert store.tables.read_arrow(store.tables.write("one", one, schema.order)).equals(
        store.tables.read_arrow(store.tables.write("two", two, schema.order))
    )


def test_the_identity_of_a_table_without_a_key_depends_on_the_order_of_its_rows(
    store: SnapshotStore,
):
    one, two = (
        store.tables.write("rows", pa.table({"text": texts})) for texts in (["a", "b"], ["b", "a"])
    )
    assert one.sha256 != two.sha256


def test_only_columns_with_repeated_values_have_dictionaries(store: SnapshotStore):
    vectors = pa.array([[0.5, float(n)] for n in range(3)], VECTOR)
    rows = pa.table(
        {
            "id": ["a", "b", "c"],
            "type": ["x"] * 3,
            "words": [["y"], ["y", "z"], []],
            "vector": vectors,
        }
    )
    written = pq.read_metadata(
        store.root / store.tables.write("rows", rows, ["id"]).files[0].path
    ).row_group(0)
    columns = [written.column(number) for number in range(written.num_columns)]
    with_one = {column.path_in_schema for column in columns if column.has_dictionary_page}
    assert with_one == {"type", "words.list.element"}


def test_readers_do_not_see_the_column_of_hashes(store: SnapshotStore):
    snapshot = store.tables.write("rows", encoded({"id1": "a"}), SCHEMA.order)
    assert HASH not in store.tables.read_arrow(snapshot).column_names
    assert HASH not in store.tables.columns(snapshot)
    assert HASH not in store.tables.read(snapshot).columns


CELLS = pa.table(
    {
        "text": pa.array(["", None, "ab", "a"], STRING),
        "more": pa.array(["ab", "abab", "", "b"], STRING),
        "list": pa.array([[], None, ["a", None], ["a", ""]], STRINGS),
        "records": pa.array(
            [None, [], [{"type": "a", "count": None}], [{"type": None, "count": 0}]], TYPE_COUNTS
        ),
        "number": pa.array([0, None, 1, -1], pa.int64()),
        "float": pa.array([0.0, None, 1.5, float("inf")]),
        "flag": pa.array([False, None, True, False]),
        "vector": pa.array([[], None, [0.5], [0.5, 0.0]], pa.large_list(pa.float32())),
        "day": pa.array([0, None, 1, 2], pa.date32()),
    }
)


@pytest.mark.parametrize("column", CELLS.column_names)
def test_different_cells_have_different_hashes(column: str):
    hashes = row_hashes(CELLS.select([column]), None)
    assert len({bytes(each) for each in hashes}) == len(
        {str(cell) for cell in CELLS[column].to_pylist()}
    )


def test_the_hash_of_a_row_does_not_depend_on_its_position():
    whole = row_hashes(CELLS, "text")
    apart = np.concatenate(
        [row_hashes(CELLS.slice(place, 1), "text") for place in range(len(CELLS))]
    )
    assert (whole == apart).all()
    turned = row_hashes(CELLS.take([3, 2, 1, 0]), "text")
    assert (turned[::-1] == whole).all()
    assert table_digest(turned, CELLS.schema, True) == table_digest(whole, CELLS.schema, True)
    assert table_digest(turned, CELLS.schema, False) != table_digest(whole, CELLS.schema, False)


def test_the_difference_of_two_tables_counts_equal_rows():
    left = row_hashes(pa.table({"text": ["a", "a", "a", "b"]}), None)
    right = row_hashes(pa.table({"text": ["a", "c"]}), None)
    one, other = in_one_alone(left, right)
    assert one.tolist() == [False, True, True, True]
    assert other.tolist() == [False, True]


def test_the_difference_compares_all_bytes_of_the_hashes():
    left = np.zeros((4, HASH_BYTES), np.uint8)
    left[:, -1] = [1, 2, 3, 2]
    right = left[[1, 0]].copy()
    one, other = in_one_alone(left, right)
    assert one.tolist() == [False, False, True, True]
    assert other.tolist() == [False, False]


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path)
