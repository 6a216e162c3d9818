"""Whose a workspace is, and what others may not do with it unasked."""

from collections.abc import Collection, Sequence

from pipeline.errors import OtherOwnerError
from pipeline.stores.base import Live, Store


def of_others(stores: Sequence[Store], owner: str, workspace: str | None = None) -> dict[str, Live]:
    """Store -> what it shows in the workspace, by default its own, for another owner, a load that
    has not ended included. What has no owner is nobody's: a version of the software that kept none
    has loaded it."""
    shown = {store.name: store.workspaces().get(workspace or store.workspace) for store in stores}
    return {name: live for name, live in shown.items() if live and is_of_another(live, owner)}


def is_of_another(live: Live, owner: str) -> bool:
    return live.owner not in ("", owner)


LOAD = (
    "set another workspace in settings.yaml, or, to delete its rows and own it from now on, add"
    " --take-over {owner}"
)
DROP = "to delete it all the same add --take-over {owner}"
OF_VIEW = (
    "it is the one of a view: give the view another name in serve.views, set another workspace, or"
    " delete it first by 'graphmill workspace drop {workspace} --take-over {owner}'"
)
READ = (
    "to read it all the same name it: --set workspace={workspace}; to have this project's rows"
    " there 'graphmill load --take-over {owner}', else set another workspace in settings.yaml"
)
VERIFY = (
    "so nothing is compared: set another workspace in settings.yaml, or 'graphmill load --take-over"
    " {owner}', which deletes its rows"
)
"""What to do where a load, a drop, the load of a view, a reader, or verify is refused."""


def refuse_other_owner(
    workspace: str, others: Collection[Live], take_over: Collection[str] = (), action: str = LOAD
) -> None:
    """Raises OtherOwnerError where one of ``others`` (see ``of_others``) belongs to none of the
    owners in ``take_over``. ``action``: what to do about it, with {owner} and {workspace}."""
    for live in others:
        if live.owner not in take_over:
            named = f", not to {' or '.join(take_over)}" if take_over else ""
            told = action.format(owner=live.owner, workspace=workspace)
            raise OtherOwnerError(
                f"workspace '{workspace}': belongs to {told_owner(live, named)}; {told}"
            )


def told_owner(live: Live, named: str = "") -> str:
    """Whose it is, and where it was loaded from; ``named``: what else was said of the owner."""
    return f"owner {live.owner}{named}{f' (loaded from {live.place})' if live.place else ''}"


def loaded_elsewhere(workspace: str, lives: Sequence[Live | None], place: str) -> str:
    """Where another folder than ``place`` has loaded what the owner's workspace shows, what is to
    be known of it; else empty. The same folder of another machine counts as this one: so looks what
    a fresh container has loaded."""
    for live in filter(None, lives):
        if live.place and place and _folder(live.place) != _folder(place):
            return (
                f"workspace '{workspace}': {live.place} had loaded it, for the same owner, and this"
                " load has replaced that; if both folders are in use, give each a workspace of"
                " its own"
            )
    return ""


def _folder(place: str) -> str:
    return place.partition(":")[2]
