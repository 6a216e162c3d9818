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

from pipeline.errors import DataError
from pipeline.files import SETTINGS
from pipeline.settings.schema import Settings

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""
VARIABLE = re.compile(r"\$\{\w+(?::-(?P<default>[^}]*))?\}")
SECRET_NAME = re.compile(
    r"pass|key|secret|token|sig|cred|authorization|(?<![a-z])auth(?![a-z])|^code$|subscription",
    re.IGNORECASE,
)
"""A part of the names that secrets have in a URL, in a command, or in a mapping of the user's
own."""
COMMAND = "converter"
"""The setting that is a command: its words may be a header or an option with a secret."""
_NAME_AND_VALUE = re.compile(r"(?P<name>-{0,2}[\w-]+)\s*[:=]\s*\S.*", re.DOTALL)
"""A word of a command that is a header, or an option with its value."""
_OPTION = re.compile(r"--?[\w-]+")
KEYS_OF_THE_USER = frozenset({"extra_body", "args"})
"""The settings whose keys are the user's own, so that no type says which of them are secret."""
NULL = "tag:yaml.org,2002:null"
PROPERTIES = re.compile(r"(?:[&!]\S*(?:\s+|$))*")
"""The anchor and the tag before a value in YAML, which no plain value begins with."""
LONG = 8
"""The least characters of a secret that is looked for within the words of comments too."""


def without_secrets(text: str, settings: Settings) -> tuple[str, list[str]]:
    """Return the text of settings.yaml with a variable in place of each secret, and the names of
    these variables.

    ``settings`` are those of the text. A secret that is a variable already stays as it is.
    """
    changes: dict[Path, str] = {}
    secrets: dict[str, str] = {}
    seen: list[yaml.Node] = []
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, may_be_plain in _secret_paths(settings, ()):
        node = _node_at(top, path)
        # An alias leads to the node of its anchor, which has one variable.
        if not isinstance(node, yaml.ScalarNode) or any(node is one for one in seen):
            continue
        if node.tag == NULL or not _is_secret(node.value, may_be_plain):
            continue
        seen.append(node)
        name = re.sub(r"\W+", "_", "_".join(map(str, path))).upper()
        # An address cannot be empty, so its variable is required.
        changes[path] = f"${{{name}}}" if may_be_plain else f"${{{name}:-}}"
        secrets[node.value] = changes[path]
    edited = with_values(_without_in_comments(text, secrets), changes)
    _require_same(top, edited, changes, has_new_keys=False)
    return edited, sorted(VARIABLE.sub(_name_of_variable, value) for value in changes.values())


def _without_in_comments(text: str, secrets: Mapping[str, str]) -> str:
    """Return the text with variables in place of the secrets that its comments repeat."""
    if not secrets:
        return text
    patterns = [
        re.escape(one) if len(one) >= LONG else rf"(?<!\w){re.escape(one)}(?!\w)" for one in secrets
    ]
    # The longest comes first, for a shorter secret may be a part of it.
    pattern = re.compile("|".join(sorted(patterns, key=len, reverse=True)))
    pieces: list[str] = []
    done = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        start, end = token.start_mark.index, token.end_mark.index
        if end > done:
            # Between tokens there are but spaces, ends of lines and comments.
            pieces.append(pattern.sub(lambda found: secrets[found[0]], text[done:start]))
            pieces.append(text[max(done, start) : end])
            done = end
    return "".join(pieces) + pattern.sub(lambda found: secrets[found[0]], text[done:])


def with_values(text: str, changes: Mapping[Path, str]) -> str:
    """Return the text of a YAML file with other values at these paths.

    A key that the top of the file lacks is added at its end; other paths that are missing are
    ignored. Raises DataError if the text cannot be changed so that all other values stay.
    """
    places: list[tuple[int, int, str]] = []
    added = ""
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, value in changes.items():
        node = _node_at(top, path)
        quoted = json.dumps(value, ensure_ascii=False)
        if node is not None:
            start, end = node.start_mark.index, node.end_mark.index
            kept = (PROPERTIES.match(text[start:end]) or [""])[0]
            # An empty value has no place of its own: its mark follows the colon, or the anchor.
            is_empty = start + len(kept) == end and not kept.endswith(" ")
            places.append((start, end, f"{kept}{' ' if is_empty else ''}{quoted}"))
        elif len(path) == 1:
            added += f"{path[0]}: {quoted}\n"
    edited = text
    # The last place comes first, so that the others keep theirs.
    for start, end, quoted in sorted(places, reverse=True):
        edited = f"{edited[:start]}{quoted}{edited[end:]}"
    if added and edited and not edited.endswith("\n"):
        edited += "\n"
    edited += added
    _require_same(top, edited, changes, has_new_keys=bool(added))
    return edited


