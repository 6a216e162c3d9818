"""Compare nightly runs after the first with the full build.

    python benchmarks/nightly.py --units 5000 --workflow fast

One run has nothing to do. Before the other, a random sentence is replaced in 1 % of the documents,
which are drawn at random.

Seconds of CPU are those of this program, without its start-up, in total and by step. They include
the stores unless ``--stage index`` is given; the CPU of servers is not counted. ``command s`` is
the wall time of the whole command with its start-up. ``written`` is what the process wrote to
files, and ``of the snapshots`` its ratio to the size of the full build's snapshots.

With ``--graph neo4j`` the graph goes into a Neo4j that is started for it. The load of each store is
listed separately in any case, with the CPU of its server.

With ``--edited 300`` this number of documents is edited instead of 1 %. So runs over corpora of
several sizes (``--units 30000 120000 240000``) show how the cost depends on the size.

With ``--nights 30`` this number of runs with such edits follow each other. The result shows what
each writes and how the folder of snapshots grows, until ``gc`` keeps the last only. The tables of
the last run must equal those of a full build.
"""

import argparse
import json
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any

from corpus import edit_corpus
from harness import (
    command,
    endpoint,
    graph_in_neo4j,
    measure,
    new_project,
    print_table,
    without_index,
)

from pipeline.project import Project

SHARE, NEO4J = 0.01, "neo4j"
FULL, NOTHING = "full build", "nothing changed"
Nights = Mapping[str, Mapping[str, Any]]


def nights(
    workflow: str, units: int, stage: str, graph: str, edited: int | None, indexed: bool = True
) -> Nights:
    """Return the figures of each run by its name, as measure.py measures them.

    ``edited`` is the number of edited documents; None stands for the share SHARE. ``indexed`` says
    whether loads build HNSW indexes. The figure ``command`` is the time of the whole command.
    """
    if edited is None:
        share, night = SHARE, f"{SHARE:.0%} edited"
    else:
        share, night = edited / units, f"{edited} edited"
    with ExitStack() as stack:
        root = stack.enter_context(new_project(units))
        if not indexed:
            without_index(root)
        env = dict(stack.enter_context(endpoint()).env)
        if graph == NEO4J:
            env |= stack.enter_context(graph_in_neo4j(root))
        first = measure(root, workflow, stage, env)
        started = time.perf_counter()
        command(root, stage, workflow, env=env)
        seconds = time.perf_counter() - started
        nothing = measure(root, workflow, stage, env)
        edit_corpus(root / "data" / "input", units, share)
        after = measure(root, workflow, stage, env)
    return {FULL: first, NOTHING: {**nothing, "command": seconds}, night: after}


def nights_in_a_row(workflow: str, units: int, stage: str, count: int) -> list[dict[str, Any]]:
    """Return a row for each run, one for a full build of the last state, and one after ``gc``."""
    with new_project(units) as root, new_project(0) as fresh, endpoint() as server:
        first = measure(root, workflow, stage, server.env)
        rows = [_of_a_row(FULL, first, first)]
        for night in range(1, count + 1):
            edit_corpus(root / "data" / "input", units, SHARE, seed=night)
            rows.append(
                _of_a_row(f"night {night}", measure(root, workflow, stage, server.env), first)
            )
        shutil.copytree(root / "data" / "input", fresh / "data" / "input", dirs_exist_ok=True)
        rows.append(
            _of_a_row(
                "full build of the same", measure(fresh, workflow, "index", server.env), first
            )
        )
        different = [
            name
            for name, sha256 in _identities(fresh, workflow).items()
            if sha256 != _identities(root, workflow)[name]
        ]
        if different:
            raise SystemExit(
                f"{workflow}: {', '.join(different)} differ from those of a full build"
            )
        command(root, "gc", "--keep", "1", "--delete")
        rows.append(
            _of_a_row(
                "nothing changed, after gc", measure(root, workflow, stage, server.env), first
            )
        )
    return rows


