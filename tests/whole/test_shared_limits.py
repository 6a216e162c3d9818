"""Four projects in four processes, one endpoint with a limit, one cache: together they use the
limit and keep to it."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.corpora import cut_by_paragraphs, voyages
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import Limits, OpenAIServer, Request
from tests.sizes import only_whole
from tests.states import models

REQUESTS, TOKENS = 60, 20_000
SECONDS_OF_A_MINUTE = 30.0
SCALE = 60 / SECONDS_OF_A_MINUTE
PROJECTS = 4
UNITS = 60
APART = 10_000
"""Between the first units of two projects: none asks what another has asked."""


@only_whole("a minute of waiting for each cache")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_projects_that_share_a_cache_share_its_limits(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, database: str
):
    cache = f"sqlite:///{tmp_path / 'shared.sqlite'}" if database == "sqlite" else postgres_url
    openai.limits = Limits(REQUESTS, TOKENS, minute=SECONDS_OF_A_MINUTE)
    folders = [
        new_folder(tmp_path / f"p{number}", postgres_url, openai, cache, number)
        for number in range(PROJECTS)
    ]
    run_together(folders)

    for folder in folders:
        with folder.open() as project:
            assert len(project.table("text_units", "index")) >= UNITS
            assert project.table("rejects", "index").empty
    requests = [request for request in openai.requests if request.kind == "chat"]
    assert share_used(requests) >= 0.85
    settled = [request for request in requests if request.at >= requests[0].at + 10 / SCALE]
    refused = [request for request in settled if request.status == 429]
    assert len(refused) < 0.02 * len(settled)


def new_folder(
    root: Path, postgres_url: str, endpoint: OpenAIServer, cache: str, number: int
) -> ProjectFolder:
    limits = {
        "requests_per_minute": REQUESTS * SCALE,
        "tokens_per_minute": TOKENS * SCALE,
        "concurrency": 16,
    }
    folder = new_project(
        root, postgres_url, voyages(UNITS, number * APART), models=models(endpoint, **limits)
    )
    cut_by_paragraphs(folder)
    folder.edit_settings(cache=cache)
    return folder


def run_together(folders: list[ProjectFolder]) -> None:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    folder.command_line("index"), env=folder.environment, stdout=subprocess.DEVNULL
                )
            )
            for folder in folders
        ]
        assert [process.wait() for process in processes] == [0] * len(folders)


def share_used(requests: list[Request]) -> float:
    """Of the limit that binds, while all projects were at work."""
    times = [
        [request.at for request in requests if project_of(request) == number]
        for number in range(PROJECTS)
    ]
    start, end = max(map(min, times)), min(map(max, times))
    assert end - start > SECONDS_OF_A_MINUTE
    answered = [
        request for request in requests if start <= request.at < end and request.status == 200
    ]
    tokens = sum(request.prompt_tokens + request.completion_tokens for request in answered)
    minutes = (end - start) / SECONDS_OF_A_MINUTE
    return max(len(answered) / REQUESTS, tokens / TOKENS) / minutes


def project_of(request: Request) -> int:
    found = re.search(r"of ship (\d+)", str(request.messages))
    assert found
    return int(found[1]) // APART
