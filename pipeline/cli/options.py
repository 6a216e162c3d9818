"""Parts shared by all commands: common options, streams that survive a reader's end, and the report
of errors."""

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
from pipeline.runs.run_log import LogLines

if TYPE_CHECKING:
    from pipeline.project import Project


PATIENCE = 5.0
"""Seconds that messages on stderr wait for a reader who has stopped reading, as with a pipe that
nobody empties or a terminal held by Ctrl-S."""
GONE = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO, errno.ECONNRESET})
"""Error numbers that mean that nobody reads any more. A full disk is not among them: a result that
cannot be written is an error."""


class CutOffError(OSError):
    """A result on stdout that can be written no further, as on a full disk."""


class UnbreakableStream(io.FileIO):
    """A stream that writes to a descriptor while somebody reads it, and discards output afterwards.

    A descriptor in non-blocking mode, which another process may have set, is waited for.

    With ``whatever`` the output is only messages about the work, and nothing about the stream may
    end or delay the work. No error is raised then, and the stream does not wait long for a reader:
    after ``PATIENCE`` seconds without one it discards everything until somebody reads again.
    """

    def __init__(self, descriptor: int, whatever: bool) -> None:
        own = _reopen_without_blocking(descriptor) if whatever else None
        super().__init__(descriptor if own is None else own, "w", closefd=own is not None)
        self.whatever, self.patience = whatever, PATIENCE

    def write(self, content: Any, /) -> int:
        """Write the content, or discard it; return how many bytes count as written."""
        try:
            if self.whatever and not self._is_read():
                return memoryview(content).nbytes
            if self.whatever:
                # A pipe that is ready for writing has room for this many bytes, so it won't block.
                content = memoryview(content)[: select.PIPE_BUF]
            written = super().write(content)
            # None means that a descriptor in non-blocking mode has no room.
            while written is None and not self.whatever:
                select.select([], [self], [])
                written = super().write(content)
        except OSError as error:
            if not self.whatever and error.errno not in GONE:
                raise CutOffError(error.errno, error.strerror) from error
            written = None
        return memoryview(content).nbytes if written is None else written

    def _is_read(self) -> bool:
        """Return whether there is room to write within the patience left.

        The patience is used up by one failure, so that not every message waits again.
        """
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        there = bool(poll.poll(self.patience * 1000))
        self.patience = PATIENCE if there else 0.0
        return there


def _reopen_without_blocking(descriptor: int) -> int | None:
    """Open the descriptor's terminal again in non-blocking mode; None if there is no terminal.

    A write then takes as many bytes as there is room for. The mode of the given descriptor is not
    changed, because it is shared with other processes.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None


def outlive_readers() -> None:
    """Replace stdout and stderr by streams of the kind ``UnbreakableStream``.

    Standard descriptors that are closed are opened on the null device. Otherwise a file that is
    opened later would get such a number, and messages would be written into it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is taken, which is this descriptor.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _unbreakable(sys.stdout, 1, whatever=False)
    sys.stderr = _unbreakable(sys.stderr, 2, whatever=True)


def _unbreakable(stream: TextIO | None, descriptor: int, whatever: bool) -> TextIO:
    """Return a text stream over an ``UnbreakableStream``, with the encoding of ``stream``."""
    made = io.BufferedWriter(UnbreakableStream(descriptor, whatever))
    lines = whatever or os.isatty(descriptor)
    if stream is None:
        return io.TextIOWrapper(made, "utf-8", "replace", line_buffering=lines)
    stream.flush()
    return io.TextIOWrapper(made, stream.encoding, stream.errors, line_buffering=lines)


@contextmanager
def outlive_terminal() -> Iterator[None]:
    """Let the work inside go on if the terminal is closed meanwhile, as with nohup."""
    try:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    except ValueError:  # Only the main thread may set signal handlers.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


STOPPED = "stopped; everything computed is kept: run the same command again to go on"
"""The message after Ctrl-C of a command that goes on where it was stopped."""
STOPPED_LOOKING = "stopped: run the same command again"
"""The message of a command that computes nothing for a later one."""

