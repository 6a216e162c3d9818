"""Make ``paid_project.zip``: a project whose model calls a given version of the code has paid for.

Run it with the code of the version whose requests the archive is to keep:

    python -m tests.whole.paid_project tests/whole/paid_project.zip

The endpoint of the tests answers. It gives three kinds of useless replies, which the code then
mends: a reply that no parser can read (asked once more), an extraction that is cut off (read in two
halves), and a report that is cut off (asked for in half as many words). Every row ends well, so an
upgrade has nothing left to ask.
"""

import json
import os
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline.runs.owner import PLACE_FILE, SNAPSHOTS_FILE
from pipeline.stores.postgres.embedded import start_embedded
from tests.projects import ProjectFolder, new_project, read_yaml, write_yaml
from tests.servers.openai_faults import MUMBLE
from tests.servers.openai_replies import Messages, Reply, content_of, default_reply, is_gleaning
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.servers.postgres_server import server_folder
from tests.states import id_of

WORKFLOWS = ("records", "json", "claims")
"""``records`` and ``json`` differ in the format of replies; ``claims`` is as graphmill ships it."""
URL_NAME = "PAID_PROJECT_URL"
"""The environment variable that holds the address of the PostgreSQL."""
ZIP_DATE = (2026, 1, 1, 0, 0, 0)
"""One date for all files, so that the archive depends on their contents alone."""
OF_THIS_MACHINE = (
    PLACE_FILE,
    f"data/snapshots/{SNAPSHOTS_FILE}",
    "data/workspaces.json",
    "data/runs/holder",
    "data/runs/lock",
)
"""Files that say where the project and its database were, and which process held it."""

Answering = Callable[[Messages, Mapping[str, Any]], Reply]
PLACES = ("Asken", "Brack", "Harrow", "Quill", "Tollen")
CUT_FIRST, CUT_LAST = "Orrin Fell", "Dunmore Weir"
"""The first and the last name of a text unit: both stand only in the whole of it, never in a
half."""
UNREADABLE = "Gull Rock"
CUT_REPORT = "Harrow Mill"


def documents() -> dict[str, str]:
    """Return texts that share some names, so that their descriptions are many enough for a
    summary."""
    texts = {f"{place.lower()}.md": paragraphs(place) for place in PLACES}
    texts["cut.txt"] = (
        f"{CUT_FIRST} kept the sluice for Mira Vale. The sluice fed Asken Mill each spring. "
        f"Anselm Torr measured its flow. Governor Pell then closed {CUT_LAST}.\n"
    )
    texts["unreadable.txt"] = (
        f"{UNREADABLE} was charted by Idra Senn in 1838. Mira Vale lit {UNREADABLE} in 1871.\n"
    )
    return texts


def paragraphs(place: str) -> str:
    return (
        f"{place} Hall was built by Anselm Torr in 1840. {place} Bridge met {place} Gate and Anselm"
        f" Torr of the Brack Institute. Mira Vale sold {place} Mill to Governor Pell. Idra Senn saw"
        f" {place} Quay.\n\n{place} Mill was burnt by Governor Pell in 1852. Anselm Torr of the"
        f" Brack Institute taught Mira Vale at {place} Hall. Mira Vale blamed Governor Pell for the"
        f" fire at {place} Mill.\n"
    )


