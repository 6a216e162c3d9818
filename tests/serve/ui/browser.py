"""A real browser to look at the pages with: the machine's own Chromium, headless; none is
fetched."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


class BrowserUnavailable(Exception):  # noqa: N818 - nothing is wrong, there is just none here
    """Why this machine has no browser."""


def chromium() -> str:
    """Where it is: GRAPHMILL_CHROMIUM, else on the path."""
    named = os.environ.get("GRAPHMILL_CHROMIUM")
    if found := named or next(filter(None, map(shutil.which, NAMES)), None):
        return found
    raise BrowserUnavailable(
        "no chromium on the path (apt-get install chromium, or GRAPHMILL_CHROMIUM=PATH)"
    )


@contextmanager
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@dataclass(frozen=True)
class Watched:
    """A page, all that it has asked for, whether or not that was let through, and what the browser
    complained of: errors of scripts and of loading, what the Content-Security-Policy stopped,
    dialogs."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def elsewhere(self, origin: str) -> list[str]:
        """The requests that went to another server than this one."""
        return [
            url
            for url in self.requests
            if not url.startswith((f"{origin}/", "data:", f"blob:{origin}/"))
        ]


@contextmanager
def watching(browser: Browser, **options: Any) -> Iterator[Watched]:
    """A window of its own, without cookies; ``options`` are those of Playwright's contexts."""
    with browser.new_context(**{"viewport": WIDE, **options}) as context:
        page = context.new_page()
        watched = Watched(page)
        context.on("request", lambda request: watched.requests.append(request.url))
        page.on("websocket", lambda socket: watched.requests.append(socket.url))
        page.on(
            "console",
            lambda said: watched.complaints.append(said.text) if said.type == "error" else None,
        )
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.on(
            "dialog",
            lambda dialog: (
                watched.complaints.append(f"dialog: {dialog.message}"),
                dialog.dismiss(),
            ),
        )
        yield watched
