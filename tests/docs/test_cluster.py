"""Check docs/cluster.md, docs/object-store.md and compose.yaml: their settings are there, and their
parts fit each other. Ports are those of this machine alone. No test starts a container or a
Kubernetes cluster."""

import itertools
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from distributed.cli.dask_worker import main as dask_worker

from pipeline.cli import app
from pipeline.runs import worker
from pipeline.settings.file import read_settings
from pipeline.settings.schema import Settings
from tests.servers.s3_server import POM

ROOT = Path(__file__).parents[2]
PAGE = "\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("cluster.md", "object-store.md")
)
BLOCKS = [
    list(yaml.safe_load_all(block)) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
]
SETTINGS = [block for [block, *more] in BLOCKS if not more]
MANIFEST = {part["kind"]: part for block in BLOCKS if len(block) > 1 for part in block}
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: Mapping[str, Any] = COMPOSE["services"]


def settings_of(folder: Path, text: str) -> Settings:
    (folder / "settings.yaml").write_text(text, encoding="utf-8")
    return read_settings(folder)


@pytest.mark.parametrize("block", SETTINGS, ids=", ".join)
def test_settings_on_the_page_are_settings(block: Mapping[str, Any], tmp_path: Path):
    read = settings_of(tmp_path, yaml.safe_dump(block)).model_dump()
    for section, given in block.items():
        assert read[section] == ({**read[section], **given} if isinstance(given, dict) else given)


def test_there_are_settings_and_a_manifest_on_the_page():
    assert {"engine", "snapshots"} <= {name for block in SETTINGS for name in block}
    assert set(MANIFEST) == {"DaskCluster", "DaskAutoscaler"}


def options(arguments: list[str]) -> set[str]:
    return {argument for argument in arguments if argument.startswith("--")}


def test_workers_of_the_manifest_are_started_as_the_operator_and_graphmill_want():
    cluster, scaler = MANIFEST["DaskCluster"], MANIFEST["DaskAutoscaler"]
    [container] = cluster["spec"]["worker"]["spec"]["containers"]
    arguments = container["args"]
    assert arguments[:2] == ["dask", "worker"]
    known = {
        name for option in dask_worker.params for name in (*option.opts, *option.secondary_opts)
    }
    assert options(arguments) <= known
    given = dict(itertools.pairwise(arguments))
    assert given["--name"] == "$(DASK_WORKER_NAME)", "the operator takes workers away by this name"
    assert given["--preload"] == worker.__name__
    assert given["--nthreads"] == "1"
    name = cluster["metadata"]["name"]
    assert arguments[-1] == f"tcp://{name}-scheduler:8786"
    assert {entry["name"] for entry in container["env"]} == {worker.SNAPSHOTS}
    scheduler = cluster["spec"]["scheduler"]
    [process], service = scheduler["spec"]["containers"], scheduler["service"]
    ports = {port["name"]: port["containerPort"] for port in process["ports"]}
    assert ports == {"tcp-comm": 8786, "http-dashboard": 8787}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    assert scaler["spec"]["cluster"] == name


def test_compose_binds_loopback_and_pins_images():
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        image = service["image"]
        assert "build" in service or re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", image), name


def test_parts_of_compose_fit_each_other(tmp_path: Path):
    sample, scheduler, workers, objects = (
        SERVICES[name] for name in ("sample", "scheduler", "worker", "s3")
    )
    settings = settings_of(tmp_path, COMPOSE["configs"]["settings"]["content"])
    assert all(service["profiles"] == ["dask"] for service in (sample, scheduler, workers, objects))
    assert all(service["image"] == sample["image"] for service in (scheduler, workers))
    assert settings.engine.kind == "dask"
    assert settings.engine.address == workers["command"][-1] == "tcp://scheduler:8786"
    assert scheduler["command"] == ["dask", "scheduler", "--port", "8786"]
    assert settings.engine.workers == workers["scale"]
    assert settings.snapshots == workers["environment"][worker.SNAPSHOTS]
    assert settings.cache == settings.stores.postgres.url
    database = {
        name.removeprefix("POSTGRES_"): said
        for name, said in SERVICES["postgres"]["environment"].items()
    }
    assert settings.cache == "postgresql://{USER}:{PASSWORD}@postgres:5432/{DB}".format(**database)
    bucket = settings.snapshots.removeprefix("s3://").split("/")[0]
    assert (
        f"mkdir -p {objects['environment']['JCLOUDS_FILESYSTEM_BASEDIR']}/{bucket} "
        in objects["entrypoint"][-1]
    )
    for client in (sample, workers):
        keys = client["environment"]
        assert keys["AWS_ACCESS_KEY_ID"] == objects["environment"]["S3PROXY_IDENTITY"]
        assert keys["AWS_SECRET_ACCESS_KEY"] == objects["environment"]["S3PROXY_CREDENTIAL"]
        assert keys["AWS_ENDPOINT_URL"] == "http://s3:80"
    assert sample["configs"] == [{"source": "settings", "target": "/project/settings.yaml"}]
    assert {
        volume.split(":")[0]
        for name, service in SERVICES.items()
        for volume in service.get("volumes", ())
        if name != "serve"
    } == set(COMPOSE["volumes"])


def test_the_objects_of_compose_are_kept_by_the_server_that_tests_run_against():
    [version] = re.findall(r"<s3proxy.version>(.+?)</", POM.read_text())
    assert SERVICES["s3"]["image"] == f"andrewgaul/s3proxy:s3proxy-{version}"


def test_commands_of_compose_are_commands():
    known: Any = typer.main.get_command(app)
    built = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^RUN (.+)$", built, re.MULTILINE)
    ran = [shlex.split(command) for line in lines for command in line.split(" && ")]
    commands = [
        *ran,
        *(service["command"] for service in SERVICES.values() if "command" in service),
    ]
    ours = [command for command in commands if command[0] == "graphmill"]
    assert len(ours) == 5
    for _, *arguments in ours:
        name = next(argument for argument in arguments if argument in known.commands)
        assert options(arguments) <= {
            option for each in known.commands[name].params for option in each.opts
        }
