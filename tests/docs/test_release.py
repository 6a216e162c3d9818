"""The files of a release, checked by .ci/check_release.py."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("check_release", ROOT / ".ci" / "check_release.py")
assert SPEC
assert SPEC.loader
check_release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_release)
VERSION = "0.1.0"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources and the wheel that they give, a site of empty pages, and lists of the locks."""
    folder = tmp_path_factory.mktemp("release")
    line = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(line, check=True, capture_output=True)
    page = folder / "page"
    page.touch()
    with tarfile.open(folder / f"graphmill-{VERSION}-docs.tar.gz", "w:gz") as archive:
        for name in check_release.OF_THE_SITE:
            archive.add(page, arcname=name)
    page.unlink()
    for lock in check_release.LOCKS:
        pins = check_release.pinned_in((ROOT / f"{lock}.lock").read_text(encoding="utf-8"))
        components = [{"name": name, "version": version} for name, version in sorted(pins)]
        path = folder / f"graphmill-{VERSION}-{lock}.cdx.json"
        path.write_text(json.dumps({"components": components}), encoding="utf-8")
    return folder


def faults(folder: Path) -> list[str]:
    return list(check_release.faults_of_files(folder, VERSION))


def test_sources_and_the_wheel_made_of_them_have_every_module(release: Path):
    assert faults(release) == []


def test_a_component_that_a_lock_does_not_pin_is_a_fault(release: Path, tmp_path: Path):
    folder = tmp_path / "release"
    shutil.copytree(release, folder)
    path = folder / f"graphmill-{VERSION}-requirements.cdx.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    gone = found["components"].pop()
    path.write_text(json.dumps(found), encoding="utf-8")
    (fault,) = faults(folder)
    assert f"{gone['name']} {gone['version']} is not in both requirements.lock" in fault


def test_a_file_that_was_not_built_is_named(release: Path, tmp_path: Path):
    folder = tmp_path / "release"
    shutil.copytree(release, folder)
    (folder / f"graphmill-{VERSION}.tar.gz").unlink()
    assert faults(folder) == [f"graphmill-{VERSION}.tar.gz: missing; run make release again"]


def test_a_version_is_released_once_the_changelog_has_its_date():
    assert not check_release.has_date("## 0.1.0 - unreleased\n", VERSION)
    assert check_release.has_date("# Changelog\n\n## 0.1.0 - 2026-12-01\n", VERSION)
