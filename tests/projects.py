"""Projects to test with: real folders, the shared PostgreSQL, a workspace of their own each."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from typer.main import get_command

from pipeline.cli import app
from pipeline.project import Project
from pipeline.runs.owner import PLACE_FILE
from pipeline.settings.init import init_project
from tests.servers.openai_server import OpenAIServer

NO_STORE = "postgresql://nobody@127.0.0.1:9/nothing"
"""For projects that no load comes to."""
DOCUMENTS = {
    "harbour.txt": (
        "The Harbour of Quill\n\nMira Vale built the Harrow Light in 1871. The Harrow Light stands"
        " at Quill Point. Mira Vale studied at the Brack Institute under Anselm Torr.\n"
    ),
    "institute.txt": (
        "The Brack Institute\n\nThe Brack Institute was founded by Idra Senn in 1840. Anselm Torr"
        " taught optics at the Brack Institute. Idra Senn also endowed the Tollen Observatory.\n"
    ),
    "observatory.txt": (
        "The Tollen Observatory\n\nThe Tollen Observatory was opened by Governor Pell in 1852. "
        "Anselm Torr ground its first lens.\n"
    ),
}


@cache
def command_of_all() -> Callable[..., int | None]:
    """Return what ``graphmill`` is for click: typer would build all commands anew for each call,
    which takes 14 ms."""
    return get_command(app)


def read_yaml(path: Path) -> Any:
    """By the parser in C: every test reads some."""
    return yaml.load(path.read_bytes(), yaml.CSafeLoader)


def write_yaml(path: Path, value: object) -> None:
    path.write_text(yaml.dump(value, Dumper=yaml.CSafeDumper), encoding="utf-8")


@dataclass(frozen=True)
class Invoked:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass
class ProjectFolder:
    """A project on disk; ``env`` is what the command gets on top of the environment."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def open(self, *overrides: str) -> Project:
        return Project.open(self.root, overrides)

    @property
    def endpoint_overrides(self) -> list[str]:
        """Settings that name the endpoint, for use in this process."""
        return [
            f"models.chat.default.{key}={self.env[name]}"
            for key, name in (("base_url", "OPENAI_BASE_URL"), ("api_key", "OPENAI_API_KEY"))
            if name in self.env
        ]

    def copy(self, root: Path) -> "ProjectFolder":
        """As if it had been moved, but for the original, which is still there and is the same
        owner."""
        shutil.copytree(self.root, root)
        (root / PLACE_FILE).unlink(missing_ok=True)
        return ProjectFolder(root, dict(self.env))

    def write(self, name: str, text: str) -> None:
        path = self.root / "data" / "input" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def delete(self, name: str) -> None:
        (self.root / "data" / "input" / name).unlink()

    def edit_settings(self, **sections: Any) -> None:
        path = self.root / "settings.yaml"
        write_yaml(path, {**read_yaml(path), **sections})

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``graphmill`` in a process of its own, where that is what is tested."""
        return subprocess.run(
            self.command_line(*arguments), capture_output=True, text=True, env=self.environment,
            timeout=120,
            check=False,
        )  # fmt: skip

    def invoke(self, *arguments: str) -> "Invoked":
        """Run ``graphmill`` in this process: a start takes a second or two of work and proves
        nothing more."""
        out, err = io.StringIO(), io.StringIO()
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch.dict(os.environ, self.environment, clear=True),
        ):
            code = command_of_all()(["-C", str(self.root), *arguments], standalone_mode=False)
        return Invoked(code or 0, out.getvalue(), err.getvalue())

    def invoke_refused(self, *arguments: str) -> str:
        """What ``graphmill`` says on stderr of a command that it refuses."""
        done = self.invoke(*arguments)
        assert done.exit_code == 2, done
        return done.stderr

    def command_line(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pipeline", "-C", str(self.root), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")
        }
        return {**inherited, **self.env}

    def report(self, *arguments: str) -> dict[str, Any]:
        """Return the command's JSON; print its messages if it failed, for pytest to show them."""
        done = self.invoke(*arguments, "--json")
        assert done.stdout, done.stderr
        if done.exit_code:
            print(done.stderr, file=sys.stderr)
        return done.json


def new_project(
    root: Path,
    postgres_url: str,
    documents: Mapping[str, str] = DOCUMENTS,
    endpoint: OpenAIServer | None = None,
    **settings: Any,
) -> ProjectFolder:
    """A project with these documents; with an endpoint its chat model is there, embeddings stay
    builtin. Of so few documents any number may go, unless ``max_delete_ratio`` is among the
    settings."""
    init_project(root, "index")
    project = ProjectFolder(root, endpoint.env if endpoint else {})
    for name, text in documents.items():
        project.write(name, text)
    models = read_yaml(root / "settings.yaml")["models"]
    models["chat"]["default"].setdefault("price", {"input": 0.15, "output": 0.60})
    project.edit_settings(
        models=settings.pop("models", models),
        workspace=workspace_of(root),
        stores={"postgres": {"url": postgres_url}, **settings.pop("stores", {})},
        **{"max_delete_ratio": 1, **settings},
    )
    return project


def project_with_verb(
    root: Path, documents: Mapping[str, str], source: str, verb: str
) -> ProjectFolder:
    """Return a project whose workflow "fast" loads and chunks the documents, and then runs a verb
    of its own.

    ``source``: of the file own.py, which has the verb.
    """
    folder = new_project(root, NO_STORE, documents)
    (folder.root / "own.py").write_text(source, encoding="utf-8")
    folder.edit_settings(verbs=["own.py"])
    path = folder.root / "workflows" / "fast.yaml"
    workflow = read_yaml(path)
    write_yaml(path, {**workflow, "steps": [*workflow["steps"][:2], {"verb": verb}]})
    return folder


def workspace_of(root: Path) -> str:
    """All workers have one Neo4j, and name folders alike."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{root.parent.name}-{root.name}".lower())
    return os.environ.get("PYTEST_XDIST_WORKER", "") + name[-58:]
