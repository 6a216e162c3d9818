"""Check what a release is made of: a part of `make release`.

python .ci/check_release.py version [--trial]   # print the version; refuse one without a date
python .ci/check_release.py files dist          # compare the files with the checkout
"""

import argparse
import json
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements", "requirements-image")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
OUR_FILES = ("LICENSE", "THIRD_PARTY_NOTICES.md", "CHANGELOG.md", "SECURITY.md", "pyproject.toml")
OF_THE_SITE = ("site/index.html", "site/nightly.html", "site/settings.html")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_version = commands.add_parser("version")
    of_version.add_argument("--trial", action="store_true")
    of_files = commands.add_parser("files")
    of_files.add_argument("folder", type=Path)
    options = parser.parse_args()
    version = _version()
    if options.command == "version":
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        if not options.trial and not has_date(changes, version):
            heading = f"## {version} - YYYY-MM-DD"
            raise SystemExit(f"CHANGELOG.md: {version} has no date; write `{heading}`")
        print(version)
        return
    faults = list(faults_of_files(options.folder, version))
    print(*faults, sep="\n", file=sys.stderr)
    print(f"release {version}: {len(faults)} faults")
    raise SystemExit(bool(faults))


def has_date(changes: str, version: str) -> bool:
    """Tell whether the changelog has a date for this version."""
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    return re.search(heading, changes, re.MULTILINE) is not None


def faults_of_files(folder: Path, version: str) -> Iterator[str]:
    """Yield what is missing in the files of a release, or differs from the checkout."""
    wheel = folder / f"graphmill-{version}-py3-none-any.whl"
    sdist = folder / f"graphmill-{version}.tar.gz"
    site = folder / f"graphmill-{version}-docs.tar.gz"
    lists = {lock: folder / f"graphmill-{version}-{lock}.cdx.json" for lock in LOCKS}
    for path in (wheel, sdist, site, *lists.values()):
        if not path.is_file():
            yield f"{path.name}: missing; run make release again"
            return
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pipeline").rglob("*.py")
        if "own_name" not in path.parts  # another folder of the wheel
    }
    with zipfile.ZipFile(wheel) as archive:
        yield from _missing(wheel, sources, set(archive.namelist()))
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    yield from _missing(sdist, sources.union(OUR_FILES), inside)
    with tarfile.open(site) as archive:
        yield from _missing(site, set(OF_THE_SITE), set(archive.getnames()))
    for lock, path in lists.items():
        pinned = pinned_in((ROOT / f"{lock}.lock").read_text(encoding="utf-8"))
        components = json.loads(path.read_text(encoding="utf-8"))["components"]
        listed = {(part["name"].lower(), part["version"]) for part in components}
        for name, pin in sorted(pinned ^ listed):
            yield f"{path.name}: {name} {pin} is not in both {lock}.lock and the list"


def pinned_in(lock: str) -> set[tuple[str, str]]:
    """Return the names and versions that a lock file pins."""
    return {(name.lower(), version) for name, version in PINNED.findall(lock)}


def _missing(archive: Path, wanted: set[str], inside: set[str]) -> Iterator[str]:
    for name in sorted(wanted - inside):
        yield f"{archive.name}: lacks {name}; look at how it is built"


def _version() -> str:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["version"]


if __name__ == "__main__":
    main()
