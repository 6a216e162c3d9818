"""Make two pages of the documentation from the code: all commands with their options, and all
settings."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from typer.core import TyperArgument, TyperOption

from pipeline.files import SETTINGS
from pipeline.settings.init import shipped
from pipeline.settings.schema import Settings

COMMON = {
    "-C": "the project's folder; `graphmill -C DIR COMMAND` says the same",
    "--set": "a setting for this run alone, such as `--set query.top_k=20`",
    "--json": "one object, or list, on stdout",
    "--log": (
        "progress on stderr: `auto`, bars on a terminal and else lines; or `json`, one event a line"
    ),
    "--yes": "nothing is asked, as in a crontab",
}
COMMANDS_HEAD = """\
# Commands

Made from the code: `graphmill COMMAND --help` says the same.

Where no WORKFLOW is named, the commands that make something (plan, index, load, run, tune) take `workflow` of
settings.yaml. Those that look at what was made (documents, rejects, retry, verify, export, resolutions) take the
workflow that the workspace shows, else the same. Exit code 0 is done; the others, and what to do about each, are in
[a table](after-a-failure.md#exit-codes).

Options that most commands take:
"""  # noqa: E501
SETTINGS_HEAD = """\
# Settings

Made from the code. Every key of settings.yaml is optional; an unknown one is an error. `${NAME}` and
`${NAME:-default}` read the environment, and `.env` beside settings.yaml. `--set key.path=value` changes a setting for
one run. The default is what holds where the key is missing. Below each table is what `graphmill init` writes.
"""  # noqa: E501


def commands_page(root: Any) -> str:
    """Return the page of all commands, in Markdown. ``root`` is the group of all commands."""
    common = [[f"`{name}`", meaning] for name, meaning in COMMON.items()]
    lines = [COMMANDS_HEAD, *_markdown_table(["Option", ""], common)]
    for name, command in _commands("graphmill", root):
        lines += _command_section(name, command)
    return "\n".join(lines) + "\n"


def _command_section(name: str, command: Any) -> list[str]:
    """Return the lines about a command: its help, how it is called, its own and common options."""
    arguments = [part for part in command.params if isinstance(part, TyperArgument)]
    options = [part for part in command.params if isinstance(part, TyperOption) and not part.hidden]
    usage = " ".join([name, *map(_placeholder, arguments)])
    lines = ["", f"## {name}", "", *(command.help or "").splitlines(), ""]
    lines += ["```", usage, "```", ""]
    elsewhere = {*COMMON, "--help"}
    own = [part for part in (*arguments, *options) if elsewhere.isdisjoint(part.opts)]
    if own:
        rows = [[_spelling(part), _meaning(part)] for part in own]
        lines += _markdown_table(["", ""], rows)
    spellings = {name for part in options for name in part.opts}
    common = [f"`{option}`" for option in COMMON if option in spellings]
    if own and common:
        lines.append("")
    if common:
        lines.append(f"Also {', '.join(common)}.")
    return lines


def _commands(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command below a group with its full name, ordered by name."""
    for below, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(f"{name} {below}", command)
        else:
            yield f"{name} {below}", command


def _placeholder(argument: TyperArgument) -> str:
    """Return how an argument is shown in a call, in brackets if it may be left out."""
    name = str(argument.metavar or argument.name)
    return name if argument.required else f"[{name}]"


def _spelling(part: TyperArgument | TyperOption) -> str:
    """Return all names of an option with the placeholder of its value, or an argument's
    placeholder."""
    if isinstance(part, TyperArgument):
        return f"`{_placeholder(part)}`"
    value = "" if part.is_flag else f" {part.metavar or part.type.name.upper()}"
    names = [f"`{name}{value}`" for name in part.opts]
    names += [f"`{name}`" for name in part.secondary_opts]
    return ", ".join(names)


def _meaning(part: TyperArgument | TyperOption) -> str:
    """Return the help of an option or an argument, with its default if it has one."""
    if part.default in (None, False, ()) or part.default is Ellipsis:
        return part.help or ""
    return f"{part.help or ''} Default: `{part.default}`.".strip()


def settings_page() -> str:
    """Return the page of all settings, in Markdown, with the shipped text of each section."""
    shipped_text = (shipped() / SETTINGS).read_text(encoding="utf-8")
    # A section begins with its key at the beginning of a line.
    parts = re.split(r"^(?=[a-z])", shipped_text, flags=re.MULTILINE)
    text_of = {part.partition(":")[0]: part.strip("\n") for part in parts}
    schema = Settings.model_json_schema()
    alone = [name for name in Settings.model_fields if not _sections(Settings, name)]
    groups = {"The project": alone}
    groups |= {name: [name] for name in Settings.model_fields if name not in alone}
    lines = [SETTINGS_HEAD]
    for title, names in groups.items():
        rows = []
        for name in names:
            rows += _setting_rows(Settings, schema, name, "", schema)
        lines += [f"## {title}", "", *_markdown_table(["Key", "Type", "Default"], rows), ""]
        lines += ["```yaml", *(text_of[name] for name in names), "```", ""]
    return "\n".join(lines)


def _setting_rows(
    model: type[BaseModel],
    described: dict[str, Any],
    name: str,
    prefix: str,
    schema: dict[str, Any],
) -> list[list[str]]:
    """Return the table's row of a key; for the key of a section, the rows of all keys in it.

    ``described`` is the part of the JSON schema about ``model``, and ``prefix`` the path of the
    section that the key is in.
    """
    sections = _sections(model, name)
    if not sections:
        field = model.model_fields[name]
        value = None if field.is_required() else field.get_default()
        default = "" if value is None else f"`{json.dumps(value, default=str)}`"
        type_ = _describe_type(described["properties"][name], schema)
        return [[f"`{prefix}{name}`", type_, default]]
    rows = []
    for place, section in sections:
        below = schema["$defs"][section.__name__]
        for key in section.model_fields:
            rows += _setting_rows(section, below, key, f"{prefix}{name}{place}.", schema)
    return rows


def _sections(model: type[BaseModel], name: str) -> list[tuple[str, type[BaseModel]]]:
    """Return the sections below a key, each with what stands after the key's name in its path:
    ".NAME" in a mapping, "[]" in a list."""
    annotation = model.model_fields[name].annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [("", annotation)]
    place = {dict: ".NAME", tuple: "[]"}.get(get_origin(annotation), "")
    types = [part for part in get_args(annotation) if isinstance(part, type)]
    return [(place, part) for part in types if issubclass(part, BaseModel)]


def _describe_type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the type of a field and its bounds in words; ``schema`` resolves references."""
    if "$ref" in field:
        target = field["$ref"].rpartition("/")[2]
        return _describe_type(schema["$defs"][target], schema)
    if "anyOf" in field:
        types = [part for part in field["anyOf"] if part != {"type": "null"}]
        return " or ".join(_describe_type(part, schema) for part in types)
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_describe_type(field.get('items', {}), schema)}"
    words = {"string": "text", "object": "mapping", "boolean": "true, false"}
    kind = str(field.get("type", "any"))
    facts = [words.get(kind, kind)]
    bounds = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above"}
    facts += [f"{word} {field[bound]:,}" for bound, word in bounds.items() if bound in field]
    if "pattern" in field:
        facts.append(f"`{field['pattern']}`")
    return ", ".join(facts)


def _markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *escaped]
    return [f"| {' | '.join(cells)} |" for cells in lines]
