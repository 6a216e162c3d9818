"""What `make licences` looks for."""

import importlib.util
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "licences.py"


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "licence", "allowed"),
    [
        ("a", "MIT", True), ("a", "Apache-2.0 OR GPL-3.0-only", True),
        ("a", "(MIT OR ISC) AND GPL-3.0-only", False),
        ("a", "MIT AND (ISC OR Zlib)", True),
        ("a", "MIT AND GPL-3.0-only", False), ("a", "LGPL-3.0-only", False),
        ("psycopg", "LGPL-3.0-only", True),
        ("psycopg", "AGPL-3.0-only", False), ("a", "unknown", False), ("a", "", False),
    ],
)  # fmt: skip
def test_which_licences_are_allowed(licences: ModuleType, name: str, licence: str, allowed: bool):
    assert licences.is_allowed(name, licence) == allowed


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "GPL-3.0-only", "License": "MIT"}, "GPL-3.0-only"),
        ({"License": "MIT License\n\nCopyright (c) 2022"}, "MIT"),
        (
            {
                "License": "Copyright (c) somebody",
                "Classifier": "License :: OSI Approved :: BSD License",
            },
            "BSD-3-Clause",
        ),
        ({"Classifier": "License :: Other/Proprietary License"}, "Other/Proprietary License"),
        ({"License": "ask me"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_what_a_package_says_of_its_licence(
    licences: ModuleType, fields: dict[str, str], licence: str
):
    about = Message()
    for name, value in fields.items():
        about[name] = value
    assert licences.licence_of(about) == licence


def test_a_package_that_the_notices_do_not_name_is_a_fault(
    licences: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("sys.argv", ["licences.py"])
    assert licences.main() == 0
    less = tmp_path / "NOTICES.md"
    lines = licences.NOTICES.read_text().splitlines(keepends=True)
    less.write_text("".join(line for line in lines if not line.startswith("| pyyaml |")))
    monkeypatch.setattr(licences, "NOTICES", less)
    assert licences.main() == 1
    assert "(pyyaml)" in capsys.readouterr().err
