"""The command docs, which shows the documentation in a terminal."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import print_aside
from pipeline.errors import USAGE
from pipeline.settings.init import shipped

WIDEST = 100
START = "index"
MADE = {"commands": "Commands", "settings": "Settings"}
"""Pages that are made from the code when they are asked for: name -> title."""
FROM_CODE = re.compile(r"^::: (\S+)$", re.MULTILINE)
"""A line that the documentation's site replaces by the docstring of a name."""


def docs(
    context: typer.Context,
    page: Annotated[
        str | None, typer.Argument(metavar="PAGE", help="One of them; without it, what there is.")
    ] = None,
) -> None:
    """Show a page of the documentation, or what pages there are."""
    files = {path.stem: path for path in (shipped() / "docs").glob("*.md")}
    names = sorted({*files, *MADE} - {START})
    if page is None:
        titles = MADE | {name: _title(path) for name, path in files.items()}
        width = max(map(len, titles))
        for name in [START, *names]:
            print(f"{name:<{width}}  {titles[name]}")
        return
    name = Path(page).name.removesuffix(".md")
    if name in MADE:
        from pipeline.cli.reference import commands_page, settings_page

        text = settings_page() if name == "settings" else commands_page(context.find_root().command)
    elif name in files:
        text = FROM_CODE.sub(r"- `\1`", files[name].read_text(encoding="utf-8"))
    else:
        from pipeline.settings.validation import did_you_mean

        print_aside(f"docs: no page '{page}'; {did_you_mean(name, [START, *names])}")
        raise typer.Exit(USAGE)
    if sys.stdout.isatty():
        _render(text)
    else:
        print(text, end="")


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines).lstrip("# ").rstrip()


def _render(text: str) -> None:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class WholeTable(TableElement):
        """A table whose cells are folded; by default rich cuts what a narrow column cannot hold."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                assert isinstance(table, Table)
                for column in table.columns:
                    column.overflow = "fold"
                yield table

    class Page(Markdown):
        elements = Markdown.elements | {"table_open": WholeTable}

    console = Console(width=min(WIDEST, Console().width))
    without_comments = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    console.print(Page(without_comments, hyperlinks=False))
