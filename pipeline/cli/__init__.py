"""The graphmill command.

A command imports heavy libraries only when it needs them, so that --help and status answer at once.
"""

import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from pipeline.cli import (
    ask,
    backup,
    build,
    chat,
    checks,
    corrections,
    databases,
    docs,
    evaluate,
    export,
    gc,
    history,
    import_index,
    ontology,
    purge,
    resolutions,
    run_pages,
    serve,
    subject,
    tables,
    worker,
    workspaces,
)
from pipeline.cli.options import CutOffError, Folder, outlive_readers, print_aside
from pipeline.errors import FAILED, Terminated, exit_code_of

VALUES = {
    "str": "TEXT", "text": "TEXT", "int": "N", "integer": "N", "int range": "N",
    "integer range": "N", "float": "NUMBER", "float range": "NUMBER",
}  # fmt: skip
"""The type of an option -> what stands for its value in --help and on the page of commands."""


class Group(TyperGroup):
    """A group of commands, whose help is read by people who do not know Python's types."""

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        for command in self.commands.values():
            for part in command.params:
                if isinstance(part, TyperOption) and not part.is_flag and part.metavar is None:
                    part.metavar = VALUES.get(part.type.name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands with their full help; typer would shorten it."""
        rows = [(name, command.help or "") for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Commands(Group):
    """The group of all commands.

    It also reports Ctrl-C while a command still imports libraries, before its project is open.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            print_aside("interrupted before it began")
            raise typer.Exit(exit_code_of(interrupt)) from None


app = typer.Typer(
    cls=Commands,
    help=(
        "Make a knowledge graph of a folder of documents, keep it up to date, and answer questions"
        " over it. Begin with 'graphmill init my-project --sample'; 'graphmill docs first-graph'"
        " leads on."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # The import of rich would take longer than the rest of --help.
)
COMMANDS = (
    build.init, build.tune, build.plan, build.convert, build.index, build.load, build.run,
    build.retry,
    checks.verify, history.status,
    history.runs, history.documents, run_pages.report, checks.rejects, checks.usage,
    checks.doctor,
    checks.check_laws, gc.gc, purge.purge, subject.subject, backup.backup, backup.restore,
    export.export, ask.query, chat.chat, ask.questions, serve.serve,
    serve.ui, serve.mcp, worker.worker, docs.docs,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)
app.command("eval")(evaluate.evaluate)


def _add_group(name: str, about: str) -> typer.Typer:
    """Add an empty group of commands, and return it."""
    group = typer.Typer(cls=Group, help=about, no_args_is_help=True)
    app.add_typer(group, name=name)
    return group


stores_app = _add_group("stores", "Look into the database, or stop the embedded one.")
stores_app.command()(databases.url)
stores_app.command()(databases.psql)
stores_app.command()(databases.stop)
workspace_app = _add_group("workspace", "List or delete what the databases hold of a project.")
workspace_app.command("list")(workspaces.list_workspaces)
workspace_app.command("drop")(workspaces.drop_workspace)
resolutions_app = _add_group("resolutions", "Decide which names are one entity.")
resolutions_app.command("list")(resolutions.list_resolutions)
resolutions_app.command("pin")(resolutions.pin)
resolutions_app.command("undo")(resolutions.undo)
corrections_app = _add_group("corrections", "Correct the graph by hand; each later run follows.")
corrections_app.command("list")(corrections.list_corrections)
corrections_app.command("add")(corrections.add)
corrections_app.command("undo")(corrections.undo)
corrections_app.command("apply")(corrections.apply)
corrections_app.command("suspects")(corrections.suspects)
ontology_app = _add_group("ontology", "Ask for the types that the graph may have.")
ontology_app.command()(ontology.adopt)
import_app = _add_group("import", "Take over a graph, a table or an ontology made elsewhere.")
import_app.command("graphrag")(import_index.import_graphrag)
import_app.command("lightrag")(import_index.import_lightrag)
import_app.command("ontology")(ontology.import_ontology)
import_app.command("triples")(tables.import_triples)
import_app.command("cypher")(tables.import_cypher)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"graphmill {version('graphmill')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
]


@app.callback()
def options(context: typer.Context, folder: Folder = None, version: Version = False) -> None:
    context.obj = folder


def main() -> None:
    """Run the command that the process was started with."""
    # Arrow's own memory pool would keep the memory that a finished step has released.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    outlive_readers()
    signal.signal(signal.SIGTERM, _terminate)
    # nohup has the signal ignored, and it stays so.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _terminate)
    try:
        _run_command()
    finally:
        # The result is printed. Ctrl-C must not interrupt the stop of the embedded server.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_command() -> None:
    """Run the command, then flush stdout, so that a full disk is reported like other errors."""
    code: str | int | None = FAILED
    try:
        try:
            app()
        except SystemExit as end:
            code = end.code
            sys.stdout.flush()
            raise
    except CutOffError as error:
        print_aside(f"stdout: {error.strerror}; the result is cut off: print it again")
        # Python would flush stdout at exit, which would fail as well.
        sys.stdout = None
        raise SystemExit(code or FAILED) from None


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
