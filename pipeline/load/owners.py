"""The owner of a workspace, and the refusals of what other projects may not do with it unasked."""

from collections.abc import Collection, Sequence

from pipeline.errors import OtherOwnerError
from pipeline.stores.base import Live, Store


def of_others(stores: Sequence[Store], owner: str, workspace: str | None = None) -> dict[str, Live]:
    """Return, by store, what the workspace shows if it belongs to another owner than ``owner``.

    ``workspace``: by default that of each store. A first load that has not ended counts as well.
    Rows without an owner belong to nobody: an earlier version of the software loaded them.
    """
    found: dict[str, Live] = {}
    for store in stores:
        live = store.workspaces().get(workspace or store.workspace)
        if live and is_of_another(live, owner):
            found[store.name] = live
    return found


def is_of_another(live: Live, owner: str) -> bool:
    """Return whether the rows have an owner, and another one than ``owner``."""
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
"""The advice in the refusal of verify. LOAD, DROP, OF_VIEW and READ are those of a load, of a drop,
of the load of a view, and of a reader."""


def refuse_other_owner(
    workspace: str, others: Collection[Live], take_over: Collection[str] = (), action: str = LOAD
) -> None:
    """Raise OtherOwnerError if one of ``others`` belongs to none of the owners in ``take_over``.

    ``others``: as ``of_others`` returns them. ``action``: the advice that ends the message, with
    the placeholders {owner} and {workspace}.
    """
    for live in others:
        if live.owner not in take_over:
            named = f", not to {' or '.join(take_over)}" if take_over else ""
            advice = action.format(owner=live.owner, workspace=workspace)
            raise OtherOwnerError(
                f"workspace '{workspace}': belongs to {describe_owner(live, named)}; {advice}"
            )


def describe_owner(live: Live, named: str = "") -> str:
    """Describe the owner and the place that the rows were loaded from.

    ``named``: text that follows the owner's name.
    """
    loaded_from = f" (loaded from {live.place})" if live.place else ""
    return f"owner {live.owner}{named}{loaded_from}"


def loaded_elsewhere(workspace: str, lives: Sequence[Live | None], place: str) -> str:
    """Return a warning if another folder had loaded this workspace for the same owner, else "".

    ``lives``: what the stores showed before this load. ``place``: "machine:folder" of this load.
    The same folder of another machine counts as the same: a new container has a new machine name.
    """
    if not place:
        return ""
    for live in lives:
        if live and live.place and _path_of(live.place) != _path_of(place):
            return (
                f"workspace '{workspace}': {live.place} had loaded it, for the same owner, and this"
                " load has replaced that; if both folders are in use, give each a workspace of"
                " its own"
            )
    return ""


def _path_of(place: str) -> str:
    """Return the folder of "machine:folder"."""
    return place.partition(":")[2]
