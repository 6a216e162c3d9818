"""Read settings.yaml: environment, overrides, and errors that name the nearest right key.

Values may name the environment: ``${NAME}`` or ``${NAME:-default}``; a ``.env`` file beside
settings.yaml is read too, and what the real environment says wins.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError

from pipeline.errors import SettingsError
from pipeline.files import SETTINGS, settings_file
from pipeline.settings.schema import Settings
from pipeline.settings.validation import explain, not_yaml, parse_yaml

HANDED_ON = "GRAPHMILL_HANDED_ON"
"""The variable by which one command hands its overrides to another that it begins, a list in JSON:
passwords may be among them, and all users of a machine see the words of a command."""


def read_settings(root: Path, overrides: Sequence[str] = ()) -> Settings:
    """Settings of the project in this folder; ``overrides`` are ``key.path=value`` for one run.

    Raises SettingsError when the file is missing or malformed, a key is unknown, a value does not
    fit, or the environment lacks a variable that has no default.
    """
    path = settings_file(root)
    try:
        content = parse_yaml(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {not_yaml(error)}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: expected keys and values, got {type(content).__name__}")
    for override in overrides:
        _override(content, override)
    try:
        return Settings.model_validate(
            _without_empty(expanded(content, environment_of(root), SETTINGS))
        )
    except ValidationError as error:
        raise SettingsError(explain(SETTINGS, error, _known(error))) from None


def environment_of(root: Path) -> dict[str, str]:
    """What the project's ``.env`` says, and, before it, the real environment. Raises SettingsError
    where it cannot be read."""
    path = root / ".env"
    try:
        written = dotenv_values(path, interpolate=False, encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(
            f"{path}: {error.strerror}; let this user read it, or delete it"
        ) from None
    except UnicodeDecodeError:  # of PowerShell's: UTF-16
        raise SettingsError(f"{path}: not UTF-8; save it as UTF-8") from None
    return {**{name: value for name, value in written.items() if value is not None}, **os.environ}


AS_WRITTEN = f"{SETTINGS}: input: steps: args"
"""Where the environment is named and not looked up: what a step is given may be sent to other
machines, each of which looks it up in its own environment."""
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def expanded(value: Any, environment: Mapping[str, str | None], where: str) -> Any:
    """With what the environment says in place of its names, but for what is AS_WRITTEN. Raises
    SettingsError where it lacks one that has no default."""
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
    """A key with nothing after it counts as left out, but not where that would let somebody in: of
    conditions, and of who may ask by a key."""
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


def _known(error: ValidationError) -> list[str]:
    """The keys of the section in which the first fault lies."""
    kind: Any = Settings
    for key in error.errors()[0]["loc"][:-1]:
        kind = (
            kind if isinstance(key, int) else _entered(kind, key)
        )  # a list's place: its sections are alike
    return list(kind.model_fields) if _is_section(kind) else []


def _entered(kind: Any, key: str) -> Any:
    """The type below a key of a section, or of a mapping of names to sections."""
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if not _is_section(kind) or key not in kind.model_fields:
        return None
    found = kind.model_fields[key].annotation
    return found if get_origin(found) is dict else next(filter(_is_section, get_args(found)), found)


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