def _of_a_row(night: str, one: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "night": night, "CPU s": one["cpu"], "written MB": one["written"] / 2**20,
        "of the snapshots": one["written"] / first["snapshots"], "live MB": one["live"] / 2**20,
        "live files": one["live_files"], "folder MB": one["snapshots"] / 2**20,
    }  # fmt: skip


def _identities(root: Path, workflow: str) -> dict[str, str]:
    with Project.open(root) as project:
        return {
            name: table.sha256
            for name, table in project.snapshots.manifest(workflow).tables.items()
        }


def summary(workflow: str, units: int, found: Nights) -> list[dict[str, Any]]:
    """Return a row for each run."""
    full = found[FULL]
    return [
        {
            "workflow": workflow, "units": units, "night": night, "CPU s": one["cpu"],
            "of the full build": one["cpu"] / full["cpu"], "wall s": one["wall"],
            "calls": one["calls"],
            "start-up s": one["startup"], "command s": one.get("command"),
            "peak MB": one["peak_mb"],
            "written MB": one["written"] / 2**20,
            "of the snapshots": one["written"] / full["snapshots"],
        }
        for night, one in found.items()
    ]  # fmt: skip


def by_step(found: Nights) -> list[dict[str, Any]]:
    """Return a row for each step with its CPU seconds in each run; reused steps have none."""
    steps = dict.fromkeys(step for one in found.values() for step in one["steps"])
    return [
        {"step": step, **{night: _cpu(one, step) for night, one in found.items()}} for step in steps
    ]


def by_store(found: Nights) -> list[dict[str, Any]]:
    """Return a row for each load that wrote something."""
    return [
        {
            "load into": store, "night": night, "rows written": taken["written"],
            "CPU s": taken["cpu"],
            "of the first load": taken["cpu"] / found[FULL]["stores"][store]["cpu"],
            "server CPU s": taken["server"],
            "of the first load's": taken["server"] / found[FULL]["stores"][store]["server"],
        }
        for store in found[FULL]["stores"]
        for night, one in found.items()
        if (taken := one["stores"].get(store))
    ]  # fmt: skip


def _cpu(night: Mapping[str, Any], step: str) -> float | None:
    return night["steps"][step]["cpu"] if step in night["steps"] else None


def print_nights_in_a_row(options: argparse.Namespace) -> None:
    for workflow in options.workflow:
        for units in options.units:
            rows = nights_in_a_row(workflow, units, options.stage, options.nights)
            share = mean(row["of the snapshots"] for row in rows[1 : 1 + options.nights])
            print(
                f"\n{workflow}, {units:,} text units: a night writes {share:.3f} of the snapshots"
                " on an average"
            )
            print_table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[1_900])
    parser.add_argument(
        "--workflow", nargs="+", default=["fast", "index"], choices=["fast", "index"]
    )
    parser.add_argument(
        "--stage", default="run", choices=["run", "index"], help="with the stores or without"
    )
    parser.add_argument("--graph", default="postgres", choices=["postgres", NEO4J])
    parser.add_argument("--edited", type=int, help="documents to edit, in place of 1 %%")
    parser.add_argument("--no-index", action="store_true", help="loads build no HNSW index")
    parser.add_argument("--nights", type=int, default=0, help="as many nights of edits in a row")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.nights:
        print_nights_in_a_row(options)
        return
    rows: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    for workflow in options.workflow:
        for units in options.units:
            found = nights(
                workflow, units, options.stage, options.graph, options.edited, not options.no_index
            )
            rows += summary(workflow, units, found)
            measured.append({"workflow": workflow, "units": units, "nights": found})
            if not options.json:
                print(f"\n{workflow}, {units:,} text units: CPU s by step")
                print_table(by_step(found))
                if loads := by_store(found):
                    print()
                    print_table(loads)
    if options.json:
        print(json.dumps(measured, indent=1))
    else:
        print()
        print_table(rows)


if __name__ == "__main__":
    main()
