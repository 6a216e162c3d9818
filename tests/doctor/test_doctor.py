"""The doctor examines real servers, some of them sound and some with the faults that it looks
for."""

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.cli.console import print_findings
from pipeline.doctor.finding import Finding, broken, guarded
from pipeline.errors import StoreError
from tests.buckets import Bucket
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.ollama_server import ollama_server
from tests.servers.openai_replies import (
    Messages,
    Reader,
    Reply,
    UsageReport,
    content_of,
    count_tokens,
    default_reply,
)
from tests.servers.openai_server import OpenAIServer
from tests.servers.rerank_server import RerankReply, rerank_server
from tests.servers.s3_server import between, s3_server
from tests.servers.small_models import json_alone
from tests.sizes import size

KEY = "test-key"
CLOSED = "127.0.0.1:9"
CALLS_ALONE = 5
CALLS_AT_ONCE = 1 + 16
"""Those of the check of concurrency: one alone, then the default concurrency."""
MOST_CALLS = 13 + CALLS_AT_ONCE


def examined(project: ProjectFolder, *overrides: str, long: bool = False) -> dict[str, Finding]:
    """Return the doctor's findings by "area what"."""
    with project.open(*project.endpoint_overrides, *overrides) as opened:
        findings = opened.doctor(long)
    return {f"{finding.area} {finding.what}": finding for finding in findings}


def cutting(tokens: int, model: Reader = default_reply) -> Reader:
    """Return a server that silently keeps only the last tokens of a prompt."""

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        prompt = (
            "\n".join(map(content_of, messages)).encode()[-4 * tokens :].decode(errors="ignore")
        )
        return model([{"role": "user", "content": prompt}], body)

    return reply


def refusing(tokens: int) -> Reader:
    """Return a server that refuses long prompts with a message."""

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        if sum(count_tokens(content_of(message)) for message in messages) > tokens:
            return Reply(f"This model's maximum context length is {tokens} tokens.", status=400)
        return default_reply(messages, body)

    return reply


def thinking(messages: Messages, body: Mapping[str, Any]) -> Reply:
    usual = default_reply(messages, body)
    return replace(usual, text=f"<think>Let me see.</think>\n{usual.text}")


def deaf_to_json(messages: Messages, body: Mapping[str, Any]) -> Reply:
    if "response_format" in body:
        return Reply("'response_format' is not supported", status=400)
    return default_reply(messages, body)


def verdicts(found: Mapping[str, Finding]) -> set[str]:
    return {finding.verdict for finding in found.values()}


def about(tokens: int, finding: Finding) -> bool:
    """Return whether the context named in the finding is within 10 % of this."""
    named = re.search(r"about ([\d,]+) tokens", finding.fact)
    return named is not None and abs(int(named[1].replace(",", "")) / tokens - 1) < 0.1


