"""The access that each key and each group of users gives: to which workspaces, and with which
limits."""

import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.contract.conditions import refuse_properties
from pipeline.errors import SettingsError
from pipeline.project import Project
from pipeline.query.caller import RECORDS, Caller
from pipeline.query.request import as_operators
from pipeline.serve.queries import FAIR_SHARES
from pipeline.serve.turns import Claim
from pipeline.settings.keys import API_KEY, EVERYBODY, OPEN, key_faults
from pipeline.settings.schema import UNLIMITED, KeySettings, RightsSettings, ServeSettings, Settings

USER = "user:"
"""The prefix of a user's name in usage. No key's name can have a colon."""
USUAL_RECORDS = 100
"""The records that every caller may ask for, unless settings say otherwise."""


@dataclass(frozen=True)
class Access:
    """The access of one caller: who it is, and which workspaces it may ask.

    - ``project`` is over the workspace that is asked, ``served`` over the server's own, and
      ``projects`` over all workspaces that the caller may ask.
    - ``key`` is "" if none is needed.
    - An ``editor`` may make changes, if the settings allow changes at all; a ``writer`` may then
      send documents and request runs, which cost up to ``run_cost_per_day``.
    - ``person_here`` is for the person at this machine (``graphmill ui``), who may make changes
      even if ``serve.read_only`` is set.
    - ``user`` is a user whom another system has signed in. It may also be a user for whom a front
      end asks by its own key, one that ``acts_for_users``.
    - ``signed_in`` tells that a session of the page gives the access.
    - ``concurrency`` is how many of its queries may run at a time; None if nobody else can ask.
    """

    caller: Caller
    project: Project
    served: Project
    key: str = field(default="", repr=False)
    editor: bool = False
    writer: bool = False
    run_cost_per_day: float | None = None
    projects: tuple[Project, ...] = ()
    person_here: bool = False
    user: str = ""
    acts_for_users: bool = False
    signed_in: bool = False
    concurrency: int | None = None

    def claim(self, chat: bool) -> Claim:
        """Return the claim with which a query waits for its turn.

        ``chat`` says whether the query may ask a chat model. Each user of a front end takes turns
        as if the user had a key.
        """
        return Claim(self.turns_key, self.concurrency, chat)

    @property
    def turns_key(self) -> str:
        """Return the name by which the caller's requests are counted when keys take turns."""
        return f"{self.caller.name} {self.user}".strip()

    @property
    def workspace(self) -> str:
        return self.project.settings.workspace

    @property
    def workspaces(self) -> tuple[str, ...]:
        return tuple(one.settings.workspace for one in self.projects) or (self.workspace,)

    def at(self, workspace: str) -> "Access | None":
        """Return this access to another workspace; None if the caller may not ask it."""
        for project in (*self.projects, self.project):
            if project.settings.workspace == workspace:
                return replace(self, project=project)
        return None

    @property
    def at_home(self) -> bool:
        """Return whether the workspace is the project's own. Runs, pins and snapshots are about no
        other one."""
        return self.workspace == self.served.settings.workspace

    @property
    def may_change(self) -> bool:
        """Return whether the caller may make changes now, in this workspace."""
        if not self.at_home:
            return False
        return self.person_here or (self.editor and not self.project.settings.serve.read_only)

    @property
    def may_write(self) -> bool:
        """Return whether the caller may send documents and request runs now, in this workspace."""
        if not self.at_home or self.caller.where or self.project.view:
            return False
        return self.person_here or (self.writer and not self.project.settings.serve.read_only)


@dataclass(frozen=True)
class Users:
    """The access of users whom another system has signed in, by their group.

    A user in several groups has the access of the first one.
    """

    groups: Mapping[str, Access] = field(default_factory=dict)

    def access(
        self, user: str, groups: Collection[str], by_key: Access | None = None
    ) -> Access | None:
        """Return the access of a user in these groups; None if none of them is in the settings.

        ``by_key`` is the access of the front end that names the user. Calls are then recorded in
        its name and count towards its cost limit. If the settings have no groups, its users have
        its own rights.
        """
        if by_key and not self.groups:
            return replace(by_key, user=user)
        fitting = (self.groups[name] for name in self.groups if name == EVERYBODY or name in groups)
        of_group = next(fitting, None)
        if of_group is None:
            return None
        if by_key is None:
            caller = replace(of_group.caller, name=f"{USER}{user}")
            return replace(of_group, user=user, caller=caller)
        paying = by_key.caller
        caller = replace(of_group.caller, name=paying.name, cost_per_day=paying.cost_per_day)
        return replace(of_group, user=user, caller=caller, key=by_key.key)

    def known(self, groups: Collection[str]) -> list[str]:
        """Return those of the groups that settings have."""
        return [name for name in self.groups if name in groups]


