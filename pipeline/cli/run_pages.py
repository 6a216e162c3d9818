"""report, run --report: a run as a page, for mail and for what CI keeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    open_project,
    print_aside,
    print_json,
    project_of,
)
from pipeline.errors import GraphmillError, UsageError, in_words
from pipeline.runs.reports import Runs

if TYPE_CHECKING:
    from pipeline.runs.nights import Night

SUFFIXES = frozenset({".html", ".htm"})
OURS = b"""Content-Security-Policy" content="default-src 'none'; style-src 'sha256-"""
"""That alone.html.j2 begins with, and that no other page is likely to have."""
LONGEST_HEAD = 10_000
OWN_FOLDERS = ("data", "prompts", "workflows")
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE.html", help="Write a page to look at.")
]
Run = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="Its id, or how it begins; by default the newest."),
]


def report(
    context: typer.Context, run: Run = None, html: Html = None, folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """One run: what it did, cost, wrote and left out; as a page that needs nothing else."""
    from pipeline.cli.history import print_night

    with open_project(context, folder, overrides, as_json) as project:
        if html is not None:
            refuse_page(html, "--html", project.root)
        night = project.night(run)
        if html is not None:
            write_page(night, html)
    if as_json:
        print_json(night.report or {"outcome": night.entry.outcome, "run_id": night.entry.run_id})
    elif html is None:
        print_night(night)


@contextmanager
def page_of_run(root: Path, overrides: list[str] | None, file: Path | None) -> Iterator[None]:
    """Write the page of the run that is made meanwhile, whatever becomes of it, also one that is
    refused before it begins; the run's end stays what it is where the page cannot be written then.
    Raises UsageError, before any work, where it could not be written."""
    if file is None:
        yield
        return
    refuse_page(file, "--report", root)
    runs = Runs.of(root)
    before = runs.known_ids()
    try:
        yield
    except BaseException as error:
        _write_or_tell(root, overrides, file, before, error)
        raise
    _write_or_tell(root, overrides, file, before, None)


def _write_or_tell(
    root: Path,
    overrides: list[str] | None,
    file: Path,
    before: list[str],
    error: BaseException | None,
) -> None:
    """As ``_write``; where it cannot be written, that is told beside what the run came to."""
    try:
        _write(root, overrides, file, before, error)
    except (GraphmillError, OSError) as fault:
        print_aside(
            f"--report {file}: {in_words(fault)}; 'graphmill report --html {file}' writes it"
        )


def _write(
    root: Path,
    overrides: list[str] | None,
    file: Path,
    before: list[str],
    error: BaseException | None,
) -> None:
    """``before``: the runs that are not this one."""
    from pipeline.runs.nights import refused

    made = [run_id for run_id in Runs.of(root).known_ids() if run_id not in before]
    if made:
        with project_of(root, overrides) as project:
            write_page(project.night(made[0]), file)
    elif error is not None:
        write_page(refused(error), file)


def write_page(night: "Night", file: Path) -> None:
    from pipeline.files import write_text
    from pipeline.runs.night_page import report_page

    write_text(file.resolve(), report_page(night))


def refuse_page(file: Path, option: str, root: Path) -> None:
    """Raises UsageError where no page can be written there, or something else than a page would be
    lost. ``root``: the project's folder."""
    refuse_unwritable(file, option)
    path = file.resolve()
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{option} {file}: no name of a page; name a file that ends in .html: {option}"
            " night.html"
        )
    if any(path.is_relative_to(root.resolve() / folder) for folder in OWN_FOLDERS):
        raise UsageError(
            f"{option} {file}: that is among the project's own files; name one elsewhere"
        )
    if path.exists() and not _is_page(path):
        raise UsageError(
            f"{option} {file}: another file has this name, no page of graphmill; delete it, or name"
            " another"
        )


def _is_page(path: Path) -> bool:
    """Or empty, as ``mktemp`` makes one."""
    with path.open("rb") as file:
        head = file.read(LONGEST_HEAD)
    return not head or OURS in head


def refuse_unwritable(file: Path, option: str) -> None:
    """Raises UsageError where no file can be written there: after hours of a run is too late to
    know."""
    from pipeline.files import refuse_no_file, temporary_file

    folder = file.resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {folder}; make it, or name another")
    if file.is_dir():
        raise UsageError(f"{option} {file}: that is a folder; name a file in it")
    refuse_no_file(file)
    try:
        with temporary_file(folder) as trial:
            trial.touch()
    except OSError as error:
        raise UsageError(
            f"{option} {file}: {folder}: {error.strerror}; name another folder"
        ) from error