Folder = Annotated[
    Path | None, typer.Option("-C", metavar="DIR", help="The project's folder; else this one.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting for this command: a.b.c=value."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, or list, on stdout.")]


def _check_log(log: str) -> str:
    if log not in ("auto", "json"):
        raise typer.BadParameter("auto or json")
    return log


Log = Annotated[str, typer.Option(help="Progress on stderr: auto or json.", callback=_check_log)]
Name = Annotated[
    str | None,
    typer.Argument(metavar="WORKFLOW", help="By default the one that settings.yaml names."),
]
SHOWN = "By default the one that the workspace shows, else that of settings.yaml."
Shown = Annotated[str | None, typer.Argument(metavar="WORKFLOW", help=SHOWN)]
ShownToo = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help=SHOWN)]
"""The workflow as an option, for a command that has other arguments."""

TakeOver = Annotated[
    list[str] | None,
    typer.Option(
        "--take-over",
        metavar="OWNER",
        help="Go on though it is this owner's; its rows are deleted.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def find_root(context: typer.Context, folder: Path | None) -> Path:
    """Return the project's folder: that of ``-C`` after the command or before it, else the current
    one."""
    return (folder or context.obj or Path()).resolve()


@contextmanager
def open_project(
    context: typer.Context,
    folder: Path | None,
    overrides: list[str] | None,
    as_json: bool = False,
    stopped: str = STOPPED_LOOKING,
) -> Iterator["Project"]:
    """Open the project of a command; errors inside are reported as by ``report_errors``."""
    root = find_root(context, folder)
    with report_errors(root, as_json, stopped), open_project_at(root, overrides) as project:
        yield project


def open_project_at(root: Path, overrides: list[str] | None) -> "Project":
    """Open the project in a folder, with overrides of settings.

    Overrides that another command has handed on come first. Raises SettingsError.
    """
    # Imported here, so that commands that need no project start at once.
    from pipeline.project import Project
    from pipeline.settings.file import HANDED_ON

    return Project.open(root, [*json.loads(os.environ.get(HANDED_ON, "[]")), *(overrides or ())])


@contextmanager
def report_errors(
    root: Path, as_json: bool = False, stopped: str = STOPPED, log: str = "auto"
) -> Iterator[None]:
    """Report an error inside as one line on stderr and an exit code, with --json also as JSON.

    The JSON is the report of the run that failed, else a report with the message alone.
    ``stopped`` is the message after Ctrl-C. With a ``log`` "json" the line is JSON too.
    """
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
    report = runs.last()
    # Another run may have saved a report meanwhile, and an error may come after a good one.
    has_report = report is not None and report != last and report["exit_code"] == code
    if log != "json":
        print_aside(message)
    elif not has_report:
        # The last event of a run that has begun tells the error.
        LogLines(root, print_whole).tell_error(message, code)
    if as_json:
        broken_off = RunReport("", "", outcome, code, message=message)
        print_json(report if has_report else broken_off.to_json())
    raise typer.Exit(code)


def confirm_take_over(
    project: "Project", owners: Sequence[str], yes: bool, workspace: str | None = None
) -> None:
    """Ask before a workspace is taken over from one of these owners.

    By default it is the workspace of the settings. Nothing is asked if no store shows it for one of
    the owners, or with ``yes``. Raises UsageError as ``ask`` does.
    """
    if not owners or yes:
        return
    others = project.others(workspace)
    taken = {store: live for store, live in others.items() if live.owner in owners}
    name = workspace or project.settings.workspace
    for store, live in taken.items():
        rows = sum(state.rows for state in live.tables.values())
        print(
            f"{store}: workspace '{name}' of owner {live.owner}: workflow '{live.workflow}',"
            f" {counted(rows, 'row')}, loaded from {live.place}",
            file=sys.stderr,
        )
    if taken:
        ask("These rows are deleted, and their owner is refused from now on. Go on?")


def ask(question: str) -> None:
    """Ask a question on the terminal; return if the answer is yes.

    Raises typer.Abort for any other answer, and UsageError without a terminal, as in a crontab.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask on ({question}); if this is meant, add --yes"
        )
    typer.confirm(question, abort=True, err=True)


def print_aside(*facts: str) -> None:
    """Print each fact as a line on stderr; stdout is for results."""
    for fact in facts:
        print(f"graphmill: {fact}", file=sys.stderr)


def print_whole(text: str) -> None:
    """Print a text on stderr with one write, because another thread may print as well."""
    sys.stderr.write(text)
    sys.stderr.flush()


def split_list(text: str) -> tuple[str, ...]:
    """Return the values of a comma-separated list, without empty ones."""
    stripped = (part.strip() for part in text.split(","))
    return tuple(part for part in stripped if part)


def print_json(content: Any) -> None:
    print(json.dumps(content, ensure_ascii=False, indent=1))