@dataclass(frozen=True)
class AccessList:
    """The access of all possible callers.

    ``open`` is for callers without a key, None if a key is needed. ``person_here`` is one of
    ``keyed``, for the person at this machine alone.
    """

    keyed: tuple[Access, ...]
    open: Access | None
    person_here: Access | None = None
    users: Users = field(default_factory=Users)

    @property
    def any_for_users(self) -> bool:
        """Return whether any key acts for users, whom its requests name in headers."""
        return any(access.acts_for_users for access in self.keyed)

    def opened_by(self, given: Sequence[bytes]) -> Access | None:
        """Return the access that one of the given keys gives, else that of callers without a key.

        All keys are compared, each in a time that does not depend on how much of it fits.
        Otherwise an attacker could guess a key piece by piece from the time of the answer.
        """
        fitting = None
        for access in self.keyed:
            key = access.key.encode()
            fits = [secrets.compare_digest(one, key) for one in given]
            if any(fits) and fitting is None:
                fitting = access
        return fitting or self.open


def access_list_of(project: Project, for_person_here: bool = False) -> AccessList:
    """Return the access that the settings give to callers.

    With ``for_person_here`` the person at this machine has access, and nobody without a key. Raises
    SettingsError for a blank key, for a key that two have, and for conditions that make no sense.
    """
    settings = project.settings
    for fault in key_faults(settings.serve):
        raise SettingsError(fault)
    for view, one in settings.serve.views.items():
        _conditions(f"serve.views.{view}", one.where)
    share = _share(settings.serve, for_person_here)
    keyed = [_keyed(name, key, project) for name, key in settings.serve.keys.items()]
    groups = {}
    for name, rights in settings.serve.users.groups.items():
        groups[name] = _access_of(f"serve.users.groups.{name}", name, rights, project)
    users = Users(groups)
    api_key = settings.serve.api_key.get_secret_value()
    if api_key:
        caller = caller_of(API_KEY, settings)
        keyed.append(Access(caller, project, project, api_key, concurrency=share))
    anybody = caller_of(OPEN, settings)
    if for_person_here:
        # Nobody gets to know this key. It signs the sessions, so that they end with the process.
        secret = secrets.token_urlsafe(32)
        person_here = Access(
            anybody, project, project, secret, True, person_here=True, concurrency=share
        )
        return AccessList((*keyed, person_here), None, person_here, users)
    others_sign_in = bool(settings.serve.users.proxies or settings.serve.users.oidc.issuer)
    open_access = None if keyed or others_sign_in else Access(anybody, project, project)
    return AccessList(tuple(keyed), open_access, None, users)


def caller_of(name: str, settings: Settings) -> Caller:
    """Return a caller of this name with the limits of serve.allow."""
    allow, query = settings.serve.allow, settings.query
    # Without a limit in the settings, a caller may ask for what the defaults of a query ask for.
    default_records = [getattr(query, option) for option in RECORDS]
    return Caller(
        name,
        modes=allow.modes,
        models=(query.model,) if allow.models is None else allow.models,
        system_prompt=allow.system_prompt,
        max_records=allow.max_records or max(USUAL_RECORDS, *default_records),
        max_prompt_tokens=allow.max_prompt_tokens or query.max_total_tokens,
        max_calls=allow.max_calls or query.max_calls,
        shared_cost_per_day=None if allow.cost_per_day == UNLIMITED else allow.cost_per_day,
    )


def _keyed(name: str, key: KeySettings, project: Project) -> Access:
    access = _access_of(f"serve.keys.{name}", name, key, project)
    return replace(access, key=key.key.get_secret_value(), acts_for_users=key.acts_for_users)


def _conditions(section: str, where: Mapping[str, Any]) -> dict[str, Any]:
    try:
        refuse_properties(where, "values of properties depend on all documents")
        return as_operators(where)
    except ValueError as error:
        raise SettingsError(f"{section}.where: {error}") from None


def _access_of(where: str, name: str, key: RightsSettings, project: Project) -> Access:
    """Return the access with these rights; rights that are left out come from serve.allow.

    ``where`` is the place of the rights in the settings, and ``name`` the caller's name in usage.
    """
    conditions = _conditions(where, key.where)
    usual = caller_of(name, project.settings)
    caller = Caller(
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
        sees_internals=False,
    )
    if key.view:
        asked = (project.over_view(key.view),)
    else:
        asked = tuple(project.over(workspace) for workspace in key.workspace) or (project,)
    share = key.concurrency or _share(project.settings.serve)
    return Access(
        caller, asked[0], project, editor=key.editor, writer=key.writer,
        run_cost_per_day=key.run_cost_per_day,
        projects=asked,
        concurrency=share,
    )  # fmt: skip


def _share(serve: ServeSettings, for_person_here: bool = False) -> int | None:
    """Return how many queries of one caller may run at a time.

    None if there can be only one caller, who may use all places.
    """
    callers = len(serve.keys)
    if serve.api_key.get_secret_value():
        callers += 1
    if for_person_here:
        callers += 1
    has_users = bool(serve.users.groups or serve.users.proxies or serve.users.oidc.issuer)
    acts_for_users = any(key.acts_for_users for key in serve.keys.values())
    if callers <= 1 and not has_users and not acts_for_users:
        return None
    return serve.allow.concurrency or math.ceil(serve.concurrency / FAIR_SHARES)
