import math
import threading
from pathlib import Path

import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.engine.usage.run_budget import Budget
from pipeline.errors import BudgetError, UsageError
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

NO_STORE = "postgresql://nobody@127.0.0.1:9/nothing"
"""These tests end before a load."""


def test_without_limits_all_may_be_spent():
    budget = Budget()
    budget.spend(10**12, 10.0**9)
    budget.check()
    budget.reserve(10**12, 10.0**9)
    assert not budget.limited


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(max_tokens=1000), "1,000 tokens of --max-tokens 1,000"),
        (Budget(max_cost=2.0), "of --max-cost 2 "),
    ],
)
def test_a_budget_stops_calls_when_the_limit_is_reached_not_before(budget: Budget, message: str):
    budget.spend(999, 1.999)
    budget.check()
    budget.spend(1, 0.001)
    with pytest.raises(BudgetError, match=message) as stopped:
        budget.check()
    assert stopped.value.exit_code == 5
    assert budget.limited


def test_a_reservation_must_fit_as_a_whole():
    budget = Budget(max_cost=1.0, max_tokens=100)
    budget.spend(50, 0.5)
    budget.reserve(50, 0.5)
    with pytest.raises(BudgetError, match="a batch of about 51 tokens"):
        budget.reserve(51, 0.1)
    with pytest.raises(BudgetError, match=r"a batch of about 0\.6000"):
        budget.reserve(10, 0.6)
    budget.reserve(10, None)


def test_threads_may_spend_at_the_same_time():
    budget = Budget(max_tokens=10**9)
    threads = [
        threading.Thread(target=lambda: [budget.spend(1, 1.0) for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (budget.tokens, budget.cost) == (4000, 4000.0)


@pytest.fixture
def folder(tmp_path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    documents = {
        f"{n}.txt": f"Mira Vale {n} built the Harrow Light {n} at Quill Point {n}."
        for n in range(30)
    }
    return new_project(tmp_path / "mill", postgres_url, documents, openai)


def test_a_run_stops_within_the_calls_in_flight_and_goes_on_from_there(
    folder: ProjectFolder, openai: OpenAIServer
):
    overrides = [*folder.endpoint_overrides, "models.chat.default.concurrency=4"]
    with folder.open(*overrides) as project:
        with pytest.raises(BudgetError, match="run again with a higher limit"):
            project.index("index", options=RunOptions(max_tokens=1))
        assert 1 <= openai.count("chat") <= 4
        report = project.status()
        assert report
        assert (report["outcome"], report["exit_code"]) == ("stopped", 5)
        already = openai.count("chat")
        assert project.index("index").exit_code == 0
        assert openai.count("chat") == 30
        usage = project.usage()
        assert len(usage) == 30
        assert usage["run_id"].value_counts().tolist() == [30 - already, already]
        assert usage["input_tokens"].sum() == sum(
            request.prompt_tokens for request in openai.requests
        )
        assert usage["document_id"].nunique() == 30
        assert project.index("index").totals["calls"] == 0


@pytest.mark.parametrize("limit", [math.nan, math.inf, -1.0])
def test_a_limit_that_is_none_is_refused(limit: float):
    with pytest.raises(UsageError, match=r"--max-cost: .* is no limit") as refused:
        Budget(max_cost=limit)
    assert refused.value.exit_code == 2


def test_the_command_refuses_too_many_deletions_too(tmp_path: Path, openai: OpenAIServer):
    project = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    done = project.invoke("index", "index", "--max-cost", "nan")
    assert done.exit_code == 2
    assert "--max-cost: nan is no limit" in done.stderr
    assert openai.requests == []


def test_an_estimated_call_counts_1_3_times_against_the_limits():
    budget = Budget(max_cost=1.3, max_tokens=130)
    budget.spend(99, 0.99, estimated=True)
    budget.check()
    budget.spend(1, 0.01, estimated=True)
    with pytest.raises(BudgetError, match=r"130 .* \(estimated calls count 1.3 times\)"):
        budget.check()


def test_a_batch_must_fit_with_the_margin_of_an_estimate_once_a_call_was_estimated():
    budget = Budget(max_tokens=1000)
    budget.reserve(900, None)
    budget.spend(10, None, estimated=True)
    with pytest.raises(BudgetError, match="1,170 tokens"):
        budget.reserve(900, None)
