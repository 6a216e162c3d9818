import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.serve.ui.browser import BrowserUnavailable, Watched, browser, watching

Look = Callable[..., Watched]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for all tests of a file: it must have ended before a test elsewhere may run an event loop of its own. Skips
    where there is none, unless GRAPHMILL_REQUIRE_BROWSER=1."""
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
