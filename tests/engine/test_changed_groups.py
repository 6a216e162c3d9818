"""Runs of small verbs with each kind of law: whatever rows come, change and go, the tables are
those of a full build."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.contract.laws import ByParams, Law, Part, Uses
from pipeline.contract.registry import Params, Verb, verb
from pipeline.contract.schemas import FLOAT, INT, STRING, table
from pipeline.engine import changed_groups, tasks
from pipeline.engine.changed_groups import LastRun, outputs_of
from pipeline.engine.run_report import Progress
from pipeline.engine.runner import Runner
from pipeline.snapshots import tables
from pipeline.snapshots.store import Snapshot, SnapshotStore
from tests.engine.small_project import SmallProject
from tests.sizes import size

READINGS = table("id", id=STRING, place=STRING, year=INT, value=FLOAT)
PLACES = table("name", name=STRING, height=INT)
YEARS = table("year", year=INT, readings=INT, ids=STRING)
SUMS = table("place", place=STRING, sum=FLOAT)
HEIGHTS = table("id", id=STRING, height=INT)
SHARES = table("id", id=STRING, share=FLOAT)
WORKFLOW = """
name: readings
steps:
  - verb: read_readings
    args: {path: readings.json}
  - verb: count_years
  - verb: sum_places
  - verb: look_up_heights
  - verb: share_sums
