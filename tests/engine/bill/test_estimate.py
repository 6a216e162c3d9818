"""The rows that a plan works on, and the distance of its bill from the costs of the run."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY, Parts
from pipeline.engine.bill.expected_calls import ENOUGH, Expectation, PastCalls, PendingReplies
from pipeline.engine.bill.forecast import Forecast, totals
from pipeline.engine.run_report import StepReport
from pipeline.engine.usage.journal import USAGE
from pipeline.models.endpoint.chat import TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY
from pipeline.project import Project
from pipeline.text.tokens import tokenizer
from tests.engine.bill.test_forecast import EXAMPLES, MODEL, PRICE, out_of_range, voyages
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import Counting, OpenAIServer
from tests.states import models

MOST = 4
"""The factor by which the upper end of a plan may exceed what the run costs."""


NEW_STEPS = {
    "index": ["extract_graph"],
    "communities": ["report_communities"],
    "claims": ["extract_claims"],
}
"""Workflows of which no other one tells how long replies are."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Collect the rows of each verb's largest input, for every call since this was last cleared."""
    seen: dict[str, int] = {}

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **inputs: Any) -> Any:
            rows = [len(table) for table in inputs.values() if isinstance(table, pd.DataFrame)]
            seen[name] = max([seen.get(name, 0), *rows])
            return function(*args, **inputs)

        return call

    def watched_parts(name: str, parts: Parts) -> Parts:
        return lambda params: tuple(
            replace(part, function=watched(name, part.function)) for part in parts(params)
        )

    for name, verb in list(REGISTRY.verbs.items()):
        parts = watched_parts(name, verb.parts) if verb.parts and not verb.inputs else verb.parts
        monkeypatch.setitem(
            REGISTRY.verbs, name, replace(verb, function=watched(name, verb.function), parts=parts)
        )
    return seen


def test_a_plan_of_a_workflow_that_pays_nothing_reads_documents_alone(
    tmp_path: Path, read: dict[str, int]
):
    folder = new_project(tmp_path / "p", NO_STORE, voyages(12))
    with folder.open() as project:
        project.index("fast")
    folder.write("log-003.txt", "Captain Orla Venn sailed to Quill.")
    folder.write("log-900.txt", "Captain Orla Venn sailed to Quill again.")
    folder.delete("log-004.txt")
    read.clear()
    with folder.open() as project:
        forecasts = project.forecast("fast")
    assert set(read) == {"load_documents"}
    (changes,) = [entry.documents for entry in forecasts if entry.documents]
    assert changes.counts == {"new": 1, "edited": 1, "gone": 1}
    assert changes.edited == ("log-003.txt",)
    assert [(entry.planned.action, entry.planned.reason) for entry in forecasts[:2]] == [
        ("run", "input"), ("maybe", "input"),
    ]  # fmt: skip


def test_a_plan_works_only_on_rows_that_have_changed(
    tmp_path: Path, openai: OpenAIServer, read: dict[str, int]
):
    folder = new_project(tmp_path / "p", NO_STORE, voyages(12), models=models(openai))
    with folder.open() as project:
        project.index("index")
    folder.write("log-003.txt", "Captain Orla Venn sailed to Quill.")
    read.clear()
    with folder.open() as project:
        estimates = {entry.planned.step.id: entry.estimate for entry in project.forecast("index")}
    for verb in ("chunk_documents", "extract_graph_with_headers", "embed_with_headers"):
        assert read[verb] == 1
    assert "merge_graphs" not in read
    assert "compose_texts" not in read
    extraction = estimates["extract_graph"]
    assert (extraction.rows, extraction.known, extraction.calls) == (12, 11, (1, 1))


def test_a_forecast_after_a_deletion_is_exact(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, voyages(12), models=models(openai))
    with folder.open() as project:
        project.index("index")
    folder.delete("log-003.txt")
    with folder.open() as project:
        forecasts = project.forecast("index")
        reports = {step.step: step for step in project.index("index").steps}
    assert [entry.documents.counts for entry in forecasts if entry.documents] == [
        {"new": 0, "edited": 0, "gone": 1}
    ]
    for entry in forecasts:  # no reply is to come, so that all is known before
        assert entry.estimate.calls == (reports[entry.planned.step.id].calls,) * 2


