"""The workspace's owner in each store: whether this project may load, and whether it is a copy of another."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pipeline.doctor.finding import Finding
from pipeline.errors import StoreError
from pipeline.owner import has_owner, known_owner, settle
from pipeline.settings import Settings
from pipeline.stores.base import Store


def examine_owner(root: Path, settings: Settings, stores: Sequence[Store]) -> Iterator[Finding]:
    """Nothing of a store that does not answer: that is a finding of its own. Raises UsageError for a copy."""
    if has_owner(root):  # else it has never run, and looking makes none
        settle(root)
    owner = known_owner(root, settings.owner)
    for store in stores:
        with suppress(StoreError):
            yield _finding(store, owner)


def _finding(store: Store, owner: str) -> Finding:
    live, what = store.workspaces().get(store.workspace), f"{store.name} owner"
    if live is None:
        fact = f"workspace '{store.workspace}' is free; this project is owner {owner or 'of nothing yet'}"
        return Finding("stores", what, "ok", fact)
    fact = f"workspace '{store.workspace}' belongs to {live.owner or 'nobody'}"
    if not live.owner:
        action = "the next load makes it this project's; where it is not, set another workspace first"
        return Finding("stores", what, "warning", f"{fact}: an earlier version has loaded it", action)
    if live.owner == owner:
        return Finding("stores", what, "ok", f"{fact}, which is this project")
    action = f"set another workspace in settings.yaml; 'graphmill load --take-over {live.owner}' deletes its rows"
    return Finding("stores", what, "failed", f"{fact} (loaded from {live.place}), not to this project", action)
