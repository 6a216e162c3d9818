"""A real LiteLLM proxy between graphmill and the model: it changes headers, names and events of
every answer."""

import json
from pathlib import Path

from tests.real.conftest import RealModel
from tests.real.laws import citations_were_shown, nothing_is_lost, usage_is_the_servers
from tests.real.model_servers import litellm_proxy, running
from tests.real.test_llama import COMPLETED, QUESTION, command, run


def test_a_run_and_questions_go_through_litellm(tmp_path: Path, postgres_url: str, real: RealModel):
    gateway = litellm_proxy(tmp_path, real.proxy.base_url)
    with running(gateway.server):
        folder = real.project(
            tmp_path / "p", postgres_url, base_url=gateway.base_url, key=gateway.key
        )
        report = run(folder)
        assert report["exit_code"] in COMPLETED
        with folder.open() as project:
            nothing_is_lost(project, report["health"])
            assert project.run("fast").exit_code == 0
        plain = command(
            folder, "query", QUESTION, "--mode", "naive", "--json", "--include-chunk-content"
        )
        assert plain.returncode == 0, plain.stderr
        citations_were_shown(json.loads(plain.stdout), real.proxy.exchanges[-1].prompt)
        streamed = command(folder, "query", "Who founded the Brack Institute?", "--mode", "naive")
        assert streamed.returncode == 0, streamed.stderr
        assert streamed.stdout.strip()
        with folder.open() as project:
            usage_is_the_servers(project.usage(), real.proxy.exchanges)

        folder.edit_settings(
            models={"chat": {"default": {"base_url": gateway.base_url, "api_key": "sk-wrong"}}}
        )
        refused = command(folder, "query", "Who ground the first lens?", "--mode", "naive")
        assert refused.returncode in (1, 2), refused.stderr
        assert (
            "HTTP 400" in refused.stderr or "refused the key" in refused.stderr
        )  # 400 where LiteLLM has no database
        assert "sk-wrong" not in refused.stderr + refused.stdout
