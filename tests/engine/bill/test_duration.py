"""The time of a step's calls, from the usage rows of earlier runs."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from pipeline.engine.bill.duration import (
    RECENT_RUNS,
    conversion_in_words,
    duration_in_words,
    seconds_of_calls,
    seconds_of_conversions,
    size_in_words,
    span_in_words,
    sum_of_seconds,
    time_in_words,
)
from pipeline.engine.bill.expected_calls import Estimate
from pipeline.engine.usage.journal import USAGE
from pipeline.models.endpoint.limits import Rate


@dataclass(frozen=True)
class Served:
    model: str = "small"
    concurrency: int = 2
    rate: Rate = Rate()


@dataclass(frozen=True)
class InBatches(Served):
    def full_cost(self, tokens: object) -> float:
        return 0.0


def run(
    name: str, count: int, every: float, began: float = 0.0, **changed: Any
) -> list[dict[str, Any]]:
    """Return calls of one run, two at a time, of which one ends every so many seconds."""
    row = {
        "step": "extract",
        "model": "small",
        "outcome": "ok",
        "run_id": name,
        "seconds": 2 * every,
    }
    return [{**row, "at": began + every * (number + 1), **changed} for number in range(count)]


def usage(*rows: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows))
    return frame.reindex(columns=[*USAGE.columns]) if len(frame) else USAGE.frame()


def seconds(
    calls: tuple[int, int], *rows: dict[str, Any], model: Any = Served(), **tokens: Any
) -> Any:
    return seconds_of_calls("extract", model, Estimate(calls=calls, **tokens), usage(*rows))


def test_calls_take_the_wall_time_of_an_earlier_run():
    # 99 seconds lie between the first and the last end, and the first call began 2 seconds before
    # its end.
    assert seconds((50, 100), *run("one", 100, 1.0)) == pytest.approx((50 * 1.01, 100 * 1.01))


def test_the_fastest_run_gives_the_least_and_the_slowest_the_most():
    least, most = seconds((100, 100), *run("fast", 1000, 1.0), *run("slow", 1000, 3.0, began=9_000))
    assert (least, most) == pytest.approx((100, 300), rel=0.01)


def test_runs_of_long_ago_do_not_count():
    recent = [
        row for n in range(RECENT_RUNS) for row in run(f"run {n}", 1000, 1.0, began=1e6 + 2000 * n)
    ]
    least, most = seconds((100, 100), *run("first", 1000, 50.0), *recent)
    assert least == most == pytest.approx(100, rel=0.01)


def test_few_calls_say_the_seconds_of_one_and_the_concurrency_the_rest():
    assert seconds((10, 20), *run("one", 3, 4.0)) == pytest.approx((10 * 8 / 2, 20 * 8 / 2))


def test_one_call_takes_as_long_as_a_call_whatever_the_throughput():
    assert seconds((1, 1), *run("one", 100, 1.0)) == pytest.approx((2, 2))


def test_limits_a_minute_bound_the_speed():
    slow = Served(rate=Rate(requests_per_minute=6))
    assert seconds((93, 93), *run("one", 100, 1.0), model=slow)[0] == pytest.approx(1000)
    few_tokens = Served(rate=Rate(tokens_per_minute=100))
    took = seconds(
        (1, 1),
        *run("one", 100, 1.0),
        model=few_tokens,
        input_tokens=(93, 93),
        output_tokens=(0, 93),
    )
    assert took == pytest.approx((60, 120))


@pytest.mark.parametrize(
    "changed",
    [{"seconds": 0.0}, {"outcome": "throttled"}, {"model": "another"}, {"step": "report"}],
    ids=["batch", "throttled", "another model", "another step"],
)
def test_rows_without_the_time_of_a_reply_are_left_out(changed: dict[str, Any]):
    assert seconds((10, 10), *run("one", 100, 1.0, **changed)) is None
    measured = run("two", 100, 1.0)
    assert seconds((10, 10), *run("one", 100, 9.0, **changed), *measured) == seconds(
        (10, 10), *measured
    )


def test_the_time_is_unknown_for_batches_and_before_the_first_run():
    assert seconds((10, 10), *run("one", 100, 1.0), model=InBatches()) is None
    assert seconds((10, 10)) is None
    assert seconds((0, 0)) == (0, 0)


def test_before_the_first_run_the_speed_that_doctor_measured_counts():
    def measured(calls: tuple[int, int], *rows: dict[str, Any], model: Any = Served()) -> Any:
        expected = Estimate(calls=calls, output_tokens=(1_000, 3_000))
        return seconds_of_calls("extract", model, expected, usage(*rows), 10.0)

    assert measured((5, 15)) == (100, 300)
    assert measured((5, 15), *run("one", 100, 1.0)) == seconds((5, 15), *run("one", 100, 1.0))
    assert measured((5, 15), model=InBatches()) is None
    assert measured((20, 20), model=Served(rate=Rate(requests_per_minute=6)))[0] > 200


def test_the_total_is_unknown_where_one_step_is():
    assert sum_of_seconds([(1.0, 2.0), (0.0, 5.0)]) == [1.0, 7.0]
    assert sum_of_seconds([(1.0, 2.0), None]) is None
    assert sum_of_seconds([]) == [0, 0]


def test_the_message_on_time_names_known_and_unknown_steps():
    assert time_in_words({"load": (0.0, 0.0)}) == ""
    assert (
        time_in_words({"extract": (4800.0, 7000.0), "embed": (0.0, 200.0)})
        == "time of model calls: 1 h 20 min to 2 h, at the speed that earlier runs or doctor"
        " measured"
    )
    unknown = "not known yet; neither an earlier run nor doctor has measured this model"
    assert time_in_words({"extract": None, "load": (0.0, 0.0)}) == f"time: {unknown} (extract)"
    assert (
        time_in_words({"extract": (60.0, 60.0), "report": None})
        == "time of model calls (extract): 1 min, at the speed that earlier runs or doctor"
        f" measured; report: {unknown}"
    )


def ran(size: int, seconds: float) -> dict[str, Any]:
    """Return the report of a run that converted files of ``size`` bytes in so many seconds."""
    return {"steps": [{"converted_bytes": size, "conversion_seconds": seconds}, {"seconds": 9.0}]}


def test_conversions_take_the_time_that_the_last_runs_measured():
    runs = [ran(1_000, 10.0), ran(0, 0.0), {"steps": [{}]}, ran(4_000, 10.0)]
    assert seconds_of_conversions(2_000, runs) == (5.0, 20.0)
    assert seconds_of_conversions(2_000, [ran(2_000, 1.0)] * 5 + runs) == (1.0, 1.0)
    assert seconds_of_conversions(2_000, [ran(0, 0.0)]) is None


def test_the_message_on_conversions_names_files_size_and_time():
    assert conversion_in_words(0, 0, []) == ""
    assert "1 file to be converted (0.1 MB): the time is not known yet" in conversion_in_words(
        1, 100_000, []
    )
    known = conversion_in_words(3, 100_000, [ran(1_000, 1.0)])
    assert known.startswith("3 files to be converted (0.1 MB): 2 min at the speed of earlier runs")


def test_durations_and_sizes_are_rounded_for_people():
    words = [duration_in_words(seconds) for seconds in (0.2, 45, 59.9, 61, 3570, 3600, 4790, 7150)]
    assert words == ["less than 1 s", "45 s", "1 min", "1 min", "1 h", "1 h", "1 h 20 min", "2 h"]
    assert span_in_words(61, 62) == "1 min"
    assert [size_in_words(size) for size in (10, 1_230_000)] == ["less than 0.1 MB", "1.2 MB"]
