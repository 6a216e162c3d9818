"""Whom each key lets in: who they are, what they may ask for, and of which workspace."""

import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.errors import SettingsError
from pipeline.project import Project
from pipeline.query.asker import RECORDS, Asker
from pipeline.query.request import as_operators
from pipeline.serve.queries import FAIR_SHARES
from pipeline.serve.turns import Claim
from pipeline.settings.keys import API_KEY, EVERYBODY, OPEN, key_faults
from pipeline.settings.schema import UNLIMITED, KeySettings, RightsSettings, ServeSettings, Settings

USER = "user:"
"""Before a user's name in usage: no key's name has such a sign."""
USUAL_RECORDS = 100
"""That anybody may ask for, unless settings say otherwise."""


@dataclass(frozen=True)
class Door:
    """``project``: over the workspace that is asked; ``served``: over its own. ``key``: "" where
    none is wanted; ``editor``: it may change something, where settings let anybody; ``projects``:
    over all workspaces that it may ask. ``here``: for the person at this machine (``graphmill
    ui``), who may change something as the settings stand. ``user``: whom something else has signed
    in, or for whom a front end asks by its key, one that ``acts_for_users``. ``signed_in``: by a
    session of the page. ``concurrency``: of its queries at a time; None where nobody else asks."""

    asker: Asker
    project: Project
    served: Project
    key: str = field(default="", repr=False)
    editor: bool = False
    projects: tuple[Project, ...] = ()
    here: bool = False
    user: str = ""
    acts_for_users: bool = False
    signed_in: bool = False
    concurrency: int | None = None

    def claim(self, chat: bool) -> Claim:
        """Return what its query waits for a turn with; ``chat``: whether it may ask a chat model.

        The users of a front end take turns with each other as if each had a key.
        """
        return Claim(f"{self.asker.name} {self.user}".strip(), self.concurrency, chat)

    @property
    def workspace(self) -> str:
        return self.project.settings.workspace

    @property
    def workspaces(self) -> tuple[str, ...]:
        return tuple(one.settings.workspace for one in self.projects) or (self.workspace,)

    def at(self, workspace: str) -> "Door | None":
        """The same door to another workspace; None where it leads to none of that name."""
        of_that_name = (
            one for one in (*self.projects, self.project) if one.settings.workspace == workspace
        )
        found = next(of_that_name, None)
        return replace(self, project=found) if found else None

    @property
    def at_home(self) -> bool:
        """Whether the workspace is the project's own: runs, pins and snapshots tell of no other
        one."""
        return self.workspace == self.served.settings.workspace

    @property
    def may_change(self) -> bool:
        if not self.at_home:
            return False
        return self.here or (self.editor and not self.project.settings.serve.read_only)


@dataclass(frozen=True)
class Users:
    """People whom something else has signed in: what each group may, in the order that decides
    between several."""

    groups: Mapping[str, Door] = field(default_factory=dict)

    def door(self, user: str, groups: Collection[str], by_key: Door | None = None) -> Door | None:
        """Return the door of a user in these groups; None where no group of the settings is among
        them.

        ``by_key``: the door of the front end that names them, in whose name and at whose limit they
        spend. Where settings have no groups, its users have its rights.
        """
        if by_key and not self.groups:
            return replace(by_key, user=user)
        of_group = next(
            (door for name, door in self.groups.items() if name == EVERYBODY or name in groups),
            None,
        )
        if of_group is None:
            return None
        if by_key is None:
            return replace(of_group, user=user, asker=replace(of_group.asker, name=f"{USER}{user}"))
        asker = replace(
            of_group.asker, name=by_key.asker.name, cost_per_day=by_key.asker.cost_per_day
        )
        return replace(of_group, user=user, asker=asker, key=by_key.key)

    def known(self, groups: Collection[str]) -> list[str]:
        """Return those of the groups that settings have."""
        return [name for name in self.groups if name in groups]


