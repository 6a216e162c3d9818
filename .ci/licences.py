"""Check the licences of what graphmill needs and carries: `make licences`. `--write` makes
THIRD_PARTY_NOTICES.md anew.

It looks at the installed distributions that requirements.lock names, and at the libraries of the
page. It ends with 1 where a licence is unknown or not allowed, or where the notices say something
else.
"""

import json
import re
import sys
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTICES = ROOT / "THIRD_PARTY_NOTICES.md"
VENDORED = ROOT / "pipeline" / "serve" / "ui" / "vendor"
ALLOWED = frozenset({
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT",
    "MPL-2.0", "PSF-2.0",
    "Python-2.0", "Zlib",
})  # fmt: skip
"""The accepted licences by SPDX.

MPL-2.0 requires changed files of the library itself, of which there are none here.
"""
EXCEPTIONS = {
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}
"""Libraries that are used as they are installed, and that anybody may replace by a version of their
own."""
SPELLINGS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Names of licences as distributions write them -> SPDX."""
HEAD = """# Third-party notices

graphmill is under the [MIT licence](LICENSE). It needs the Python packages below, which are installed beside it with
licences of their own. Their texts lie in their `.dist-info` folders. What the [extras](docs/index.md#install) bring
comes likewise.
`make licences` checks this list against what is installed, and `.ci/licences.py --write` makes it anew.

| Package | Licence | Home |
|---|---|---|
"""  # noqa: E501
PAGE = """
The page in a browser carries these libraries; their texts of licences lie beside them in `pipeline/serve/ui/vendor/`.

| Library | Version | Licence |
|---|---|---|
"""  # noqa: E501


def main() -> int:
    names = locked()
    rows = {name: row for name in names if (row := row_of(name))}
    faults = [
        f"{name}: licence '{licence}' is not allowed or not known; look at it"
        for name, (licence, _) in rows.items()
        if not is_allowed(name, licence)
    ]
    # A package of another platform is not installed here, so that its row stays as it was written
    # there.
    written = rows_in(NOTICES.read_text(encoding="utf-8")) if NOTICES.exists() else {}
    rows |= {name: written[name] for name in names if name in written and name not in rows}
    if "--write" in sys.argv:
        NOTICES.write_text(notices(rows), encoding="utf-8")
    elif rows.keys() != written.keys():
        different = ", ".join(sorted(rows.keys() ^ written.keys()))
        action = "run 'python .ci/licences.py --write' and look at it"
        faults.append(f"{NOTICES.name}: is not of the locked packages ({different}); {action}")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(rows)} packages, {len(faults)} faults")
    return 1 if faults else 0


def locked() -> list[str]:
    """Return the names in requirements.lock, without their extras."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = [re.match(r"[a-z0-9][a-z0-9._-]*", line) for line in lines]
    return sorted({match[0] for match in found if match})


def row_of(name: str) -> tuple[str, str] | None:
    """Return the licence and the home of a package; None where it is not installed."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return None
    return licence_of(about), home_of(about)


def licence_of(about: PackageMetadata) -> str:
    """Return the licence as SPDX has it, as far as it is known."""
    if expression := about.get("License-Expression"):
        return expression
    said = (about.get("License") or "").strip().split("\n")[0].strip()
    said = SPELLINGS.get(said, said)
    if said and not is_allowed("", said):
        said = ""  # the copyright line of a whole text, or words of its own
    classifiers = [
        line.split(" :: ")[-1]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    named = [SPELLINGS.get(each, each) for each in classifiers if each != "OSI Approved"]
    return said or " AND ".join(dict.fromkeys(named)) or "unknown"


def home_of(about: PackageMetadata) -> str:
    """Return the address of the project, as far as it is told."""
    labelled = [line.split(", ", 1) for line in about.get_all("Project-URL") or () if ", " in line]
    urls = {label.lower(): url for label, url in labelled}
    wanted = ("homepage", "home", "repository", "source", "source code", "github")
    return about.get("Home-page") or next((urls[label] for label in wanted if label in urls), "")


def is_allowed(name: str, licence: str) -> bool:
    """Return whether all parts of the licence, or of one of its alternatives, are allowed."""
    if EXCEPTIONS.get(name) == licence:
        return True
    if "(" in licence:  # of alternatives inside a list all have to be allowed
        return all(
            part in ALLOWED for part in re.findall(r"[\w.-]+", licence) if part not in ("AND", "OR")
        )
    alternatives = licence.split(" OR ")
    return any(
        all(part.strip() in ALLOWED for part in each.split(" AND ")) for each in alternatives
    )


def notices(rows: dict[str, tuple[str, str]]) -> str:
    """Return the whole file."""
    packages = "".join(
        f"| {name} | {licence} | {home} |\n" for name, (licence, home) in sorted(rows.items())
    )
    libraries = json.loads((VENDORED / "index.json").read_text(encoding="utf-8"))
    carried = "".join(
        f"| {each['name']} | {each['version']} | {each['licence']} |\n" for each in libraries
    )
    return HEAD + packages + PAGE + carried


def rows_in(text: str) -> dict[str, tuple[str, str]]:
    """Return the packages that the notices name."""
    found = re.findall(
        r"^\| ([a-z0-9.-]+) \| ([^|]+) \| ([^|]*) \|$",
        text.split(PAGE.strip(), maxsplit=1)[0],
        re.MULTILINE,
    )
    return {name: (licence, home.strip()) for name, licence, home in found}


if __name__ == "__main__":
    sys.exit(main())
