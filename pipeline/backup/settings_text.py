"""Changes values in the text of settings.yaml, and finds the secrets that are written in it.

The text is edited at the places of its values, so that comments and order stay.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml
from pydantic import BaseModel, SecretStr

from pipeline.settings.schema import Settings

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""
VARIABLE = re.compile(r"\$\{\w+(?::-(?P<default>[^}]*))?\}")
SECRET_NAME = re.compile(r"pass|key|secret|token|sig", re.IGNORECASE)
"""A part of the names of parameters in a URL that hold secrets."""


def without_secrets(text: str, settings: Settings) -> tuple[str, list[str]]:
    """Return the text of settings.yaml with a variable in place of each secret, and the names of
    these variables.

    ``settings`` are those of the text. A secret that is a variable already stays as it is.
    """
    changes: dict[Path, str] = {}
    secrets: dict[str, str] = {}
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, may_be_plain in _secret_paths(settings, ()):
        node = _node_at(top, path)
        if not isinstance(node, yaml.ScalarNode) or not _is_secret(node.value, may_be_plain):
            continue
        name = re.sub(r"\W+", "_", "_".join(map(str, path))).upper()
        # An address cannot be empty, so its variable is required.
        changes[path] = f"${{{name}}}" if may_be_plain else f"${{{name}:-}}"
        secrets[node.value] = changes[path]
    edited = with_values(text, changes)
    for secret, variable in secrets.items():
        # A comment may repeat the value.
        edited = edited.replace(secret, variable)
    return edited, sorted(VARIABLE.sub(_name_of_variable, value) for value in changes.values())


def with_values(text: str, changes: Mapping[Path, str]) -> str:
    """Return the text of a YAML file with other values at these paths.

    A key that the top of the file lacks is added at its end; other paths that are missing are
    ignored.
    """
    places: list[tuple[int, int, str]] = []
    added = ""
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, value in changes.items():
        node = _node_at(top, path)
        quoted = json.dumps(value, ensure_ascii=False)
        if node is not None:
            # An empty value has no place of its own: its mark follows the colon.
            space = " " if node.start_mark.index == node.end_mark.index else ""
            places.append((node.start_mark.index, node.end_mark.index, f"{space}{quoted}"))
        elif len(path) == 1:
            added += f"{path[0]}: {quoted}\n"
    # The last place comes first, so that the others keep theirs.
    for start, end, quoted in sorted(places, reverse=True):
        text = f"{text[:start]}{quoted}{text[end:]}"
    if added and text and not text.endswith("\n"):
        text += "\n"
    return text + added


def _name_of_variable(variable: re.Match[str]) -> str:
    return variable[0][2:-1].partition(":-")[0]


def _secret_paths(value: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of values that are or may be secret, and whether one may be a plain
    address."""
    if isinstance(value, SecretStr):
        # The address of an input is secret as a whole only if it has a password in it.
        yield path, path[-1] == "url"
    elif isinstance(value, str):
        yield path, True
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secret_paths(getattr(value, name), (*path, name))
        for name, extra in (value.model_extra or {}).items():
            yield from _secret_paths(extra, (*path, name))
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _secret_paths(each, (*path, name))
    elif isinstance(value, Sequence):
        for position, each in enumerate(value):
            yield from _secret_paths(each, (*path, position))


def _is_secret(raw: str, may_be_plain: bool) -> bool:
    """Return whether the text of a value holds a secret itself; a variable's default counts."""
    literal = VARIABLE.sub(lambda found: found["default"] or "", raw)
    if may_be_plain:
        return _has_password(literal)
    defaults = [found["default"] for found in VARIABLE.finditer(raw)]
    return any(defaults) if defaults else bool(raw)


def _has_password(address: str) -> bool:
    if "://" not in address:
        return False
    try:
        parts = urlsplit(address)
        # A token may be the user's name, as in addresses of repositories.
        is_token = parts.scheme in ("http", "https") and bool(parts.username)
        named = [name for name, value in parse_qsl(parts.query) if value]
        return bool(parts.password) or is_token or any(map(SECRET_NAME.search, named))
    except ValueError:
        return True


def _node_at(top: yaml.Node | None, path: Path) -> yaml.Node | None:
    """Return the node of a value below that of the whole text, or None if it does not have it."""
    node = top
    for key in path:
        if isinstance(node, yaml.MappingNode):
            found = [value for name, value in node.value if name.value == str(key)]
            node = found[-1] if found else None
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
        else:
            return None
    return node
