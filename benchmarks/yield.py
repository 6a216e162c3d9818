"""Yield of an extraction: facts for 1,000 tokens of text, and the share of gold triples found.

    graphmill init PROJECT && python benchmarks/questions.py 2wiki FOLDER PROJECT --questions 51
    python benchmarks/yield.py project PROJECT --workflow fast
    python benchmarks/yield.py project PROJECT --workflow index --max-cost 2
    python benchmarks/yield.py recorded nano_graphrag_llm_cache

`project` runs the workflow and looks at its graph; the gold is PROJECT/facts.jsonl, as
benchmarks/questions.py (2wiki) and benchmarks/sets.py write it. A workflow that asks a model asks
the one of the project's settings: the price that the plan expects is printed before, and without
--max-cost nothing is asked. `recorded` parses the recorded replies of a whole index by GPT-4o
(mock_cache.json beside the text, mock_data.txt); it asks nobody, and has no gold.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import command, print_table

from benchmarks.gold_triples import Extracted, Triple, share_found
from benchmarks.made_set import FACTS_FILE, read_lines
from pipeline.models.parse.graph import Entity, parse_records
from pipeline.project import Project
from pipeline.text.tokens import tokenizer

ENCODING = "cl100k_base"
TUPLE_DELIMITER = "<|>"
"""A recorded reply without it is a report, not an extraction."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    project = kinds.add_parser("project", help="run a workflow of a project")
    project.add_argument("project", type=Path)
    project.add_argument("--workflow", default="fast")
    project.add_argument("--max-cost", type=float, help="what the run may spend")
    project.add_argument("--json", action="store_true", help="print JSON")
    recorded = kinds.add_parser("recorded", help="parse recorded replies")
    recorded.add_argument("folder", type=Path)
    recorded.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.kind == "recorded":
        row = of_replies(options.folder)
    else:
        _run(options.project, options.workflow, options.max_cost)
        row = of_project(options.project, options.workflow)
    print(json.dumps(row, indent=1)) if options.json else print_table([row])


def _run(root: Path, workflow: str, max_cost: float | None) -> None:
    """Say the price and run the workflow. Exits before the first call if no limit is given."""
    estimate = command(root, "plan", workflow)["estimate"]
    most_calls, expected = estimate["calls"][1], estimate["expected"]
    if most_calls:
        print(
            f"expected: {expected['calls']} calls, price {expected['cost']};"
            f" at most {most_calls} calls, price {estimate['cost']}",
            flush=True,
        )
        if max_cost is None:
            raise SystemExit("yield: this asks a model; give --max-cost")
    limit = ["--max-cost", str(max_cost)] if most_calls else []
    command(root, "index", workflow, *limit)


def of_project(root: Path, workflow: str) -> dict[str, Any]:
    """Return the yield of the graph that the workflow has made."""
    with Project.open(root) as project:
        units = project.table("text_units", workflow)
        entities = project.table("entities", workflow)
        relationships = project.table("relationships", workflow)
    extracted = Extracted()
    for name, description in zip(entities["name"], entities["description"], strict=True):
        extracted.add_entity(name, description)
    columns = ["source", "target", "description"]
    for source, target, description in relationships[columns].itertuples(index=False):
        extracted.add_relationship(source, target, description)
    row = _counted(extracted, int(units["n_tokens"].sum()))
    facts = root / FACTS_FILE
    if facts.exists():
        row |= share_found(_triples(facts), extracted)
    return row


def of_replies(folder: Path) -> dict[str, Any]:
    """Return the yield of recorded replies over the text that they were made of."""
    replies = json.loads((folder / "mock_cache.json").read_text(encoding="utf-8"))
    text = (folder / "mock_data.txt").read_text(encoding="utf-8-sig")
    extracted = Extracted()
    for entry in replies.values():
        reply = entry["return"]
        if TUPLE_DELIMITER not in reply:
            continue
        for record in parse_records(reply).records:
            if isinstance(record, Entity):
                extracted.add_entity(record.name, record.description)
            else:
                extracted.add_relationship(record.source, record.target, record.description)
    return _counted(extracted, len(tokenizer(ENCODING).encode(text)))


def _counted(extracted: Extracted, tokens: int) -> dict[str, Any]:
    thousands = tokens / 1000
    return {
        "tokens": tokens,
        "entities": len(extracted.entities),
        "facts": len(extracted.pairs),
        "entities a 1,000 tokens": round(len(extracted.entities) / thousands, 2),
        "facts a 1,000 tokens": round(len(extracted.pairs) / thousands, 2),
    }


def _triples(path: Path) -> Iterable[Triple]:
    for line in read_lines(path):
        for fact in line["facts"]:
            yield fact["subject"], fact["relation"], fact["object"]


if __name__ == "__main__":
    main()
