"""The table of docs/verbs.md, from the registry. `python -m tests.docs.verb_table` writes it
anew."""

from itertools import chain
from pathlib import Path

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY, LastTables, Tracker, Verb
from pipeline.engine.workflow import REJECTS

PAGE = Path(__file__).parents[2] / "docs" / "verbs.md"
BEGIN, END = "<!-- verbs -->\n", "<!-- end of verbs -->"


def verb_table() -> str:
    rows = [_row(verb) for _, verb in sorted(REGISTRY.verbs.items())]
    head = ["| Verb | Reads | Writes | Law | Args | Asks |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _row(verb: Verb) -> str:
    writes = [name for name in verb.outputs if name != REJECTS]
    args = ", ".join(name for name, field in verb.params.model_fields.items() if not field.exclude)
    asked = [role for role, kind in verb.roles.items() if kind not in (Tracker, LastTables)]
    cells = [
        f"`{verb.name}`",
        ", ".join(verb.inputs),
        ", ".join(writes),
        _law(verb),
        args,
        ", ".join(asked),
    ]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def _law(verb: Verb) -> str:
    if verb.rowwise:
        return f"rowwise in {verb.rowwise}"
    if verb.parts:
        return "in parts" if verb.inputs else "source, in parts"
    if verb.law:
        return f"keyed by {', '.join(dict.fromkeys(chain.from_iterable(verb.law.keyed.values())))}"
    return "whole" if verb.inputs else "source"


def page_with(table: str) -> str:
    """The page with this table in place of its own."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with(verb_table()), encoding="utf-8")
