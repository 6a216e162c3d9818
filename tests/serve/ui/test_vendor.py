"""The libraries of others that the pages use, and tests of them, are those of the lists, to the
byte."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDERS = [
    Path(__file__).parents[3] / part / "serve" / "ui" / "vendor" for part in ("pipeline", "tests")
]
LISTS: dict[Path, list[dict[str, Any]]] = {
    folder: json.loads((folder / "index.json").read_text()) for folder in FOLDERS
}
PACKAGES = [(folder, package) for folder, packages in LISTS.items() for package in packages]
FILES = [file for folder in FOLDERS for file in sorted(folder.iterdir())]
REGISTRIES = re.compile(rb"npmjs|yarnpkg|unpkg|jsdelivr|cdnjs", re.IGNORECASE)


@pytest.mark.parametrize("folder", FOLDERS, ids=["pipeline", "tests"])
def test_a_folder_holds_what_its_list_names_and_nothing_else(folder: Path):
    listed = [name for package in LISTS[folder] for name in package["files"]]
    assert sorted([*listed, "index.json"]) == sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize(
    ("folder", "package"), PACKAGES, ids=[package["name"] for _, package in PACKAGES]
)
def test_each_package_is_pinned_and_has_its_licence_beside_it(
    folder: Path, package: dict[str, Any]
):
    assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert package["integrity"].startswith("sha512-")
    assert package["licence"]
    assert f"{package['name']}.LICENSE" in package["files"]
    for name, file in package["files"].items():
        digest = hashlib.sha512((folder / name).read_bytes()).digest()
        assert file["sha512"] == "sha512-" + base64.b64encode(digest).decode()


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_no_file_has_the_address_of_a_registry(file: Path):
    assert not REGISTRIES.search(file.read_bytes())