def _require_same(
    before: yaml.Node | None, edited: str, changes: Mapping[Path, str], has_new_keys: bool
) -> None:
    """Raise DataError if the edited text has not the changes, or has others.

    With ``has_new_keys`` there may be more keys at the end of the top.
    """
    changed = {id(_node_at(before, path)): value for path, value in changes.items()}
    try:
        after = yaml.compose(edited, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        after = None
    if (
        isinstance(before, yaml.MappingNode)
        and isinstance(after, yaml.MappingNode)
        and has_new_keys
    ):
        del after.value[len(before.value) :]
    if not _is_same(before, after, changed, set()) and not (before is None and has_new_keys):
        raise DataError(
            f"{SETTINGS}: values cannot be replaced in this text, and the others be kept; write the"
            " file in plain YAML, and its secrets as ${NAME} with the values in .env"
        )


def _is_same(
    before: yaml.Node | None, after: yaml.Node | None, changed: Mapping[int, str], seen: set[int]
) -> bool:
    """Return whether two nodes have the same content but for what is changed.

    ``seen`` has the nodes that are compared already, for one may contain itself.
    """
    if id(before) in changed:
        return isinstance(after, yaml.ScalarNode) and after.value == changed[id(before)]
    if id(before) in seen:
        return True
    if before is None or after is None:
        return before is after
    seen.add(id(before))
    if type(before) is not type(after) or before.tag != after.tag:
        return False
    if isinstance(before, yaml.ScalarNode):
        return bool(before.value == after.value)
    one, other = list(_nodes_in(before)), list(_nodes_in(after))
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(_is_same(*pair, changed, seen) for pair in pairs)


def _nodes_in(node: yaml.Node) -> Iterator[yaml.Node]:
    for each in node.value:
        if isinstance(each, tuple):
            yield from each
        else:
            yield each


def _name_of_variable(variable: re.Match[str]) -> str:
    return variable[0][2:-1].partition(":-")[0]


def _secret_paths(value: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of values that are or may be secret, and whether one may be a plain
    address."""
    if isinstance(value, SecretStr):
        # The address of an input is secret as a whole only if it has a password in it.
        yield path, path[-1] == "url"
    elif isinstance(value, str):
        yield path, not _is_named_secret(path)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secret_paths(getattr(value, name), (*path, name))
        for name, extra in (value.model_extra or {}).items():
            yield from _secret_paths(extra, (*path, name))
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _secret_paths(each, (*path, name))
    elif isinstance(value, Sequence):
        secret_words = _secret_words(value) if path[-1:] == (COMMAND,) else frozenset[int]()
        for position, each in enumerate(value):
            if position in secret_words:
                yield (*path, position), False
            else:
                yield from _secret_paths(each, (*path, position))


def _secret_words(command: Sequence[Any]) -> frozenset[int]:
    """Return the positions of the words of a command that hold a secret by their names."""
    found: set[int] = set()
    before = ""
    for position, word in enumerate(map(str, command)):
        named = _NAME_AND_VALUE.fullmatch(word)
        is_value = bool(_OPTION.fullmatch(before) and SECRET_NAME.search(before))
        if is_value or (named and SECRET_NAME.search(named["name"])):
            found.add(position)
        before = word
    return frozenset(found)


def _is_named_secret(path: Path) -> bool:
    """Return whether a key of the user's own, on the way to a value, is the name of a secret."""
    free = next((place for place, key in enumerate(path) if key in KEYS_OF_THE_USER), len(path))
    return any(SECRET_NAME.search(str(key)) for key in path[free + 1 :])


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
