"""Fingerprints that one process computes are used by the next one, as long as the code is
the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.contract.kept_codes import kept_code

ASKED_BY_A_PROCESS = """
import sys
from pipeline.contract import definitions

definitions.PACKAGE = "mill"
from pipeline.contract.fingerprint import code_fingerprint
from mill.shout import shout

code = code_fingerprint(shout)
parsed = definitions._parse_module.cache_info().misses
print(code, "parsed" if parsed else "kept")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package in which shout.py calls letters.py; other.py stands alone."""
    folder = tmp_path / "mill"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "letters.py").write_text("def upper(text):\n    return text.upper()\n")
    (folder / "other.py").write_text("SIZE = 1\n")
    (folder / "shout.py").write_text(
        "from mill.letters import upper\n\ndef shout(text):\n    return upper(text)\n"
    )
    return folder


def asked(package: Path, **environment: str) -> tuple[str, str]:
    """Return the fingerprint that a new process prints, and whether it was computed or kept."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPYCACHE", "PYTHONDONT"))
    }
    done = subprocess.run(
        [sys.executable, "-c", ASKED_BY_A_PROCESS], capture_output=True, text=True, check=True,
        env={**kept, "PYTHONPATH": os.pathsep.join((str(package.parent), *sys.path)),
            **environment},
    )  # fmt: skip
    code, how = done.stdout.split()
    return code, how


def file_of(package: Path) -> Path:
    (file,) = package.glob("__pycache__/fingerprints.*.json")
    return file


def test_the_next_process_parses_nothing(package: Path):
    code, how = asked(package)
    assert how == "parsed"
    assert asked(package) == (code, "kept")


def test_no_edit_is_missed_whatever_the_file_system_says_of_its_time_and_size(package: Path):
    code, _ = asked(package)
    letters = package / "letters.py"
    times = letters.stat()
    letters.write_text(letters.read_text().replace("upper()", "lower()"))
    os.utime(letters, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert letters.stat().st_size == times.st_size
    after, how = asked(package)
    assert (after != code, how) == (True, "parsed")


def test_code_that_is_replaced_while_the_process_runs_is_not_kept(
    package: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    letters = package / "letters.py"
    before = letters.read_text()

    def upgraded() -> str:
        letters.write_text(before.replace("upper()", "lower()"))
        return "of another"

    assert kept_code(package, "mill.shout.shout", upgraded) == "of another"
    letters.write_text(before)
    assert kept_code(package, "mill.shout.shout", lambda: "of these") == "of these"


@pytest.mark.parametrize("change", ["edited", "new", "gone", "renamed"])
def test_a_change_of_any_file_of_the_package_is_noticed(package: Path, change: str):
    code, _ = asked(package)
    other = package / "other.py"
    match change:
        case "edited":
            other.write_text("SIZE = 2\n")
        case "new":
            (package / "newer.py").write_text("")
        case "gone":
            other.unlink()
        case _:
            other.rename(package / "others.py")
    assert asked(package) == (code, "parsed")
    assert asked(package) == (code, "kept")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"sources": 1}', b"\x00" * 4000, None])
def test_a_damaged_file_is_rewritten_without_a_message(package: Path, content: bytes | None):
    code, _ = asked(package)
    file = file_of(package)
    if content is None:
        content = file.read_bytes().replace(code.encode(), b"0" * 64)
    file.write_bytes(content)
    assert asked(package) == (code, "parsed")
    assert asked(package) == (code, "kept")


def test_a_read_only_installation_works_without_kept_fingerprints(package: Path):
    (package / "__pycache__").write_text("a file, where root too can make no folder")
    assert asked(package) == asked(package)
    assert asked(package)[1] == "parsed"


def test_with_pythondontwritebytecode_nothing_is_left(package: Path):
    asked(package, PYTHONDONTWRITEBYTECODE="1")
    assert not (package / "__pycache__").exists()


def test_fingerprints_are_kept_beside_the_bytecode(package: Path, tmp_path: Path):
    asked(package, PYTHONPYCACHEPREFIX=str(tmp_path / "elsewhere"))
    assert not (package / "__pycache__").exists()
    assert asked(package, PYTHONPYCACHEPREFIX=str(tmp_path / "elsewhere"))[1] == "kept"


def test_fingerprints_of_two_processes_are_both_kept(
    package: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    kept_code(package, "mill.a", lambda: "of one")
    kept_code(package, "mill.b", lambda: "of the other")
    assert kept_code(package, "mill.a", lambda: "anew") == "of one"
    assert kept_code(package, "mill.b", lambda: "anew") == "of the other"
