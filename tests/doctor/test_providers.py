"""The doctor shows provider and address of a model, and none of its secrets."""

from pathlib import Path
from typing import Any

from tests.doctor.test_doctor import examined
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.gateway_server import AzureServer, GatewayServer, listening

HEADER, PARAMETER, KEY = "canary-header-a1", "canary-query-b2", "canary-key-c3"
OWN = """
from pipeline.errors import AuthError

def chat(messages):
    return "nothing of use"

def embed(texts):
    return [[len(text), 1.0, text.count(" ")] for text in texts]
"""


def project_with(root: Path, **models: Any) -> ProjectFolder:
    project = new_project(root, NO_STORE)
    project.edit_settings(models=models)
    return project


def test_behind_a_gateway(tmp_path: Path):
    with listening(GatewayServer) as gateway:
        gateway.wanted = {"x-key": "never sent"}  # every refusal repeats the headers that came
        common = {
            "base_url": gateway.base_url, "api_key": KEY, "headers": {"X-Key": HEADER},
            "query": {"sig": PARAMETER},
        }  # fmt: skip
        project = project_with(
            tmp_path / "p",
            chat={"default": {"model": "m", **common}},
            embedding={"default": {"provider": "openai", "model": "e", **common}},
            rerank={"default": {"model": "r", **common}},
        )
        findings = examined(project)
    address = gateway.base_url
    assert findings["chat default"].fact == f"m has a server that answers (openai, {address})"
    for name in ("chat default extraction", "embedding default", "rerank default"):
        assert (findings[name].verdict, "HTTP 400" in findings[name].fact) == ("failed", True)
    told = " ".join(f"{finding.fact} {finding.action}" for finding in findings.values())
    assert not [secret for secret in (HEADER, PARAMETER, KEY) if secret in told]


def test_on_azure(tmp_path: Path):
    with listening(AzureServer) as azure:
        common = {"provider": "azure", "base_url": azure.address, "api_key": azure.api_key}
        project = project_with(
            tmp_path / "p",
            chat={"default": {"model": "gpt-4o", "deployment": "our-gpt", **common}},
            embedding={"default": {"model": "text-3", "deployment": "our-embedding", **common}},
        )
        findings = examined(project)
    shown = f"azure, {azure.address}, deployment our-"
    assert findings["chat default"].fact == f"gpt-4o has a server that answers ({shown}gpt)"
    assert findings["embedding default"].verdict == "ok"
    assert findings["embedding default"].fact.endswith(f"({shown}embedding), length 1")


def test_functions_of_ones_own(tmp_path: Path):
    project = project_with(
        tmp_path / "p",
        chat={"default": {"provider": "python", "function": "my_models:chat"}},
        embedding={"default": {"provider": "python", "function": "my_models:embed"}},
    )
    assert "there is neither a file" in examined(project)["chat default"].fact
    (project.root / "my_models.py").write_text(OWN, encoding="utf-8")
    findings = examined(project)
    assert findings["chat default"].fact == "my_models:chat is there (python, my_models:chat)"
    assert findings["embedding default"].fact.endswith("(python, my_models:embed), length 1")
