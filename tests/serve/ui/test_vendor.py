"""The libraries of others that the pages use are those of the list, to the byte."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "pipeline" / "serve" / "ui" / "vendor"
PACKAGES: list[dict[str, Any]] = json.loads((FOLDER / "index.json").read_text())
REGISTRIES = re.compile(rb"npmjs|yarnpkg|unpkg|jsdelivr|cdnjs", re.IGNORECASE)


def test_the_folder_holds_what_the_list_names_and_nothing_else():
    listed = [name for package in PACKAGES for name in package["files"]]
    assert sorted([*listed, "index.json"]) == sorted(file.name for file in FOLDER.iterdir())


@pytest.mark.parametrize("package", PACKAGES, ids=[package["name"] for package in PACKAGES])
def test_each_package_is_pinned_and_has_its_licence_beside_it(package: dict[str, Any]):
    assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert package["integrity"].startswith("sha512-")
    assert package["licence"]
    assert f"{package['name']}.LICENSE" in package["files"]
    for name, file in package["files"].items():
        digest = hashlib.sha512((FOLDER / name).read_bytes()).digest()
        assert file["sha512"] == "sha512-" + base64.b64encode(digest).decode()


@pytest.mark.parametrize("name", [file.name for file in sorted(FOLDER.iterdir())])
def test_no_file_has_the_address_of_a_registry(name: str):
    assert not REGISTRIES.search((FOLDER / name).read_bytes())
