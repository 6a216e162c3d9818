"""Prompts: one file each, ``$name`` placeholders (documents contain braces), checked when they are
read."""

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import SettingsError


@dataclass(frozen=True)
class Placeholders:
    """The placeholders that a prompt must have, and those that it may have, in the role it is bound
    to."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """A template, with values that are the same for every request (such as ``language``)."""

    name: str
    text: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> set[str]:
        return set(string.Template(self.text).get_identifiers())

    def render(self, **values: str) -> str:
        """Return the prompt with its placeholders filled. Placeholders within a value are not
        filled.

        Raises SettingsError when a placeholder has no value.
        """
        try:
            return string.Template(self.text).substitute({**self.values, **values})
        except ValueError as error:
            raise SettingsError(
                f"prompt '{self.name}': {error}; write $$ for a dollar sign"
            ) from error
        except KeyError as error:
            raise SettingsError(
                f"prompt '{self.name}': placeholder {error} has no value; known here:"
                f" {', '.join(sorted({*self.values, *values}))} (write $$ for a dollar sign)"
            ) from error

    def check(self, placeholders: Placeholders) -> None:
        """Raise SettingsError when the prompt lacks a placeholder, or has one that will not be
        filled."""
        filled = {*placeholders.required, *placeholders.optional, *self.values}
        missing = sorted(set(placeholders.required) - self.fields)
        unknown = sorted(self.fields - filled)
        if missing or unknown:
            known = ", ".join(f"${name}" for name in sorted(filled))
            raise SettingsError(
                f"prompt '{self.name}': lacks {missing or 'nothing'}, has unknown"
                f" {unknown or 'nothing'}; placeholders here: {known} (write $$ for a dollar sign)"
            )

    def fingerprint(self) -> str:
        """Return the text as it will be sent, except for the placeholders that are filled for each
        row."""
        return string.Template(self.text.replace("$$", "$$$$")).safe_substitute(self.values)


def read_prompt(folder: Path, name: str, values: Mapping[str, str]) -> Prompt:
    """Read ``<folder>/<name>.md`` and bind these values to it.

    Raises SettingsError when the file is missing, not UTF-8, or has a ``$`` without a placeholder.
    """
    path = folder / f"{name}.md"
    if not path.is_file():
        have = ", ".join(sorted(p.stem for p in folder.glob("*.md"))) or "none"
        raise SettingsError(f"{path}: no such prompt; have: {have}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 ({error}); save it as UTF-8") from error
    if not string.Template(text).is_valid():
        raise SettingsError(f"{path}: a '$' that starts no placeholder; write $$ for a dollar sign")
    return Prompt(name, text.strip() + "\n", values)
