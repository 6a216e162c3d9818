"""An evaluation as its JSON file has it, read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError
from pipeline.evaluation.evaluation import FORMAT, TOKEN_COLUMNS

Values = Mapping[str, float]
"""Metric -> value."""


@dataclass(frozen=True)
class Stored:
    """``modes``: means by mode; ``rows``: by mode, then by question: its id and text."""

    name: str
    modes: Mapping[str, Values]
    rows: Mapping[str, Mapping[tuple[str, str], Values]]


def read_evaluation(path: str | Path) -> Stored:
    """Raises UsageError for what ``graphmill eval --output`` has not written."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name the JSON of an eval") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not JSON; name a file that 'graphmill eval --output' has written") from None
    try:
        return stored(str(path), content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"{path}: no evaluation of this version; name a file that 'graphmill eval --output' has written"
        ) from None


def stored(name: str, content: Mapping[str, Any]) -> Stored:
    """``content``: what ``Evaluation.to_json`` gives."""
    if content["format"] != FORMAT:
        raise ValueError(name)
    modes = {mode: _values(means) for mode, means in content["modes"].items()}
    rows: dict[str, dict[tuple[str, str], Values]] = {mode: {} for mode in modes}
    for question in content["questions"]:
        for mode, values in question["modes"].items():
            rows[mode][question["id"], question["question"]] = _values(values)
    return Stored(name, modes, rows)


def _values(content: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in content.items() if "@" in name or name in TOKEN_COLUMNS}
