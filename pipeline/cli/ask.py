"""query: answers over the loaded stores."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import Folder, Json, Overrides, open_project, print_json

if TYPE_CHECKING:
    from pipeline.query.answer import Answer


def query(
    context: typer.Context,
    question: Annotated[str, typer.Argument()],
    mode: Annotated[str | None, typer.Option(help="naive, local, global, hybrid, mix, graph or bypass.")] = None,
    only_need_context: Annotated[bool, typer.Option("--only-need-context", help="No answer.")] = False,
    only_need_prompt: Annotated[bool, typer.Option("--only-need-prompt", help="No answer.")] = False,
    response_type: Annotated[str | None, typer.Option(help="The form of the answer, in words.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Entities and relationships to retrieve.")] = None,
    chunk_top_k: Annotated[int | None, typer.Option(help="Text units to retrieve.")] = None,
    hl_keywords: Annotated[str | None, typer.Option(metavar="A,B", help="Themes to search for.")] = None,
    ll_keywords: Annotated[str | None, typer.Option(metavar="A,B", help="Names to search for.")] = None,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Answer a question over the loaded stores, with sources."""
    with open_project(context, folder, overrides, as_json) as project:
        found = project.query(
            question,
            mode=mode,
            only_need_context=only_need_context,
            only_need_prompt=only_need_prompt,
            response_type=response_type,
            top_k=top_k,
            chunk_top_k=chunk_top_k,
            hl_keywords=_listed(hl_keywords),
            ll_keywords=_listed(ll_keywords),
        )
    if as_json:
        print_json(found.to_json())
    else:
        _print_answer(found)


def _listed(value: str | None) -> tuple[str, ...] | None:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else None


def _print_answer(found: "Answer") -> None:
    print(found.text.strip())
    for note in found.notes:
        print(f"graphmill: {note}", file=sys.stderr)
    if found.request.only_need_context or found.request.only_need_prompt:
        return
    if found.references:
        print("\nSources:")
        for reference in found.references:
            print(f"  [{reference.id}] {reference.title} ({reference.source})")
