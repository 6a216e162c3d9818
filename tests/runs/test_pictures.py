"""Pictures become documents by a model that sees them: once for each picture, for the price that
plan has said."""

import base64
import os
import re
import signal
import subprocess
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.documents.drawn_pictures import png
from tests.projects import NO_STORE, ProjectFolder, new_project, read_yaml
from tests.servers.openai_replies import default_reply
from tests.servers.openai_server import OpenAIServer, Reply, openai_server

NAMES = {1: "Mira Vale", 2: "Anselm Torr", 3: "Idra Senn", 4: "Governor Pell", 5: "Otto Prinn"}
"""The shade of a picture -> whom its description names."""
KNOWN = {base64.b64encode(png(shade=shade)).decode(): name for shade, name in NAMES.items()}
MISSING = "no model 'sharp' in models.chat; have: default"


def describe(messages: Any, body: Mapping[str, Any]) -> Reply:
    """What the model sees in the picture of the last message."""
    *_, (_, part) = (message["content"] for message in messages)
    _, _, content = part["image_url"]["url"].partition(";base64,")
    return Reply(f"A portrait of {KNOWN[content]}, who built the Harrow Light at Quill Point.")


@pytest.fixture
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server(reply=describe) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, endpoint: OpenAIServer) -> ProjectFolder:
    """Three pictures, two of them alike, a text, and a drawing of a kind that is not read."""
    text = {"harbour.txt": "Mira Vale built the Harrow Light in 1871.\n", "plan.svg": "<svg/>"}
    made = new_project(tmp_path / "p", NO_STORE, text, endpoint, workflow="fast")
    made.edit_settings(input={"pictures": {"model": "default"}})
    draw(made, "mira.png", 1)
    draw(made, "anselm.png", 2)
    draw(made, "copy/mira.jpg", 1)
    return made


def draw(folder: ProjectFolder, name: str, shade: int) -> None:
    path = folder.root / "data" / "input" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(shade=shade))


def planned_calls(folder: ProjectFolder) -> list[int]:
    return folder.report("plan")["estimate"]["calls"]


