"""The commands query and questions, which need loaded stores."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    open_project,
    print_aside,
    print_json,
    split_list,
)
from pipeline.cli.query_command import (
    HighKeywords,
    History,
    LowKeywords,
    Mode,
    Model,
    Question,
    Where,
    with_query_options,
)
from pipeline.cli.wrapping import LineWrapper, terminal_width, wrap_text
from pipeline.errors import UsageError, counted

if TYPE_CHECKING:
    from pipeline.query.answer import Answer
    from pipeline.query.stream import Event


BROKEN_OFF = "broken off"
FEW_CALLS = 2
"""Calls of a usual question: one for keywords, one for the answer. Only more are announced."""


@with_query_options
def query(
    invocation: typer.Context,
    question: Question,
    hl_keywords: HighKeywords = None,
    ll_keywords: LowKeywords = None,
    conversation_history: History = None,
    where: Where = None,
    all_sources: Annotated[
        bool, typer.Option("--all-sources", help="List those too that are not cited.")
    ] = False,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Answer a question by the documents that are loaded, with sources."""
    with open_project(invocation, folder, overrides, as_json, BROKEN_OFF) as project:
        from pipeline.query.condition_lines import read_conditions
        from pipeline.query.stream import Done, Failed

        if as_json:
            options["stream"] = False  # The answer is printed whole, so no chunk of it is needed.
        events = project.query_stream(
            question,
            hl_keywords=split_list(hl_keywords) if hl_keywords else None,
            ll_keywords=split_list(ll_keywords) if ll_keywords else None,
            where=read_conditions(where or []),
            conversation_history=_read_conversation(conversation_history),
            **options,
        )
        found: Answer | None = None
        printer = AnswerPrinter()
        with printer.line_ended_on_error():
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Done):
                    found = event.answer
                elif not as_json:
                    printer.print_event(event)
        assert found is not None
        if as_json:
            print_json(found.to_json())
        else:
            printer.print_end(found, all_sources)


def questions(
    invocation: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What was asked last.")],
    number: Annotated[int, typer.Option(help="How many.")] = 5,
    mode: Mode = None,
    where: Where = None,
    conversation_history: History = None,
    model: Model = None,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Suggest what to ask next."""
    with open_project(invocation, folder, overrides, as_json, BROKEN_OFF) as project:
        from pipeline.query.condition_lines import read_conditions

        # The mode is any text here; the project checks it.
        options: dict[str, Any] = {"mode": mode, "model": model}
        options["where"] = read_conditions(where or [])
        options["conversation_history"] = _read_conversation(conversation_history)
        found = project.questions(question, number, **options)
        if as_json:
            print_json(found.to_json())
            return
        print("\n".join(f"- {text}" for text in found.questions))
        print_notes(found.notes)


def _read_conversation(path: Path | None) -> list[Any] | None:
    """Return the turns in a JSON file, or None without a file.

    Raises UsageError if the file cannot be read.
    """
    if path is None:
        return None
    try:
        turns = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--conversation-history {path}: {error}; name a JSON file with a list of turns"
        ) from None
    return turns if isinstance(turns, list) else [turns]


@dataclass
class AnswerPrinter:
    """Prints a streamed answer, wrapped to the terminal's width if a person reads it.

    ``more`` is the option or command that lists all sources.
    """

    lines: LineWrapper = field(default_factory=lambda: LineWrapper(terminal_width()))
    more: str = "--all-sources"
    begun: bool = False

    @contextmanager
    def line_ended_on_error(self) -> Iterator[None]:
        """End the printed line if the answer breaks off, so that the message begins a new one."""
        try:
            yield
        except BaseException:
            if self.begun:
                print(self.lines.end(), flush=True)
            raise

    def print_event(self, event: "Event") -> None:
        """Print a token of the answer, or announce that the question may take many calls."""
        from pipeline.query.stream import Sources, Token

        if isinstance(event, Token):
            self.begun = True
            print(self.lines.feed(event.text), end="", flush=True)
        if isinstance(event, Sources) and event.most_calls > FEW_CALLS:
            print_aside(f"at most {event.most_calls} calls of the chat model")

    def print_end(self, found: "Answer", all_sources: bool = False) -> None:
        """Print what follows the text: notes and price on stderr, cited reports, and sources."""
        from pipeline.query.marks import on_one_line

        # Flushed before the notes, as stderr may be the same file.
        print(self.lines.end(), flush=True)
        print_notes(found.notes)
        if found.usage["calls"]:
            print_notes([_describe_price(found)])
        if found.request.only_need_context or found.request.only_need_prompt or found.abstained:
            return
        reports = found.cited_reports
        if reports:
            print("\nReports:")
        for report in reports:
            title = on_one_line(report["title"])
            print_line(f"  [{report['number']}] {title} (level {report['level']})")
        print_sources(found, "" if all_sources else self.more)


def _describe_price(found: "Answer") -> str:
    """Return the calls, tokens and price of an answer as text."""
    used = found.usage
    price = "no price" if found.cost is None else f"price {found.cost:.6f}"
    calls = counted(used["calls"], "call")
    return f"{calls}, {used['input_tokens']:,} tokens in, {used['output_tokens']:,} out: {price}"


def print_line(line: str) -> None:
    """Print a line, wrapped to the terminal's width if a person reads it."""
    print(wrap_text(line, terminal_width()))


def print_notes(notes: Iterable[str]) -> None:
    """Print each note on stderr, wrapped to the terminal's width."""
    width = terminal_width(sys.stderr)
    for note in notes:
        print(wrap_text(f"graphmill: {note}", width), file=sys.stderr)


def print_sources(found: "Answer", more: str) -> None:
    """Print the passages that the answer cites, in the order of its text.

    ``more`` is printed with the number of passages that were found but not cited: it is the option
    or command that lists them. If it is "", these passages are printed too.
    """
    from pipeline.query.marks import on_one_line

    cited = {reference.id: reference for reference in found.cited} if found.references else {}
    others = [reference for reference in found.references if reference.id not in cited]
    shown = list(cited.values())
    if not more:
        shown += others
    if shown:
        print("\nSources:")
    for reference in shown:
        source = on_one_line(reference.source)
        where = f"{source}, p. {reference.page}" if reference.page else source
        print_line(f"  [{reference.id}] {on_one_line(reference.title)} ({where})")
        if found.request.include_chunk_content:
            print_line("      " + " ".join(reference.content.split()))
    if others and more:
        print()
        print_line(f"and {counted(len(others), 'other passage')} found, not cited: {more}")
