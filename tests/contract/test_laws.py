"""Every verb and every sub-step is checked against its law, over splits of the groups and over
runs."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pipeline.contract.laws import Law, Uses
from pipeline.contract.registry import REGISTRY, Params
from pipeline.contract.schemas import FLOAT, STRING, table
from tests.drawn_tables import drawn_tables, edited
from tests.held_laws import (
    Lawful,
    chained,
    changed_groups,
    groups_of,
    hold_night,
    hold_split,
    of_part,
    of_verb,
)
from tests.sizes import size
from tests.verbs.test_verb_laws import CHAIN, folder, roles_of, schemas_of

__all__ = ["folder"]
held = settings(max_examples=size(6, 500), phases=(Phase.reuse, Phase.generate))
WITH_LAW = sorted(name for name in CHAIN if REGISTRY.verbs[name].law)
IN_PARTS = sorted(name for name in CHAIN if REGISTRY.verbs[name].parts)


@pytest.mark.parametrize("name", WITH_LAW)
@held
@given(data=st.data())
def test_a_verb_holds_its_law(name: str, data: st.DataObject, folder: Path):
    verb = REGISTRY.verbs[name]
    schemas = schemas_of(verb)
    one = of_verb(verb, schemas, roles_of(verb, folder))
    before = data.draw(drawn_tables(schemas), "tables")
    now = data.draw(edited(schemas, before), "tables after a night")
    groups = data.draw(st.sets(st.sampled_from(groups_of(one.law, before) or [""])), "groups")
    hold_split(one, before, groups)
    hold_night(one, before, now)


@pytest.mark.parametrize(
    ("name", "args"), [*((name, {}) for name in IN_PARTS), ("merge_graphs", {"orphans": "drop"})]
)
@held
@given(data=st.data())
def test_each_sub_step_holds_its_law_and_together_they_equal_the_verb(
    name: str, args: Mapping[str, str], data: st.DataObject, folder: Path
):
    verb = REGISTRY.verbs[name]
    schemas, roles = schemas_of(verb), roles_of(verb, folder)
    if args:
        roles["params"] = verb.params(**args)
    before = data.draw(drawn_tables(schemas), "tables")
    now = data.draw(edited(schemas, before), "tables after a night")
    outputs = {}
    params = roles.get("params", Params())
    for (part, then, made), (_, tables, _) in zip(
        chained(verb, before, roles), chained(verb, now, roles), strict=True
    ):
        outputs |= made
        if part.law is not None:
            one = of_part(part, roles)
            groups = data.draw(
                st.sets(st.sampled_from(groups_of(one.law, then) or [""])), f"groups of {one.name}"
            )
            hold_split(one, then, groups)
            hold_night(one, then, tables)
    whole = verb.call(before, roles)
    for output, schema in verb.written(schemas, params).items():
        assert outputs[output].to_pylist() == schema.encode(whole[output], output).to_pylist()


READINGS = table("id", id=STRING, place=STRING, value=FLOAT)
PLACES = table("id", id=STRING, name=STRING)
SCHEMAS = {"readings": READINGS, "places": PLACES}


def with_names(tables: Mapping[str, pd.DataFrame]) -> dict[str, pa.Table]:
    """Return readings with the names of their places."""
    names = tables["places"].set_index("id")["name"]
    readings = tables["readings"]
    return {
        "named": READINGS.encode(
            readings.assign(place=readings["place"].map(names).fillna("")), "named"
        )
    }


def counted(tables: Mapping[str, pd.DataFrame]) -> dict[str, pa.Table]:
    """Return readings with the number of readings of the same place."""
    readings = tables["readings"]
    rows = readings.assign(value=readings.groupby("place")["id"].transform("size").astype(float))
    return {"named": READINGS.encode(rows, "named")}


def by(
    column: str, call: Callable[[Mapping[str, pd.DataFrame]], dict[str, pa.Table]], **lookup: Uses
) -> Lawful:
    return Lawful("verb", Law({"readings": (column,)}, {"named": column}, lookup), SCHEMAS, call)


def place_tables(place: str, *readings: str) -> dict[str, pd.DataFrame]:
    rows = [(id, "p", 0.0) for id in readings]
    return {"readings": READINGS.frame(rows), "places": PLACES.frame([("p", place)])}


QUILL, TOLLEN, FEWER = (
    place_tables("Quill", "a", "b"),
    place_tables("Tollen", "a", "b"),
    place_tables("Quill", "a"),
)
USED = Uses("readings", ("place",))


def test_rows_that_are_computed_together_form_one_group():
    hold_split(by("place", counted), QUILL, {"p"})
    hold_night(by("place", counted), QUILL, FEWER)
    with pytest.raises(AssertionError, match="verb: named of"):
        hold_split(by("id", counted), QUILL, {"a"})
    with pytest.raises(AssertionError, match="verb: named"):
        hold_night(by("id", counted), QUILL, FEWER)


def test_a_law_with_a_wrong_lookup_is_found():
    hold_night(by("id", with_names, places=USED), QUILL, TOLLEN)
    with pytest.raises(AssertionError, match="verb: named"):
        hold_night(by("id", with_names, places=Uses("readings", ("id",))), QUILL, TOLLEN)


def test_a_change_of_an_input_that_is_read_whole_changes_every_group():
    assert changed_groups(by("id", with_names), QUILL, TOLLEN) is None
    assert changed_groups(by("id", with_names), QUILL, FEWER) == {"b"}
    assert changed_groups(by("id", with_names), QUILL, QUILL) == set()


def test_floats_are_compared_to_the_bit():
    def summed(tables: Mapping[str, pd.DataFrame]) -> dict[str, pa.Table]:
        readings = tables["readings"]
        return {
            "named": READINGS.encode(
                readings.assign(value=-0.0 if len(readings) > 1 else 0.0), "named"
            )
        }

    with pytest.raises(AssertionError, match="verb: named"):
        hold_split(by("id", summed), QUILL, {"a"})
