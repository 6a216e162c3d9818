"""Check the keys and users under ``serve`` in the settings alone, before a project is loaded.

Faults stop the server; warnings are printed.
"""

from collections.abc import Iterator

from pipeline.settings.query_fields import PASSAGE_MODES, SHARED_DATA_MODES
from pipeline.settings.schema import KeySettings, RightsSettings, ServeSettings, Settings
from pipeline.settings.validation import did_you_mean

API_KEY, OPEN, STDIO = "api_key", "open", "mcp"
"""Names of callers without a key of their own: by serve.api_key, without any key on a server that
wants none, and over stdin."""
EVERYBODY = "*"
"""The group of all users."""
SHORTEST = 16
"""The characters that a key should have at least; a shorter one gets a warning. A random key of
this length cannot be guessed in practice."""


def rights_by_place(serve: ServeSettings) -> dict[str, RightsSettings]:
    """Return the rights of every key and of every group of users, by their place in the
    settings."""
    rights: dict[str, RightsSettings] = {
        f"serve.keys.{name}": key for name, key in serve.keys.items()
    }
    rights |= {f"serve.users.groups.{name}": group for name, group in serve.users.groups.items()}
    return rights


def unknown_models(settings: Settings) -> Iterator[str]:
    """Yield a message for each model that a key or a group may ask for and that is not there."""
    named = {"serve.allow": settings.serve.allow.models}
    named |= {where: rights.models for where, rights in rights_by_place(settings.serve).items()}
    for where, models in named.items():
        for model in models or ():
            if model not in settings.models.chat:
                near = did_you_mean(model, settings.models.chat, "models.chat has")
                yield f"{where}.models: there is no chat model '{model}'; {near}"


def key_warnings(serve: ServeSettings) -> Iterator[str]:
    """Yield warnings about keys and groups; each names the place and what to do.

    They are about short keys, modes that ``where`` refuses, and groups that no user gets. No
    warning shows a key.
    """
    keys = {"serve.api_key": serve.api_key, "serve.metrics_key": serve.metrics_key}
    keys |= {f"serve.keys.{name}.key": one.key for name, one in serve.keys.items()}
    for where, key in keys.items():
        if 0 < len(key.get_secret_value().strip()) < SHORTEST:
            yield (
                f"{where}: shorter than {SHORTEST} characters, so that it can be guessed; make a"
                " new one with 'openssl rand -base64 32'"
            )
    for where, one in rights_by_place(serve).items():
        refused = [mode for mode in one.modes or () if one.where and mode in SHARED_DATA_MODES]
        if refused:
            yield (
                f"{where}.modes: with where, {', '.join(refused)} cannot be asked; remove these"
                " modes"
            )
    groups = list(serve.users.groups)
    if EVERYBODY in groups:
        for name in groups[groups.index(EVERYBODY) + 1 :]:
            yield (
                f"serve.users.groups.{name}: never used, since everybody is in '*' above it; move"
                " '*' to the end"
            )


def key_faults(serve: ServeSettings) -> Iterator[str]:
    """Yield what is wrong with keys and users, each with what to do. No message shows a key."""
    api_key = serve.api_key.get_secret_value()
    if api_key and not api_key.strip():
        yield "serve.api_key: only blanks; set GRAPHMILL_API_KEY to a key, or to nothing"
    names = {api_key: API_KEY}
    for name, one in serve.keys.items():
        where, key = f"serve.keys.{name}", one.key.get_secret_value()
        if name in (API_KEY, OPEN, STDIO):
            yield f"{where}: usage already gives '{name}' another meaning; choose another name"
        if not key.strip():
            yield (
                f"{where}.key: empty; set the environment variable that it names, or remove {where}"
            )
        elif key in names:
            yield f"serve.keys: '{names[key]}' and '{name}' have the same key; give each its own"
        unused = _unused_rights(one) if one.acts_for_users and serve.users.groups else []
        if unused:
            them = ", ".join(unused)
            yield (
                f"{where}: its users may do what their groups may (serve.users.groups); remove"
                f" {them}"
            )
        names.setdefault(key, name)
    metrics_key = serve.metrics_key.get_secret_value()
    if metrics_key and not metrics_key.strip():
        yield "serve.metrics_key: only blanks; set it to a key, or to nothing"
    elif metrics_key and metrics_key in names:
        yield (
            f"serve.metrics_key: '{names[metrics_key]}' has the same key, and may ask questions;"
            " give /metrics its own"
        )
    for where, rights in rights_by_place(serve).items():
        yield from _faults_of_rights(where, rights, serve)
    yield from _faults_of_users(serve)


def _unused_rights(key: KeySettings) -> list[str]:
    """Return the rights of a front end's key that have no effect, because its users have the
    rights of their groups."""
    of_a_group = RightsSettings.model_fields.keys() - {"cost_per_day"}
    return sorted(
        name for name in of_a_group if getattr(key, name) not in (None, "", (), {}, False)
    )


def _faults_of_users(serve: ServeSettings) -> Iterator[str]:
    users = serve.users
    names_users = bool(users.proxies or users.oidc.issuer)
    if names_users and not users.groups:
        yield (
            "serve.users: nobody is let in without groups; give rights to groups, or to '*', which"
            " is everybody"
        )
    for_users = any(key.acts_for_users for key in serve.keys.values())
    if users.groups and not names_users and not for_users:
        # Without this fault, the server would start open to everyone who reaches it, although its
        # settings name who may ask.
        yield (
            "serve.users.groups: nothing says who is in them; set serve.users.oidc or"
            " serve.users.proxies, give a key acts_for_users, or remove the groups"
        )
    if users.oidc.issuer and not serve.page:
        yield (
            "serve.users.oidc: people sign in on the page, which is off; set serve.page to true, or"
            " remove oidc"
        )
    if users.user_header.lower() == users.groups_header.lower():
        yield "serve.users: user_header and groups_header are the same header; give each its own"


def _faults_of_rights(where: str, rights: RightsSettings, serve: ServeSettings) -> Iterator[str]:
    if rights.editor and (rights.where or rights.view):
        yield (
            f"{where}: an editor sees all documents; remove editor, or"
            f" {'where' if rights.where else 'view'}"
        )
    if rights.writer and (rights.where or rights.view):
        yield (
            f"{where}: a writer sees all documents; remove writer, or"
            f" {'where' if rights.where else 'view'}"
        )
    if rights.run_cost_per_day is not None and not rights.writer:
        yield (f"{where}.run_cost_per_day: only a writer requests runs; add writer, or remove it")
    modes = serve.allow.modes if rights.modes is None else rights.modes
    if rights.where and modes and SHARED_DATA_MODES.issuperset(modes):
        fact = f"{where}.modes: with where none of these can be asked: {', '.join(modes)}"
        yield f"{fact}; add one of: {', '.join(PASSAGE_MODES)}"
    if rights.view:
        yield from _faults_of_view(where, rights, serve)


def _faults_of_view(where: str, rights: RightsSettings, serve: ServeSettings) -> Iterator[str]:
    if rights.view not in serve.views:
        have = ", ".join(serve.views) or "none"
        yield (
            f"{where}.view: serve.views has no '{rights.view}' (has: {have}); add it, or name"
            " another"
        )
    if rights.where:
        yield (
            f"{where}: has both view and where; put the conditions into a view of their own, or"
            " remove one of the two"
        )
    if rights.workspace:
        yield (
            f"{where}: has both view and workspace, and a view is one workspace; remove one of"
            " the two"
        )