@dataclass(frozen=True)
class Doors:
    """``open``: for those without a key; None where one is wanted. ``here``: one of ``keyed``, for
    the person at this machine alone."""

    keyed: tuple[Door, ...]
    open: Door | None
    here: Door | None = None
    users: Users = field(default_factory=Users)

    @property
    def any_for_users(self) -> bool:
        """Whether any key acts for users, so that the headers that name them mean something beside
        a key."""
        return any(door.acts_for_users for door in self.keyed)

    def opened_by(self, given: Sequence[bytes]) -> Door | None:
        """All keys are compared, each in a time that does not tell how much of it fits."""
        fits = [
            [secrets.compare_digest(one, door.key.encode()) for one in given] for door in self.keyed
        ]
        return next(
            (door for door, fit in zip(self.keyed, fits, strict=True) if any(fit)), self.open
        )


def doors_of(project: Project, for_person_here: bool = False) -> Doors:
    """Return the doors that settings make.

    ``for_person_here``: there is one for the person at this machine, and none without a key. Raises
    SettingsError for a key that is blank or that two have, and for conditions that make no sense.
    """
    settings = project.settings
    for fault in key_faults(settings.serve):
        raise SettingsError(fault)
    for view, one in settings.serve.views.items():
        _conditions(f"serve.views.{view}", one.where)
    share = _share(settings.serve, for_person_here)
    keyed = [_keyed(name, key, project) for name, key in settings.serve.keys.items()]
    groups = {name: _door(f"serve.users.groups.{name}", name, rights, project)
              for name, rights in settings.serve.users.groups.items()}  # fmt: skip
    users = Users(groups)
    if api_key := settings.serve.api_key.get_secret_value():
        keyed.append(
            Door(asker_of(API_KEY, settings), project, project, api_key, concurrency=share)
        )
    if for_person_here:
        # Nobody is told this key: it signs the sessions, which so end with the process.
        secret = secrets.token_urlsafe(32)
        here = Door(
            asker_of(OPEN, settings), project, project, secret, True, here=True, concurrency=share
        )
        return Doors((*keyed, here), None, here, users)
    named = bool(settings.serve.users.proxies or settings.serve.users.oidc.issuer)
    open_door = None if keyed or named else Door(asker_of(OPEN, settings), project, project)
    return Doors(tuple(keyed), open_door, None, users)


def asker_of(name: str, settings: Settings) -> Asker:
    """Who may ask for all that serve.allow says."""
    allow, query = settings.serve.allow, settings.query
    return Asker(
        name,
        modes=allow.modes,
        models=(query.model,) if allow.models is None else allow.models,
        system_prompt=allow.system_prompt,
        max_records=allow.max_records
        or max(USUAL_RECORDS, *(getattr(query, option) for option in RECORDS)),
        max_prompt_tokens=allow.max_prompt_tokens or query.max_total_tokens,
        max_calls=allow.max_calls or query.max_calls,
        shared_cost_per_day=None if allow.cost_per_day == UNLIMITED else allow.cost_per_day,
    )


def _keyed(name: str, key: KeySettings, project: Project) -> Door:
    door = _door(f"serve.keys.{name}", name, key, project)
    return replace(door, key=key.key.get_secret_value(), acts_for_users=key.acts_for_users)


def _conditions(section: str, where: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return as_operators(where)
    except ValueError as error:
        raise SettingsError(f"{section}.where: {error}") from None


def _door(where: str, name: str, key: RightsSettings, project: Project) -> Door:
    """``where``: its place in the settings; ``name``: by which usage knows it."""
    conditions = _conditions(where, key.where)
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
    if key.view:
        asked = (project.over_view(key.view),)
    else:
        asked = tuple(project.over(workspace) for workspace in key.workspace) or (project,)
    share = key.concurrency or _share(project.settings.serve)
    return Door(asker, asked[0], project, editor=key.editor, projects=asked, concurrency=share)


def _share(serve: ServeSettings, for_person_here: bool = False) -> int | None:
    """Return how many queries of one asker may run at a time; None where only one can ask, who has
    all places."""
    askers = len(serve.keys) + bool(serve.api_key.get_secret_value()) + for_person_here
    users = serve.users.groups or serve.users.proxies or serve.users.oidc.issuer
    several = askers > 1 or users or any(key.acts_for_users for key in serve.keys.values())
    return (
        (serve.allow.concurrency or math.ceil(serve.concurrency / FAIR_SHARES)) if several else None
    )
