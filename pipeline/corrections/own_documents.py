"""Find the added statements that no document states: each becomes a document of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

from pipeline.corrections.decisions import AddStatement
from pipeline.corrections.file import Line, read_lines

MARK = "add_statement"


def read_own_statements(path: Path) -> list[Line]:
    """Return the lines of corrections.jsonl that add a statement without a document.

    Raises SettingsError if a line cannot be read or two lines contradict each other.
    """
    return [line for line in read_lines(path) if is_own_document(line.decision)]


def is_own_document(decision: object) -> bool:
    """Check that a decision adds a statement that no document states."""
    return isinstance(decision, AddStatement) and not decision.document


def has_own_statements(path: Path) -> bool:
    """Check that corrections.jsonl adds a statement without a document.

    Every command makes its workflows, so this reads no more than the lines of this kind, and finds
    no fault: ``read_lines`` does, where the file is followed.
    """
    return any(not fields.get("document") for fields in _read_additions(path))


def _read_additions(path: Path) -> Iterator[dict[str, object]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    for line in text.split("\n"):
        if MARK not in line:
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict) and fields.get("kind") == MARK:
            yield fields
