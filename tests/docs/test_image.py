"""The Dockerfile and the manifests of the server: each part exists and fits the others.

No image is built here, for there is no builder. The steps of the build are checked against the
project: its sources, its lock, its commands.
"""

import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from pipeline.cli import app
from pipeline.settings.schema import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS: Any = list(
    yaml.safe_load_all((ROOT / "examples/kubernetes/serve.yaml").read_text(encoding="utf-8"))
)


def copied() -> set[str]:
    """Return the sources that the Dockerfile copies from the checkout."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    return {source for line in lines for source in line.split()}


def test_the_image_is_made_of_all_that_the_wheel_is_made_of():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "README.md", "LICENSE", "requirements-image.lock"}
    assert copied() >= {*needed, *wheel["only-include"], *wheel["force-include"]}
    assert all((ROOT / source).exists() for source in copied())


def test_the_builder_is_sent_what_is_copied_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied()
    left_out = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]
    assert any(fnmatch(".env", rule) for rule in left_out)


def test_the_lock_of_the_image_has_a_hash_for_each_library_and_each_library_of_the_base():
    lock = (ROOT / "requirements-image.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in lock
    names = {re.split(r"[=\[ ;]", entry)[0] for entry in entries}
    for dependency in PROJECT["project"]["dependencies"]:
        name = re.split(r"[<>=\[ ;]", dependency)[0]
        assert name in names, name


def test_the_image_is_not_run_as_root_and_its_last_stage_is_the_plain_one():
    assert re.search(r"^USER 1000:1000$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.strip().splitlines()[-1] == "FROM graphmill"
    assert "VOLUME" not in DOCKERFILE, "a volume would lose the sample that a later stage writes"


def test_the_server_of_compose_and_of_kubernetes_is_a_command_with_a_read_only_root():
    service = COMPOSE["services"]["serve"]
    deployment = next(one for one in MANIFESTS if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert service["read_only"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]
    port = Settings().serve.port
    assert f"127.0.0.1:{port}:{port}" in service["ports"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": port}
    known: Any = typer.main.get_command(app)
    options = {option for each in known.commands["serve"].params for option in each.opts}
    for command in (service["command"], container["command"]):
        assert command[0] == "graphmill"
        given = command[command.index("serve") + 1 :]
        assert {word for word in given if word.startswith("--")} <= options


@pytest.mark.parametrize("volume", ["project", "tmp"])
def test_each_place_that_is_written_has_a_volume(volume: str):
    deployment = next(one for one in MANIFESTS if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert volume in {mount["name"] for mount in container["volumeMounts"]}
    assert volume in {one["name"] for one in pod["volumes"]}


def test_commands_that_the_dockerfile_runs_are_commands():
    known: Any = typer.main.get_command(app)
    lines = re.findall(r"^RUN (.+)$", DOCKERFILE, re.MULTILINE)
    ran = [shlex.split(command) for line in lines for command in line.split(" && ")]
    ours = [command for command in ran if command[0] == "graphmill"]
    assert ours
    for _, *arguments in ours:
        assert any(argument in known.commands for argument in arguments)
