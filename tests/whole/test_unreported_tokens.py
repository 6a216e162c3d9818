"""Runs against an endpoint that reports no token counts, or zeros: limits hold, the bill is an
estimate and says so."""

from pathlib import Path

import pytest

from pipeline.models.base import ESTIMATE_MARGIN
from tests.corpora import cut_by_paragraphs, voyages
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_replies import UsageReport
from tests.servers.openai_server import OpenAIServer
from tests.states import models

UNREPORTED: list[UsageReport] = ["none", "zeros"]
UNITS = 12


def new_folder(root: Path, endpoint: OpenAIServer) -> ProjectFolder:
    """A project that asks one call at a time, so that a limit is reached at a certain call."""
    priced = models(endpoint, price={"input": 0.15, "output": 0.60}, concurrency=1)
    priced["embedding"]["default"] |= {"price": {"input": 0.02}, "concurrency": 1}
    folder = new_project(root, NO_STORE, voyages(UNITS), models=priced)
    cut_by_paragraphs(folder)
    return folder


@pytest.mark.parametrize("mode", UNREPORTED)
@pytest.mark.parametrize("option", ["--max-cost", "--max-tokens"])
def test_a_limit_stops_the_run_at_1_3_times_the_estimate(
    tmp_path: Path, openai: OpenAIServer, mode: UsageReport, option: str
):
    openai.usage = mode
    whole = new_folder(tmp_path / "whole", openai).report("index")
    assert whole["totals"]["estimated_calls"] == whole["totals"]["calls"] > UNITS
    amount = whole["totals"]["cost"]
    if option == "--max-tokens":
        amount = whole["totals"]["input_tokens"] + whole["totals"]["output_tokens"]
    openai.forget()

    folder = new_folder(tmp_path / "limited", openai)
    limit = amount / 2 if option == "--max-cost" else int(amount / 2)
    stopped = folder.invoke("index", option, str(limit))
    assert stopped.exit_code == 5
    assert f"{option} " in stopped.stderr
    assert f"(estimated calls count {ESTIMATE_MARGIN:g} times)" in stopped.stderr

    totals = folder.report("status")["totals"]
    spent = (
        totals["cost"]
        if option == "--max-cost"
        else totals["input_tokens"] + totals["output_tokens"]
    )
    calls = openai.count("chat") + openai.count("embeddings")
    assert 0 < calls < whole["totals"]["calls"]
    one_call = amount / UNITS * 2  # no call takes twice the average of the text units
    assert limit <= spent * ESTIMATE_MARGIN < limit + one_call * ESTIMATE_MARGIN
    assert spent < limit


@pytest.mark.parametrize("mode", UNREPORTED)
def test_the_run_says_once_that_its_bill_is_an_estimate_and_usage_shows_the_calls(
    tmp_path: Path, openai: OpenAIServer, mode: UsageReport
):
    openai.usage = mode
    folder = new_folder(tmp_path / "p", openai)
    run = folder.invoke("index")
    calls = openai.count("chat") + openai.count("embeddings")
    note = (
        f"note: usage: the endpoint reports no token counts: {calls} of {calls} calls are estimated"
    )
    assert run.stdout.count(note) == 1
    [row] = folder.invoke("usage", "--json").json
    assert (row["calls"], row["estimated"]) == (calls, calls)
    assert row["input_tokens"] > 0
    assert row["output_tokens"] > 0
    assert row["cost"] > 0
    assert (
        "estimated: calls of endpoints that report no token counts" in folder.invoke("usage").stdout
    )

    again = folder.invoke("index")  # nothing is asked, so nothing is estimated
    assert "reports no token counts" not in again.stdout
    assert openai.count("chat") + openai.count("embeddings") == calls


def test_only_the_calls_without_counts_are_estimated(tmp_path: Path, openai: OpenAIServer):
    folder = new_folder(tmp_path / "p", openai)
    report = folder.report("index")
    assert report["totals"]["estimated_calls"] == 0
    assert not [note for note in report["notes"] if "token counts" in note]
    [row] = folder.invoke("usage", "--json").json
    assert row["estimated"] == 0
    assert "estimated:" not in folder.invoke("usage").stdout
