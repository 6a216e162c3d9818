"""Each table verb is tested on a small table, and on params that it refuses."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import FLOAT, INT, STRING, STRINGS, table
from pipeline.snapshots.store import SnapshotStore
from pipeline.verbs.tables.operations import Operation, cells_of
from tests.verbs.tables.apply import PEOPLE, TOWN_ROWS, TOWNS, applied, on_people, people, refusal

TOWN_TABLE = (TOWNS.frame(TOWN_ROWS), TOWNS)


def ids(frame: Any) -> list[str]:
    return frame["id"].tolist()


def test_select_keeps_columns_in_the_order_named():
    assert list(on_people("select", {"columns": ["name", "id"]}).columns) == ["name", "id"]


def test_drop_removes_columns_and_rename_renames_them():
    assert list(on_people("drop", {"columns": ["tags", "age"]}).columns) == [
        "id",
        "name",
        "town",
        "height",
    ]
    assert list(on_people("rename", {"columns": {"id": "key", "name": "id"}}).columns)[:2] == [
        "key",
        "id",
    ]


def test_without_its_key_a_table_is_in_the_order_of_all_its_columns():
    names = on_people("drop", {"columns": ["id"]})["name"].tolist()
    assert names == ["Ada Holm", "Idra Senn", "Mira Vale", "Otto Holm"]


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        ({"where": {"town": "Skarrow"}}, ["p1", "p2"]),
        ({"where": {"age": {">": 29, "<": 70}}}, ["p1"]),
        ({"where": {"tags": "builder"}}, ["p1", "p3"]),
        ({"where": {"town": {"exists": False}}}, ["p4"]),
        ({"where": {"name": {"matches": "* Holm"}, "height": {">=": 1.8}}}, ["p2"]),
        ({"where": {"name": {"matches": "* Holm"}, "age": 70}, "match": "any"}, ["p1", "p2", "p4"]),
    ],
)
def test_filter_keeps_the_rows_that_meet_the_condition(args: dict[str, Any], kept: list[str]):
    assert ids(on_people("filter", args)) == kept


@pytest.mark.parametrize(
    ("operation", "cells"),
    [
        ({"literal": 3}, [3, 3, 3, 3]),
        ({"copy": "town"}, ["Skarrow", "Skarrow", "Quill", None]),
        ({"fill": "town", "value": "?"}, ["Skarrow", "Skarrow", "Quill", "?"]),
        ({"fill": "height", "value": 0}, [1.7, 1.8, 0, 1.6]),
        ({"concat": ["id", "age", "town"], "separator": "/"},
            ["p1/31/Skarrow", "p2/29/Skarrow", "p3/Quill", "p4/70"]),
        ({"length": "name"}, [8, 9, 9, 9]),
        ({"length": "tags"}, [2, 0, 1, None]),
        ({"lower": "town"}, ["skarrow", "skarrow", "quill", None]),
        ({"upper": "id"}, ["P1", "P2", "P3", "P4"]),
        ({"join_items": "tags", "separator": "; "}, ["keeper; builder", "", "builder", None]),
        ({"add": ["age", 1]}, [32, 30, None, 71]),
        ({"subtract": [100, "age", 1]}, [68, 70, None, 29]),
        ({"multiply": ["age", "height"]}, [31 * 1.7, 29 * 1.8, None, 70 * 1.6]),
        ({"divide": ["age", 0]}, [None] * 4),
        ({"multiply": ["age", 2**62]}, [None] * 4),
        ({"equal": ["id", "town"]}, [False] * 4),
        ({"json": ["town", "age"]}, ['{"age": 31, "town": "Skarrow"}',
            '{"age": 29, "town": "Skarrow"}',
                                     '{"age": null, "town": "Quill"}',
                                     '{"age": 70, "town": null}']),
    ],
)  # fmt: skip
def test_each_operation_of_derive_makes_its_cells(operation: dict[str, Any], cells: list[Any]):
    made = on_people("derive", {"columns": {"new": operation}})["new"].astype(object)
    assert made.where(made.notna(), None).tolist() == cells


def test_derive_takes_texts_apart_and_reads_metadata():
    documents = table("id", id=STRING, metadata=STRING, keys=STRING)
    frame = documents.frame(
        [("d1", '{"year": 1871, "by": "Ada"}', "a, b,,c"), ("d2", "no JSON", None)]
    )
    args = {"columns": {"year": {"field": "metadata", "key": "year"}, "parts": {"split": "keys"}}}
    made = applied("derive", args, {"table": frame}, {"table": documents})["result"]
    assert made["year"].to_pylist() == ["1871", None]
    assert made["parts"].to_pylist() == [["a", "b", "c"], None]


def test_digests_tell_columns_apart():
    frame = table("a", a=STRING, b=STRING)
    rows = frame.frame([("xy", "z"), ("x", "yz")])
    args = {"columns": {"id": {"digest": ["a", "b"], "prefix": "pair-"}}}
    made = applied("derive", args, {"table": rows}, {"table": frame})["result"]["id"].to_pylist()
    assert len(set(made)) == 2
    assert all(id.startswith("pair-") and len(id) == 37 for id in made)


def test_join_adds_columns_for_each_partner():
    inner = on_people("join", {"on": "town"}, other=TOWN_TABLE)
    assert list(zip(inner["id"], inner["country"], strict=True)) == [
        ("p1", "Ask"),
        ("p2", "Ask"),
        ("p3", "Norland"),
    ]
    left = on_people(
        "join", {"on": {"town": "town"}, "how": "left", "prefix": "of_"}, other=TOWN_TABLE
    )
    assert left["of_country"].isna().tolist() == [False, False, False, True]


def test_join_may_only_ask_whether_there_is_a_partner():
    assert ids(on_people("join", {"on": "town", "how": "semi"}, other=TOWN_TABLE)) == [
        "p1",
        "p2",
        "p3",
    ]
    assert ids(on_people("join", {"on": ["town"], "how": "anti"}, other=TOWN_TABLE)) == ["p4"]


def test_concat_puts_rows_together_and_dedupe_takes_one_of_each():
    twice = applied(
        "concat", {}, {"table": people(), "other": people()}, {"table": PEOPLE, "other": PEOPLE}
    )["result"]
    assert twice["id"].to_pylist() == ["p1", "p1", "p2", "p2", "p3", "p3", "p4", "p4"]
    once = applied("dedupe", {}, {"table": twice.to_pandas()}, {"table": PEOPLE})["result"]
    assert once.to_pylist() == PEOPLE.encode(people(), "people").to_pylist()
    assert ids(on_people("dedupe", {"by": ["town"]})) == ["p1", "p3", "p4"]


def test_unroll_gives_each_item_a_row():
    made = on_people("unroll", {"column": "tags", "position": "place"})
    assert list(zip(made["id"], made["tags"], made["place"], strict=True)) == [
        ("p1", "builder", 1), ("p1", "keeper", 0), ("p3", "builder", 0),
    ]  # fmt: skip
    kept = on_people("unroll", {"column": "tags", "position": "place", "keep_empty": True})
    assert ids(kept) == ["p1", "p1", "p2", "p3", "p4"]
    assert kept["place"].isna().tolist() == [False, False, True, False, True]


@pytest.mark.parametrize(
    ("operation", "cells"),
    [
        ({"rows": None}, [1, 2, 1]),
        ({"count": "age"}, [0, 2, 1]),
        ({"count_distinct": "name"}, [1, 2, 1]),
        ({"sum": "age"}, [0, 60, 70]),
        ({"mean": "age"}, [None, 30.0, 70.0]),
        ({"min": "name"}, ["Mira Vale", "Ada Holm", "Idra Senn"]),
        ({"max": "height"}, [None, 1.8, 1.6]),
        ({"first": "name", "order": "age"}, ["Mira Vale", "Otto Holm", "Idra Senn"]),
        ({"last": "name", "order": "age"}, ["Mira Vale", "Ada Holm", "Idra Senn"]),
        ({"list": "id", "order": "age"}, [["p3"], ["p2", "p1"], ["p4"]]),
        ({"distinct": "height"}, [[], [1.7, 1.8], [1.6]]),
    ],
)
def test_each_operation_of_aggregate_gives_a_cell_for_each_group(
    operation: dict[str, Any], cells: list[Any]
):
    args = {"by": ["town"], "columns": {"new": operation}}
    made = applied("aggregate", args, {"table": people()}, {"table": PEOPLE})["result"]
    assert made["town"].to_pylist() == ["Quill", "Skarrow", None]
    assert made["new"].to_pylist() == cells


def test_aggregate_without_groups_is_one_row():
    made = on_people("aggregate", {"columns": {"people": {"rows": None}, "oldest": {"max": "age"}}})
    assert made.to_dict("records") == [{"people": 4, "oldest": 70}]


def test_order_by_fixes_the_order_of_the_rows():
    assert ids(on_people("order_by", {"by": ["age"], "descending": ["age"]})) == [
        "p4",
        "p1",
        "p2",
        "p3",
    ]
    assert ids(on_people("order_by", {"by": ["town", "age"], "descending": ["age"]})) == [
        "p3",
        "p1",
        "p2",
        "p4",
    ]
    assert ids(on_people("order_by", {"by": ["age"], "limit": 2})) == ["p2", "p1"]


def test_convert_changes_types_and_rejects_what_cannot_be():
    texts = table("id", id=STRING, year=STRING, ok=STRING)
    frame = texts.frame(
        [("1", "1871", "yes"), ("2", "about 1900", "no"), ("3", None, "maybe"), ("4", "2.5", None)]
    )
    args: dict[str, Any] = {"columns": {"year": "integer", "ok": "boolean"}}
    made = applied("convert", args, {"table": frame}, {"table": texts})
    assert made["result"].to_pylist() == [{"id": "1", "year": 1871, "ok": True}]
    assert made["rejects"]["row_id"].to_pylist() == ["2", "3", "4"]
    assert "column 'ok': no boolean" in made["rejects"]["message"][1].as_py()
    nulls = applied("convert", {**args, "invalid": "null"}, {"table": frame}, {"table": texts})
    assert nulls["result"]["year"].to_pylist() == [1871, None, None, None]
    assert nulls["rejects"].num_rows == 0


def test_convert_takes_no_text_with_an_underscore_for_a_number():
    texts = table("id", id=STRING, year=STRING)
    frame = texts.frame([("1", "1_871"), ("2", " 1871 ")])
    for kind in ("integer", "number"):
        args = {"columns": {"year": kind}}
        made = applied("convert", args, {"table": frame}, {"table": texts})
        assert made["rejects"]["row_id"].to_pylist() == ["1"]
        assert made["result"].to_pylist() == [{"id": "2", "year": 1871}]


def test_convert_writes_numbers_as_texts():
    made = on_people("convert", {"columns": {"age": "text", "height": "text"}})
    assert made["age"].tolist()[:2] == ["31", "29"]
    assert made["height"].tolist()[0] == "1.7"


def test_replace_text_replaces_one_after_the_other():
    steps = [
        {"find": "Holm", "put": "Island"},
        {"find": r"(\w+) (\w+)", "put": r"\2, \1", "regex": True},
    ]
    made = on_people("replace_text", {"columns": ["name", "town"], "replace": steps})
    assert made["name"].tolist() == ["Island, Ada", "Island, Otto", "Vale, Mira", "Senn, Idra"]
    assert made["town"].isna().tolist() == [False, False, False, True]


def test_snapshot_is_the_table():
    assert applied("snapshot", {}, {"table": people()}, {"table": PEOPLE})[
        "result"
    ] == PEOPLE.encode(people(), "p")


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("select", {"columns": ["nmae"]}, "no column 'nmae'; did you mean 'name'?"),
        ("drop", {"columns": ["x"]}, "no column 'x'; have: age, height, id, name, tags, town"),
        ("drop", {"columns": PEOPLE.columns}, "no column would be left"),
        ("rename", {"columns": {"id": "name"}}, "two would be called 'name'"),
        ("rename", {"columns": {"id": "a b"}}, "String should match pattern"),
        ("filter", {"where": {"twon": "Quill"}}, "did you mean 'town'?"),
        ("filter", {"where": {"town": {"~": "Q"}}}, "has no operator '~'"),
        ("derive", {"columns": {"x": {"lower": "nam"}}}, "did you mean 'name'?"),
        (
            "derive",
            {"columns": {"x": {"lowr": "name"}}},
            "no operation 'lowr'; did you mean 'lower'?",
        ),
        ("derive", {"columns": {"x": {"lower": "age"}}}, "'age' holds int64, no text"),
        ("derive", {"columns": {"x": {"lower": ["id", "name"]}}}, "does not take 2 operands"),
        ("derive", {"columns": {"x": {"lower": "name", "key": "k"}}}, "lower has no 'key'"),
        ("derive", {"columns": {"x": {"field": "name"}}}, "field needs 'key'"),
        ("derive", {"columns": {"x": {"add": ["name", 1]}}}, "'name' holds string, no number"),
        ("derive", {"columns": {"x": {"fill": "age", "value": "old"}}}, "make them agree"),
        ("derive", {"columns": {"x": {"lower": "a", "upper": "b"}}}, "name one operation"),
        ("unroll", {"column": "name"}, "holds string, no lists"),
        ("unroll", {"column": "tags", "position": "age"}, "has a column 'age'"),
        (
            "aggregate",
            {"by": ["tags"], "columns": {"n": {"rows": None}}},
            "unroll or join its items first",
        ),
        ("aggregate", {"by": ["town"], "columns": {"n": {"sum": "name"}}}, "no number"),
        ("aggregate", {"by": ["town"], "columns": {"town": {"rows": None}}}, "is in by"),
        ("aggregate", {"columns": {"n": {"median": "age"}}}, "Input should be 'rows', 'count'"),
        ("dedupe", {"by": ["ids"]}, "did you mean 'id'?"),
        ("order_by", {"by": ["age"], "descending": ["id"]}, "'id' is not in by"),
        ("convert", {"columns": {"tags": "text"}}, "unroll or join its items first"),
        (
            "replace_text",
            {"columns": ["name"], "replace": [{"find": "(", "regex": True}]},
            "no regular expression",
        ),
        (
            "replace_text",
            {"columns": ["name"], "replace": [{"find": "a", "put": r"\1", "regex": True}]},
            "no regular",
        ),
        (
            "replace_text",
            {"columns": ["age"], "replace": [{"find": "a"}]},
            "no text; convert it first",
        ),
    ],
)
def test_params_that_do_not_fit_the_table_are_refused_before_rows_are_read(
    name: str, args: dict[str, Any], message: str
):
    assert message in refusal(name, args)


def test_two_tables_must_fit_each_other():
    ages = table("town", town=INT, age=INT)
    assert "'town' and 'town' are string and int64" in refusal("join", {"on": "town"}, other=ages)
    clash = table("town", town=STRING, age=INT)
    assert "both tables have a column 'age'; set prefix" in refusal(
        "join", {"on": "town"}, other=clash
    )
    assert "no column" in refusal("concat", {}, other=TOWNS)
    assert "convert one of them" in refusal(
        "concat", {}, other=table("id", **{**_types(), "age": FLOAT})
    )


def _types() -> dict[str, Any]:
    return {
        "id": STRING,
        "name": STRING,
        "town": STRING,
        "age": INT,
        "height": FLOAT,
        "tags": STRINGS,
    }


def test_an_empty_table_gives_an_empty_table():
    empty = people([])
    args: dict[str, dict[str, Any]] = {
        "select": {"columns": ["id"]}, "drop": {"columns": ["id"]},
        "rename": {"columns": {"id": "key"}},
        "filter": {"where": {"age": 1}}, "derive": {"columns": {"n": {"length": "tags"}}},
        "join": {"on": "id", "prefix": "other_"},
        "concat": {}, "unroll": {"column": "tags", "position": "n"}, "snapshot": {},
        "aggregate": {"by": ["town"], "columns": {"n": {"sum": "age"}, "ids": {"list": "id"}}},
        "dedupe": {},
        "order_by": {"by": ["age"], "limit": 3}, "convert": {"columns": {"age": "text"}},
        "replace_text": {"columns": ["name"], "replace": [{"find": "a"}]},
    }  # fmt: skip
    for name, given in args.items():
        frames = dict.fromkeys(REGISTRY.verbs[name].inputs, empty)
        schemas = dict.fromkeys(frames, PEOPLE)
        assert all(made.num_rows == 0 for made in applied(name, given, frames, schemas).values()), (
            name
        )


def test_whole_floats_stay_floats_where_nothing_is_missing():
    squared = Operation(operation="multiply", operands=("wide", "wide"))
    assert cells_of(squared, pd.DataFrame({"wide": [5e9, 0.5]})) == [2.5e19, 0.25]


BEYOND_FLOATS = 2**53 + 1
BIG = table("id", id=STRING, n=INT)
BIG_ROWS = [("a", BEYOND_FLOATS), ("b", None), ("c", -BEYOND_FLOATS), ("d", 2**63 - 1)]


@pytest.mark.parametrize(
    ("name", "args", "column"),
    [
        ("snapshot", {}, "n"),
        ("rename", {"columns": {"n": "m"}}, "m"),
        ("filter", {"where": {"id": {"exists": True}}}, "n"),
        ("order_by", {"by": ["n"], "limit": 9}, "n"),
        ("dedupe", {}, "n"),
        ("derive", {"columns": {"m": {"add": ["n", 0]}}}, "m"),
        ("derive", {"columns": {"m": {"copy": "n"}}}, "m"),
        ("convert", {"columns": {"n": "integer"}}, "n"),
        ("join", {"on": "id", "how": "left", "prefix": "their_"}, "their_n"),
        ("aggregate", {"by": ["id"], "columns": {"m": {"max": "n"}}}, "m"),
        ("aggregate", {"by": ["id", "n"], "columns": {"m": {"rows": ""}}}, "n"),
    ],
)
def test_whole_numbers_beyond_2_to_the_53rd_stay_what_they_are_beside_gaps(
    tmp_path: Path, name: str, args: dict[str, Any], column: str
):
    store = SnapshotStore(tmp_path)
    read = store.tables.read(store.tables.write("big", BIG.encode(BIG.frame(BIG_ROWS), "big")))
    whole = BIG.frame([row for row in BIG_ROWS if row[1] is not None])
    frames = {"table": read} | ({"other": whole} if name == "join" else {})
    made = applied(name, args, frames, dict.fromkeys(frames, BIG))["result"]
    assert dict(zip(made["id"].to_pylist(), made[column].to_pylist(), strict=True)) == dict(
        BIG_ROWS
    )


def test_a_text_becomes_the_whole_number_it_says():
    texts = [str(BEYOND_FLOATS), f" -{BEYOND_FLOATS} ", "1e3", str(2**63), "9" * 5000]
    schema = table("id", id=STRING, n=STRING)
    frame = schema.frame([(str(place), text) for place, text in enumerate(texts)])
    made = applied(
        "convert",
        {"columns": {"n": "integer"}, "invalid": "null"},
        {"table": frame},
        {"table": schema},
    )
    assert made["result"]["n"].to_pylist() == [BEYOND_FLOATS, -BEYOND_FLOATS, 1000, None, None]
