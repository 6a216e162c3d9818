"""Estimate the time of model calls and conversions, at the speed that earlier runs measured.

The speed of calls is the wall time between two replies, so that it includes the concurrency and the
limits of the endpoint. The speed of conversions is bytes of files per second of wall time. The time
of local steps and of loads is not estimated: no run keeps it by amount of work.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pandas as pd

from pipeline.engine.bill.expected_calls import ENOUGH, Estimate, Seconds
from pipeline.engine.resources import Model
from pipeline.errors import counted

NOT_MEASURED = "not known yet; neither an earlier run nor doctor has measured this model"
RECENT_RUNS = 5
"""Only the last runs count: an endpoint that was slow months ago says little about today."""
ROUNDS_OF_CALLS = 2
"""A run measures the throughput if each place of the concurrency had two calls. In fewer calls,
places were empty."""


def seconds_of_calls(
    step_id: str, model: Model, estimate: Estimate, usage: pd.DataFrame, speed: float | None = None
) -> Seconds | None:
    """Return the least and the most seconds that the calls of ``estimate`` take.

    ``usage``: calls of earlier runs (columns of ``USAGE``). The least is the fewest calls at the
    speed of the fastest earlier run, the most is the most calls at that of the slowest. Neither is
    below the time of a single call or the time that the model's limits per minute demand. Where no
    earlier run asked this model in this step, the expected tokens of replies are divided by
    ``speed``, the tokens in a second that doctor measured. Return None without either, and for a
    model that works in batches: its provider decides when they end.
    """
    if estimate.calls[1] == 0:
        return 0.0, 0.0
    if works_in_batches(model):
        return None
    timed = timed_calls(usage, step_id, getattr(model, "model", ""))
    if timed.empty:
        return seconds_of_replies(model, estimate, speed)
    concurrency = max(getattr(model, "concurrency", 1), 1)
    seconds_per_call = seconds_between_replies(timed, concurrency)
    of_one_call = float(timed["seconds"].mean())
    # The fewest calls are counted at the greatest speed, the most at the least.
    fastest_and_slowest = min(seconds_per_call), max(seconds_per_call)
    ends: list[float] = []
    for end, seconds_of_a_call in enumerate(fastest_and_slowest):
        calls = estimate.calls[end]
        if not calls:
            ends.append(0.0)
            continue
        tokens = estimate.input_tokens[end] + estimate.output_tokens[end]
        of_limits = seconds_of_limits(model, calls, tokens)
        of_calls = calls * seconds_of_a_call
        ends.append(max(of_calls, of_one_call, of_limits))
    return ends[0], ends[1]


def seconds_of_replies(model: Model, estimate: Estimate, speed: float | None) -> Seconds | None:
    """Return the least and the most seconds of replies at ``speed`` tokens in a second; None if it
    is not known."""
    if not speed or not estimate.output_tokens[1]:
        return None
    ends = []
    for end in (0, 1):
        output_tokens = estimate.output_tokens[end]
        tokens = estimate.input_tokens[end] + output_tokens
        of_limits = seconds_of_limits(model, estimate.calls[end], tokens)
        ends.append(max(output_tokens / speed, of_limits))
    return ends[0], ends[1]


def works_in_batches(model: Model) -> bool:
    """Check whether the model sends its requests as batches, which the provider answers when it
    wants to."""
    return hasattr(model, "full_cost")


def timed_calls(usage: pd.DataFrame, step_id: str, model_name: str) -> pd.DataFrame:
    """Return the calls of the last RECENT_RUNS runs of a step whose time is that of a reply.

    Rows of batches and of killed calls have 0 seconds. A throttled call was refused at once.
    """
    is_of_step = usage["step"] == step_id
    is_of_model = usage["model"] == model_name
    is_throttled = usage["outcome"] == "throttled"
    took_time = usage["seconds"] > 0
    timed = usage[is_of_step & is_of_model & took_time & ~is_throttled]
    last_reply_of_run = timed.groupby("run_id")["at"].max()
    recent_runs = last_reply_of_run.nlargest(RECENT_RUNS).index
    return timed[timed["run_id"].isin(recent_runs)]


def seconds_between_replies(timed: pd.DataFrame, concurrency: int) -> list[float]:
    """Return the seconds of wall time for each call, one figure for each run that made enough
    calls.

    Where no run made enough, return one figure: the mean seconds of a call, divided by the
    concurrency.
    """
    enough = max(ENOUGH, ROUNDS_OF_CALLS * concurrency)
    seconds_per_call: list[float] = []
    for _, calls in timed.groupby("run_id"):
        if len(calls) < enough:
            continue
        # Calls that were sent together end together: the first of them began before its reply.
        began = calls["at"] - calls["seconds"]
        wall_time = float(calls["at"].max() - began.min())
        seconds_per_call.append(wall_time / len(calls))
    if not seconds_per_call:
        mean = float(timed["seconds"].mean())
        seconds_per_call.append(mean / concurrency)
    return seconds_per_call


def seconds_of_limits(model: Model, calls: int, tokens: int) -> float:
    """Return the seconds that requests_per_minute and tokens_per_minute demand; 0 where neither is
    set."""
    rate = getattr(model, "rate", None)
    return max(rate.seconds(calls, tokens)) if rate else 0.0


def seconds_of_conversions(size: int, reports: Iterable[Mapping[str, Any]]) -> Seconds | None:
    """Return the least and the most seconds that the conversion of files takes; None if no run has
    measured it.

    ``size``: bytes of the files. ``reports``: of earlier runs, the newest first; the last
    RECENT_RUNS that converted files count. Page images take longer than text, so files of another
    kind may fall outside the range.
    """
    speeds = list(islice(conversion_speeds(reports), RECENT_RUNS))
    if not speeds:
        return None
    return size / max(speeds), size / min(speeds)


def conversion_speeds(reports: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    """Yield the bytes that each run converted in a second; runs that converted nothing are left
    out."""
    for report in reports:
        steps = report["steps"]
        size = sum(step.get("converted_bytes", 0) for step in steps)
        seconds = sum(step.get("conversion_seconds", 0.0) for step in steps)
        if size and seconds:
            yield size / seconds


def conversion_in_words(files: int, size: int, reports: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence about the files that a run would convert, "" where there are none.
    ``size``: their bytes."""
    if not files:
        return ""
    span = seconds_of_conversions(size, reports)
    time = "the time is not known yet"
    if span is not None:
        time = f"{span_in_words(*span)} at the speed of earlier runs"
    return (
        f"{counted(files, 'file')} to be converted ({size_in_words(size)}): {time}; with the extra"
        " 'ocr' a scanned page takes seconds; what they say, and what it costs, is not in this"
        " plan"
    )


