"""Two pages of the documentation that are made from the code: every command with its options, every
setting."""

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
[a table](nightly.md#exit-codes).

Options that most commands take:
"""  # noqa: E501
SETTINGS_HEAD = """\
# Settings

Made from the code. Every key of settings.yaml is optional; an unknown one is an error. `${NAME}` and
`${NAME:-default}` read the environment, and `.env` beside settings.yaml. `--set key.path=value` changes a setting for
one run. The default is what holds where the key is missing. Below each table is what `graphmill init` writes.
"""  # noqa: E501


def commands_page(root: Any) -> str:
    """``root``: the command's group, with all of its own."""
    lines = [
        COMMANDS_HEAD,
        *_table(["Option", ""], [[f"`{name}`", meaning] for name, meaning in COMMON.items()]),
    ]
    for name, command in _commands("graphmill", root):
        arguments = [part for part in command.params if isinstance(part, TyperArgument)]
        options = [
            part for part in command.params if isinstance(part, TyperOption) and not part.hidden
        ]
        usage = " ".join([name, *map(_usage, arguments)])
        lines += [
            "",
            f"## {name}",
            "",
            *(command.help or "").splitlines(),
            "",
            "```",
            usage,
            "```",
            "",
        ]
        own = [part for part in (*arguments, *options) if not set(part.opts) & {*COMMON, "--help"}]
        if own:
            lines += _table(["", ""], [[_spelling(part), _meaning(part)] for part in own])
        common = [
            f"`{option}`" for option in COMMON if any(option in part.opts for part in options)
        ]
        lines += [*([""] if own else []), f"Also {', '.join(common)}."] if common else []
    return "\n".join(lines) + "\n"


def _commands(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    for below, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(f"{name} {below}", command)
        else:
            yield f"{name} {below}", command


def _usage(argument: TyperArgument) -> str:
    name = str(argument.metavar or argument.name)
    return name if argument.required else f"[{name}]"


def _spelling(part: TyperArgument | TyperOption) -> str:
    if isinstance(part, TyperArgument):
        return f"`{_usage(part)}`"
    value = "" if part.is_flag else f" {part.metavar or part.type.name.upper()}"
    names = [f"`{name}{value}`" for name in part.opts] + [
        f"`{name}`" for name in part.secondary_opts
    ]
    return ", ".join(names)


def _meaning(part: TyperArgument | TyperOption) -> str:
    if part.default in (None, False, ()) or part.default is Ellipsis:
        return part.help or ""
    return f"{part.help or ''} Default: `{part.default}`.".strip()


def settings_page() -> str:
    delivered = (shipped() / SETTINGS).read_text(encoding="utf-8")
    parts = re.split(r"^(?=[a-z])", delivered, flags=re.MULTILINE)
    written = {part.partition(":")[0]: part.strip("\n") for part in parts}
    schema = Settings.model_json_schema()
    alone = [name for name in Settings.model_fields if not _sections(Settings, name)]
    lines = [SETTINGS_HEAD]
    groups = {"The project": alone} | {
        name: [name] for name in Settings.model_fields if name not in alone
    }
    for title, names in groups.items():
        rows = [row for name in names for row in _rows(Settings, schema, name, "", schema)]
        lines += [f"## {title}", "", *_table(["Key", "Type", "Default"], rows), ""]
        lines += ["```yaml", *(written[name] for name in names), "```", ""]
    return "\n".join(lines)


def _rows(
    model: type[BaseModel],
    described: dict[str, Any],
    name: str,
    prefix: str,
    schema: dict[str, Any],
) -> list[list[str]]:
    """Of a key, or of all keys of the section that it is. ``described``: the model's part of the
    schema."""
    if sections := _sections(model, name):
        return [
            row
            for place, section in sections
            for below in section.model_fields
            for row in _rows(
                section, schema["$defs"][section.__name__], below, f"{prefix}{name}{place}.", schema
            )
        ]
    field = model.model_fields[name]
    value = None if field.is_required() else field.get_default()
    default = "" if value is None else f"`{json.dumps(value, default=str)}`"
    return [[f"`{prefix}{name}`", _type(described["properties"][name], schema), default]]


def _sections(model: type[BaseModel], name: str) -> list[tuple[str, type[BaseModel]]]:
    """What stands below a key: sections, each with what its path has after the key's name."""
    annotation = model.model_fields[name].annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [("", annotation)]
    parts = [
        part
        for part in get_args(annotation)
        if isinstance(part, type) and issubclass(part, BaseModel)
    ]
    place = {dict: ".NAME", tuple: "[]"}.get(get_origin(annotation), "")
    return [(place, part) for part in parts]


def _type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """The type and its bounds, in words."""
    if "$ref" in field:
        return _type(schema["$defs"][field["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in field:
        return " or ".join(
            _type(part, schema) for part in field["anyOf"] if part != {"type": "null"}
        )
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), schema)}"
    words = {"string": "text", "object": "mapping", "boolean": "true, false"}
    bounds = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above"}
    said = [f"{word} {field[bound]:,}" for bound, word in bounds.items() if bound in field]
    pattern = [f"`{field['pattern']}`"] if "pattern" in field else []
    kind = str(field.get("type", "any"))
    return ", ".join([words.get(kind, kind), *said, *pattern])


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Of Markdown."""
    cells = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", "\\|") for cell in row] for row in rows),
    ]
    return [f"| {' | '.join(row)} |" for row in cells]
