"""What the frame of each view says: of which workspace, who asks, what they may, and what is
loaded."""

from dataclasses import dataclass
from typing import Any, get_args

from pipeline.errors import GraphmillError, NothingLoadedError
from pipeline.pages.environment import texts
from pipeline.runs.reports import RunEntry
from pipeline.runs.services import DEFAULT
from pipeline.serve.doors import Door
from pipeline.serve.failures import failure_of
from pipeline.settings.query_fields import Mode

VIEWS = {"ask": "", "graph": "graph", "documents": "documents", "nights": "nights"}
"""Name -> address below the root."""


@dataclass(frozen=True)
class Shell:
    """``who``: the name of the user or the key, "" where none is wanted or given. ``views``: name
    and address of those that they may see."""

    who: str = ""
    workspace: str = ""
    workspaces: tuple[str, ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    signed_in: bool = False


def shell_of(door: Door | None) -> Shell:
    if door is None:
        return Shell()
    hidden = {"graph", "nights"} if door.asker.where else set() if door.at_home else {"nights"}
    views = tuple((name, address) for name, address in VIEWS.items() if name not in hidden)
    return Shell(
        _who(door),
        door.workspace,
        door.workspaces,
        views,
        signed_in=door.signed_in and not door.here,
    )


def _who(door: Door) -> str:
    """The user, else the key; "" where neither is wanted."""
    if door.here or not (door.key or door.user):
        return ""
    return door.user or door.asker.name


def state_of(door: Door) -> dict[str, Any]:
    """For scripts. ``problem`` says why nothing can be asked now, with ``command``, if one mends
    it. ``editor``: may change something; ``locked``: why not, in words. ``loaded``: the workflow
    that is shown, and the run that loaded it, "" in a workspace that runs do not fill."""
    project, asker = door.project, door.asker
    query = project.settings.query
    chat = project.settings.models.chat.get(DEFAULT)
    return {
        "workspace": door.workspace,
        "workspaces": door.workspaces,
        "who": _who(door),
        "sees_all": not asker.where,
        "editor": door.may_change,
        "locked": locked(door),
        "modes": [mode for mode in asker.modes or get_args(Mode) if asker.may_ask(mode)],
        "mode": asker.usual_mode(query.mode),
        "chat": bool(chat and chat.configured),
        **_loaded(door),
    }


def locked(door: Door) -> str:
    words = texts()["shell"]["read_only"]
    if door.may_change:
        return ""
    if door.user:
        return (
            words["user"]
            if not door.editor
            else words["settings"]
            if door.at_home
            else words["elsewhere"]
        )
    if not door.key:
        return words["open"]
    return (
        words["key"]
        if not door.editor
        else words["settings"]
        if door.at_home
        else words["elsewhere"]
    )


def _loaded(door: Door) -> dict[str, Any]:
    try:
        live = door.project.stores.live()
        if live is None:
            raise NothingLoadedError
    except NothingLoadedError:
        said = texts()["shell"]["nothing_loaded"].format(workspace=door.workspace)
        return {"loaded": None, "problem": said, "command": "graphmill run"}
    except GraphmillError as error:
        said = texts()["shell"]["unavailable"]
        return {
            "loaded": None,
            "problem": said.format(problem=failure_of(error, door.asker.all_told).message),
            "command": "",
        }
    run = (door.at_home and door.project.runs.loaded(live.workflow)) or ""
    report = door.project.runs.report(run) if run else None
    loaded = {
        "workflow": live.workflow,
        "run": run,
        "began": RunEntry.of(report).began if report else "",
    }
    return {"loaded": loaded, "problem": "", "command": ""}
