import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.projects import ProjectFolder, new_project
from tests.serve.conftest import models_of
from tests.serve.serving import Serving, serving
from tests.serve.ui.browser import BrowserUnavailable, Watched, browser, watching
from tests.servers.openai_server import OpenAIServer, openai_server

expect.set_options(
    timeout=30_000
)  # a machine may be busy; what is not there is not there then either

Look = Callable[..., Watched]
WORKFLOW = "with_communities"


@dataclass(frozen=True)
class Shown:
    """``url``: with a chat model, that of the tests."""

    folder: ProjectFolder
    served: Serving
    openai: OpenAIServer

    @property
    def url(self) -> str:
        return self.served.url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for all tests of a file: it must have ended before a test elsewhere may run an event loop
    of its own. Skips where there is none, unless GRAPHMILL_REQUIRE_BROWSER=1."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(browser())
        except BrowserUnavailable as reason:
            if os.environ.get("GRAPHMILL_REQUIRE_BROWSER") == "1":
                pytest.fail(f"no browser: {reason}")
            pytest.skip(f"no browser: {reason}")
        yield started


@pytest.fixture
def look(chromium: Browser) -> Iterator[Look]:
    """Opens an address in a window of its own."""
    with ExitStack() as stack:

        def open_window(address: str, **options: Any) -> Watched:
            watched = stack.enter_context(watching(chromium, **options))
            watched.page.goto(address)
            return watched

        yield open_window


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Shown]:
    folder = new_project(tmp_path_factory.mktemp("views") / "p", postgres_url, workflow=WORKFLOW)
    steps = "extends: fast\nsteps:\n  - verb: detect_communities\n"
    (folder.root / "workflows" / f"{WORKFLOW}.yaml").write_text(f"name: {WORKFLOW}\n{steps}")
    with openai_server() as openai, folder.open(*models_of(openai), "cache=''") as project:
        assert project.run().outcome == "completed"
        with serving(project) as served:
            yield Shown(folder, served, openai)
