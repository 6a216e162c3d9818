"""Compare the cost of a plan with that of the run that it describes, after one document was edited.

    python benchmarks/plan.py --units 20000

CPU seconds are those of this program without its start-up (imports, a run and a plan over one
document). Peak memory is that of the whole process. ``index`` asks the endpoint of the tests, which
is another process. ``expected`` and ``most`` are the calls that the plan expects.
"""

import argparse
import json
from typing import Any

from corpus import document_path
from harness import endpoint, measure, new_project, print_table


def night(workflow: str, units: int, stage: str) -> dict[str, Any]:
    with new_project(units) as root, endpoint() as server:
        measure(root, workflow, stage, server.env)
        with document_path(root / "data" / "input", units // 2).open("a", encoding="utf-8") as file:
            file.write("A later hand added that nobody believed this account.\n")
        plan = measure(root, workflow, "plan", server.env)
        run = measure(root, workflow, stage, server.env)
    return {
        "workflow": workflow, "units": units, "plan CPU s": plan["cpu"], "run CPU s": run["cpu"],
        "of the run": plan["cpu"] / run["cpu"], "plan peak MB": plan["peak_mb"],
        "start-up MB": plan["startup_mb"],
        "run peak MB": run["peak_mb"], "expected": plan["expected"], "most": plan["most"],
        "calls": run["calls"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[1_900])
    parser.add_argument(
        "--workflow", nargs="+", default=["fast", "index"], choices=["fast", "index"]
    )
    parser.add_argument(
        "--stage", default="index", choices=["run", "index"], help="with the stores or without"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [
        night(name, units, options.stage) for name in options.workflow for units in options.units
    ]
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
