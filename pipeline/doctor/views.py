"""Examines the views of ``serve.views``: whether they can be made, their sizes, and what their
workspaces show."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from pipeline.contract.conditions import DATE, OWN
from pipeline.contract.views import is_made_by
from pipeline.doctor.conditions import unknown_fields
from pipeline.doctor.finding import Finding, finding_of
from pipeline.errors import StoreError
from pipeline.runs.adapters import postgres_store
from pipeline.runs.services import Services
from pipeline.runs.views import ViewSize, sizes_of_views
from pipeline.settings.schema import Settings
from pipeline.stores.base import Live

WHAT = "serve.views"


def examine_views(project: Services) -> Iterator[Finding]:
    """Yield findings on views; none without views. Loaded data are examined if the database
    answers."""
    views = {view: one.where for view, one in project.settings.serve.views.items()}
    if views:
        why = project.why_not_loadable()
        if why:
            yield finding_of("settings", WHAT, "failed", why)
        for size in sizes_of_views(project.snapshots.manifest(project.shown_workflow()), views):
            yield _finding_on_size(size)
    # A store that does not answer has a finding of its own.
    with suppress(StoreError):
        yield from _findings_on_stores(project)


def _finding_on_size(size: ViewSize) -> Finding:
    if size.documents is None:
        return Finding(
            "settings", WHAT, "warning", size.line(), "run 'graphmill plan', then 'graphmill run'"
        )
    if not size.documents:
        action = f"correct {WHAT}.{size.view}.where, unless no document is to be in it"
        return Finding("settings", WHAT, "warning", size.line(), action)
    return Finding("settings", WHAT, "ok", size.line())


def _findings_on_stores(project: Services) -> Iterator[Finding]:
    settings = project.settings
    yield from _unknown_fields(project.root, settings)
    loaded: dict[str, Live] = {}
    for shown in project.workspaces().values():
        loaded |= shown
    for view, one in settings.serve.views.items():
        workspace = settings.of_view(view).workspace
        live = loaded.get(workspace)
        if live and not is_made_by(live.version, one.where):
            fact = (
                f"view {view}: workspace '{workspace}' was loaded by other conditions, and keys do"
                " not reach it"
            )
            yield Finding("settings", WHAT, "warning", fact, "run 'graphmill run'")
    for workspace in project.removed_views():
        fact = f"workspace '{workspace}' is of a view that settings do not have any more"
        yield Finding(
            "settings", WHAT, "warning", fact, f"'graphmill workspace drop {workspace}' deletes it"
        )


def _unknown_fields(root: Path, settings: Settings) -> Iterator[Finding]:
    if not settings.serve.views:
        return
    with closing(postgres_store(settings, root)) as store:
        if settings.workspace not in store.workspaces():
            return
        have = {*OWN, DATE, *store.fields(settings.workspace)}
    for view, one in settings.serve.views.items():
        yield from unknown_fields(WHAT, f"{WHAT}.{view}.where", one.where, have)