def sample_corpus(root: Path, endpoint: OpenAIServer) -> ProjectFolder:
    bound = models(endpoint, model=MODEL, price=PRICE)
    bound["embedding"]["default"]["price"] = {"input": 0.02, "output": 0}
    folder = new_project(root, NO_STORE, {}, models=bound)
    for path in EXAMPLES.rglob("*"):
        if path.is_file():
            target = folder.root / "data" / "input" / path.relative_to(EXAMPLES)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def test_the_bill_of_six_nights_against_what_they_cost(tmp_path: Path, openai: OpenAIServer):
    openai.counting = Counting(tokenizer(MODEL).count, TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY)
    folder = sample_corpus(tmp_path / "p", openai)
    texts = sorted(
        path
        for path in (folder.root / "data" / "input").rglob("*")
        if path.suffix in (".txt", ".md")
    )

    def add(place: int, line: str) -> None:
        texts[place].write_text(
            f"{texts[place].read_text(encoding='utf-8')}\n\n{line}\n", encoding="utf-8"
        )

    _within(folder, "index", guessed=True)
    add(3, "Idra Senn of Quill left the Brack Institute for Harrow.")
    texts[5].unlink()
    folder.write(
        "new1.txt",
        "Governor Pell opened the Tollen Observatory with Captain Orla Venn of Tessing Harbour.",
    )
    _within(folder, "index", guessed=False)
    _within(folder, "communities", guessed=True)
    _within(folder, "claims", guessed=True)
    add(10, "Anselm Torr met Mira Vale at Quill Point.")
    texts[12].unlink()
    folder.write(
        "new2.txt",
        "Merchant Dorren sold seven lenses to the Harrow Light and left for Tessing Harbour.",
    )
    _within(folder, "claims", guessed=False)
    add(
        8, "Idra Senn went back to Quill."
    )  # which of the communities a line changes cannot be known before
    with folder.open() as project:
        known = len(project.table("communities", "claims"))
        forecasts, steps = _night(project, "claims")
    (reports,) = [
        entry.estimate for entry in forecasts if entry.planned.step.id == "report_communities"
    ]
    assert steps["report_communities"].calls <= reports.calls[1] <= 1.1 * known
    assert reports.expected.calls < known / 2


def _night(project: Project, workflow: str) -> tuple[list[Forecast], dict[str, StepReport]]:
    forecasts = project.forecast(workflow)
    steps = {step.step: step for step in project.index(workflow).steps}
    estimates = {entry.planned.step.id: entry.estimate for entry in forecasts}
    assert out_of_range(estimates, steps) == []
    return forecasts, steps


def _within(folder: ProjectFolder, workflow: str, guessed: bool) -> None:
    with folder.open() as project:
        forecasts, steps = _night(project, workflow)
    sums = totals(forecasts)
    calls, cost = (
        sum(step.calls for step in steps.values()),
        sum(step.cost or 0 for step in steps.values()),
    )
    assert sums["calls"][0] <= calls <= sums["calls"][1] <= MOST * calls
    assert sums["cost"][0] <= cost <= sums["cost"][1] <= MOST * cost
    for name in ("calls", "input_tokens", "output_tokens", "cost"):
        assert sums[name][0] <= sums["expected"][name] <= sums[name][1]
    assert cost / 3 <= sums["expected"]["cost"] <= cost * 3
    assert (
        any(
            entry.estimate.guessed
            for entry in forecasts
            if entry.planned.step.id in NEW_STEPS[workflow]
        )
        == guessed
    )


def usage(*calls: tuple[str, str, str]) -> pd.DataFrame:
    """Return calls with these runs, steps and rows."""
    rest = dict.fromkeys(USAGE.columns, "") | {
        "attempt": 1, "input_tokens": 10, "cached_tokens": 0, "output_tokens": 5, "cost": 0.1,
        "seconds": 0.1,
        "texts": 2, "at": 0.0, "outcome": "ok", "estimated": False,
    }  # fmt: skip
    return USAGE.frame(
        [{**rest, "run_id": run, "step": step, "row_id": row} for run, step, row in calls]
    )


def nights(first: int, second: int, asked: int) -> pd.DataFrame:
    """Return the calls of a first run of so many units, and of a second one of fewer, in which so
    many reports were asked for."""
    return usage(
        *(("1", "extract", f"u{number}") for number in range(first)),
        *(("1", "report", f"c{number}") for number in range(10)),
        *(("2", "extract", f"v{number}") for number in range(second)),
        *(("2", "report", f"d{number}") for number in range(asked)),
    )


COMING = PendingReplies("extract", 2, 40, frozenset(), Expectation(), Expectation())


def test_earlier_runs_tell_how_many_reports_are_asked_for_again():
    # Only runs with few new texts count.
    former = PastCalls(nights(40, ENOUGH, 30))
    assert former.rows_in_small_runs("report", COMING) == 12
    too_few = PastCalls(nights(40, ENOUGH - 1, 30))
    assert too_few.rows_in_small_runs("report", COMING) is None
    none = PastCalls(nights(40, 0, 0))
    assert none.rows_in_small_runs("report", COMING) is None


def test_former_runs_tell_how_often_a_row_is_asked_again():
    once = [("1", "extract", f"u{number}") for number in range(10)]
    assert PastCalls(usage(*once)).again("extract") == 0
    assert PastCalls(usage(*once, *once[:3])).again("extract") == pytest.approx(0.3)
    assert PastCalls(usage(*once[:2], *once[:2])).again("extract") == 0  # too few to say
    assert PastCalls(usage()).again("extract") == 0


def test_the_upper_end_allows_for_what_was_never_seen():
    known = PastCalls(nights(40, 0, 0))
    assert known.for_each("summarize", "extract") == Expectation(0, 6 / 40)
    assert known.for_each("report", "extract") == Expectation(10 / 40, 26 / 40)
    assert known.for_each("report", "summarize") is None
