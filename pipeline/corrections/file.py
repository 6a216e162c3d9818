"""Read and write corrections.jsonl, the file with the decisions of people about the graph.

Each line is a JSON object with the field ``kind`` and the fields of that kind (decisions.py):

    {"kind": "rename", "entity": "Acme", "to": "Acme Corporation", "by": "ann", "why": "full name"}
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.corrections.conflicts import find_conflict
from pipeline.corrections.decisions import DECISION, KINDS, Decision, Keep, SetProperty
from pipeline.errors import SettingsError
from pipeline.files import write_text
from pipeline.text.ids import clean, digest

FILE = "corrections.jsonl"
LONGEST_KIND = 40
"""Characters of an unknown kind that a message shows."""


@dataclass(frozen=True)
class Line:
    """A line of the file with its decision. ``number`` counts from 1."""

    number: int
    decision: Decision


def read_lines(path: Path) -> list[Line]:
    """Return the lines of the file in their order, or an empty list if there is no file.

    A line that repeats a decision is left out. Raises SettingsError if a line cannot be read or two
    lines contradict each other.
    """
    lines: list[Line] = []
    known: set[str] = set()
    for number, text in _read_texts(path):
        decision = _read_decision(text, f"{path}:{number}")
        if decision.id not in known:
            known.add(decision.id)
            lines.append(Line(number, decision))
    check_lines(path, lines)
    return lines


def check_lines(path: Path, lines: Sequence[Line], added: Decision | None = None) -> None:
    """Check that no two lines contradict each other. Raises SettingsError that quotes both.

    ``added`` is the decision of a line that is not in the file yet.
    """
    conflict = find_conflict([line.decision for line in lines])
    if conflict is None:
        return
    number_of = {line.decision.id: line.number for line in lines}
    new_id = "" if added is None else added.id
    quoted = [
        f"{_name_line(decision, number_of, new_id)} ({write_decision(decision)})"
        for decision in conflict.decisions
    ]
    advice = "remove one of them"
    if added is not None:
        ids = [decision.id for decision in conflict.decisions if decision.id != new_id]
        undo = f"graphmill corrections undo {ids[0]}"
        advice = f"nothing is written; take back the former first: {undo}"
    raise SettingsError(f"{path}: {' and '.join(quoted)}: {conflict.fact}; {advice}")


def _name_line(decision: Decision, number_of: Mapping[str, int], new_id: str) -> str:
    """Return what a message calls the line of a decision."""
    return "the new line" if decision.id == new_id else f"line {number_of[decision.id]}"


def file_digest(path: Path) -> str:
    """Return a hash of the decisions in the file.

    The order of the lines, and who decided when and why, do not change it; nor does a line that
    only keeps a name off the list of suspects. Who has set a value is the source of that value, and
    changes it.
    """
    followed = [one.decision for one in read_lines(path) if not isinstance(one.decision, Keep)]
    return digest(*sorted(map(_identify, followed)))


def _identify(decision: Decision) -> str:
    """Return all of a decision that can change a result."""
    is_signed = isinstance(decision, SetProperty) and decision.by
    return f"{decision.id} {decision.by}" if is_signed else decision.id


def write_decision(decision: Decision) -> str:
    """Return the decision as a line of the file, without fields that are empty."""
    fields = decision.model_dump(exclude_defaults=True)
    return json.dumps({"kind": kind_of(decision), **fields}, ensure_ascii=False)


def kind_of(decision: Decision) -> str:
    """Return the kind of a decision, as its line names it."""
    return next(kind for kind, fields in KINDS.items() if isinstance(decision, fields))


def write_decisions(path: Path, decisions: Sequence[Decision]) -> None:
    """Replace the whole file atomically with one line for each decision.

    Raises SettingsError and keeps the old file if two of them contradict each other.
    """
    check_lines(path, [Line(number, each) for number, each in enumerate(decisions, start=1)])
    write_text(path, "".join(f"{write_decision(each)}\n" for each in decisions))


def make_decision(fields: Mapping[str, Any], where: str) -> Decision:
    """Return the decision with these fields. Raises SettingsError that begins with ``where``."""
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        # A damaged line may hold megabytes there.
        given = clean(str(kind))[:LONGEST_KIND]
        near = difflib.get_close_matches(given, KINDS, n=1)
        advice = f"did you mean '{near[0]}'?" if near else f"write one of: {', '.join(KINDS)}"
        raise SettingsError(f"{where}: '{given}' is no kind of correction; {advice}")
    try:
        return DECISION.validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        # The first item of the location is the kind, which the message names already.
        field = ".".join(str(item) for item in first["loc"][1:])
        reason = first["msg"].removeprefix("Value error, ")
        names = ", ".join(name for name in KINDS[kind].model_fields if name != "kind")
        raise SettingsError(
            f"{where}: correction '{kind}'{f', field {field!r}' if field else ''}: {reason};"
            f" its fields are {names}"
        ) from error


def _read_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}; allow reading it") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: {error}; save it in UTF-8") from error
    # Only line feeds end a line: JSON may hold other characters that Python takes for line ends.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _read_decision(text: str, where: str) -> Decision:
    try:
        fields = json.loads(text)
    # Python refuses numbers of thousands of digits, and lists that are nested too deeply.
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{where}: no JSON ({error}); write one object in each line") from error
    if not isinstance(fields, dict):
        raise SettingsError(f'{where}: no object; write {{"kind": ..., ...}}')
    return make_decision(fields, where)
