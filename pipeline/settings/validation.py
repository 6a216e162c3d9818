"""Read YAML 1.2, and explain a failed validation in one line."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from pydantic import ValidationError

_BOOL, _VALUE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:value"
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.CSafeLoader):
    """A loader that reads booleans as YAML 1.2 does: ``on``, ``no`` and ``=`` are texts.

    It is the one in C, which takes a tenth of the time.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _VALUE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


class RepeatedKeyError(yaml.MarkedYAMLError):
    """A mapping has a key twice.

    ``place`` has the key and those above it, joined by dots; ``line`` is that of the second one.
    """

    def __init__(self, place: str, mark: Any) -> None:
        super().__init__(problem="the key is there twice; keep one of them", problem_mark=mark)
        self.place = place
        self.line: int = mark.line + 1


def parse_yaml(text: str) -> Any:
    """Return the single document in the text.

    Raises yaml.YAMLError if it is malformed, and RepeatedKeyError, which is one, for a mapping that
    has a key twice: the first of the two values would be lost without a message.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        # Before values are made of the nodes, since merge keys (<<) are replaced by that.
        _refuse_repeated_keys(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_repeated_keys(top: yaml.Node) -> None:
    """Raise RepeatedKeyError for the first key in the text that its mapping has twice."""
    repeated: list[tuple[int, RepeatedKeyError]] = []
    waiting: list[tuple[str, Any]] = [("", top)]
    # An alias is the node of its anchor, which may even contain it.
    seen: set[int] = set()
    while waiting:
        place, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(place, entry) for entry in node.value]
        if not isinstance(node, yaml.MappingNode):
            continue
        keys: set[str] = set()
        for key, value in node.value:
            # Several merge keys lose nothing: each adds its own keys.
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                waiting.append((place, value))
                continue
            key_place = f"{place}.{key.value}" if place else key.value
            if key.value in keys:
                mark = key.start_mark
                repeated.append((mark.index, RepeatedKeyError(key_place, mark)))
            keys.add(key.value)
            waiting.append((key_place, value))
    if repeated:
        raise min(repeated, key=lambda found: found[0])[1]


def explain(where: str, error: ValidationError, known: Iterable[str]) -> str:
    """Return a line about the first fault of a failed validation.

    For an unknown key it suggests the nearest of ``known``. If a key is missing and another beside
    it is unknown, the line is about the unknown one, which is probably the missing one misspelt.
    ``where`` begins the line. Values are not shown, because one may be a secret.
    """
    fault = choose_fault(error)
    # Pydantic marks a name that does not fit, in place of its value, by "[key]".
    place = ".".join(str(part) for part in fault["loc"] if part != "[key]")
    if fault["type"] != "extra_forbidden":
        parts = [where, place if place != where else "", describe_fault(fault)]
        return ": ".join(filter(None, parts))
    return (
        f"{where}: unknown key '{place}';"
        f" {did_you_mean(str(fault['loc'][-1]), known, 'known keys')}"
    )


def choose_fault(error: ValidationError) -> Mapping[str, Any]:
    """Return the fault of a failed validation that ``explain`` tells."""
    faults = error.errors(include_url=False, include_input=False)
    missing = {fault["loc"][:-1] for fault in faults if fault["type"] == "missing"}
    misspelt = [
        fault
        for fault in faults
        if fault["type"] == "extra_forbidden" and fault["loc"][:-1] in missing
    ]
    return misspelt[0] if misspelt and faults[0]["type"] == "missing" else faults[0]


def describe_fault(fault: Mapping[str, Any]) -> str:
    """Return a message about a fault that pydantic found, without the words of Python.

    It shows no value, because one may be a secret.
    """
    kind = fault["type"]
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return "no names with values; write {name: value}"
    if kind in ("list_type", "tuple_type"):
        return "no list; write [one, another]"
    if kind == "too_long":
        limits = fault["ctx"]
        return f"{limits['actual_length']:,} entries; write at most {limits['max_length']:,}"
    return str(fault["msg"]).removeprefix("Value error, ")


def did_you_mean(name: str, known: Iterable[str], them: str = "have") -> str:
    """Suggest the known name nearest to ``name``; if none is near, list them all after ``them``."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"{them}: {', '.join(names) or 'none'}"


def not_yaml(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Return where a text stops being YAML, and what to do.

    It quotes nothing of the text, which may be a secret, except a key that is there twice.
    """
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "not a YAML text in UTF-8; correct its encoding"
    if isinstance(error, RepeatedKeyError):
        return f"line {error.line}: {error.place}: {error.problem}"
    return (
        f"not YAML at line {mark.line + 1}, column {mark.column + 1}; correct it, or quote the"
        " value"
    )
