import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Delta
from pipeline.stores.list_columns import frame_of
from tests.sizes import size

CELLS = st.fixed_dictionaries(
    {
        "name": st.text(max_size=8),
        "weight": st.floats(0.0, 1e6),
        "rank": st.integers(-(2**31), 2**31 - 1),
        "source_id": st.lists(st.text(max_size=3), max_size=3),
    }
)
quickly = settings(deadline=None, max_examples=size(12, 50))
TABLES = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), CELLS, max_size=12)


def rows(table: dict[str, dict]) -> pd.DataFrame:
    cells = [{"id": id, **cells} for id, cells in table.items()]
    return with_hashes(pd.DataFrame(cells, columns=["id", "name", "weight", "rank", "source_id"]))


def stored(frame: pd.DataFrame) -> dict[str, str]:
    return dict(zip(frame["id"], frame["row_hash"], strict=True))


def apply(delta: Delta, before: pd.DataFrame) -> dict[str, dict]:
    table = {row["id"]: row for row in before.to_dict("records")}
    for id in delta.deleted:
        del table[id]
    for row in delta.updated.to_dict("records"):
        assert row["id"] in table
        table[row["id"]] = row
    for row in delta.inserted.to_dict("records"):
        assert row["id"] not in table
        table[row["id"]] = row
    return table


@quickly
@given(TABLES, TABLES)
def test_a_delta_turns_the_old_rows_into_the_new_ones(old: dict, new: dict):
    before, after = rows(old), rows(new)
    delta = diff(after, stored(before))
    assert apply(delta, before) == {row["id"]: row for row in after.to_dict("records")}
    assert sum(delta.counts.values()) == len(old.keys() | new.keys())
    assert list(delta.deleted) == sorted(old.keys() - new.keys())


@quickly
@given(TABLES)
def test_a_table_does_not_differ_from_itself(table: dict):
    delta = diff(rows(table), stored(rows(table)))
    assert delta.empty
    assert delta.unchanged == len(table)


@quickly
@given(TABLES, TABLES)
def test_only_what_differs_is_written(old: dict, new: dict):
    delta = diff(rows(new), stored(rows(old)))
    same = {id for id in old.keys() & new.keys() if old[id] == new[id]}
    assert delta.unchanged == len(same)


@quickly
@given(CELLS, CELLS)
def test_hashes_are_equal_when_rows_are(one: dict, other: dict):
    [first], [second] = rows({"a": one})["row_hash"], rows({"a": other})["row_hash"]
    assert (first == second) == (one == other)


def test_a_hash_does_not_depend_on_how_a_cell_is_held():
    held = [
        pd.DataFrame({"id": ["a"], "units": [["x", "y"]], "degree": [3]}),
        pd.DataFrame(
            {"degree": np.array([3]), "id": ["a"], "units": [np.array(["x", "y"], dtype=object)]}
        ),
        frame_of(pa.table({"id": ["a"], "units": [["x", "y"]], "degree": [3]})),
    ]
    assert len({with_hashes(frame)["row_hash"][0] for frame in held}) == 1


def test_a_hash_of_a_vector_does_not_depend_on_how_it_is_held():
    vectors = [np.arange(4, dtype=np.float32), np.ones(4, dtype=np.float32)]
    held = pd.DataFrame({"id": ["a", "b"], "embedding": vectors})
    in_arrow = pa.table({"id": ["a", "b"], "embedding": pa.array(vectors, pa.list_(pa.float32()))})
    assert (
        with_hashes(held)["row_hash"].tolist()
        == with_hashes(frame_of(in_arrow))["row_hash"].tolist()
    )


def test_a_hash_sees_every_float_of_a_vector():
    vector = np.arange(4, dtype=np.float32)
    nudged = vector.copy()
    nudged[2] = np.nextafter(nudged[2], np.float32(9))
    frame = pd.DataFrame({"id": ["a", "a"], "embedding": [vector, nudged]})
    assert with_hashes(frame)["row_hash"].nunique() == 2


def test_cells_do_not_run_into_each_other():
    frame = pd.DataFrame({"a": ["x", "xy"], "b": ["yz", "z"]})
    assert with_hashes(frame)["row_hash"].nunique() == 2
