"""Fetch the third-party files of browser pages from npm into vendor folders: `make vendor`.

The libraries of the pages are in pipeline/serve/ui/vendor; those that only check the pages are in
tests/serve/ui/vendor. npm must be installed.

A folder's index.json lists each package with its version, its licence and the SHA-512 of its
archive, and each file with its own. An empty hash in it is filled in: so a package is added, or
another version of it taken.
"""

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = [ROOT / part / "serve" / "ui" / "vendor" for part in ("pipeline", "tests")]


def main() -> None:
    for folder in FOLDERS:
        fill(folder, folder / "index.json")


def fill(folder: Path, index: Path) -> None:
    """Fetch the files that the list names and delete all others."""
    packages = json.loads(index.read_text())
    with tempfile.TemporaryDirectory() as temporary:
        for package in packages:
            fetch(package, folder, Path(temporary))
    known = {index.name, *(name for package in packages for name in package["files"])}
    for file in folder.iterdir():
        if file.name not in known:
            file.unlink()
    index.write_text(json.dumps(packages, indent=2) + "\n")


def fetch(package: dict[str, Any], folder: Path, temporary: Path) -> None:
    """Write the package's files, its hashes checked."""
    named = f"{package['name']}@{package['version']}"
    packed = subprocess.run(
        ["npm", "pack", "--silent", named],
        cwd=temporary,
        check=True,
        capture_output=True,
        text=True,
    )
    archive = temporary / packed.stdout.strip()
    package["integrity"] = checked(package["integrity"], archive.read_bytes(), named)
    with tarfile.open(archive) as members:
        for name, file in package["files"].items():
            member = members.extractfile(f"package/{file['from']}")
            assert member is not None, f"{named} has no {file['from']}"
            content = member.read()
            file["sha512"] = checked(file["sha512"], content, f"{named}, {file['from']}")
            (folder / name).write_bytes(content)


def checked(pinned: str, content: bytes, what: str) -> str:
    found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if pinned not in ("", found):
        raise SystemExit(
            f'{what}: its hash is {found}, not {pinned}; if that is meant, put "" into index.json'
        )
    return found


if __name__ == "__main__":
    main()
