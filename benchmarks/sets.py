"""Sets that are made by script, as a project's documents and questions.

    graphmill init PROJECT && python benchmarks/sets.py vault PROJECT

`vault`: 300 notes named by their files, with aliases and links. `company`: 200 documents of a
company: policies in versions, sites and products that share names, minutes, tables, incidents.
`german` and `chinese`: 120 documents about machines each, with questions in both languages. All is
made up here, by templates and a seed: the gold documents of each question are known.

FOLDER/data/input and FOLDER/questions.jsonl are written; unanswerable.jsonl has the questions that
no document answers, facts.jsonl what each file states.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.made_company import company
from benchmarks.made_machines import chinese, german
from benchmarks.made_set import MadeSet, write_set
from benchmarks.made_vault import vault

SETS: Mapping[str, Callable[[random.Random], MadeSet]] = {
    "vault": vault,
    "company": company,
    "german": german,
    "chinese": chinese,
}
SEED = 33


def made_set(name: str, seed: int = SEED) -> MadeSet:
    """Return a set, the same on every machine."""
    return SETS[name](random.Random(f"{name}/{seed}"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=SETS)
    parser.add_argument("folder", type=Path, help="an empty project (graphmill init), or a folder")
    options = parser.parse_args()
    made = made_set(options.name)
    write_set(made, options.folder)
    print(f"{len(made.files):,} files, {len(made.questions):,} questions")


if __name__ == "__main__":
    main()
