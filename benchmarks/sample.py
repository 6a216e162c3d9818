"""Entities and relationships of a project, drawn by a seed, with a sentence of their text, to be
judged by hand.

    python benchmarks/sample.py PROJECT --size 200 --seed 14

Titles of documents are left out of the entities. Of a relationship the type is shown as the stores
have it; ``--typed`` draws among those alone that state more than that both ends share a sentence.
"""

import argparse
import random
from pathlib import Path

import pandas as pd

from pipeline.load.projection import edge_types
from pipeline.project import Project
from pipeline.text.ids import match_key

AROUND = 110
"""Characters of the sentence to either side of the name."""
CO_OCCURRENCE = "CO_OCCURS"


def drawn(rows: pd.DataFrame, size: int, seed: int) -> pd.DataFrame:
    """Draw rows in an order that depends only on the seed and the ids."""
    ids = sorted(rows["id"])
    chosen = random.Random(seed).sample(ids, min(size, len(ids)))
    return rows.set_index("id").loc[chosen].reset_index()


def around(name: str, sentence: str) -> str:
    place = max(sentence.lower().find(name.lower()), 0)
    return sentence[max(0, place - AROUND) : place + len(name) + AROUND]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--typed", action="store_true")
    options = parser.parse_args()
    with Project.open(options.project) as project:
        titles = set(map(match_key, project.table("documents")["title"]))
        entities = project.table("entities")
        relationships = project.table("relationships")
    entities = entities[~entities["name"].map(match_key).isin(titles)]
    relationships = relationships.assign(type=edge_types(relationships["keywords"]))
    if options.typed:
        relationships = relationships[relationships["type"] != CO_OCCURRENCE]
    for number, row in enumerate(drawn(entities, options.size, options.seed).itertuples(), 1):
        print(f"{number}\t{row.name}\t{row.type}\t{around(str(row.name), str(row.description))}")
    for number, row in enumerate(drawn(relationships, options.size, options.seed).itertuples(), 1):
        print(
            f"{number}\t{row.source} -{row.type}->"
            f" {row.target}\t{str(row.description)[: 2 * AROUND]}"
        )


if __name__ == "__main__":
    main()
