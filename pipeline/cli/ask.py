"""query: answers over the loaded stores."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.options import Folder, Json, Overrides, open_project, print_json
from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pipeline.query.answer import Answer
    from pipeline.query.stream import Event

MODES = "naive, local, global, hybrid, mix, graph or bypass."


def query(
    context: typer.Context,
    question: Annotated[str, typer.Argument()],
    mode: Annotated[str | None, typer.Option("--mode", "--method", help=MODES)] = None,
    only_need_context: Annotated[
        bool | None, typer.Option("--only-need-context/--no-context-only", "--context-only", help="No answer.")
    ] = None,
    only_need_prompt: Annotated[
        bool | None, typer.Option("--only-need-prompt/--no-prompt-only", "--prompt-only", help="No answer.")
    ] = None,
    response_type: Annotated[str | None, typer.Option(help="The form of the answer, in words.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Entities and relationships to retrieve.")] = None,
    chunk_top_k: Annotated[int | None, typer.Option(help="Text units to show.")] = None,
    max_entity_tokens: Annotated[int | None, typer.Option(help="Budget of the table of entities.")] = None,
    max_relation_tokens: Annotated[int | None, typer.Option(help="Budget of the table of relationships.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(help="Budget of the whole prompt.")] = None,
    hl_keywords: Annotated[str | None, typer.Option(metavar="A,B", help="Themes to search for.")] = None,
    ll_keywords: Annotated[str | None, typer.Option(metavar="A,B", help="Names to search for.")] = None,
    kg_chunk_pick_method: Annotated[
        str | None, typer.Option(help="Text units of what was found by RELATION, WEIGHT or VECTOR.")
    ] = None,
    related_chunk_number: Annotated[int | None, typer.Option(help="Text units of each, by WEIGHT or VECTOR.")] = None,
    min_score: Annotated[float | None, typer.Option(help="No answer below this similarity.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only documents with this metadata; also < <= > >= !=."),
    ] = None,
    conversation_history: Annotated[
        Path | None, typer.Option(metavar="FILE", help='JSON: [{"role": "user", "content": "..."}, ...]')
    ] = None,
    user_prompt: Annotated[str | None, typer.Option(help="A wish added to the prompt.")] = None,
    system_prompt: Annotated[str | None, typer.Option(help="A prompt instead of the project's.")] = None,
    model: Annotated[str | None, typer.Option(help="Which of models.chat answers.")] = None,
    enable_rerank: Annotated[bool | None, typer.Option("--enable-rerank/--no-rerank", help="Rank anew.")] = None,
    include_references: Annotated[
        bool | None, typer.Option("--include-references/--no-references", help="List the documents shown.")
    ] = None,
    include_chunk_content: Annotated[
        bool | None, typer.Option("--include-chunk-content/--no-chunk-content", help="With the text shown.")
    ] = None,
    stream: Annotated[bool | None, typer.Option("--stream/--no-stream", help="Print the answer as it comes.")] = None,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Answer a question over the loaded stores, with sources."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.query.stream import Done, Failed
        from pipeline.query.where import read_conditions

        found: Answer | None = None
        for event in project.query_stream(
            question,
            mode=mode,
            only_need_context=only_need_context,
            only_need_prompt=only_need_prompt,
            response_type=response_type,
            top_k=top_k,
            chunk_top_k=chunk_top_k,
            max_entity_tokens=max_entity_tokens,
            max_relation_tokens=max_relation_tokens,
            max_total_tokens=max_total_tokens,
            hl_keywords=_listed(hl_keywords),
            ll_keywords=_listed(ll_keywords),
            kg_chunk_pick_method=kg_chunk_pick_method,
            related_chunk_number=related_chunk_number,
            min_score=min_score,
            where=read_conditions(where or []),
            conversation_history=_conversation(conversation_history),
            user_prompt=user_prompt,
            system_prompt=system_prompt,
            model=model,
            enable_rerank=enable_rerank,
            include_references=include_references,
            include_chunk_content=include_chunk_content,
            stream=stream,
        ):
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Done):
                found = event.answer
            elif not as_json:
                _print_piece(event)
        assert found is not None
        if as_json:
            print_json(found.to_json())
        else:
            _print_rest(found)


def _listed(value: str | None) -> tuple[str, ...] | None:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else None


def _conversation(path: Path | None) -> list[Any] | None:
    """Raises UsageError where there is no such conversation."""
    if path is None:
        return None
    try:
        turns = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--conversation-history {path}: {error}; name a JSON file with a list of turns") from None
    return turns if isinstance(turns, list) else [turns]


def _print_piece(event: "Event") -> None:
    from pipeline.query.stream import Token

    if isinstance(event, Token):
        print(event.text, end="", flush=True)


def _print_rest(found: "Answer") -> None:
    print("" if found.text.endswith("\n") else "\n", end="")
    for note in found.notes:
        print(f"graphmill: {note}", file=sys.stderr)
    if found.request.only_need_context or found.request.only_need_prompt:
        return
    if found.references:
        print("\nSources:")
        for reference in found.references:
            print(f"  [{reference.id}] {reference.title} ({reference.source})")
            if found.request.include_chunk_content:
                chunks = found.context.chunks.records
                for content in chunks.loc[chunks["document_id"] == reference.document_id, "content"]:
                    print("      " + " ".join(content.split()))