@pytest.fixture
def project(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """Create a project whose endpoint is sound and also serves its embeddings."""
    return new_project(tmp_path / "p", postgres_url, endpoint=openai)


def embedding_at(server: OpenAIServer) -> list[str]:
    where = "models.embedding.default"
    return [
        f"{where}.provider=openai",
        f"{where}.base_url={server.base_url}",
        f"{where}.api_key={server.key}",
        f"{where}.model=small",
    ]


def test_a_sound_project_has_only_good_findings(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    found = examined(project, *embedding_at(openai), long=True)
    assert verdicts(found) == {"ok"}, [f for f in found.values() if f.verdict != "ok"]
    assert not any(finding.action for finding in found.values())
    assert {finding.area for finding in found.values()} == {
        "settings", "space", "chat", "embedding", "stores", "cache",
    }  # fmt: skip
    assert "64 dimensions" in found["embedding default"].fact
    assert re.search(r"pgvector \d", found["stores pgvector"].fact)
    assert openai.count("chat") == CALLS_ALONE + CALLS_AT_ONCE
    assert f"made {CALLS_ALONE + CALLS_AT_ONCE} calls" in found["chat default bill"].fact
    sent = sum(request.prompt_tokens for request in openai.requests if request.kind == "chat")
    assert f"{sent:,} + " in found["chat default bill"].fact


@pytest.mark.parametrize("mode", ["none", "zeros"])
def test_an_endpoint_that_reports_no_tokens_is_a_warning(
    project: ProjectFolder, openai: OpenAIServer, mode: UsageReport
) -> None:
    openai.usage = mode
    found = examined(project, *embedding_at(openai), long=True)
    asked = openai.count("chat")
    for area, calls in (("chat", f"{asked} of {asked} calls"), ("embedding", "1 of 1 call")):
        finding = found[f"{area} default token counts"]
        assert finding.verdict == "warning"
        assert f"reports no token counts (usage) for {calls}" in finding.fact
        assert finding.action
    assert verdicts(found) == {"ok", "warning"}
    assert "0 + 0 tokens" not in found["chat default bill"].fact


@pytest.mark.parametrize("priced", [False, True])
def test_a_reranker_without_token_counts_is_a_warning_where_its_tokens_have_a_price(
    project: ProjectFolder, priced: bool
) -> None:
    with rerank_server() as server:
        server.usage = "none"
        rerank = {"base_url": server.base_url, "api_key": server.key, "model": "best"}
        rerank |= {"price": "{input: 2}"} if priced else {}
        found = examined(
            project, *(f"models.rerank.default.{name}={value}" for name, value in rerank.items())
        )
    assert ("rerank default token counts" in found) is priced


def test_a_server_that_cuts_prompts_is_found_though_it_reports_no_tokens(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.usage, openai.reply = "none", cutting(1000)
    assert about(1000, examined(project, long=True)["chat default context"])


def test_the_doctor_leaves_nothing_behind(project: ProjectFolder) -> None:
    before = sorted(path for path in project.root.rglob("*"))
    first = examined(project)
    after = sorted(
        path for path in project.root.rglob("*") if path != project.root / "data" / "models.json"
    )
    assert after == before
    assert "made by the first call" in first["cache replies"].fact
    assert "failed" not in verdicts(examined(project))  # the table that was tried is gone


def test_a_server_that_cuts_prompts_is_found(project: ProjectFolder, openai: OpenAIServer) -> None:
    openai.reply = cutting(2048)
    found = examined(project)
    context = found["chat default context"]
    assert context.verdict == "failed"
    assert about(2048, context), context.fact
    assert "num_ctx 8192" in context.action
    assert "--max-model-len 8192" in context.action
    assert found["chat default extraction"].verdict == found["chat default JSON"].verdict == "ok"
    assert openai.count("chat") <= MOST_CALLS


@pytest.mark.parametrize("tokens", size([700, 3600], [700, 1300, 3600]))
def test_the_length_is_named_whatever_it_is(
    project: ProjectFolder, openai: OpenAIServer, tokens: int
) -> None:
    openai.reply = cutting(tokens)
    context = examined(project)["chat default context"]
    assert context.verdict == "failed"
    assert about(tokens, context), context.fact


def test_a_server_that_refuses_long_prompts_is_found(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.reply = refusing(2048)
    context = examined(project)["chat default context"]
    assert context.verdict == "failed"
    assert about(2048, context), context.fact
    assert "refuses" in context.fact


def test_long_prompts_are_tried_when_asked_for(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.reply = cutting(8192)
    assert "not tried" in examined(project)["chat default context"].fact
    openai.forget()
    context = examined(project, long=True)["chat default context"]
    assert (context.verdict, about(8192, context)) == ("warning", True), context.fact
    assert "max_total_tokens" in context.action
    assert openai.count("chat") <= MOST_CALLS
    openai.reply = default_reply
    assert "30,000" in examined(project, long=True)["chat default context"].fact


def test_thinking_tags_and_missing_json_are_warnings(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.reply = thinking
    thought = examined(project)["chat default thinking"]
    assert (thought.verdict, thought.fact[:8]) == ("warning", "5 of 5 r")
    openai.reply = deaf_to_json
    found = examined(project)
    assert found["chat default JSON"].verdict == "warning"
    assert "not supported" in found["chat default JSON"].fact
    workflow = project.root / "workflows" / "index.yaml"
    workflow.write_text(workflow.read_text().replace("gleanings: 0", "format: json"))
    assert examined(project)["chat default JSON"].verdict == "failed"


def test_a_model_that_extracts_nothing_fails(project: ProjectFolder, openai: OpenAIServer) -> None:
    openai.reply = lambda messages, body: Reply("I am a teapot.")
    found = examined(project)
    assert found["chat default extraction"].verdict == "failed"
    assert "I am a teapot." in found["chat default extraction"].fact
    assert "chat default context" not in found


def set_format(project: ProjectFolder, format: str) -> None:
    workflow = project.root / "workflows" / "index.yaml"
    workflow.write_text(workflow.read_text().replace("gleanings: 0", f"format: {format}"))


def test_a_model_that_writes_json_alone_is_told_to_be_asked_for_json(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.reply = json_alone
    found = examined(project)
    extraction = found["chat default extraction"]
    assert extraction.verdict == "failed"
    assert "not found in records, but it is as JSON: ### Records Only" in extraction.fact
    assert extraction.action == "set format: json in extract_graph's args of workflows/index.yaml"
    assert (
        found["chat default context"].verdict == "ok"
        or "not tried" in found["chat default context"].fact
    )


@pytest.mark.parametrize("format", ["json", "auto"])
def test_a_model_that_writes_json_alone_is_well_where_json_is_asked_for(
    project: ProjectFolder, openai: OpenAIServer, format: str
) -> None:
    openai.reply = json_alone
    set_format(project, format)
    found = examined(project, long=True)
    assert found["chat default extraction"].verdict == "ok"
    assert "as JSON" in found["chat default extraction"].fact
    assert found["chat default context"].verdict == "ok", found["chat default context"]
    assert found["chat default JSON"].verdict == "ok"


def test_the_window_of_a_model_that_writes_json_alone_is_measured(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.reply = cutting(2048, json_alone)
    set_format(project, "json")
    context = examined(project)["chat default context"]
    assert context.verdict == "failed"
    assert about(2048, context), context.fact


def test_a_server_without_schemas_is_told_to_be_asked_for_records(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.reply = deaf_to_json
    set_format(project, "json")
    found = examined(project)
    assert found["chat default extraction"].verdict == "failed"
    assert (
        found["chat default extraction"].action
        == "set format: records in extract_graph's args of workflows/index.yaml"
    )
    assert "chat default context" in found


def test_a_wrong_key_and_a_missing_server_are_failures(project: ProjectFolder) -> None:
    wrong = examined(project, "models.chat.default.api_key=sk-wrong-canary")["chat default"]
    assert (wrong.verdict, "refused the key" in wrong.fact) == ("failed", True)
    assert "api_key" in wrong.action
    nobody = examined(project, f"models.chat.default.base_url=http://{CLOSED}/v1")["chat default"]
    assert nobody.verdict == "failed"
    assert "is the server running" in nobody.action


def test_no_endpoint_is_no_failure(project: ProjectFolder) -> None:
    project.env.clear()
    found = examined(project, "models.chat.default.base_url=", "models.chat.default.api_key=")
    assert found["chat default"].verdict == "warning"
    assert "communities, graphrag_cache, graphrag_reports, index" in found["chat default"].fact


def test_a_server_that_fails_during_the_examination_is_a_failure(
    project: ProjectFolder, openai: OpenAIServer
) -> None:
    openai.script("chat", [200, 500, 500])
    found = examined(project, "models.chat.default.max_retries=0")
    assert found["chat default context"].verdict == "failed"
    assert "500" in found["chat default context"].fact
    assert found["chat default JSON"].verdict == "warning"
    assert f"made {4 + CALLS_AT_ONCE} calls" in found["chat default bill"].fact


def test_a_database_that_is_down_is_a_failure(project: ProjectFolder) -> None:
    down = f"postgresql://us:pw-canary@{CLOSED}/db"
    found = examined(project, f"stores.postgres.url={down}", f"cache={down}")
    assert found["stores postgres"].verdict == found["cache replies"].verdict == "failed"
    assert found["stores postgres"].action
    assert "pw-canary" not in str(found)


def test_loaded_vectors_of_another_model_are_found(project: ProjectFolder) -> None:
    expected = {
        "probe = probe": "ok",
        "probe = jsonb_set(probe, '{vector,0}', '99')": "failed",
        # The vectors of another model are not compared, so the probe above does not matter here.
        """embedding = '{"model": "m"}'""": "warning",
    }
    with project.open() as opened:
        opened.run("fast")
        for change, verdict in expected.items():
            with opened.stores.vectors.connection() as connection:  # pyright: ignore[reportAttributeAccessIssue]
                change_live = text(
                    f"UPDATE graphmill_live SET {change} WHERE workspace = :workspace"
                )
                connection.execute(change_live, {"workspace": opened.settings.workspace})
            [finding] = [finding for finding in opened.doctor() if finding.what == "vectors"]
            assert finding.verdict == verdict, change
            assert ("--re-embed" in finding.action) == (verdict != "ok"), change


def test_anothers_vectors_are_not_to_be_made_anew(
    project: ProjectFolder, tmp_path: Path, postgres_url: str
) -> None:
    """A user who followed such advice would delete the other owner's rows."""
    with project.open() as opened:
        opened.run("fast")
        with opened.stores.vectors.connection() as connection:  # pyright: ignore[reportAttributeAccessIssue]
            change_live = text(
                "UPDATE graphmill_live SET embedding = :embedding WHERE workspace = :workspace"
            )
            made_by = {"embedding": '{"model": "m"}', "workspace": opened.settings.workspace}
            connection.execute(change_live, made_by)
        other = new_project(tmp_path / "other", postgres_url, {})
        other.edit_settings(workspace=opened.settings.workspace)
    found = examined(other)
    assert "stores vectors" not in found
    assert found["stores postgres owner"].verdict == "failed"
    assert "re-embed" not in str(found)


def test_what_nobody_owns_is_not_said_to_be_this_project_s(
    project: ProjectFolder, tmp_path: Path, postgres_url: str
):
    """An earlier version has loaded the workspace, and this project has never run."""
    with project.open() as opened:
        opened.run("fast")
        with opened.stores.vectors.connection() as connection:  # pyright: ignore[reportAttributeAccessIssue]
            change_live = text("UPDATE graphmill_live SET owner = '' WHERE workspace = :workspace")
            connection.execute(change_live, {"workspace": opened.settings.workspace})
        other = new_project(tmp_path / "other", postgres_url, {})
        other.edit_settings(workspace=opened.settings.workspace)
    assert examined(other)["stores postgres owner"].verdict == "warning"


def test_no_finding_tells_a_secret(project: ProjectFolder, openai: OpenAIServer) -> None:
    openai.reply = lambda messages, body: Reply(f"Is {KEY} yours?")
    assert KEY not in str(examined(project))
    assert "***" in examined(project)["chat default extraction"].fact
    openai.reply = lambda messages, body: Reply("Are desk-key-1 and figures-key-1 yours?")
    keys = ["serve.keys.desk={key: desk-key-1}", "serve.metrics_key=figures-key-1"]
    found = str(examined(project, *keys))
    assert "desk-key-1" not in found
    assert "figures-key-1" not in found


def test_keys_with_faults_or_without_a_target_are_found(project: ProjectFolder) -> None:
    with project.open() as opened:
        opened.run("fast")
    shared = "is-quoted-nowhere"
    good = examined(project, f"serve.keys={{desk: {{key: {shared}, where: {{source: x.txt}}}}}}")[
        "settings serve.keys"
    ]
    assert (good.verdict, good.fact) == ("ok", "1 key of their own: desk")
    keys = [
        "blank: {key: '  '}",
        f"one: {{key: {shared}, models: [large]}}",
        f"two: {{key: {shared}, workspace: nowhere}}",
        "three: {key: zq9, where: {sorce: x.txt}}",
    ]
    with project.open(*project.endpoint_overrides, f"serve.keys={{{', '.join(keys)}}}") as opened:
        found = [finding for finding in opened.doctor() if finding.what == "serve.keys"]
    assert [finding.verdict for finding in found] == ["failed"] * 3 + ["warning"] * 3
    said = [f"{finding.fact}; {finding.action}" for finding in found]
    assert said[0].startswith("serve.keys.blank.key: empty; set the environment variable")
    assert "'one' and 'two' have the same key; give each its own" in said[1]
    assert (
        "serve.keys.one.models: there is no chat model 'large'; models.chat has: default" in said[2]
    )
    assert said[3].startswith(
        "serve.keys.three.key: shorter than 16 characters, so that it can be guessed; make a new"
    )
    assert (
        "serve.keys.two.workspace: nothing is loaded as 'nowhere'; load it, or correct the name"
        in said[4]
    )
    assert "no loaded document has a field 'sorce'; correct it: did you mean 'source'?" in said[5]
    assert shared not in str(found)


def test_faults_of_workflows_prompts_models_and_input_are_found(project: ProjectFolder) -> None:
    workflows = project.root / "workflows"
    index = (workflows / "index.yaml").read_text()
    (workflows / "other.yaml").write_text(
        index.replace("name: index", "name: other").replace("chat: default", "chat: x")
    )
    (workflows / "bad.yaml").write_text("name: bad\nsteps: [{verb: nothing}]\n")
    (project.root / "prompts" / "summarize_descriptions.md").write_text("$descriptions $nobody")
    found = examined(project, "input.file_pattern='*.docx'", "workflow=missing")
    assert "'x'" in found["settings workflow other"].fact
    assert "models.chat" in found["settings workflow other"].action
    assert "nobody" in found["settings workflow index"].fact
    assert "nothing" in found["settings workflow bad"].fact
    assert "no such workflow" in found["settings workflow missing"].fact
    assert found["settings workflow fast"].verdict == "ok"
    assert (found["settings input"].verdict, found["settings input"].fact[:2]) == ("warning", "0 ")
    assert "no such folder" in examined(project, "input.path=nowhere")["settings input"].fact


def test_what_is_no_input_is_nothing_to_mend(project: ProjectFolder) -> None:
    (project.root / "data" / "input" / "~$notes.docx").write_bytes(b"\x05somebody")
    found = examined(project)["settings input"]
    assert (found.verdict, found.action) == ("ok", "")
    os.mkfifo(project.root / "data" / "input" / "pipe")
    found = examined(project)["settings input"]
    assert (found.verdict, "pipe: not a regular file" in found.fact) == ("warning", True)


def test_a_file_of_keys_that_git_would_publish_is_a_warning(project: ProjectFolder) -> None:
    assert "settings .env" not in examined(project)
    subprocess.run(["git", "init", "--quiet", str(project.root)], check=True)
    (project.root / ".gitignore").write_text("data/\n")
    assert examined(project)["settings .env"].verdict == "warning"
    (project.root / ".gitignore").write_text(".env\n")
    assert examined(project)["settings .env"].verdict == "ok"


def test_a_cache_that_is_damaged_or_in_another_mode_is_found(project: ProjectFolder) -> None:
    path = project.root / "data" / "cache.sqlite"
    path.write_text("this is no database" * 100)
    assert examined(project)["cache replies"].verdict == "failed"
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    assert "journal mode delete" in examined(project)["cache replies"].fact
    assert examined(project, "cache=")["cache replies"].verdict == "warning"
    assert examined(project, "cache=mysql://host/db")["cache replies"].verdict == "failed"


def test_little_disk_space_is_a_warning(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.doctor.project_folder.LEAST_FREE", 10**18)
    assert examined(project)["space data"].verdict == "warning"


def test_neo4j_is_ok_by_the_right_password_and_fails_by_a_wrong_one(
    project: ProjectFolder, neo4j_address: Neo4jAddress
) -> None:
    there = [
        f"stores.neo4j.{key}={getattr(neo4j_address, key)}"
        for key in ("uri", "user", "password", "database")
    ]
    found = examined(project, "stores.graph=neo4j", *there)
    assert found["stores neo4j"].verdict == found["stores neo4j rights"].verdict == "ok", found
    assert "edition" in found["stores neo4j"].fact
    wrong = examined(project, "stores.graph=neo4j", *there, "stores.neo4j.password=canary-wrong")
    assert wrong["stores neo4j"].verdict == "failed"
    assert "canary-wrong" not in str(wrong)


def test_a_neo4j_that_is_down_is_a_failure(project: ProjectFolder) -> None:
    found = examined(project, "stores.graph=neo4j", f"stores.neo4j.uri=bolt://{CLOSED}")
    assert found["stores neo4j"].verdict == "failed"
    assert found["stores postgres"].verdict == "ok"


def test_an_error_is_never_empty() -> None:
    assert broken("cache", "c", ValueError()).fact == "a value that cannot be read"
    ours = broken("stores", "s", StoreError("there: it is down; start it"))
    assert (ours.fact, ours.action) == ("there: it is down", "start it")


def test_what_was_found_before_an_error_is_kept() -> None:
    def look() -> Iterator[Finding]:
        yield Finding("cache", "c", "ok", "opens")
        raise OSError(5, "broken disk")

    assert [(f.verdict, f.fact) for f in guarded("cache", "c", look)] == [
        ("ok", "opens"), ("failed", "broken disk"),
    ]  # fmt: skip


def test_the_command_shows_findings_and_actions(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(
        [Finding("cache", "c", "ok", "whole"), Finding("stores", "s", "failed", "down", "start it")]
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["ok", "cache", "c", "whole"], ["failed", "stores", "s", "down"], ["->", "start", "it"],
    ]  # fmt: skip


def test_a_reranker_is_tried(project: ProjectFolder) -> None:
    with rerank_server("rerank-canary") as server:
        where = "models.rerank.default"
        there = [
            f"{where}.base_url={server.base_url}",
            f"{where}.api_key={server.key}",
            f"{where}.model=best",
        ]
        found = examined(project, *there)["rerank default"]
        assert found.verdict == "ok"
        assert "3 texts" in found.fact
        server.script.append(RerankReply(raw='{"results": [{"index": 0, "relevance_score": 1}]}'))
        wrong = examined(project, *there)["rerank default"]
        assert wrong.verdict == "failed"
        assert "not first" in wrong.fact
        server.script.append(RerankReply(400, f'{{"detail": "{server.key} asks for nonsense"}}'))
        broken = examined(project, *there)["rerank default"]
        assert broken.verdict == "failed"
        assert "nonsense" in broken.fact
        assert server.key not in broken.fact
    assert "rerank default" not in examined(project)


def test_a_bucket_that_honours_conditions_is_well_and_versions_are_told(
    bucket: Bucket, tmp_path: Path
):
    folder = new_project(tmp_path / "p", NO_STORE, workflow="fast")
    bucket.hold(folder)
    with folder.open() as opened:
        opened.index("fast")
    found = examined(folder)
    assert found["snapshots object store"].verdict == "ok"
    assert (
        f"{bucket.address}: honours If-None-Match and If-Match; "
        in found["snapshots object store"].fact
    )
    assert "snapshots versions" not in found
    with between(bucket.server, versions=True) as (endpoint, _):
        bucket.by(endpoint).hold(folder)
        found = examined(folder)
    assert found["snapshots versions"].verdict == "warning"
    assert "a purge leaves it there" in found["snapshots versions"].fact


def test_a_server_that_ignores_conditions_is_refused_by_the_doctor_and_by_a_run(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, workflow="fast")
    with (
        s3_server(tmp_path / "s3", signs=False) as server,
        between(server, honours_conditions=False) as (endpoint, _),
    ):
        bucket = Bucket(server, "p", server.environment)
        bucket.by(endpoint).hold(folder)
        found = examined(folder)["snapshots object store"]
        assert found.verdict == "failed"
        assert "does not honour If-None-Match" in found.fact
        assert "use one that does" in found.action
        done = folder.invoke("index", "fast")
        assert done.exit_code == 1
        assert "does not honour If-None-Match" in done.stderr
        assert not bucket.names


def test_a_bucket_that_is_not_there_is_one_finding(bucket: Bucket, tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, workflow="fast")
    bucket.hold(folder)
    folder.edit_settings(snapshots="s3://no-such-bucket/p")
    found = examined(folder)["snapshots object store"]
    assert (found.verdict, found.fact) == (
        "failed",
        "s3://no-such-bucket/p: there is no such bucket",
    )
    assert found.action == "make it, or correct 'snapshots' in settings.yaml"


def test_a_price_of_another_model_is_a_warning(project: ProjectFolder) -> None:
    found = examined(project, "models.chat.default.model=llama3.2")
    price = found["chat default price"]
    assert (price.verdict, "{input: 0, output: 0}" in price.action) == ("warning", True)
    assert "chat default price" not in examined(project)


@pytest.mark.parametrize(("own", "verdict"), [(131_072, "ok"), (2048, "warning")])
def test_ollama_tells_what_the_model_itself_reads(
    tmp_path: Path, postgres_url: str, own: int, verdict: str
) -> None:
    with ollama_server() as server:
        server.models = {"llama3.2": own}
        project = new_project(tmp_path / "p", postgres_url)
        where = "models.chat.default"
        found = examined(
            project, f"{where}.provider=ollama", f"{where}.base_url={server.address}/v1",
            f"{where}.model=llama3.2",
            f"{where}.num_ctx=8192",
        )  # fmt: skip
    window = found["chat default num_ctx"]
    assert (window.verdict, "8,192" in window.fact, f"{own:,}" in window.fact) == (
        verdict,
        True,
        True,
    )
    assert found["chat default extraction"].verdict == found["chat default JSON"].verdict == "ok"
    assert found["chat default streaming"].fact == "answers come in pieces"
    assert found["chat default context"].verdict != "failed"
