"""Compare what an ontology costs, when it is introduced and when it changes, with the full build.

    python benchmarks/ontology.py --units 20000 --workflow fast index

Seconds of CPU are those of this program without its start-up and without the load. The first
ontology maps every type that the corpus has; the second one leaves types out, so that rows change;
the third one differs from it in a synonym that no record has; the last one gives each type another
name, so that every entity changes.
"""

import argparse
from typing import Any

import yaml
from harness import endpoint, measure, new_project, print_table

INDEX = "index"
TYPES: list[Any] = [
    {"name": "PERSON", "synonyms": ["name"]},
    {"name": "ORGANIZATION", "synonyms": ["institute"]},
    {"name": "LOCATION", "synonyms": ["place"]},
    {"name": "EVENT"},
    {"name": "CONCEPT", "synonyms": ["title"]},
]
LINKS: list[Any] = [{"name": "KNOWN_AS", "symmetric": True}, {"name": "FOUNDED"}]
PATTERNS = [["*", "KNOWN_AS", "*"], ["PERSON", "FOUNDED", "ORGANIZATION"]]
ONTOLOGY: dict[str, Any] = {
    "entity_types": TYPES,
    "relationship_types": LINKS,
    "patterns": PATTERNS,
    "otherwise": "other",
}


def renamed(type: dict[str, Any]) -> dict[str, Any]:
    """Return the type under another name, with its name of before as a synonym."""
    synonyms = [type["name"], *type.get("synonyms", [])]
    return {"name": f"ANY_{type['name']}", "synonyms": synonyms}


CHANGES: dict[str, dict[str, Any]] = {
    "an ontology introduced": ONTOLOGY,
    "a type less": {**ONTOLOGY, "entity_types": TYPES[:-1]},
    "a synonym that nothing has": {
        **ONTOLOGY,
        "entity_types": [*TYPES[:-2], {"name": "EVENT", "synonyms": ["regatta"]}],
    },
    "each type renamed": {**ONTOLOGY, "entity_types": [renamed(type) for type in TYPES]},
}


def rows_of(workflow: str, units: int) -> list[dict[str, Any]]:
    """Return a row for the full build, and one for each ontology."""
    with new_project(units) as root, endpoint() as server:
        full = measure(root, workflow, INDEX, server.env)
        found = {"full build": full}
        for name, ontology in CHANGES.items():
            (root / "ontology.yaml").write_text(yaml.safe_dump(ontology), encoding="utf-8")
            found[name] = measure(root, workflow, INDEX, server.env)
    return [
        {
            "workflow": workflow,
            "units": units,
            "run": name,
            "CPU s": one["cpu"],
            "of the full build": one["cpu"] / full["cpu"],
            "calls": one["calls"],
        }
        for name, one in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=20_000)
    parser.add_argument("--workflow", nargs="+", default=["fast", "index"])
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for workflow in given.workflow:
        rows += rows_of(workflow, given.units)
    print_table(rows)


if __name__ == "__main__":
    main()
