"""Compare nightly runs over a folder of files by graphmill and by CocoIndex.

    python benchmarks/beside_cocoindex.py --units 5000

graphmill runs the workflow ``fast``: vectors, and a graph with its own. CocoIndex makes vectors of
the files alone. Both take turns in one run and use the same builtin model and the same PostgreSQL.

CPU is that of the whole process of each, start-up included, as both are commands of a nightly run;
that of PostgreSQL is separate. ``start-up`` is the CPU of the same command over one unchanged file.
The least of several tries counts; each edits another 1 % of the files. CocoIndex (1.0.26) is
installed into a folder that is deleted afterwards, with its reports of use turned off.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import ROOT, new_project, print_compared

from benchmarks.corpus import edit_corpus
from benchmarks.server_time import postgres_cpu
from pipeline.stores.postgres.embedded import start_embedded
from tests.servers.postgres_server import make_database, server_folder

PACKAGE = "cocoindex[postgres]==1.0.26"
SILENT = {"COCOINDEX_DISABLE_USAGE_TRACKING": "1"}
WORKFLOW, SHARE = "fast", 0.01
STARTUP, FULL, NOTHING, EDITED = "start-up", "full build", "nothing changed", f"{SHARE:.0%} edited"
Taken = Mapping[str, float]
Night = Callable[[], Taken]


class CocoindexUnavailable(Exception):  # noqa: N818 - nothing is wrong, there is just none here
    """Why the package is not there."""


def install(folder: Path) -> None:
    """Install CocoIndex into the folder. Raises CocoindexUnavailable."""
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), PACKAGE]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CocoindexUnavailable(f"{' '.join(line)}: {done.stderr.strip()[-500:]}")


def measured(line: Sequence[str], server: Path) -> Taken:
    environment = {**os.environ, **SILENT, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # no night compiles anew
    of_server, began = postgres_cpu(server), time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            said.seek(0)
            code = os.waitstatus_to_exitcode(status)
            raise SystemExit(f"{' '.join(line)}: ended with {code}\n{said.read().decode()[-2000:]}")
    return {
        "CPU s": usage.ru_utime + usage.ru_stime, "s": time.perf_counter() - began,
        "MB": usage.ru_maxrss / 1024,
        "server CPU s": postgres_cpu(server) - of_server,
    }  # fmt: skip


def compare(units: int, tries: int) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="graphmill-bench-")))
        install(scratch / "cocoindex")
        one, many = (stack.enter_context(new_project(size)) for size in (1, units))
        server = stack.enter_context(server_folder())
        url = start_embedded(server)

        def systems(root: Path, name: str) -> dict[str, Night]:
            ours = [sys.executable, "-m", "pipeline", "-C", str(root), "run", WORKFLOW]
            ours += ["--set", f"stores.postgres.url={make_database(url, f'graphmill_{name}')}"]
            theirs = [
                sys.executable,
                str(ROOT / "benchmarks" / "cocoindex_flow.py"),
                str(scratch / "cocoindex"),
            ]
            theirs += [
                str(root / "data" / "input"),
                make_database(url, f"cocoindex_{name}"),
                str(scratch / name),
            ]
            return {
                "graphmill": lambda: measured(ours, server),
                "CocoIndex": lambda: measured(theirs, server),
            }

        small, large = systems(one, "one"), systems(many, "many")
        for night in small.values():
            night()
        rounds = {STARTUP: [], FULL: [_in_turn(large)], NOTHING: [], EDITED: []}
        for seed in range(tries):
            rounds[STARTUP].append(_in_turn(small))
            rounds[NOTHING].append(_in_turn(large))
            edit_corpus(many / "data" / "input", units, SHARE, seed=seed)
            rounds[EDITED].append(_in_turn(large))
    return [_line(night, found) for night, found in rounds.items()]


def _in_turn(systems: Mapping[str, Night]) -> dict[str, Taken]:
    return {name: night() for name, night in systems.items()}


def _line(night: str, rounds: Sequence[Mapping[str, Taken]]) -> dict[str, Any]:
    least = {
        name: min((each[name] for each in rounds), key=lambda taken: taken["CPU s"])
        for name in rounds[0]
    }
    columns = {f"{name}: {clock}": taken[clock] for name, taken in least.items() for clock in taken}
    return {
        "night": night,
        **columns,
        "of CocoIndex's CPU": least["graphmill"]["CPU s"] / least["CocoIndex"]["CPU s"],
    }


if __name__ == "__main__":
    try:
        print_compared(__doc__, compare)
    except CocoindexUnavailable as error:
        sys.exit(f"cocoindex: not measured, it cannot be installed: {error}")