"""


class ReadParams(Params):
    path: str
    root: str


def read_readings(params: ReadParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    readings, places = json.loads((Path(params.root) / params.path).read_text())
    return READINGS.frame([tuple(row) for row in readings]), PLACES.frame(
        [tuple(row) for row in places]
    )


def count_years(readings: pd.DataFrame) -> pd.DataFrame:
    """Count the readings of each year: groups are named by numbers."""
    years = readings.sort_values("id").groupby("year")["id"].agg(["size", " ".join]).reset_index()
    return years.set_axis(["year", "readings", "ids"], axis=1)


def sum_places(readings: pd.DataFrame) -> pd.DataFrame:
    sums = readings.sort_values("id").groupby("place")["value"].sum().reset_index()
    return sums.set_axis(["place", "sum"], axis=1)


def look_up_heights(readings: pd.DataFrame, places: pd.DataFrame) -> pd.DataFrame:
    heights = readings["place"].map(places.set_index("name")["height"]).fillna(-1).astype("int64")
    return pd.DataFrame({"id": readings["id"], "height": heights})


def divide(readings: pd.DataFrame, sums: pd.DataFrame) -> pd.DataFrame:
    shares = readings["value"] / readings["place"].map(sums.set_index("place")["sum"]).astype(float)
    return pd.DataFrame({"id": readings["id"], "share": shares.where(shares.notna(), -1.0)})


def share_sums(readings: pd.DataFrame) -> pd.DataFrame:
    return divide(readings, sum_places(readings))


BY_PLACE = Law({"readings": ("place",)}, {"sums": "place"})
BY_SUM = Law(
    {"readings": ("id",)}, {"shares": "id"}, {"sums": Uses("readings", ("place",), "place")}
)


class ScaleParams(Params):
    factor: float


def scale(sums: pd.DataFrame, params: ScaleParams) -> pd.DataFrame:
    return sums.assign(sum=sums["sum"] * params.factor)


def scale_sums(readings: pd.DataFrame, params: ScaleParams) -> pd.DataFrame:
    return scale(sum_places(readings), params)


def scaled_in_parts(params: object) -> tuple[Part, ...]:
    by_place = Law({"sums": ("place",)}, {"scaled": "place"})
    return (
        Part(sum_places, {"readings": READINGS}, {"sums": SUMS}, BY_PLACE),
        Part(scale, {"sums": SUMS}, {"scaled": SUMS}, by_place),
    )


def shares_in_parts(params: object) -> tuple[Part, ...]:
    return (
        Part(sum_places, {"readings": READINGS}, {"sums": SUMS}, BY_PLACE),
        Part(divide, {"readings": READINGS, "sums": SUMS}, {"shares": SHARES}, BY_SUM),
    )


@pytest.fixture
def readings(project: SmallProject) -> SmallProject:
    verb(
        inputs={}, outputs={"readings": READINGS, "places": PLACES}, settings="input",
        stamp=lambda params: (Path(params.root) / params.path).read_text(),
    )(read_readings)  # fmt: skip
    by_readings: Any = {"inputs": {"readings": READINGS}}
    verb(
        **by_readings,
        outputs={"years": YEARS},
        keyed={"readings": ("year",)},
        row_of={"years": "year"},
    )(count_years)
    verb(
        **by_readings,
        outputs={"sums": SUMS},
        keyed={"readings": ("place",)},
        row_of={"sums": "place"},
    )(sum_places)
    verb(
        inputs={"readings": READINGS, "places": PLACES}, outputs={"heights": HEIGHTS},
        rowwise="readings",
        row_of={"heights": "id"}, lookup={"places": Uses("readings", ("place",), "name")},
    )(look_up_heights)  # fmt: skip
    verb(**by_readings, outputs={"shares": SHARES}, parts=shares_in_parts)(share_sums)
    project.workflow_text = WORKFLOW
    return project


def run(project: SmallProject, snapshots: Path) -> dict[str, list[str]]:
    runner = Runner(project.resources, SnapshotStore(snapshots), Progress())
    made = runner.run(project.workflow, "run").manifest.tables
    return {
        name: [
            made[name].sha256,
            *map(repr, runner.snapshots.tables.read_arrow(made[name]).to_pylist()),
        ]
        for name in made
    }


ROW = st.tuples(
    st.sampled_from("abcdefgh"), st.sampled_from(["Quill", "Tollen", "", None]),
    st.sampled_from([0, 1899, 1901, None]),
    st.sampled_from([0.1, 0.2, 0.3, 1e15]),
)  # fmt: skip
PLACE = st.tuples(st.sampled_from(["Quill", "Tollen", ""]), st.integers(0, 2))
NIGHT = st.tuples(
    st.lists(ROW, min_size=1, max_size=8, unique_by=lambda row: row[0]),
    st.lists(PLACE, max_size=3, unique_by=lambda row: row[0]),
)


@settings(
    max_examples=size(6, 300),
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(nights=st.lists(NIGHT, min_size=2, max_size=3), number=st.uuids())
def test_any_history_of_runs_ends_in_the_tables_of_a_full_build(
    readings: SmallProject, nights: Sequence[Any], number: object
):
    """Rows with a missing group name form one group with "" or 0, as the verb sees them."""
    made: dict[str, list[str]] = {}
    few = 1 + len(nights[0][0]) % 3
    in_buckets, at_once = (
        patch.object(tasks, "TASK_ROWS", few),
        patch.object(changed_groups, "ROWS_AT_ONCE", few),
    )
    with (
        in_buckets,
        at_once,
        patch.multiple(tables, WHOLE_BELOW=1, BUCKET_ROWS=2, MOST_ADDITIONS=1),
    ):
        for night in nights:
            (readings.root / "readings.json").write_text(json.dumps(night))
            made = run(readings, readings.root / f"nightly-{number}")
    assert made == run(readings, readings.root / f"fresh-{number}")


def test_other_params_recompute_only_the_sub_steps_that_read_them(readings: SmallProject):
    verb(inputs={"readings": READINGS}, outputs={"scaled": SUMS}, parts=scaled_in_parts)(scale_sums)
    rows = [("a", "Quill", 1899, 0.1), ("b", "Tollen", 1901, 0.2)]
    (readings.root / "readings.json").write_text(json.dumps([rows, []]))
    lines = WORKFLOW.splitlines()[:5]
    made = {}
    for factor, called in ((2.0, ["sum_places", "scale"]), (3.0, ["scale"])):
        scaling = f"  - verb: scale_sums\n    args: {{factor: {factor}}}\n"
        readings.workflow_text = "\n".join([*lines, scaling])
        with patch.object(Part, "call", autospec=True, side_effect=Part.call) as call:
            made = run(readings, readings.root / "nightly")
        assert [each.args[0].function.__name__ for each in call.call_args_list] == called
    assert made == run(readings, readings.root / "fresh")


class LeastParams(Params):
    least: float


def mark_high(readings: pd.DataFrame, params: LeastParams) -> pd.DataFrame:
    """Return a sum of one for each place with a reading of the least value or more."""
    high = readings[readings["value"] >= params.least].drop_duplicates("place")
    return SUMS.frame([(place, 1.0) for place in high["place"]])


def are_between(readings: pd.DataFrame, before: LeastParams, now: LeastParams) -> "pd.Series[bool]":
    return (readings["value"] >= before.least) != (readings["value"] >= now.least)


@pytest.mark.parametrize(("least", "called"), [(4.0, {"c"}), (1.0, set()), (9.0, set("abcd"))])
def test_other_params_recompute_only_the_groups_that_they_affect(
    readings: SmallProject, least: float, called: set[str]
):
    verb(
        inputs={"readings": READINGS},
        outputs={"high": SUMS},
        keyed={"readings": ("place",)},
        row_of={"high": "place"},
        by_params=ByParams(("value",), are_between),
    )(mark_high)
    rows = [(place, place, 1899, value) for place, value in zip("abcd", (6, 5, 3, 7), strict=True)]
    (readings.root / "readings.json").write_text(json.dumps([rows, []]))
    lines = WORKFLOW.splitlines()[:5]
    made, seen, uncounted = {}, set[str](), Verb.call

    def call(marking: Verb, tables: Mapping[str, pd.DataFrame], roles: Any) -> Any:
        if marking.function is mark_high:
            seen.update(tables["readings"]["place"])
        return uncounted(marking, tables, roles)

    for limit in (2.0, least):
        seen.clear()
        marking = f"  - verb: mark_high\n    args: {{least: {limit}}}\n"
        readings.workflow_text = "\n".join([*lines, marking])
        with patch.object(Verb, "call", autospec=True, side_effect=call):
            made = run(readings, readings.root / "nightly")
    assert seen == called
    assert made == run(readings, readings.root / "fresh")


def test_many_changed_rows_are_read_some_groups_at_a_time(
    readings: SmallProject, monkeypatch: pytest.MonkeyPatch
):
    step = readings.workflow.steps[2]
    store, sizes = SnapshotStore(readings.root / "snapshots"), list[int]()

    def make(
        part: Part, inputs: Mapping[str, pd.DataFrame], groups: object
    ) -> dict[str, pd.DataFrame]:
        sizes.append(len(inputs["readings"]))
        return part.call(inputs, {})

    def night(value: float, last: LastRun) -> tuple[dict[str, Snapshot], LastRun]:
        rows = [
            (f"{number:03}", f"place {number // 2}", 1900, value + number) for number in range(200)
        ]
        read = {
            "readings": store.tables.write(
                "readings", READINGS.encode(READINGS.frame(rows), "readings"), ("id",)
            )
        }
        made = outputs_of(step, read, last, store, make)
        return made, LastRun(read, made)

    _, first = night(0.5, LastRun(None, {}))
    monkeypatch.setattr(changed_groups, "ROWS_AT_ONCE", 50)
    made, _ = night(0.25, first)
    assert sizes[0] == 200 == sum(sizes[1:])
    assert max(sizes[1:]) < 75
    assert made == night(0.25, LastRun(None, {}))[0]
