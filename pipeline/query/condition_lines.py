"""Read conditions as a person writes them on a line: year>=2020, language in de, en."""

import re
from typing import Any

import yaml

from pipeline.errors import UsageError
from pipeline.text.small_yaml import is_small_yaml

_FIELD = r"(?P<field>[^<>=!]+?)"
_COMPARISON = re.compile(rf"{_FIELD}\s*(?P<operator>>=|<=|!=|=|<|>)\s*(?P<value>.*)", re.DOTALL)
_WORD = re.compile(rf"{_FIELD}\s+(?P<operator>not\s+in|in|matches)(?:\s+(?P<value>.*))?", re.DOTALL)
_EXISTS = re.compile(rf"{_FIELD}\s+(?P<operator>exists)(?:\s+(?P<value>.*))?", re.DOTALL)
_ENDS_WITH_WORD = re.compile(r".*\s(not|in|matches|exists)", re.DOTALL)
"""A field that ends with an operator, which would be ignored, as in "language in=de"."""
_SECOND = re.compile(r"(?:\s(?:and|or)\s|,|&&)\s*[\w.]+\s*(?:[<>]=?|!?=)", re.IGNORECASE)
"""The beginning of another condition within a value."""
_FORMS = (
    "write KEY=VALUE, with one of = != < <= > >=, or 'KEY in A, B', 'KEY not in A, B',"
    " 'KEY matches GLOB', 'KEY exists', 'KEY exists false'"
)
_AS_LIST = {"=": "in", "!=": "not in"}


def read_conditions(lines: list[str]) -> dict[str, Any]:
    """Parse conditions such as ``year>=2020``; return field -> operator -> value.

    ``key=[a, b]`` and ``key in a, b`` accept any of the values. The result has the form of
    QueryRequest.where. Raises UsageError for a line that is no condition, and for a second
    condition with the same field and operator.
    """
    conditions: dict[str, dict[str, Any]] = {}
    for line in lines:
        field, operator, value = _read_line(line)
        of_field = conditions.setdefault(field, {})
        if operator in of_field:
            raise _refusal(
                line,
                f"a second condition '{operator}' on '{field}'; for any of several: key=[a, b]",
            )
        of_field[operator] = value
    return conditions


def _read_line(line: str) -> tuple[str, str, Any]:
    """Return the field, the operator and the value of a condition. Raises UsageError."""
    stripped = line.strip()
    matches = [form.fullmatch(stripped) for form in (_COMPARISON, _WORD, _EXISTS)]
    fitting = [match for match in matches if match]
    if not fitting:
        raise _refusal(line, f"no condition; {_FORMS}")
    # The operator that comes first counts: what follows is the value.
    condition = min(fitting, key=lambda match: match.start("operator"))
    field = condition["field"]
    ending = _ENDS_WITH_WORD.fullmatch(field)
    if ending:
        raise _refusal(line, f"'{ending[1]}' and another operator; {_FORMS}")
    operator = " ".join(condition["operator"].split())
    value = (condition["value"] or "").strip()
    if operator == "exists":
        if value not in ("", "true", "false"):
            raise _refusal(line, f"exists takes true or false; {_FORMS}")
        return field, operator, value != "false"
    listed = _list_or_text(value)
    if isinstance(listed, list):
        return field, _AS_LIST.get(operator, operator), listed
    _refuse_value(line, operator, value)
    if operator in ("in", "not in"):
        return field, operator, [part.strip() for part in value.split(",")]
    return field, operator, value


def _refuse_value(line: str, operator: str, value: str) -> None:
    """Raise UsageError for a value that is none, or that holds another operator or condition."""
    if not value and operator not in ("=", "!="):
        raise _refusal(line, f"no value after '{operator}'; {_FORMS}")
    if value[:1] in ("=", "<", ">"):
        raise _refusal(
            line, f"two operators; {_FORMS}; a value that begins so is written ['{value[:1]}...']"
        )
    if _SECOND.search(value):
        raise _refusal(
            line, "two conditions; give each its own --where, or write the value as ['...']"
        )
    if operator in ("in", "not in"):
        parts = [part.strip() for part in value.split(",")]
        if "" in parts:
            raise _refusal(line, "an empty value between commas; write A, B")
        if re.search(r"[<>=]", value):
            raise _refusal(
                line,
                f"'{operator}' and another operator; write values that have one as ['a=b', c]",
            )


def _refusal(line: str, fact: str) -> UsageError:
    return UsageError(f"--where '{line}': {fact}")


def _list_or_text(text: str) -> Any:
    """Return the list if the text is a list in YAML, otherwise the text itself.

    A list with aliases is taken as a text, since a few characters of it may stand for gigabytes.
    Numbers need no conversion: conditions compare them as numbers.
    """
    try:
        value = yaml.safe_load(text) if is_small_yaml(text) else text
    except (yaml.YAMLError, ValueError):
        # A ValueError is raised for a date such as 2020-13-45 and for numbers that are too long.
        return text
    return value if isinstance(value, list) else text
