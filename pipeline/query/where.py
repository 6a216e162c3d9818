"""Conditions on documents as a person writes them on one line: ``year>=2020``."""

import re
from typing import Any

import yaml

from pipeline.errors import UsageError

_CONDITION = re.compile(r"\s*([^<>=!]+?)\s*(>=|<=|!=|=|<|>| matches )\s*(.*?)\s*", re.DOTALL)


def read_conditions(lines: list[str]) -> dict[str, Any]:
    """field -> operator -> value, as QueryRequest.where has it; ``key=[a, b]``: any of these.

    Raises UsageError for a line that is no condition, or the second for one field and operator.
    """
    conditions: dict[str, dict[str, Any]] = {}
    for line in lines:
        match = _CONDITION.fullmatch(line)
        if not match:
            raise UsageError(f"--where '{line}': no condition; write key=value, or one of != < <= > >= ' matches '")
        field, sign, value = match[1], match[2].strip(), _value(match[3])
        name = {"=": "in", "!=": "not in"}.get(sign, sign) if isinstance(value, list) else sign
        if name in conditions.setdefault(field, {}):
            raise UsageError(
                f"--where '{line}': a second condition '{name}' on '{field}'; for any of several: key=[a, b]"
            )
        conditions[field][name] = value
    return conditions


def _value(text: str) -> Any:
    """As YAML reads it where that is a list, else the text itself: conditions compare numbers as numbers anyway."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, list) else text
