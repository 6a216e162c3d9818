"""The command subject: what a project holds about a person."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    Yes,
    ask,
    open_project,
    print_aside,
    print_json,
)
from pipeline.errors import UsageError, counted
from pipeline.files import write_private_text

PersonName = Annotated[str, typer.Argument(metavar="NAME", help="The whole name of a person.")]


def subject(
    context: typer.Context, name: PersonName, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    export: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Write what is found into a new file, as JSON.")] = None,
    erase: Annotated[bool, typer.Option("--erase",
        help="Purge the documents that name the person, and remove the rest.")] = False,
    keep: Annotated[list[str] | None, typer.Option(metavar="DOCUMENT",
        help="With --erase: a document that stays; the person leaves its graph.")] = None,
    yes: Yes = False,
) -> None:  # fmt: skip
    """List, export or erase what concerns a person: documents, graph, corrections, questions."""
    if keep and not erase:
        raise typer.BadParameter("--keep goes with --erase")
    with open_project(context, folder, overrides, as_json) as project:
        found = project.find_person(name)
        if export is not None:
            if export.exists():
                raise UsageError(f"{export}: exists already; name a new file")
            content = json.dumps(found.to_json(), ensure_ascii=False, indent=1) + "\n"
            write_private_text(export, content)
        if not erase:
            if as_json:
                print_json(found.to_json())
            else:
                print(*found.lines(), sep="\n")
            print_aside(*(f"subject: not known: {fact}" for fact in found.cannot_know))
            return
        if not yes:
            print(*found.lines(), sep="\n", file=sys.stderr)
            number = len(set(found.sources) - set(keep or ()))
            ask(f"Purge {counted(number, 'document')}, and remove all the rest?")
        erased = project.erase_person(name, keep or ())
    if as_json:
        print_json(erased.to_json())
    else:
        print(*erased.lines(), sep="\n")
    print_aside(*(f"subject: not known: {fact}" for fact in erased.left.cannot_know))
    print_aside(*(f"subject: {place}: {why}" for place, why in erased.unreached.items()))
    if erased.exit_code:
        raise typer.Exit(erased.exit_code)
