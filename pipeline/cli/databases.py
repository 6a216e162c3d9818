"""The commands of stores: the address of the database, a terminal to it, and its end."""

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import Folder, Overrides, open_project, print_aside
from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pipeline.project import Project


def stop(context: typer.Context, folder: Folder = None, overrides: Overrides = None) -> None:
    """Stop the embedded PostgreSQL, whoever uses it."""
    with open_project(context, folder, overrides) as project:
        from pipeline.runs.adapters import EMBEDDED_FOLDER
        from pipeline.stores.postgres.embedded import stop_embedded

        stopped = stop_embedded(project.root / EMBEDDED_FOLDER)
    print("stopped" if stopped else "not running")


def url(
    context: typer.Context, folder: Folder = None, overrides: Overrides = None,
    with_password: Annotated[
        bool, typer.Option("--with-password", help="Print the password too, if there is one.")
    ] = False,
) -> None:  # fmt: skip
    """Print the address of the PostgreSQL, embedded or not, without its password."""
    with open_project(context, folder, overrides) as project:
        was_running = _is_running(project)
        address = _address_of(project)
        shown = address if with_password else _split_password(address)[0]
    print(shown)
    if not was_running:
        print_aside(
            "the embedded PostgreSQL runs only while a command uses it, such as 'graphmill serve'"
            " or 'graphmill stores psql'"
        )


def psql(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTIONS]", help="Options of psql, such as -- -c 'SELECT 1'."),
    ] = None,
    folder: Folder = None, overrides: Overrides = None,
) -> None:  # fmt: skip
    """Open the PostgreSQL, embedded or not, in the psql that comes with the embedded one."""
    with open_project(context, folder, overrides) as project:
        from pipeline.stores.postgres.embedded import find_psql

        address, password = _split_password(_address_of(project))
        # All users of a machine can read the arguments of a process, but not its environment.
        environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
        # Ctrl-C ends a statement of psql, and not this process, by which the server goes on.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            command = [str(find_psql()), address, *(arguments or [])]
            done = subprocess.run(command, env=environment, check=False)  # noqa: S603 - no shell
        finally:
            signal.signal(signal.SIGINT, before)
    if done.returncode:
        raise typer.Exit(done.returncode)


def _is_running(project: "Project") -> bool:
    folder = project.embedded_folder
    return folder is None or (folder / "postmaster.pid").exists()


def _address_of(project: "Project") -> str:
    from pipeline.runs.adapters import postgres_url

    folder = project.embedded_folder
    if folder is not None and not folder.exists():
        raise UsageError(f"{folder}: no database yet; 'graphmill run' makes it")
    return postgres_url(project.settings, project.root)


def _split_password(address: str) -> tuple[str, str]:
    """Return the address without its passwords, and the password of the user, or "".

    The password of a client's key is in neither: psql asks for it, as libpq has no variable for it.
    """
    from sqlalchemy.engine import make_url

    found = make_url(address)
    query = dict(found.query)
    in_query = query.pop("password", "")
    of_key = query.pop("sslpassword", "")
    password = found.password or (in_query if isinstance(in_query, str) else "")
    if not (password or in_query or of_key):
        # It stays as it is: the folder of a socket may have spaces, which are written otherwise.
        return address, ""
    # None in the place of a password would leave it as it is in ``set``.
    plain = found.set(drivername="postgresql", query=query)._replace(password=None)
    return plain.render_as_string(hide_password=False), str(password)
