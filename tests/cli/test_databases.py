"""The address of the database, and a terminal to it, without a password where others can see it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from pipeline.cli import databases
from pipeline.settings.init import init_project
from tests.projects import DOCUMENTS, ProjectFolder, new_project

COUNT = "SELECT count(*) FROM graphmill_documents"


def test_psql_opens_the_embedded_database_and_url_names_it(tmp_path: Path):
    init_project(tmp_path / "mill")
    folder = ProjectFolder(tmp_path / "mill")
    assert "no database yet; 'graphmill run' makes it" in folder.invoke_refused("stores", "url")
    assert not (folder.root / "data/postgres").exists()
    for name, text in DOCUMENTS.items():
        folder.write(name, text)
    with folder.open() as project:
        project.run("fast")
        shown = folder.invoke("stores", "url")
        assert make_url(shown.stdout.strip()).database == "postgres"
        assert shown.stderr == ""
        asked = folder.command("stores", "psql", "--", "-Atc", COUNT)
        assert asked.stdout == f"{len(DOCUMENTS)}\n", asked.stderr
        assert folder.command("stores", "psql", "--", "-c", "SELECT nothing").returncode == 1
        project.stop_stores()


def test_a_password_is_in_no_argument_and_is_printed_only_if_asked_for(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    secret = make_url(postgres_url).set(password="canary").render_as_string(hide_password=False)
    folder = new_project(tmp_path / "mine", secret)
    assert "canary" not in folder.invoke("stores", "url").stdout
    assert "canary" in folder.invoke("stores", "url", "--with-password").stdout
    started: dict[str, Any] = {}

    def run(command: list[str], env: dict[str, str], check: bool) -> Any:
        started.update(command=command, password=env["PGPASSWORD"])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(databases.subprocess, "run", run)
    assert folder.invoke("stores", "psql").exit_code == 0
    assert "canary" not in repr(started["command"])
    assert started["password"] == "canary"


@pytest.mark.parametrize(
    ("address", "plain", "password"),
    [
        ("postgresql://u:canary@h/d", "postgresql://u@h/d", "canary"),
        ("postgresql://u@h/d?password=canary", "postgresql://u@h/d", "canary"),
        ("postgresql://u@h/d?sslpassword=canary&sslmode=require",
         "postgresql://u@h/d?sslmode=require", ""),
        ("postgresql://u:canary@h/d?sslpassword=canary2", "postgresql://u@h/d", "canary"),
    ],
)  # fmt: skip
def test_no_password_stays_in_an_address(address: str, plain: str, password: str):
    assert databases._split_password(address) == (plain, password)
