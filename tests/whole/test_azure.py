"""Snapshots over az://, where Azurite is installed; all else of object stores is tested over S3."""

import shutil
from pathlib import Path

import pytest

from pipeline.doctor.object_store import examine_object_store
from pipeline.runs.services import MIRROR_FOLDER
from pipeline.snapshots.objects import Objects
from tests.projects import NO_STORE, new_project
from tests.servers.azurite_server import azurite_server, is_installed
from tests.servers.s3_server import BUCKET
from tests.whole.test_workers import names


@pytest.mark.skipif(not is_installed(), reason="no azurite-blob on the path (npm install azurite)")
def test_a_run_over_azure_makes_what_one_on_disk_makes_and_another_machine_goes_on_with_it(
    tmp_path: Path,
):
    with azurite_server(tmp_path / "azurite") as environment:
        on_disk, remote = (new_project(tmp_path / name, NO_STORE) for name in ("disk", "remote"))
        address = f"az://{BUCKET}/p"
        remote.edit_settings(snapshots=address)
        lines = [f"{name}={value}\n" for name, value in environment.items()]
        (remote.root / ".env").write_text("".join(lines), encoding="utf-8")
        with on_disk.open() as project:
            project.index("fast")
            wanted = names(project.snapshots.manifest("fast"))
        for expected in ("ran", "reused"):
            with remote.open() as project:
                report = project.index("fast")
                assert {step.action for step in report.steps} == {expected}
                assert names(project.snapshots.manifest("fast")) == wanted
                assert [found.verdict for found in examine_object_store(project)] == ["ok"]
            shutil.rmtree(remote.root / MIRROR_FOLDER)
        objects = Objects(address, environment)
        created = objects.create("here", b"first")
        assert created
        assert objects.create("here", b"second") is None
        assert objects.replace("here", b"third", '"another"') is None
        assert objects.replace("here", b"third", created)
        assert objects.read("here")[0] == b"third"
