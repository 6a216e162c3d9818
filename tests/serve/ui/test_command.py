"""graphmill ui as a process."""

import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from pipeline.serve.server import listen
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import wait_until


@dataclass(frozen=True)
class Running:
    """``address``: of the page. ``told``: the lines on stderr that come after."""

    address: str
    told: Iterator[str]

    def next_link(self) -> str:
        """The address that signs in, which the terminal shows."""
        line = next(self.told)
        assert line.startswith("graphmill: sign in at "), line
        return line.split(" at ")[1].split(" ")[0]


@contextmanager
def running(folder: ProjectFolder, *arguments: str, **environment: str) -> Iterator[Running]:
    """What it says besides how to sign in is asserted to be nothing: the terminal is a person's."""
    line = folder.command_line("ui", *arguments)
    with subprocess.Popen(
        line, env={**folder.environment, **environment}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert first.startswith("graphmill: serving the page of workspace"), first
            yield Running(first.split(" on ")[1].split(";")[0], process.stderr)
            process.terminate()
            assert process.stderr.read() == "graphmill: stopped serving\n"
        finally:
            process.kill()


@contextmanager
def signed_in(shown: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=shown.address, timeout=60) as client:
        assert client.get(shown.next_link()).status_code == 200
        shown.next_link()
        yield client


def test_a_port_that_another_has_is_told_with_the_option_that_ui_has(folder: ProjectFolder):
    with listen("127.0.0.1", 0) as taken:
        refused = folder.invoke_refused("ui", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert "ui: cannot listen on 127.0.0.1" in refused
    assert refused.strip().endswith("choose another with --port")


def test_it_opens_a_browser_by_a_file_that_other_accounts_cannot_read(
    folder: ProjectFolder, tmp_path: Path
):
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(
        f'#!/bin/sh\nprintf %s "$1" > "{opened}.part" && mv "{opened}.part" "{opened}"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with running(folder, "--port", "0", "--set", "serve.page=false", BROWSER=str(program)) as shown:
        link = shown.next_link()
        wait_until(opened.exists)
        file = Path(opened.read_text().removeprefix("file://"))
        assert file.stat().st_mode & 0o077 == 0
        assert f'url={link}"' in file.read_text()
        assert shown.address.startswith("http://127.0.0.1:")
        page = httpx2.get(link, timeout=30)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        shown.next_link()
    assert not file.exists()


def test_who_does_not_see_the_terminal_gets_nothing(folder: ProjectFolder):
    """Another account of this machine reaches the port as well."""
    with running(folder, "--port", "0", "--no-browser") as shown:
        link, page = shown.next_link(), {"Accept": "text/html"}
        with httpx2.Client(base_url=shown.address, timeout=30) as other:
            assert (
                other.get("/documents", headers=page).headers["location"]
                == "./login?next=documents"
            )
            for path in ("/ui/state", "/documents", "/openapi.json", "/runs/plan"):
                assert other.get(path).status_code == 401, path
            assert other.post("/query/data", json={"query": "Who?"}).status_code == 401
            assert other.get(f"{link}x").status_code == 401
            assert not other.cookies
        with httpx2.Client(base_url=shown.address, timeout=30) as person:
            assert person.get(link).status_code == 200
            state = person.get("/ui/state").json()
            assert (state["editor"], state["locked"], state["who"]) == (True, "", "")
            assert person.get("/ui/state", headers={"Host": "evil.example"}).status_code == 421
        assert httpx2.get(link, timeout=30).status_code == 401, "an address works once"
        second = shown.next_link()
        with httpx2.Client(base_url=shown.address, timeout=30) as another_browser:
            typed = {"key": second.split("token=")[1]}
            ours = {"Sec-Fetch-Site": "same-origin"}
            assert another_browser.post("/login", data=typed, headers=ours).status_code == 303
            assert another_browser.get("/ui/state").status_code == 200
        shown.next_link()


def test_where_nothing_is_loaded_it_says_what_to_run(tmp_path: Path, postgres_url: str):
    project = new_project(tmp_path / "p", postgres_url)
    with running(project, "--port", "0", "--no-browser") as shown, signed_in(shown) as person:
        state = person.get("/ui/state").json()
        assert (state["loaded"], state["command"]) == (None, "graphmill run")
        assert "Nothing is loaded" in state["problem"]
        for view in ("", "graph", "documents", "runs"):
            page = person.get(f"/{view}", headers={"Accept": "text/html"})
            assert page.status_code == 200 or "graphmill run" in page.text, view
            assert "</nav>" in page.text
