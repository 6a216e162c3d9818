"""Whom each key lets in: who they are, what they may ask for, and of which workspace."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pipeline.errors import SettingsError
from pipeline.project import Project
from pipeline.query.asker import RECORDS, Asker
from pipeline.query.request import as_operators
from pipeline.settings.keys import API_KEY, OPEN, key_faults
from pipeline.settings.schema import UNLIMITED, KeySettings, Settings

USUAL_RECORDS = 100
"""That anybody may ask for, unless settings say otherwise."""


@dataclass(frozen=True)
class Door:
    """``project``: over the workspace that is asked; ``served``: over its own. ``key``: "" where none is wanted;
    ``editor``: it may change something, where settings let anybody; ``projects``: over all workspaces that it may
    ask. ``here``: for the person at this machine (``graphmill ui``), who may change something as the settings stand."""

    asker: Asker
    project: Project
    served: Project
    key: str = field(default="", repr=False)
    editor: bool = False
    projects: tuple[Project, ...] = ()
    here: bool = False

    @property
    def workspace(self) -> str:
        return self.project.settings.workspace

    @property
    def workspaces(self) -> tuple[str, ...]:
        return tuple(one.settings.workspace for one in self.projects) or (self.workspace,)

    def at(self, workspace: str) -> "Door | None":
        """The same door to another workspace; None where it leads to none of that name."""
        of_that_name = (one for one in (*self.projects, self.project) if one.settings.workspace == workspace)
        found = next(of_that_name, None)
        return replace(self, project=found) if found else None

    @property
    def at_home(self) -> bool:
        """Whether the workspace is the project's own: runs, pins and snapshots tell of no other one."""
        return self.workspace == self.served.settings.workspace

    @property
    def may_change(self) -> bool:
        if not self.at_home:
            return False
        return self.here or (self.editor and not self.project.settings.serve.read_only)


@dataclass(frozen=True)
class Doors:
    """``open``: for those without a key; None where one is wanted. ``here``: one of ``keyed``, for the person at this
    machine alone."""

    keyed: tuple[Door, ...]
    open: Door | None
    here: Door | None = None

    def opened_by(self, given: Sequence[bytes]) -> Door | None:
        """All keys are compared, each in a time that does not tell how much of it fits."""
        fits = [[secrets.compare_digest(one, door.key.encode()) for one in given] for door in self.keyed]
        return next((door for door, fit in zip(self.keyed, fits, strict=True) if any(fit)), self.open)


def doors_of(project: Project, for_person_here: bool = False) -> Doors:
    """Return the doors that settings make.

    ``for_person_here``: there is one for the person at this machine, and none without a key. Raises SettingsError for a
    key that is blank or that two have, and for conditions that make no sense.
    """
    settings = project.settings
    for fault in key_faults(settings.serve):
        raise SettingsError(fault)
    keyed = [_door(name, key, project) for name, key in settings.serve.keys.items()]
    if api_key := settings.serve.api_key.get_secret_value():
        keyed.append(Door(asker_of(API_KEY, settings), project, project, api_key))
    if for_person_here:
        # Nobody is told this key: it signs the sessions, which so end with the process.
        here = Door(asker_of(OPEN, settings), project, project, secrets.token_urlsafe(32), True, here=True)
        return Doors((*keyed, here), None, here)
    return Doors(tuple(keyed), None if keyed else Door(asker_of(OPEN, settings), project, project))


def asker_of(name: str, settings: Settings) -> Asker:
    """Who may ask for all that serve.allow says."""
    allow, query = settings.serve.allow, settings.query
    return Asker(
        name,
        modes=allow.modes,
        models=(query.model,) if allow.models is None else allow.models,
        system_prompt=allow.system_prompt,
        max_records=allow.max_records or max(USUAL_RECORDS, *(getattr(query, option) for option in RECORDS)),
        max_prompt_tokens=allow.max_prompt_tokens or query.max_total_tokens,
        max_calls=allow.max_calls or query.max_calls,
        shared_cost_per_day=None if allow.cost_per_day == UNLIMITED else allow.cost_per_day,
    )


def _door(name: str, key: KeySettings, project: Project) -> Door:
    where = f"serve.keys.{name}"
    try:
        conditions = as_operators(key.where)
    except ValueError as error:
        raise SettingsError(f"{where}.where: {error}") from None
    usual = asker_of(name, project.settings)
    asker = Asker(
        name,
        modes=usual.modes if key.modes is None else key.modes,
        models=usual.models if key.models is None else key.models,
        system_prompt=usual.system_prompt if key.system_prompt is None else key.system_prompt,
        max_records=key.max_records or usual.max_records,
        max_prompt_tokens=key.max_prompt_tokens or usual.max_prompt_tokens,
        max_calls=key.max_calls or usual.max_calls,
        cost_per_day=key.cost_per_day,
        shared_cost_per_day=usual.shared_cost_per_day,
        where=conditions,
        apart=True,
        all_told=False,
    )
    asked = tuple(project.over(workspace) for workspace in key.workspace) or (project,)
    return Door(asker, asked[0], project, key.key.get_secret_value(), key.editor, asked)
