"""Examines the keys of ``graphmill serve``: whether each is valid and reaches what it names."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pipeline.contract.conditions import DATE, OWN
from pipeline.doctor.conditions import unknown_fields
from pipeline.doctor.finding import Finding, finding_of
from pipeline.errors import StoreError, counted
from pipeline.runs.adapters import postgres_store
from pipeline.settings.keys import key_faults, key_warnings, rights_by_place, unknown_models
from pipeline.settings.schema import Settings
from pipeline.settings.validation import did_you_mean

WHAT = "serve.keys"


def examine_keys(root: Path, settings: Settings) -> Iterator[Finding]:
    """Yield findings on the keys; none without keys. Loaded data are examined if the database
    answers."""
    faults = [*key_faults(settings.serve), *unknown_models(settings)]
    for fault in faults:
        yield finding_of("settings", WHAT, "failed", fault)
    warnings = list(key_warnings(settings.serve))
    for warning in warnings:
        yield finding_of("settings", WHAT, "warning", warning)
    try:
        doubts = list(_doubts(root, settings))
    except StoreError:
        # A store that does not answer has a finding of its own.
        doubts = []
    yield from doubts
    keys = settings.serve.keys
    if keys and not faults and not doubts and not warnings:
        fact = f"{counted(len(keys), 'key')} of their own: {', '.join(keys)}"
        yield Finding("settings", WHAT, "ok", fact)


def _doubts(root: Path, settings: Settings) -> Iterator[Finding]:
    narrowed = {
        where: rights
        for where, rights in rights_by_place(settings.serve).items()
        if rights.workspace or rights.where
    }
    if not narrowed:
        return
    with closing(postgres_store(settings, root)) as store:
        loaded = store.workspaces()
        for where, rights in narrowed.items():
            for workspace in rights.workspace or (settings.workspace,):
                if workspace in loaded:
                    fields = {*OWN, DATE, *store.fields(workspace)} if rights.where else OWN
                    yield from unknown_fields(WHAT, f"{where}.where", rights.where, fields)
                elif rights.workspace:
                    near = did_you_mean(workspace, loaded, "loaded are")
                    fact = f"{where}.workspace: nothing is loaded as '{workspace}'"
                    yield Finding(
                        "settings", WHAT, "warning", fact, f"load it, or correct the name: {near}"
                    )
