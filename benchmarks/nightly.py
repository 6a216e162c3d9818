"""The nights after the first: a run where nothing has changed, and one where a share of the documents has, against
the full build. ``python benchmarks/nightly.py --units 30000``

Seconds of CPU are this program's own, start-up apart; ``command s`` is the wall time of the whole command with
start-up, the stores included unless ``--stage index``.
"""

import argparse
import json
import time
from typing import Any

from corpus import edit_corpus
from harness import command, endpoint, measure, new_project, print_table

SHARE = 0.01


def nights(workflow: str, units: int, stage: str) -> list[dict[str, Any]]:
    with new_project(units) as root, endpoint() as server:
        first = measure(root, workflow, stage, server.env)
        started = time.perf_counter()
        command(root, stage, workflow, env=server.env)
        seconds = time.perf_counter() - started
        nothing = measure(root, workflow, stage, server.env)
        edit_corpus(root / "data" / "input", units, SHARE)
        changed = measure(root, workflow, stage, server.env)
    nights = {"full build": first, "nothing changed": nothing, f"{SHARE:.0%} changed": changed}
    whole = {"nothing changed": seconds}
    return [
        {
            "workflow": workflow, "units": units, "night": night, "CPU s": found["cpu"], "of the full build":
            found["cpu"] / first["cpu"], "wall s": found["wall"], "calls": found["calls"],
            "start-up s": found["startup"], "command s": whole.get(night), "peak MB": found["peak_mb"],
        }
        for night, found in nights.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[1_900])
    parser.add_argument("--workflow", nargs="+", default=["fast", "index"], choices=["fast", "index"])
    parser.add_argument("--stage", default="run", choices=["run", "index"], help="with the stores or without")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [row for name in options.workflow for units in options.units for row in nights(name, units, options.stage)]
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
