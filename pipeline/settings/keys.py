"""What is wrong with the keys of ``serve`` as they are written, whatever is loaded."""

from collections.abc import Iterator

from pipeline.settings.query_options import GRAPH_MODES, PASSAGE_MODES
from pipeline.settings.schema import RightsSettings, ServeSettings

API_KEY, OPEN, STDIO = "api_key", "open", "mcp"
"""Who asks by serve.api_key, without any key where none is wanted, and over stdin."""


SHORTEST = 16
"""Characters that a key should have. A random one of so many cannot be guessed, however fast one tries."""


def key_warnings(serve: ServeSettings) -> Iterator[str]:
    """Yield for each short key, and for modes that ``where`` refuses, where it is and what to do. None tells a key."""
    keys = {"serve.api_key": serve.api_key}
    keys |= {f"serve.keys.{name}.key": one.key for name, one in serve.keys.items()}
    for where, key in keys.items():
        if 0 < len(key.get_secret_value().strip()) < SHORTEST:
            yield (
                f"{where}: shorter than {SHORTEST} characters, so that it can be guessed; make a new one with "
                "'openssl rand -base64 32'"
            )
    rights: dict[str, RightsSettings] = {f"serve.keys.{name}": one for name, one in serve.keys.items()}
    rights |= {f"serve.users.groups.{group}": one for group, one in serve.users.groups.items()}
    for where, one in rights.items():
        refused = [mode for mode in one.modes or () if one.where and mode in GRAPH_MODES]
        if refused:
            yield f"{where}.modes: with where, {', '.join(refused)} cannot be asked; remove these modes"


def key_faults(serve: ServeSettings) -> Iterator[str]:
    """Each with what to do. None tells a key."""
    api_key = serve.api_key.get_secret_value()
    if api_key and not api_key.strip():
        yield "serve.api_key: only blanks; set GRAPHMILL_API_KEY to a key, or to nothing"
    names = {api_key: API_KEY}
    for name, one in serve.keys.items():
        where, key = f"serve.keys.{name}", one.key.get_secret_value()
        if name in (API_KEY, OPEN, STDIO):
            yield f"{where}: the name says something else in usage; choose another"
        if not key.strip():
            yield f"{where}.key: empty; set the environment variable that it names, or remove {where}"
        elif key in names:
            yield f"serve.keys: '{names[key]}' and '{name}' have the same key; give each its own"
        yield from _faults_of_rights(where, one, serve)
        if one.acts_for_users and serve.users.groups and (one.where or one.view):
            unused = "where" if one.where else "view"
            yield f"{where}: its users see what their groups do (serve.users.groups); remove {unused}"
        names.setdefault(key, name)
    for group, rights in serve.users.groups.items():
        yield from _faults_of_rights(f"serve.users.groups.{group}", rights, serve)
    if (serve.users.proxies or serve.users.oidc.issuer) and not serve.users.groups:
        yield "serve.users: nobody is let in without groups; give rights to groups, or to '*', which is everybody"


def _faults_of_rights(where: str, rights: RightsSettings, serve: ServeSettings) -> Iterator[str]:
    if rights.editor and (rights.where or rights.view):
        yield f"{where}: an editor sees all documents; remove editor, or {'where' if rights.where else 'view'}"
    modes = serve.allow.modes if rights.modes is None else rights.modes
    if rights.where and modes and GRAPH_MODES.issuperset(modes):
        fact = f"{where}.modes: with where none of these can be asked: {', '.join(modes)}"
        yield f"{fact}; add one of: {', '.join(PASSAGE_MODES)}"
    if rights.view:
        yield from _faults_of_view(where, rights, serve)


def _faults_of_view(where: str, rights: RightsSettings, serve: ServeSettings) -> Iterator[str]:
    if rights.view not in serve.views:
        have = ", ".join(serve.views) or "none"
        yield f"{where}.view: serve.views has no '{rights.view}' (has: {have}); add it, or name another"
    if rights.where:
        yield f"{where}: has both view and where; put the conditions into a view of their own, or remove one of the two"
    if rights.workspace:
        yield f"{where}: has both view and workspace, and a view is one workspace; remove one of the two"
