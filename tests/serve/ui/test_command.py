"""graphmill ui as a process."""

import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from pipeline.serve.server import listen
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import wait_until


@contextmanager
def running(folder: ProjectFolder, *arguments: str, **environment: str) -> Iterator[str]:
    """Where it says that it can be asked. Nothing else may it say: the terminal is a person's."""
    line = folder.command_line("ui", *arguments)
    with subprocess.Popen(
        line, env={**folder.environment, **environment}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert first.startswith("graphmill: serving the page of workspace"), first
            yield first.split(" on ")[1].split(";")[0]
            process.terminate()
            assert process.stderr.read() == "graphmill: stopped serving\n"
        finally:
            process.kill()


def test_a_port_that_another_has_is_told_with_the_option_that_ui_has(folder: ProjectFolder):
    with listen("127.0.0.1", 0) as taken:
        refused = folder.invoke_refused("ui", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert "ui: cannot listen on 127.0.0.1" in refused
    assert refused.strip().endswith("choose another with --port")


def test_it_opens_a_browser_at_the_page(folder: ProjectFolder, tmp_path: Path):
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > "{opened}.part" && mv "{opened}.part" "{opened}"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with running(folder, "--port", "0", "--set", "serve.page=false", BROWSER=str(program)) as address:
        wait_until(opened.exists)
        assert opened.read_text() == address
        assert address.startswith("http://127.0.0.1:")
        page = httpx2.get(address, timeout=30)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_where_nothing_is_loaded_it_says_what_to_run(tmp_path: Path, postgres_url: str):
    with running(new_project(tmp_path / "p", postgres_url), "--port", "0", "--no-browser") as address:
        state = httpx2.get(f"{address}/ui/state", timeout=30).json()
        assert (state["loaded"], state["command"]) == (None, "graphmill run")
        assert "Nothing is loaded" in state["problem"]
        for view in ("", "graph", "documents", "nights"):
            page = httpx2.get(f"{address}/{view}", timeout=30, headers={"Accept": "text/html"})
            assert page.status_code == 200 or "graphmill run" in page.text, view
            assert "</nav>" in page.text
