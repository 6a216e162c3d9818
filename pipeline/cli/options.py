"""What the commands share: their options, streams that outlive who reads them, and what becomes of
an error."""

import errno
import io
import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pipeline.engine.run_report import Outcome, RunReport
from pipeline.errors import GraphmillError, UsageError, counted, exit_code_of
from pipeline.runs.reports import Runs

if TYPE_CHECKING:
    from pipeline.project import Project


PATIENCE = 5.0
"""Seconds that a run's words wait for who has stopped reading: a pipe nobody empties, a terminal
held by Ctrl-S."""
GONE = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO, errno.ECONNRESET})
"""Nobody reads any more. That a disk is full is another thing: a result that cannot be written is
told."""


class CutOffError(OSError):
    """What is said on stdout can be written no further, as on a full disk."""


class UnbreakableStream(io.FileIO):
    """Writes to a descriptor, for as long as somebody reads it; afterwards what is written is lost.
    One that does not block, as another process may have set it, is waited for. ``whatever``: no
    fault at all ends the writer's work, nor does it wait long, for what it says is beside the point
    of it: where nobody has read for ``PATIENCE``, all is lost until somebody does."""

    def __init__(self, descriptor: int, whatever: bool) -> None:
        own = _never_waiting(descriptor) if whatever else None
        super().__init__(descriptor if own is None else own, "w", closefd=own is not None)
        self.whatever, self.patience = whatever, PATIENCE

    def write(self, content: Any, /) -> int:
        try:
            if self.whatever and not self._is_read():
                return memoryview(content).nbytes
            content = (
                memoryview(content)[: select.PIPE_BUF] if self.whatever else content
            )  # there is room for that
            while (written := super().write(content)) is None:
                if self.whatever:
                    break
                select.select([], [self], [])
        except OSError as error:
            if not self.whatever and error.errno not in GONE:
                raise CutOffError(error.errno, error.strerror) from error
            written = None
        return memoryview(content).nbytes if written is None else written

    def _is_read(self) -> bool:
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        there = bool(poll.poll(self.patience * 1000))
        self.patience = PATIENCE if there else 0.0
        return there


def _never_waiting(descriptor: int) -> int | None:
    """The terminal once more, so that a write takes what there is room for; the descriptor's own
    mode is shared with other processes. None for what is no terminal, or cannot be opened."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None


def outlive_readers() -> None:
    """From here on stdout and stderr are ``UnbreakableStream``. Those that are closed lead nowhere,
    so that no file that is opened later takes their place and is written into."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free: this one
    sys.stdout = _lasting(sys.stdout, 1, whatever=False)
    sys.stderr = _lasting(sys.stderr, 2, whatever=True)


def _lasting(stream: TextIO | None, descriptor: int, whatever: bool) -> TextIO:
    made = io.BufferedWriter(UnbreakableStream(descriptor, whatever))
    lines = whatever or os.isatty(descriptor)
    if stream is None:
        return io.TextIOWrapper(made, "utf-8", "replace", line_buffering=lines)
    stream.flush()
    return io.TextIOWrapper(made, stream.encoding, stream.errors, line_buffering=lines)


@contextmanager
def outlive_terminal() -> Iterator[None]:
    """The terminal may be closed meanwhile: the work goes on, as with nohup."""
    try:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    except ValueError:  # in another thread than the main one, where signals are nobody's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


STOPPED = "stopped; everything computed is kept: run the same command again to go on"

Folder = Annotated[Path | None, typer.Option("-C", metavar="DIR", help="The project's folder.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting for this run: a.b.c=value."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, or list, on stdout.")]


def _known_log(log: str) -> str:
    if log not in ("auto", "json"):
        raise typer.BadParameter("auto or json")
    return log


Log = Annotated[str, typer.Option(help="Progress on stderr: auto or json.", callback=_known_log)]
Name = Annotated[
    str | None,
    typer.Argument(metavar="WORKFLOW", help="By default the one that settings.yaml names."),
]
SHOWN = "By default the one that the workspace shows, else that of settings.yaml."
Shown = Annotated[str | None, typer.Argument(metavar="WORKFLOW", help=SHOWN)]
ShownToo = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help=SHOWN)]
"""Of a command whose arguments are others."""

