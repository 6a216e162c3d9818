"""An endpoint that fails in every way: the run completes, every row that is missing is in the
rejects with its reason, nothing bad is served later, and once the faults have stopped ``retry``
asks for what is missing and no more."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from pipeline.engine.run_report import RunReport
from pipeline.models.cache.database import COMPLETIONS
from pipeline.models.cache.replies import Completion, ReplyCache
from pipeline.models.parse.graph import parse_records, unreadable
from pipeline.project import Project
from tests.corpora import cut_by_paragraphs, voyages
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import Faults, Limits, OpenAIServer, Request
from tests.sizes import size
from tests.states import models, postgres_rows, table_hashes

UNITS = size(60, 300)
SEED = 5
NEVER = "of ship 17 "
TIMEOUT = 4
REASONS = {
    "never": "timeout",
    "malformed": "parse",
    "truncated": "truncated",
    "error": "server_error",
}
OUTCOMES = {200: "ok", 429: "throttled", 500: "server_error", 0: "timeout"}


def new_folder(root: Path, postgres_url: str, endpoint: OpenAIServer) -> ProjectFolder:
    folder = new_project(
        root, postgres_url, voyages(UNITS), models=models(endpoint, timeout=TIMEOUT, concurrency=16)
    )  # fmt: skip
    cut_by_paragraphs(folder)
    return folder


def test_what_faults_have_cost_is_known_and_retried(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    with new_folder(tmp_path / "faultless", postgres_url, openai).open() as project:
        assert project.run("index").outcome == "completed"
        faultless = table_hashes(project), postgres_rows(postgres_url, project.settings.workspace)
    openai.forget()

    openai.faults = Faults(
        SEED, error=0.05, malformed=0.05, truncated=0.05, never=lambda prompt: NEVER in prompt
    )
    openai.limits = Limits(20, minute=1.0)
    with new_folder(tmp_path / "p", postgres_url, openai).open() as project:
        report = project.run("index")
        usage_is_the_ledger(project.usage(), openai.requests)
        rejected, cut, recovered = (of_kind(project, kind) for kind in ("row", "cut", "recovered"))
        what_is_missing_was_rejected_for_its_fault(project, rejected, openai.requests)
        nothing_bad_is_served(project, recovered, cut)

        openai.faults = openai.limits = None
        assert calls_of(openai, lambda: project.retry("index")) == len(rejected) + len(cut)
        assert of_kind(project, "row").empty
        assert of_kind(project, "cut").empty
        assert set(of_kind(project, "recovered")["row_id"]) == set(recovered["row_id"])
        assert calls_of(openai, lambda: project.retry("index", recovered=True)) == len(recovered)
        assert (
            table_hashes(project),
            postgres_rows(postgres_url, project.settings.workspace),
        ) == faultless
        assert calls_of(openai, lambda: project.run("index")) == 0
        usage_is_the_ledger(project.usage(), openai.requests)
    assert (report.outcome, report.exit_code) == ("completed_with_rejects", 0)


def of_kind(project: Project, kind: str) -> pd.DataFrame:
    rejects = project.table("rejects", "index")
    assert set(rejects["step"]) <= {"extract_graph"}
    return rejects[rejects["kind"] == kind]


def calls_of(endpoint: OpenAIServer, run: Callable[[], RunReport]) -> int:
    before = endpoint.count("chat")
    report = run()
    assert report.outcome == "completed", report
    return endpoint.count("chat") - before


def what_is_missing_was_rejected_for_its_fault(
    project: Project, rejected: pd.DataFrame, requests: Iterable[Request]
) -> None:
    units = project.table("text_units").set_index("id")["text"]
    missing = set(units.index) - set(project.table("extractions")["text_unit_id"])
    assert set(rejected["row_id"]) == missing
    assert rejected["row_id"].is_unique
    faults = faults_of_units(units, requests)
    reasons = dict(zip(rejected["row_id"], rejected["reason"], strict=True))
    assert all(reason in {REASONS[fault] for fault in faults[unit]} for unit, reason in reasons.items()), (  # noqa: E501
        reasons, faults,
    )  # fmt: skip
    assert [units[unit] for unit, reason in reasons.items() if reason == "timeout"] == [
        text for text in units if NEVER in text
    ]


def faults_of_units(units: pd.Series, requests: Iterable[Request]) -> dict[str, set[str]]:
    """Of each text unit, what befell the requests about it or about a half of it."""
    faults: dict[str, set[str]] = defaultdict(set)
    asked = [
        (str(request.messages), request.fault)
        for request in requests
        if request.kind == "chat" and request.fault
    ]
    for unit, text in units.items():
        halves = text.split(". ")
        faults[str(unit)] |= {
            fault for prompt, fault in asked if any(half in prompt for half in halves)
        }
    return faults


def nothing_bad_is_served(project: Project, recovered: pd.DataFrame, cut: pd.DataFrame) -> None:
    """Bad replies may only be served to a row that found its way around them, or that uses their
    whole records. It then makes no call: of the three replies of a cut row one is bad, or two, or
    all."""
    cache = ReplyCache(project.settings.cache.replace("///", f"///{project.root}/"))
    columns = [COMPLETIONS.c[name] for name in Completion.__dataclass_fields__]
    with cache.database.connection() as connection:
        replies = [
            Completion(*row)
            for row in connection.execute(COMPLETIONS.select().with_only_columns(*columns))
        ]
    cache.close()
    assert all(reply.valid is not None for reply in replies)
    bad = [reply for reply in replies if is_bad(reply)]
    served = sum(bool(reply.valid) for reply in bad)
    assert len(recovered) + len(cut) <= served <= len(recovered) + 3 * len(cut)
    assert not cut.empty
    assert all(reply.valid for reply in replies if not is_bad(reply))


def is_bad(reply: Completion) -> bool:
    return (
        reply.finish_reason != "stop"
        or unreadable(parse_records(reply.text), reply.text) is not None
    )


def usage_is_the_ledger(usage: pd.DataFrame, requests: Iterable[Request]) -> None:
    """Every call that the endpoint has heard, and the tokens of those that it answered."""
    asked = [request for request in requests if request.kind in ("chat", "embeddings")]
    assert usage["input_tokens"].sum() == sum(request.prompt_tokens for request in asked)
    assert usage["output_tokens"].sum() == sum(request.completion_tokens for request in asked)
    assert Counter(usage["outcome"]) == Counter(
        "truncated" if request.fault == "truncated" else OUTCOMES[request.status]
        for request in asked
    )
