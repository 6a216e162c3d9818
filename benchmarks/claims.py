"""Measure what a nightly run of ``claims`` asks, with entity resolution and a judge.

    python benchmarks/claims.py --units 1900

Before the run, a random sentence is replaced in 1 % of the documents. The first table has CPU
seconds, calls, tokens and price (that of gpt-4o-mini) by step, for the full build and for the run.
The second counts the communities of the run that are new: no community of the build had these
members. It counts the others whose known facts have changed (entities, relationships, claims), and
the reports that were asked for.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpus import edit_corpus
from harness import endpoint, measure, new_project, print_table, resolving

from pipeline.project import Project

WORKFLOW, REPORTS = "claims", "report_communities"
BUILD, NIGHT = "build", "night"
PRICE = {"tokens in": 0.15, "tokens out": 0.6}
"""The price in dollars of a million tokens."""
WHOLE = "all of it"
Grounds = Mapping[tuple[str, ...], tuple[str, ...]]
"""The known facts of each community by its members."""


def nights(units: int, share: float) -> dict[str, Any]:
    """Measure a build and a nightly run, as measure.py does, and compare their communities."""
    with new_project(units) as root, endpoint() as server:
        resolving(root)
        build = measure(root, WORKFLOW, "index", server.env)
        before = grounds(root)
        edit_corpus(root / "data" / "input", units, share)
        night = measure(root, WORKFLOW, "index", server.env)
        now = grounds(root)
    return {"units": units, BUILD: build, NIGHT: night, "communities": compared(before, now, night)}


def grounds(root: Path) -> Grounds:
    with Project.open(root) as project:
        tables = project.snapshots.manifest(WORKFLOW).tables
        read = {
            name: project.snapshots.tables.read(tables[name]) for name in ("communities", *EVIDENCE)
        }
    said = {name: _lines(read[name][columns]) for name, columns in EVIDENCE.items()}
    communities = read["communities"][["entity_ids", "relationship_ids"]].itertuples(
        index=False, name=None
    )
    return {
        tuple(members): (
            *(line for id in members for line in said["entities"][id]),
            *(line for id in links for line in said["relationships"][id]),
            *(line for id in members for line in said["covariates"].get(id, ())),
        )
        for members, links in communities
    }


EVIDENCE = {
    "entities": ["id", "name", "type", "description"],
    "relationships": ["id", "source", "target", "keywords", "description"],
    "covariates": [
        "subject_id",
        "object",
        "type",
        "status",
        "start_date",
        "end_date",
        "description",
    ],
}
"""The columns of each table that a report is made of, behind the key columns."""


def _lines(rows: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, *cells in rows.itertuples(index=False, name=None):
        found.setdefault(key, []).append(" ".join(map(str, cells)))
    return {key: sorted(set(lines)) for key, lines in found.items()}


def compared(before: Grounds, now: Grounds, night: Mapping[str, Any]) -> dict[str, int]:
    return {
        "communities": len(now),
        "new": len(set(now) - set(before)),
        "other evidence": sum(
            before[members] != known for members, known in now.items() if members in before
        ),
        "asked about": night["asked"].get(REPORTS, {"calls": 0})["calls"],
    }


def by_step(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each step and one for all steps."""
    steps = [*found[BUILD]["steps"], WHOLE]
    return [
        {"step": step, **_of(found[BUILD], step, BUILD), **_of(found[NIGHT], step, NIGHT)}
        for step in steps
    ]


def _of(one: Mapping[str, Any], step: str, night: str) -> dict[str, Any]:
    asked = one["asked"]
    whole = {name: sum(each[name] for each in asked.values()) for name in ("calls", *PRICE)}
    amounts = whole if step == WHOLE else asked.get(step)
    cpu = one["cpu"] if step == WHOLE else one["steps"].get(step, {"cpu": None})["cpu"]
    price = sum(amounts[name] * each / 1e6 for name, each in PRICE.items()) if amounts else None
    told = {
        "CPU s": cpu,
        **(amounts or dict.fromkeys(whole)),
        "price": None if price is None else round(price, 4),
    }
    return {f"{name}, {night}": amount for name, amount in told.items()}


def shares(found: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of the run as shares of those of the build."""
    build, night = _of(found[BUILD], WHOLE, ""), _of(found[NIGHT], WHOLE, "")
    return {name.removesuffix(", "): night[name] / build[name] for name in build}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[1_900])
    parser.add_argument(
        "--share", type=float, default=0.01, help="of the documents, those that are edited"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    measured = [nights(units, options.share) for units in options.units]
    if options.json:
        print(json.dumps(measured, indent=1))
        return
    for found in measured:
        print(f"\n{WORKFLOW}, {found['units']:,} text units, {options.share:.0%} of them edited")
        print_table(by_step(found))
        print("\nof the build")
        print_table([shares(found)])
        print()
        print_table([found["communities"]])


if __name__ == "__main__":
    main()
