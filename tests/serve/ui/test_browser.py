"""What the tests in a browser rely on: that it tells of every request, and of what went wrong."""

from pathlib import Path

import pytest

from tests.serve.ui.browser import BrowserUnavailable, chromium
from tests.serve.ui.conftest import Look

PAGE = """<!doctype html><meta charset="utf-8"><title>it</title>
<meta http-equiv="Content-Security-Policy" content="img-src 'none'">
<img src="http://127.0.0.1:9/secret.png">
<script>fetch("http://127.0.0.1:9/told").catch(() => {}); alert("hello"); throw new Error("mine")</script>"""  # noqa: E501


def test_all_that_a_page_asks_for_and_complains_of_is_seen(look: Look, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    watched = look((tmp_path / "page.html").as_uri())
    watched.page.wait_for_load_state("networkidle")
    assert "http://127.0.0.1:9/told" in watched.elsewhere("http://127.0.0.1:8000")
    said = "\n".join(watched.complaints)
    assert "dialog: hello" in said
    assert "mine" in said
    assert "Content Security Policy" in said


def test_a_machine_without_a_browser_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("GRAPHMILL_CHROMIUM", raising=False)
    with pytest.raises(BrowserUnavailable, match="apt-get install chromium"):
        chromium()
