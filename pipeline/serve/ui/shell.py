"""Describe the frame around each view: the workspace, the caller and its rights, and what is
loaded."""

from dataclasses import dataclass
from typing import Any, get_args

from pipeline.errors import GraphmillError, NothingLoadedError
from pipeline.pages.environment import texts
from pipeline.runs.reports import RunEntry
from pipeline.runs.services import DEFAULT
from pipeline.serve.access import Access
from pipeline.serve.failures import failure_of
from pipeline.settings.query_fields import Mode

VIEWS = {
    "ask": "", "graph": "graph", "documents": "documents", "corrections": "corrections",
    "runs": "runs",
}  # fmt: skip
"""View -> its address below the root."""


@dataclass(frozen=True)
class Shell:
    """The frame as the server renders it.

    ``who`` is the name of the user or the key, "" if none is needed or given. ``views`` has the
    names and addresses of the views that the caller may see.
    """

    who: str = ""
    workspace: str = ""
    workspaces: tuple[str, ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    signed_in: bool = False


def shell_of(access: Access | None) -> Shell:
    if access is None:
        return Shell()
    hidden = set()
    if access.caller.where:
        hidden = {"graph", "runs"}
    elif not access.at_home:
        hidden = {"runs"}
    if not access.may_change:
        hidden.add("corrections")
    views = tuple((name, address) for name, address in VIEWS.items() if name not in hidden)
    return Shell(
        _who(access),
        access.workspace,
        access.workspaces,
        views,
        signed_in=access.signed_in and not access.person_here,
    )


def _who(access: Access) -> str:
    """Return the name of the user, else of the key; "" if neither is needed."""
    if access.person_here or not (access.key or access.user):
        return ""
    return access.user or access.caller.name


def state_of(access: Access) -> dict[str, Any]:
    """Return the state of the page for its scripts, as JSON.

    ``problem`` says why nothing can be asked now, and ``command`` what would solve that, if a
    command does. ``editor`` says whether the caller may make changes, ``locked`` why not.
    ``loaded`` names the workflow that is shown and the run that loaded it, "" in a workspace that
    is not the project's own.
    """
    project, caller = access.project, access.caller
    query = project.settings.query
    chat = project.settings.models.chat.get(DEFAULT)
    return {
        "workspace": access.workspace,
        "workspaces": access.workspaces,
        "who": _who(access),
        "sees_all": not caller.where,
        "editor": access.may_change,
        "locked": locked(access),
        "modes": [mode for mode in caller.modes or get_args(Mode) if caller.may_ask(mode)],
        "mode": caller.usual_mode(query.mode),
        "chat": bool(chat and chat.configured),
        **_loaded(access),
    }


def locked(access: Access) -> str:
    """Return why the caller may make no changes, in words; "" if it may."""
    words = texts()["shell"]["read_only"]
    if access.may_change:
        return ""
    if not access.user and not access.key:
        return words["open"]
    if not access.editor:
        return words["user"] if access.user else words["key"]
    return words["settings"] if access.at_home else words["elsewhere"]


def _loaded(access: Access) -> dict[str, Any]:
    try:
        live = access.project.stores.live()
        if live is None:
            raise NothingLoadedError
    except NothingLoadedError:
        problem = texts()["shell"]["nothing_loaded"].format(workspace=access.workspace)
        return {"loaded": None, "problem": problem, "command": "graphmill run"}
    except GraphmillError as error:
        message = failure_of(error, access.caller.sees_internals).message
        problem = texts()["shell"]["unavailable"].format(problem=message)
        return {"loaded": None, "problem": problem, "command": ""}
    # Runs are about the project's own workspace alone.
    run = (access.project.runs.loaded(live.workflow) or "") if access.at_home else ""
    report = access.project.runs.report(run) if run else None
    began = RunEntry.of(report).began if report else ""
    loaded = {"workflow": live.workflow, "run": run, "began": began}
    return {"loaded": loaded, "problem": "", "command": ""}