def texts(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        documents = project.table("documents")
    return dict(zip(documents["source"], documents["text"], strict=True))


def asked_pictures(endpoint: OpenAIServer) -> Counter[str]:
    found: Counter[str] = Counter()
    for request in endpoint.requests:
        if request.kind == "chat":
            url = request.messages[-1]["content"][1]["image_url"]["url"]
            found[url.partition(";base64,")[2]] += 1
    return found


def test_each_picture_is_asked_about_once_and_plan_says_so_before(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    plan = folder.report("plan")
    load = plan["steps"][0]
    assert (load["step"], plan["estimate"]["calls"], load["estimate"]["calls"]) == (
        "load_documents", [2, 2], [2, 2],
    )  # fmt: skip
    # gpt-4o-mini counts 8,500 tokens for a small picture, each for 0.15 per million.
    assert plan["estimate"]["cost"][0] > 2 * 8500 * 0.15 / 1e6
    assert plan["documents"] == {"new": 4, "edited": 0, "gone": 0}
    notes = " ".join(plan["notes"])
    assert "3 pictures to be described: the tokens of a picture are an estimate" in notes
    assert f"graphmill index {plan['workflow']} --only load_documents" in notes
    assert not endpoint.requests

    first = folder.report("index")
    assert first["totals"]["calls"] == 2
    assert first["steps"][0]["input_tokens"] > 0
    told = texts(folder)
    assert told["mira.png"] == told["copy/mira.jpg"]
    assert "Anselm Torr" in told["anselm.png"]
    with folder.open() as project:
        documents = project.table("documents").set_index("source")
        assert "gpt-4o-mini" in documents.loc["mira.png", "metadata"]
        assert {"MIRA VALE", "ANSELM TORR"} <= {
            name.upper() for name in project.table("entities")["name"]
        }
    rejects = folder.report("rejects")
    assert [(row["row_id"], row["reason"]) for row in rejects] == [("plan.svg", "unsupported")]

    assert planned_calls(folder) == [0, 0]
    assert folder.report("index")["totals"]["calls"] == 0
    draw(folder, "anselm.png", 3)
    assert planned_calls(folder) == [1, 1]
    assert folder.report("index")["totals"]["calls"] == 1
    assert "Idra Senn" in texts(folder)["anselm.png"]
    (folder.root / "data/input/mira.png").rename(folder.root / "data/input/vale.png")
    assert planned_calls(folder) == [0, 0]
    assert folder.report("index")["totals"]["calls"] == 0
    assert set(texts(folder)) == {"harbour.txt", "vale.png", "anselm.png", "copy/mira.jpg"}


def test_an_edited_prompt_asks_again_and_plan_says_so(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    folder.report("index")
    (folder.root / "prompts/describe_pictures.md").write_text("Write down its text.\n")
    assert planned_calls(folder) == [2, 2]
    folder.report("index")
    assert endpoint.requests[-1].messages[-1]["content"][0]["text"] == "Write down its text."
    assert set(asked_pictures(endpoint).values()) == {2}


def test_a_project_without_the_prompt_takes_the_shipped_one(folder: ProjectFolder):
    (folder.root / "prompts/describe_pictures.md").unlink()
    assert folder.report("index")["totals"]["calls"] == 2


def test_without_the_setting_a_picture_is_a_file_that_is_not_read(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    folder.edit_settings(input={})
    assert planned_calls(folder) == [0, 0]
    folder.report("index")
    assert set(texts(folder)) == {"harbour.txt"}
    assert not endpoint.requests


def test_a_model_that_settings_do_not_have_is_named(folder: ProjectFolder):
    folder.edit_settings(input={"pictures": {"model": "sharp"}})
    assert MISSING in folder.invoke_refused("plan")


def test_a_reply_of_no_use_is_a_reject_that_a_retry_asks_for(
    folder: ProjectFolder, endpoint: OpenAIServer, postgres_url: str
):
    for name, shade in (("idra.png", 3), ("pell.png", 4)):
        draw(folder, name, shade)
    (folder.root / "data/input/torn.png").write_bytes(png(shade=5)[:40])
    endpoint.script(
        "chat",
        [
            Reply("A portrait of", finish_reason="length"),
            Reply("", finish_reason="stop"),
            Reply("I'm sorry, but I can't help with that."),
            Reply("", finish_reason="content_filter"),
        ],
    )
    folder.edit_settings(max_reject_ratio=1, stores={"postgres": {"url": postgres_url}})
    one_by_one = ("--set", "models.chat.default.concurrency=1")
    folder.invoke("index", *one_by_one)
    rejects = {row["row_id"]: row for row in folder.report("rejects")}
    reasons = sorted(row["reason"] for row in rejects.values())
    # The picture that stands there twice has two rejects.
    assert rejects["torn.png"]["reason"] == "parse"
    assert {"truncated", "empty", "refusal", "content_filter"} <= set(reasons)
    assert set(texts(folder)) == {"harbour.txt"}
    assert folder.report("retry", *one_by_one)["totals"]["calls"] == 4
    assert len(texts(folder)) == 6
    assert planned_calls(folder) == [0, 0]


def test_a_ceiling_stops_the_run_and_nothing_is_asked_twice(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    for name, shade in (("idra.png", 3), ("pell.png", 4), ("otto.png", 5)):
        draw(folder, name, shade)
    one_by_one = ("--set", "models.chat.default.concurrency=1")
    stopped = folder.invoke("index", "--max-tokens", "100", *one_by_one)
    assert (stopped.exit_code, "run again" in stopped.stderr) == (5, True)
    before = sum(asked_pictures(endpoint).values())
    assert 0 < before < 5
    assert planned_calls(folder) == [5 - before, 5 - before]
    folder.report("index", *one_by_one)
    assert set(asked_pictures(endpoint).values()) == {1}
    assert len(texts(folder)) == 7


def test_a_run_that_is_killed_loses_the_call_under_way_alone(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    for name, shade in (("idra.png", 3), ("pell.png", 4), ("otto.png", 5)):
        draw(folder, name, shade)
    one_by_one = ("--set", "models.chat.default.concurrency=1")
    endpoint.delay = 0.3
    run = subprocess.Popen(
        folder.command_line("index", *one_by_one), env=folder.environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while sum(asked_pictures(endpoint).values()) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    endpoint.delay = 0
    folder.report("index", *one_by_one)
    times = asked_pictures(endpoint)
    assert len(times) == 5
    assert sum(times.values()) <= 6


def test_pictures_of_an_archive_are_described(folder: ProjectFolder, endpoint: OpenAIServer):
    with zipfile.ZipFile(folder.root / "data/input/scans.zip", "w") as archive:
        archive.writestr("idra.png", png(shade=3))
        archive.writestr("mira.png", png(shade=1))
    assert planned_calls(folder) == [3, 3]
    assert folder.report("index")["totals"]["calls"] == 3
    assert texts(folder)["scans.zip/mira.png"] == texts(folder)["mira.png"]


def test_an_index_by_a_model_plans_the_texts_it_knows_beside_the_pictures(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    folder.edit_settings(workflow="index")
    plan = folder.report("plan")
    calls = {step["step"]: step["estimate"]["calls"][0] for step in plan["steps"]}
    assert (calls["load_documents"], calls["extract_graph"]) == (2, 1)


def test_once_pictures_are_described_alone_the_plan_has_the_calls_that_read_descriptions(
    folder: ProjectFolder, endpoint: OpenAIServer
):
    folder.edit_settings(workflow="index")
    notes = " ".join(folder.report("plan")["notes"])
    assert "what it costs to read them, is not in this plan" in notes
    alone = ("index", "--only", "load_documents")
    assert "'graphmill index index --only load_documents'" in notes
    # A reply of the longest length is cut into four text units.
    assert "reading them adds at most about extract_graph 8 calls (" in notes
    assert "an estimate by the limit of a reply, 4,000 tokens: none is described yet" in notes
    assert not endpoint.requests
    # Before the first run of a workflow no step of it can be left as it is.
    assert "never completed" in folder.invoke_refused(*alone)
    assert folder.report("index", "fast")["totals"]["calls"] == 2
    # The text, and the two pictures that are not alike.
    assert calls_by_step(folder) == {"load_documents": 0, "extract_graph": 3}
    endpoint.reply = default_reply
    folder.report("index")
    endpoint.reply = describe
    draw(folder, "idra.png", 3)
    assert calls_by_step(folder) == {"load_documents": 1, "extract_graph": 0}
    added = re.search(
        r"reading them adds about extract_graph 1 call \(([\d.]+)\), an estimate by the (\d+)"
        r" tokens of a description so far",
        " ".join(folder.report("plan")["notes"]),
    )
    assert added
    assert 10 < int(added[2]) < 40
    assert folder.report(*alone)["totals"]["calls"] == 1
    assert calls_by_step(folder) == {"load_documents": 0, "extract_graph": 1}
    # Now that the description is known, the plan itself has what was estimated.
    [planned] = [
        step["estimate"]["expected"]["cost"]
        for step in folder.report("plan")["steps"]
        if step["step"] == "extract_graph"
    ]
    assert float(added[1]) == pytest.approx(planned, rel=0.5)


def calls_by_step(folder: ProjectFolder) -> dict[str, int]:
    """Return the fewest calls that the plan has of the two steps that pictures concern."""
    steps = folder.report("plan")["steps"]
    return {
        step["step"]: step["estimate"]["calls"][0]
        for step in steps
        if step["step"] in ("load_documents", "extract_graph")
    }


def test_a_purge_takes_the_description_of_a_picture_with_it(
    tmp_path: Path, folder: ProjectFolder, endpoint: OpenAIServer, postgres_url: str
):
    folder.edit_settings(stores={"postgres": {"url": postgres_url}})
    folder.report("run")
    folder.delete("anselm.png")
    done = folder.invoke("purge", "--document", "anselm.png", "--yes")
    assert done.exit_code == 0, done.stderr
    assert "anselm.png" not in texts(folder)
    draw(folder, "other.png", 2)
    assert planned_calls(folder) == [1, 1]
    assert read_yaml(folder.root / "settings.yaml")["input"]["pictures"]["model"] == "default"
