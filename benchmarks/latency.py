"""Measure wall time against a slow endpoint.

    python benchmarks/latency.py --units 1900

The steps that call the model, and the whole command, are given as multiples of
``ceil(calls / concurrency) * latency``.
"""

import argparse
import json
import math
import time
from typing import Any

from harness import command, endpoint, new_project, print_table


def latency(units: int, seconds: float, concurrency: int) -> dict[str, Any]:
    """Measure a run in which each call takes some seconds.

    ``steps ratio`` is the time of the steps with calls over the least that they can take in turn.
    ``whole ratio`` is that of the command from its start to the loaded stores.
    """
    with new_project(units) as root, endpoint(delay=seconds) as server:
        started = time.perf_counter()
        setting = f"models.chat.default.concurrency={concurrency}"
        report = command(root, "run", "index", "--set", setting, env=server.env)
        wall = time.perf_counter() - started
    asked = [step for step in report["steps"] if step["calls"]]
    least = sum(math.ceil(step["calls"] / concurrency) * seconds for step in asked)
    taken = sum(step["seconds"] for step in asked)
    return {
        "units": units,
        "calls": sum(step["calls"] for step in asked),
        "least s": least,
        "model steps s": taken,
        "steps ratio": taken / least,
        "whole run s": wall,
        "whole ratio": wall / least,
        "load s": report["load_seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[300, 1_000, 1_900])
    parser.add_argument("--latency", type=float, default=0.5, help="seconds that every reply takes")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [latency(units, options.latency, options.concurrency) for units in options.units]
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
