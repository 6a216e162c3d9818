"""Laws of the table verbs: no order of rows can be seen, slices change nothing, no input is
changed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.registry import REGISTRY
from pipeline.verbs import tables
from tests.sizes import size as sized
from tests.verbs.tables.apply import PEOPLE, TOWN_ROWS, TOWNS, applied, people

ARGS: dict[str, list[dict[str, Any]]] = {
    "select": [{"columns": ["town", "tags"]}],
    "drop": [{"columns": ["id"]}],
    "rename": [{"columns": {"id": "key"}}],
    "filter": [{"where": {"age": {">=": 2}, "town": {"exists": True}}, "match": "any"}],
    "derive": [
        {
            "columns": {
                "new": {"add": ["age", 1, "height"]},
                "text": {"concat": ["id", "town", "age"]},
            }
        }
    ],
    "join": [{"on": "town", "how": how} for how in ("inner", "left", "semi", "anti")],
    "concat": [{}],
    "unroll": [
        {"column": "tags", "position": "place", "keep_empty": keep} for keep in (True, False)
    ],
    "aggregate": [
        {
            "by": ["town", "age"],
            "columns": {"n": {"rows": None}, "h": {"sum": "height"}, "ids": {"list": "id"}},
        },
        {"columns": {"mean": {"mean": "height"}, "last": {"last": "name", "order": "age"}}},
    ],
    "dedupe": [{}, {"by": ["town"]}],
    "order_by": [{"by": ["age", "town"], "descending": ["age"], "limit": 3}, {"by": ["tags"]}],
    "convert": [{"columns": {"town": "integer", "age": "text"}}],
    "replace_text": [{"columns": ["name"], "replace": [{"find": "a", "put": "b"}]}],
    "snapshot": [{}],
}
CASES = [(name, args) for name, cases in ARGS.items() for args in cases]

word = st.sampled_from(["", "a", "b", "1", "ß"])
row = st.tuples(
    st.integers(0, 99).map(str),
    word,
    st.none() | word,
    st.none() | st.integers(0, 4),
    st.none() | st.sampled_from([0.1, 0.2, 0.3, 1.0]),
    st.none() | st.lists(word, max_size=3),
)


def inputs(name: str, rows: list[tuple[Any, ...]]) -> tuple[dict[str, Any], dict[str, Any]]:
    frames, schemas = {"table": people(rows)}, {"table": PEOPLE}
    if name == "join":
        frames["other"], schemas["other"] = TOWNS.frame([*TOWN_ROWS, ("a", "A"), ("a", "B")]), TOWNS
    if name == "concat":
        frames["other"], schemas["other"] = people(rows[:2]), PEOPLE
    return frames, schemas


def test_every_table_verb_is_tested():
    assert set(ARGS) == set(tables.__all__)


@pytest.mark.parametrize(("name", "args"), CASES)
@settings(max_examples=sized(5, 200))
@given(rows=st.lists(row, max_size=8, unique_by=lambda cells: cells[0]), size=st.integers(1, 3))
def test_the_order_of_rows_and_slices_do_not_change_the_result(
    name: str, args: dict[str, Any], rows: list[Any], size: int
):
    frames, schemas = inputs(name, rows)
    made = applied(name, args, frames, schemas)
    turned = {key: frame.iloc[::-1].reset_index(drop=True) for key, frame in frames.items()}
    assert applied(name, args, turned, schemas) == made
    if REGISTRY.verbs[name].rowwise:
        assert applied(name, args, frames, schemas, batch_rows=size) == made
    for key, schema in schemas.items():
        assert schema.encode(frames[key], key) == schema.encode(inputs(name, rows)[0][key], key)
