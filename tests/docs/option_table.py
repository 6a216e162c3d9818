"""The table of options in docs/query-options.md, made from ``pipeline/settings/query_fields.py``.

``python -m tests.docs.option_table`` writes it into the page.
"""

from pathlib import Path
from typing import Any

from pipeline.settings.query_fields import QUERY_OPTIONS, REQUEST_OPTIONS, Option

PAGE = Path(__file__).parents[2] / "docs" / "query-options.md"
BEGIN, END = "<!-- options -->\n", "<!-- end of options -->"


def option_table() -> str:
    """Return the table in Markdown, the question first."""
    question, *others = REQUEST_OPTIONS.values()
    options = [question, *QUERY_OPTIONS.values(), *others]
    head = ["| option | default | effect |", "|---|---|---|"]
    return "\n".join([*head, *map(row_of, options)]) + "\n"


def row_of(option: Option) -> str:
    """Return the row of an option, with the names that the command alone has for it."""
    about = option.description
    names = [f"`{name}`" for name in (about.also, about.off) if name]
    name = f"`{option.name}`" + (f" ({', '.join(names)})" if names else "")
    return f"| {name} | {cell_of(option.default)} | {about.page} |".replace("|  |", "| |")


def cell_of(default: Any) -> str:
    """Return a default as people read it; nothing for an empty text, and where there is none."""
    if default is None or default == "":
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str):
        return f"`{default}`"
    return f"{default:g}" if isinstance(default, float) else str(default)


def page_with(table: str) -> str:
    """Return the page with this table in place of the one it has."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with(option_table()), encoding="utf-8")
