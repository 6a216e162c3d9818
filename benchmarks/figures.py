"""Keep the measured figures that the documentation states, in ``figures.json``.

    python benchmarks/plan.py --units 300 --record

With ``--record`` every benchmark writes the numbers of its tables there, next to printing them.
A figure is named SCRIPT/ROW/COLUMN, where ROW is what the row's texts and its text units say.
tests/docs/test_figures.py compares README.md and docs/ with the file.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.files import write_text

FIGURES = Path(__file__).with_name("figures.json")
OPTION = "--record"
SIZES = ("units", "files", "clients")
"""Columns of whole numbers that name a row: they are chosen, not measured."""
DECIMALS = 4


def take_option() -> bool:
    """Tell whether figures are to be recorded, and take the option from the command line.

    It is taken before the benchmark reads its own options, so that all have it alike.
    """
    wanted = OPTION in sys.argv
    if wanted:
        sys.argv.remove(OPTION)
    return wanted


def record(rows: Sequence[Mapping[str, Any]], path: Path = FIGURES) -> None:
    """Add the numbers of a benchmark's rows to the file; those of the same names are replaced."""
    script = Path(sys.argv[0]).stem
    measured_now = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["python", f"benchmarks/{script}.py", *sys.argv[1:]]),
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()},"
        f" load average {os.getloadavg()[0]:.1f}",
    }
    figures = {figure["name"]: figure for figure in read(path)}
    names: set[str] = set()
    for row in rows:
        row_name = _name_row(row)
        for column, value in row.items():
            if column in SIZES or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            name = f"{script}/{row_name}/{column}"
            if name in names:
                print(f"{name}: two rows have this name; the first is recorded", file=sys.stderr)
                continue
            names.add(name)
            shown = round(value, DECIMALS)
            figures[name] = {"name": name, "value": shown, "unit": column, **measured_now}
    _write(path, list(figures.values()))


def read(path: Path = FIGURES) -> list[dict[str, Any]]:
    """Return the recorded figures."""
    return json.loads(path.read_text(encoding="utf-8"))


def _name_row(row: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for column, value in row.items():
        if isinstance(value, str) or column in SIZES:
            parts.append(str(value))
    return "/".join(parts)


def _commit() -> str:
    """Return the commit that is measured, marked where files other than the figures differ."""
    commit = _git("rev-parse", "--short=8", "HEAD") or "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":!{FIGURES.name}")
    return f"{commit}-changed" if changed else commit


def _git(*arguments: str) -> str:
    line = ["git", *arguments]
    found = subprocess.run(line, capture_output=True, text=True, cwd=FIGURES.parent, check=False)
    return found.stdout.strip()


def _write(path: Path, figures: list[dict[str, Any]]) -> None:
    figures.sort(key=lambda figure: figure["name"])
    lines = [json.dumps(figure, ensure_ascii=False) for figure in figures]
    # One figure a line: a new measurement is one changed line.
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")
