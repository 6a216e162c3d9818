"""Check that an upgrade pays for nothing again: a project that an earlier version made asks no
model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectFolder
from tests.servers.openai_server import OpenAIServer
from tests.servers.postgres_server import make_database
from tests.whole.paid_project import WORKFLOWS, unpack

ARCHIVE = Path(__file__).parent / "paid_project.zip"
"""Made by ``tests/whole/paid_project.py`` with the code of commit 2179cda. Make it again only to
add to it: an archive of later code would not show that the requests of the earlier code are still
known."""


@pytest.fixture
def paid(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> ProjectFolder:
    """The project as the earlier version left it, a database of its own, and an endpoint that
    counts."""
    database = make_database(postgres_url, f"paid_{tmp_path.name}")
    return unpack(ARCHIVE, tmp_path / "paid", database, openai, monkeypatch)


def answers(folder: ProjectFolder) -> dict[str, dict[str, int]]:
    """Return how many answers each step of each workflow got from the models when the archive was
    made."""
    return json.loads((folder.root / "expected.json").read_text(encoding="utf-8"))


def asked(openai: OpenAIServer) -> tuple[int, int]:
    return openai.count("chat"), openai.count("embeddings")


def most_calls(plan: dict[str, Any]) -> int:
    return plan["estimate"]["calls"][1]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_after_an_upgrade_plan_foresees_no_call_and_run_makes_none(
    paid: ProjectFolder, openai: OpenAIServer, workflow: str
):
    plan = paid.report("plan", workflow)
    assert most_calls(plan) == 0
    report = paid.report("run", workflow, "--replace")
    assert report["outcome"] == "completed"
    assert report["totals"]["calls"] == 0
    assert asked(openai) == (0, 0)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_cache_alone_answers_every_request_of_an_upgraded_project(
    paid: ProjectFolder, openai: OpenAIServer, workflow: str
):
    """Without its tables every step runs again, so that every request has to be found by its
    key."""
    shutil.rmtree(paid.root / "data/snapshots")
    plan = paid.report("plan", workflow)
    assert most_calls(plan) == 0
    report = paid.report("index", workflow)
    assert report["outcome"] == "completed"
    # A call for vectors has many texts, and how many depends on what is known. An answer of a chat
    # model is one reply.
    expected = {
        step: count
        for step, count in answers(paid)[workflow].items()
        if not step.startswith("embed_")
    }
    known = {step["step"]: step["cached_calls"] for step in report["steps"]}
    # Steps that an earlier workflow had done already needed no answer then, and need some now.
    assert {step: known[step] for step in expected} == expected
    assert asked(openai) == (0, 0)


def test_the_archive_has_replies_of_every_kind_that_the_code_mends(paid: ProjectFolder):
    """Guard the fixture: it proves little unless replies were repaired, read in halves and
    shortened."""
    for workflow in WORKFLOWS:
        with paid.open() as project:
            rejects = project.table("rejects", workflow)
            reports = project.table("community_reports", workflow)
        recovered = rejects[rejects["kind"] == "recovered"]
        assert {"extract_graph", "extract_claims", "report_communities"} <= set(recovered["step"])
        assert set(recovered["reason"]) == {"parse", "truncated"}
        assert len(rejects) == len(recovered)
        assert len(reports) > 3
        assert {"extract_graph", "report_communities"} <= set(answers(paid)[workflow])
    assert "summarize_descriptions" in answers(paid)["records"]
