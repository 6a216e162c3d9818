"""Read settings.yaml: environment, overrides, and errors that name the nearest right key.

Values may name environment variables: ``${NAME}`` or ``${NAME:-default}``. Variables in a ``.env``
file beside settings.yaml count too; those of the real environment win over them.
"""

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError

from pipeline.errors import SettingsError
from pipeline.files import SETTINGS, settings_file
from pipeline.settings.schema import Settings
from pipeline.settings.validation import choose_fault, explain, not_yaml, parse_yaml

HANDED_ON = "GRAPHMILL_HANDED_ON"
"""The environment variable by which one command gives its overrides to another that it starts, as a
list in JSON. Overrides may hold passwords, and all users of a machine can see the arguments of a
command."""


def read_settings(root: Path, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of the project in this folder.

    Each of ``overrides`` is a text ``key.path=value`` that replaces one value. Raises SettingsError
    when the file is missing or malformed, a key is unknown, a value does not fit, or the
    environment lacks a variable that has no default.
    """
    path = settings_file(root)
    try:
        content = parse_yaml(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {not_yaml(error)}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: expected keys and values, got {type(content).__name__}")
    in_file = deepcopy(content)
    for override in overrides:
        _override(content, override)
    environment = environment_of(root)
    try:
        return _validated(content, environment)
    except ValidationError as error:
        by_override = overrides and not _has_fault(in_file, environment, choose_fault(error))
        where = "--set" if by_override else SETTINGS
        raise SettingsError(explain(where, error, _keys_near(error))) from None


def _validated(content: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    return Settings.model_validate(_without_empty(expanded(content, environment, SETTINGS)))


def _has_fault(
    in_file: Mapping[str, Any], environment: Mapping[str, str], fault: Mapping[str, Any]
) -> bool:
    """Return whether the file without overrides has this fault too."""
    try:
        _validated(in_file, environment)
    except ValidationError as error:
        found = choose_fault(error)
        return (found["loc"], found["type"]) == (fault["loc"], fault["type"])
    except SettingsError:
        # A variable is missing, which an override replaces.
        return False
    return False


def environment_of(root: Path) -> dict[str, str]:
    """Return the variables of the project's ``.env`` and of the real environment, which wins.

    Raises SettingsError if ``.env`` cannot be read.
    """
    path = root / ".env"
    try:
        written = dotenv_values(path, interpolate=False, encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(
            f"{path}: {error.strerror}; let this user read it, or delete it"
        ) from None
    except UnicodeDecodeError:  # PowerShell writes UTF-16.
        raise SettingsError(f"{path}: not UTF-8; save it as UTF-8") from None
    with_value = {name: value for name, value in written.items() if value is not None}
    return {**with_value, **os.environ}


AS_WRITTEN = f"{SETTINGS}: input: steps: args"
"""The place in settings.yaml where variables are not replaced. Arguments of a step may be sent to
other machines, and each of them reads its own environment."""
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def expanded(value: Any, environment: Mapping[str, str | None], where: str) -> Any:
    """Return the value with the variables in its texts replaced, except below ``AS_WRITTEN``.

    ``where`` is the place of the value in the file, such as "settings.yaml: stores". Raises
    SettingsError if the environment lacks a variable that has no default.
    """
    if where == AS_WRITTEN:
        return value
    if isinstance(value, dict):
        return {
            key: expanded(entry, environment, f"{where}: {key}") for key, entry in value.items()
        }
    if isinstance(value, list):
        return [expanded(entry, environment, where) for entry in value]
    return _substituted(value, environment, where) if isinstance(value, str) else value


def _without_empty(value: Any, within: str = "") -> Any:
    """Return the value without keys whose value is empty: such a key counts as left out.

    Empty keys stay where leaving them out would give access: conditions (``where``) and the entries
    of ``keys``. Validation then refuses them. ``within`` is the key of ``value``.
    """
    if not isinstance(value, dict) or within == "where":
        return value
    kept = {
        key: entry
        for key, entry in value.items()
        if entry is not None or within == "keys" or key == "where"
    }
    return {key: _without_empty(entry, key) for key, entry in kept.items()}


def _substituted(value: str, environment: Mapping[str, str | None], where: str) -> str:
    def substitute(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        found = environment.get(name)
        if not found and default is not None:
            return default
        if found is None:
            raise SettingsError(
                f"{where}: the environment variable {name} is not set; set it, put it into .env, "
                f"or write ${{{name}:-default}}"
            )
        return found

    return _VARIABLE.sub(substitute, value)


def _override(content: dict[str, Any], override: str) -> None:
    path, sign, value = override.partition("=")
    keys = path.split(".")
    if not sign or not all(keys):
        raise SettingsError(f"--set {path}: expected key.path=value")
    section = content
    for key in keys[:-1]:
        section[key] = {} if section.get(key) is None else section[key]
        section = section[key]
        if not isinstance(section, dict):
            raise SettingsError(f"--set {path}: '{key}' is a value, not a section")
    try:
        section[keys[-1]] = parse_yaml(value)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set {path}: {not_yaml(error)}") from None


def _keys_near(error: ValidationError) -> list[str]:
    """Return the keys of the section in which the first fault lies."""
    kind: Any = Settings
    for key in error.errors()[0]["loc"][:-1]:
        # A number is a place in a list, whose sections all have the same type.
        if not isinstance(key, int):
            kind = _type_below(kind, key)
    return list(kind.model_fields) if _is_section(kind) else []


def _type_below(kind: Any, key: str) -> Any:
    """Return the type below a key of a section, or of a mapping from names to sections; else
    None."""
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if not _is_section(kind) or key not in kind.model_fields:
        return None
    found = kind.model_fields[key].annotation
    if get_origin(found) is dict:
        return found
    # A list of sections, or an optional one, counts as the section.
    sections = [part for part in get_args(found) if _is_section(part)]
    return sections[0] if sections else found


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
