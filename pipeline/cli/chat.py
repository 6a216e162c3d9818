"""The command chat: one question after another in one conversation, with stores and models kept
open."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.ask import BROKEN_OFF, AnswerPrinter, print_sources
from pipeline.cli.options import Folder, Overrides, open_project, print_aside
from pipeline.cli.query_command import Mode, Model, Where
from pipeline.errors import GraphmillError

if TYPE_CHECKING:
    from pipeline.project import Project
    from pipeline.query.answer import Answer

HELP = (
    "/sources: all passages found for the last answer; /new: another conversation; /help; /quit, or"
    " Ctrl-D"
)
PROMPT = "> "


def chat(
    invocation: typer.Context,
    mode: Mode = None,
    where: Where = None,
    model: Model = None,
    language: Annotated[
        str | None, typer.Option(help="Of the answers; by default the question's.")
    ] = None,
    folder: Folder = None,
    overrides: Overrides = None,
) -> None:
    """Ask one question after another; each may refer to those before it."""
    with open_project(invocation, folder, overrides) as project:
        from pipeline.query.condition_lines import read_conditions

        options = {
            "mode": mode,
            "where": read_conditions(where or []),
            "model": model,
            "language": language,
        }
        project.request("Which options make sense?", **options)
        conversation = Conversation(project, options)
        print_aside(HELP)
        read = line_reader()
        while conversation.goes_on:
            try:
                line = read()
            except EOFError:
                break
            except KeyboardInterrupt:
                continue
            conversation.take(line.strip())


def line_reader() -> Callable[[], str]:
    """Return a function that reads a line from the person.

    With prompt_toolkit (the extra ``chat``) the line can be edited and earlier lines recalled.
    Without a terminal, lines of stdin are read without a prompt.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return input
    if not find_spec("prompt_toolkit"):
        return plain_line
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    return lambda: session.prompt(PROMPT)


def plain_line() -> str:
    """Read a line after the prompt.

    After Ctrl-C or Ctrl-D the cursor moves to a new line, as with prompt_toolkit.
    """
    try:
        return input(PROMPT)
    except (EOFError, KeyboardInterrupt):
        print()
        raise


@dataclass
class Conversation:
    """A conversation on the terminal.

    ``turns`` has the questions and answers so far, in the form of a request. A question that fails
    or is broken off by Ctrl-C is reported, and is not part of the conversation.
    """

    project: "Project"
    options: dict[str, Any]
    turns: list[dict[str, str]] = field(default_factory=list)
    last: "Answer | None" = None
    goes_on: bool = True

    def take(self, line: str) -> None:
        """Execute a command that begins with "/", or ask the line as a question."""
        if not line:
            return
        if line == "/quit":
            self.goes_on = False
        elif line == "/new":
            self.turns, self.last = [], None
        elif line == "/sources":
            if self.last is not None:
                print_sources(self.last, more="")
        elif line.startswith("/"):
            print_aside(HELP)
        else:
            self._ask(line)

    def _ask(self, question: str) -> None:
        from pipeline.query.stream import Done, Failed

        printer = AnswerPrinter(more="/sources")
        try:
            with printer.line_ended_on_error():
                events = self.project.query_stream(
                    question, conversation_history=list(self.turns), **self.options
                )
                for event in events:
                    if isinstance(event, Failed):
                        raise event.error
                    if isinstance(event, Done):
                        self._remember(question, event.answer)
                        printer.print_end(event.answer)
                    else:
                        printer.print_event(event)
        except GraphmillError as error:
            print_aside(str(error))
        except KeyboardInterrupt:
            print_aside(BROKEN_OFF)

    def _remember(self, question: str, answer: "Answer") -> None:
        self.last = answer
        self.turns += [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer.text},
        ]
