"""The command report and the option --report: a run as a page, to be mailed or kept by CI."""

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
    open_project_at,
    print_aside,
    print_json,
)
from pipeline.errors import GraphmillError, UsageError, in_words
from pipeline.runs.reports import Runs

if TYPE_CHECKING:
    from pipeline.runs.run_details import RunDetails

SUFFIXES = frozenset({".html", ".htm"})
OURS = b"""Content-Security-Policy" content="default-src 'none'; style-src 'sha256-"""
"""Text near the beginning of alone.html.j2, which no other page is likely to have."""
LONGEST_HEAD = 10_000
"""Bytes of a file in which ``OURS`` is searched for."""
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
    """Report one run: what it did, cost, wrote and left out; or write it as a page in one file."""
    from pipeline.cli.history import print_run_details

    with open_project(context, folder, overrides, as_json) as project:
        if html is not None:
            refuse_page(html, "--html", project.root)
        details = project.run_details(run)
        if html is not None:
            write_page(details, html)
    if as_json:
        print_json(
            details.report or {"outcome": details.entry.outcome, "run_id": details.entry.run_id}
        )
    elif html is None:
        print_run_details(details)


@contextmanager
def page_of_run(root: Path, overrides: list[str] | None, file: Path | None) -> Iterator[None]:
    """Write a page about the run that is made inside, however it ends.

    A run that is refused before it begins has a page too. If the page cannot be written at the end,
    that is reported, and the run's outcome does not change. Raises UsageError before any work if
    the file could not be written.
    """
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
    """Write the page of the run, or report on stderr that it cannot be written."""
    try:
        _write_page_of_new_run(root, overrides, file, before, error)
    except (GraphmillError, OSError) as fault:
        print_aside(
            f"--report {file}: {in_words(fault)}; 'graphmill report --html {file}' writes it"
        )


def _write_page_of_new_run(
    root: Path,
    overrides: list[str] | None,
    file: Path,
    before: list[str],
    error: BaseException | None,
) -> None:
    """Write the page of the run that is not among ``before``, the ids of earlier runs.

    If there is none, the run was refused by ``error``, and the page says so.
    """
    from pipeline.runs.run_details import refused

    made = [run_id for run_id in Runs.of(root).known_ids() if run_id not in before]
    if made:
        with open_project_at(root, overrides) as project:
            write_page(project.run_details(made[0]), file)
    elif error is not None:
        write_page(refused(error), file)


def write_page(details: "RunDetails", file: Path) -> None:
    from pipeline.files import write_text
    from pipeline.runs.run_page import report_page

    write_text(file.resolve(), report_page(details))


def refuse_page(file: Path, option: str, root: Path) -> None:
    """Check that a page can be written to the file, and replaces nothing but another page.

    ``option`` is named in messages, and ``root`` is the project's folder. Raises UsageError.
    """
    refuse_unwritable(file, option)
    path = file.resolve()
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{option} {file}: no name of a page; name a file that ends in .html: {option} run.html"
        )
    own_folders = [root.resolve() / folder for folder in OWN_FOLDERS]
    if any(path.is_relative_to(folder) for folder in own_folders):
        raise UsageError(
            f"{option} {file}: that is among the project's own files; name one elsewhere"
        )
    if path.exists() and not _is_page(path):
        raise UsageError(
            f"{option} {file}: another file has this name, no page of graphmill; delete it, or name"
            " another"
        )


def _is_page(path: Path) -> bool:
    """Return whether the file is a page of graphmill, or empty, as ``mktemp`` makes one."""
    with path.open("rb") as file:
        head = file.read(LONGEST_HEAD)
    return not head or OURS in head


def refuse_unwritable(file: Path, option: str) -> None:
    """Check that the file can be written, before hours of work whose result would be lost.

    Raises UsageError, which names ``option``.
    """
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
