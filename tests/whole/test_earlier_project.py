"""A project that a version with other modules has made goes on as if nothing had moved."""

import json
import zipfile
from pathlib import Path

import pytest

from pipeline.contract.fingerprint import KNOWN_AS
from pipeline.contract.registry import REGISTRY
from tests.projects import ProjectFolder
from tests.servers.openai_server import OpenAIServer
from tests.states import table_hashes

EARLIER = Path(__file__).with_name("earlier_project.zip")
"""A project of ``index`` with builtin vectors: two text units failed for a passing reason, four documents came later,
and the run over all was killed as it asked. ``expected.json``: how the version that made it went on, and its code."""


@pytest.fixture
def earlier(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    with zipfile.ZipFile(EARLIER) as archive:
        archive.extractall(tmp_path / "p")
    return ProjectFolder(tmp_path / "p", openai.env)


def test_no_finished_step_runs_again_and_no_reply_is_asked_again(earlier: ProjectFolder, openai: OpenAIServer):
    expected = json.loads((earlier.root / "expected.json").read_text(encoding="utf-8"))
    steps = earlier.report("index", "index")["steps"]
    if any(step["reason"] == "library" for step in steps):
        pytest.skip("it was made with other versions of libraries")
    known = {verb for verb in expected["code"] if expected["code"][verb] in KNOWN_AS.values()}
    assert known <= set(REGISTRY.verbs)
    if known != set(expected["code"]):
        pytest.skip("verbs have changed since: delete this test with the rest of KNOWN_AS")
    assert {step["step"]: [step["action"], step["reason"]] for step in steps} == expected["steps"]
    assert openai.count("chat") == expected["chats"]
    openai.forget()
    again = earlier.report("index", "index")["steps"]
    assert {step["action"] for step in again} == {"reused"}
    assert openai.count("chat") == 0
    with earlier.open(*earlier.endpoint_overrides) as project:
        assert table_hashes(project) == expected["tables"]
