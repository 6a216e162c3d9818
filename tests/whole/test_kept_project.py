"""Check that an upgrade does not pay for a report that ``keep_within`` lets stand."""

import json
from pathlib import Path

import pytest

from tests.projects import ProjectFolder
from tests.servers.openai_server import OpenAIServer
from tests.servers.postgres_server import make_database
from tests.whole.kept_project import WORKFLOW
from tests.whole.paid_project import unpack

ARCHIVE = Path(__file__).parent / "kept_project.zip"
"""Made by ``tests/whole/kept_project.py`` with the code of commit 673bb2b. Make it again only to
add to it, and with that code."""


@pytest.fixture
def kept(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> ProjectFolder:
    """The project as the earlier version left it, and an endpoint that counts."""
    database = make_database(postgres_url, f"kept_{tmp_path.name}")
    return unpack(ARCHIVE, tmp_path / "kept", database, openai, monkeypatch)


def test_after_an_upgrade_a_report_stands_and_nothing_is_paid_again(
    kept: ProjectFolder, openai: OpenAIServer
):
    expected = json.loads((kept.root / "expected.json").read_text(encoding="utf-8"))
    with kept.open() as project:
        before = project.table("community_reports", WORKFLOW)
    plan = kept.report("plan", WORKFLOW)
    assert plan["estimate"]["calls"][1] == 0
    announced = "the last run was one of an earlier graphmill (schema 7): the next load writes"
    assert [note for note in plan["notes"] if note.startswith(announced)]
    report = kept.report("run", WORKFLOW, "--replace")
    assert (report["outcome"], report["totals"]["calls"]) == ("completed", 0)
    assert openai.count("chat") == 0
    assert not [note for note in kept.report("plan", WORKFLOW)["notes"] if "schema" in note]
    with kept.open() as project:
        rejects = project.table("rejects", WORKFLOW)
        after = project.table("community_reports", WORKFLOW)
    assert int((rejects["kind"] == "unrefreshed").sum()) == expected["kept"]
    assert list(after["summary"]) == list(before["summary"])