def faulty_reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Answer as the endpoint of the tests does, but spoil the replies that the code is to mend."""
    usual = default_reply(messages, body)
    prompt = "\n".join(map(content_of, messages))
    is_report = "rating_explanation" in prompt
    is_reading = "<|COMPLETE|>" in prompt
    if is_gleaning(messages):  # also true of every request that mends an earlier reply
        return usual
    if is_report and CUT_REPORT in prompt:
        return cut(usual)
    if is_reading and CUT_FIRST in prompt and CUT_LAST in prompt:
        return cut(usual)
    if is_reading and UNREADABLE in prompt:
        return Reply(MUMBLE)
    return usual


def cut(reply: Reply) -> Reply:
    text = reply.text or ""
    return Reply(text[: len(text) // 2], finish_reason="length")


def write_workflows(folder: ProjectFolder) -> None:
    """Write the workflows ``records`` and ``json`` with everything that asks a model."""
    shipped = folder.root / "workflows"
    steps = [
        *read_yaml(shipped / "index.yaml")["steps"],
        *read_yaml(shipped / "communities.yaml")["steps"],
    ]
    claims = [
        {**step, "after": "embed_relationships"} if step["verb"] == "extract_claims" else step
        for step in read_yaml(shipped / "claims.yaml")["steps"]
    ]
    for name in ("records", "json"):
        write_yaml(
            shipped / f"{name}-base.yaml", {"name": f"{name}-base", "steps": changed(steps, name)}
        )
        write_yaml(
            shipped / f"{name}.yaml",
            {"name": name, "extends": f"{name}-base", "steps": changed(claims, name)},
        )


def changed(steps: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Give the steps the arguments under which a small corpus needs every kind of call."""
    report = {"max_input_tokens": 500, "max_length": 200, "structured": name == "json"}
    args: dict[str, dict[str, Any]] = {
        "chunk_documents": {"size": 70},
        "extract_graph": {"gleanings": 1, "format": name},
        "extract_claims": {"gleanings": 1},
        "summarize_descriptions": {"max_tokens": 40, "max_input_tokens": 200},
        "detect_communities": {"max_cluster_size": 6},
        "report_communities": report,
    }
    return [
        {**step, "args": {**step.get("args", {}), **args.get(id_of(step), {})}} for step in steps
    ]


def make(root: Path, openai: OpenAIServer) -> None:
    """Make the project with the code of now: run each of the workflows and load what came of it.

    ``expected.json`` holds the number of answers that each step got, by workflow and step.
    """
    folder = new_project(root, f"${{{URL_NAME}}}", documents(), openai)
    address = {"base_url": "${OPENAI_BASE_URL}", "api_key": "${OPENAI_API_KEY}"}
    embedding = {
        **address,
        "provider": "openai",
        "model": "text-embedding-3-small",
        "batch_size": 16,
    }
    price = {"price": {"input": 0.15, "output": 0.6}}
    folder.edit_settings(
        workspace="paid",
        models={
            "chat": {"default": {**address, "model": "gpt-4o-mini", "concurrency": 4, **price}},
            "embedding": {"default": {**embedding, "concurrency": 4}},
        },
    )
    write_workflows(folder)
    answers: dict[str, dict[str, int]] = {}
    for name in WORKFLOWS:
        report = folder.report("run", name, "--replace")
        assert report["outcome"] == "completed", report
        counts = {step["step"]: step["calls"] + step["cached_calls"] for step in report["steps"]}
        answers[name] = {step: count for step, count in counts.items() if count}
    (root / "expected.json").write_text(json.dumps(answers, indent=1), encoding="utf-8")


def close_cache(root: Path) -> None:
    """Put one file in the place of the cache and its journal."""
    cache, copy = root / "data/cache.sqlite", root / "data/copy.sqlite"
    with closing(sqlite3.connect(cache)) as connection:
        connection.execute("VACUUM INTO ?", [str(copy)])
    for path in cache.parent.glob("cache.sqlite*"):
        path.unlink()
    copy.replace(cache)


def pack(root: Path, archive: Path) -> None:
    """Write the files of the project that belong to it wherever it is."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            content = path.read_bytes() if path.is_file() else None
            if content is None or name in OF_THIS_MACHINE:
                continue
            assert str(root).encode() not in content, f"{name} holds the folder of this machine"
            packed.writestr(zipfile.ZipInfo(name, ZIP_DATE), content, zipfile.ZIP_DEFLATED)


def write_archive(
    archive: Path,
    name: str,
    make: Callable[[Path, OpenAIServer], None],
    reply: Answering | None = None,
) -> None:
    """Make a project in a folder of this name, with servers of its own, and pack it."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        server_folder() as server,
        openai_server() as openai,
    ):
        openai.reply = reply or openai.reply
        os.environ.update({**openai.env, URL_NAME: start_embedded(server)})
        root = Path(temporary) / name
        make(root, openai)
        asked = f"{openai.count('chat')} chats, {openai.count('embeddings')} calls for vectors"
        close_cache(root)
        pack(root, archive)
    print(f"{archive}: {archive.stat().st_size:,} bytes, {asked}")


def unpack(
    archive: Path, root: Path, database: str, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> ProjectFolder:
    """Unpack a project, and let it find this database and this endpoint."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(root)
    for name, value in {**openai.env, URL_NAME: database}.items():
        monkeypatch.setenv(name, value)
    return ProjectFolder(root, openai.env)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]), "paid", make, faulty_reply)
