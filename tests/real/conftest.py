import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.projects import ProjectFolder, new_project
from tests.real.model_servers import MODEL, REQUIRED, ServerProcess, llama_server, running, why_not
from tests.real.recording_proxy import RecordingProxy, recording_proxy
from tests.states import set_args

MOST_TOKENS_OF_A_REPLY = 120
"""A model of this size writes until it is stopped; a reply at this limit is a cut one, which must
not be lost."""
PATIENCE = 600
"""Seconds that a call, and a command, may take: the machine may be busy."""


@dataclass(frozen=True)
class RealModel:
    """A llama.cpp server with SmolLM2-135M behind a proxy that notes what it was asked."""

    server: ServerProcess
    proxy: RecordingProxy

    def project(
        self,
        root: Path,
        postgres_url: str,
        format: str = "records",
        base_url: str = "",
        key: str = "none",
    ):
        return project_with(base_url or self.proxy.base_url, root, postgres_url, format, key)


def project_with(
    base_url: str, root: Path, postgres_url: str, format: str, key: str
) -> ProjectFolder:
    chat = {
        "base_url": base_url, "api_key": key, "model": MODEL, "temperature": 0,
        "max_tokens": MOST_TOKENS_OF_A_REPLY,
        "concurrency": 1, "timeout": PATIENCE,
    }  # fmt: skip
    folder = new_project(root, postgres_url, models={"chat": {"default": chat}})
    set_args(folder, extract_graph={"format": format})
    return folder


@pytest.fixture(scope="session", autouse=True)
def is_wanted() -> None:
    """Skip with the reason where there is no real model; fail where one is required."""
    reason = why_not()
    if reason and os.environ.get(REQUIRED) == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def started(is_wanted: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealModel]:
    """One server for all tests: it takes seconds to start, and keeps the prompt that it has
    read."""
    folder = tmp_path_factory.mktemp("llama")
    with running(llama_server(folder)) as server, recording_proxy(server.port) as proxy:
        yield RealModel(server, proxy)


@pytest.fixture
def real(started: RealModel) -> RealModel:
    started.proxy.forget()
    return started