TakeOver = Annotated[
    list[str] | None,
    typer.Option(
        "--take-over", metavar="OWNER", help="Also where it is this owner's; its rows are deleted."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def root_of(context: typer.Context, folder: Path | None) -> Path:
    """The project's folder: ``-C`` after the command, before it, or where one is."""
    return (folder or context.obj or Path()).resolve()


@contextmanager
def open_project(
    context: typer.Context,
    folder: Path | None,
    overrides: list[str] | None,
    as_json: bool = False,
    stopped: str = STOPPED,
) -> Iterator["Project"]:
    """The project; what goes wrong with it is told as ``errors_told`` does."""
    root = root_of(context, folder)
    with errors_told(root, as_json, stopped), project_of(root, overrides) as project:
        yield project


def project_of(root: Path, overrides: list[str] | None) -> "Project":
    """Imported here, so that what needs no project starts at once. Raises SettingsError."""
    from pipeline.project import Project
    from pipeline.settings.file import HANDED_ON

    return Project.open(root, [*json.loads(os.environ.get(HANDED_ON, "[]")), *(overrides or ())])


@contextmanager
def errors_told(root: Path, as_json: bool = False, stopped: str = STOPPED) -> Iterator[None]:
    """What goes wrong inside is one line on stderr, an exit code, and with --json a report.
    ``stopped``: what is said of Ctrl-C."""
    runs = Runs.of(root)
    last = runs.last()
    outcome: Outcome = "failed"
    try:
        yield
        return
    except GraphmillError as error:
        message, code = str(error), exit_code_of(error)
    except KeyboardInterrupt as error:
        outcome, message, code = "stopped", stopped, exit_code_of(error)
    except OSError as error:
        fact = f"{error.filename or 'system'}: {error.strerror or error}"
        message, code = f"{fact}; nothing computed is lost", exit_code_of(error)
    print_aside(message)
    if as_json:
        report = runs.last()
        broken_off = RunReport("", "", outcome, code, message=message)
        print_json(report if report and report != last else broken_off.to_json())
    raise typer.Exit(code)


def confirm_take_over(
    project: "Project", owners: Sequence[str], yes: bool, workspace: str | None = None
) -> None:
    """Ask before a workspace of other owners, by default that of the settings, is theirs no more.
    Nothing is asked where none is. Raises UsageError as ``ask`` does."""
    if not owners or yes:
        return
    taken = {
        store: live for store, live in project.others(workspace).items() if live.owner in owners
    }
    for store, live in taken.items():
        rows = sum(state.rows for state in live.tables.values())
        what = (
            f"{store}: workspace '{workspace or project.settings.workspace}' of owner {live.owner}"
        )
        print(
            f"{what}: workflow '{live.workflow}', {counted(rows, 'row')}, loaded from {live.place}",
            file=sys.stderr,
        )
    if taken:
        ask("These rows are deleted, and their owner is refused from now on. Go on?")


def ask(question: str) -> None:
    """Raises typer.Abort where the answer is not yes, UsageError where nobody is there to be asked,
    as in a crontab: silence is no yes."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask on ({question}); if this is meant, add --yes"
        )
    typer.confirm(question, abort=True, err=True)


def print_aside(*facts: str) -> None:
    """What is to be known beside the result: a line each on stderr."""
    for fact in facts:
        print(f"graphmill: {fact}", file=sys.stderr)


def listed(text: str) -> tuple[str, ...]:
    """What stands between its commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def print_json(content: Any) -> None:
    print(json.dumps(content, ensure_ascii=False, indent=1))