def pictures_in_words(pictures: int, workflow: str, steps: Iterable[str], reading: str) -> str:
    """Return a sentence about the pictures that a run would have described, "" for none.

    ``steps``: the ids of the steps of ``workflow`` that ask about them. ``reading``: what it adds
    to read the descriptions, or "".
    """
    if not pictures:
        return ""
    only = " ".join(f"--only {step}" for step in steps)
    reading_part = f"{reading}; " if reading else ""
    return (
        f"{counted(pictures, 'picture')} to be described: the tokens of a picture are an estimate"
        " by its size; what the descriptions say, and what it costs to read them, is not in this"
        f" plan; {reading_part}'graphmill index {workflow} {only}', or before the first run of this"
        " workflow 'graphmill index fast', describes them and asks no other chat model: the plan"
        " after it has those calls"
    )


def sum_of_seconds(seconds: Iterable[Seconds | None]) -> list[float] | None:
    """Return the least and the most of all steps together; None where the time of one is not
    known."""
    least = most = 0.0
    for span in seconds:
        if span is None:
            return None
        least += span[0]
        most += span[1]
    return [least, most]


def time_in_words(seconds: Mapping[str, Seconds | None]) -> str:
    """Return a sentence about the time of the calls, "" where no step makes any. ``seconds``: by
    step."""
    known = {step: span for step, span in seconds.items() if span and span[1] > 0}
    unknown_steps = ", ".join(step for step, span in seconds.items() if span is None)
    if not known and not unknown_steps:
        return ""
    if not known:
        return f"time: {NOT_MEASURED} ({unknown_steps})"
    least, most = sum_of_seconds(known.values()) or [0.0, 0.0]
    # Where the time of each step is known, none is named.
    steps = f" ({', '.join(known)})" if unknown_steps else ""
    measured = (
        f"time of model calls{steps}: {span_in_words(least, most)}, at the speed that earlier runs"
        " or doctor measured"
    )
    return f"{measured}; {unknown_steps}: {NOT_MEASURED}" if unknown_steps else measured


def span_in_words(least: float, most: float) -> str:
    """Return for example "1 h 20 min to 2 h", or one figure where both ends read the same."""
    low, high = duration_in_words(least), duration_in_words(most)
    return low if low == high else f"{low} to {high}"


def duration_in_words(seconds: float) -> str:
    """Return for example "less than 1 s", "45 s" or "1 h 20 min". From an hour on, minutes are
    rounded to 10."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 60:
        whole = round(seconds)
        return "1 min" if whole == 60 else f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(round(minutes, -1), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def size_in_words(size: int) -> str:
    """Return for example "1.2 MB". ``size`` in bytes."""
    return "less than 0.1 MB" if size < 50_000 else f"{size / 1e6:,.1f} MB"
