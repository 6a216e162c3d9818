"""Pins: what a person has decided about pairs of names, in a CSV file that people and ``graphmill
resolutions`` edit.

decision,a,b,note
same,IBM,International Business Machines,
different,Georgia (state),Georgia (country),seen in the atlas
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pipeline.errors import SettingsError
from pipeline.text.ids import clean_name, digest, entity_id

Decision = Literal["same", "different"]
COLUMNS = ["decision", "a", "b", "note"]
IdPair = tuple[str, str]


@dataclass(frozen=True)
class Pin:
    decision: Decision
    a: str
    b: str
    note: str = ""

    @property
    def ids(self) -> IdPair:
        return id_pair(self.a, self.b)


def id_pair(a: str, b: str) -> IdPair:
    """The entity ids of two names, the smaller first."""
    one, two = sorted((entity_id(a), entity_id(b)))
    return one, two


def read_pins(path: Path) -> list[Pin]:
    """The pins in the order of the file; none where there is no file.

    Raises SettingsError for a line that cannot be read, and for pins that contradict each other.
    """
    if not path.exists():
        return []
    try:
        lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""))
        rows = [(lines.line_num, [cell.strip() for cell in row]) for row in lines]
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}; allow reading it") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"{path}: {error}; save it as CSV in UTF-8") from error
    pins = [
        _pin(f"{path}:{line}", row)
        for line, row in rows
        if any(row) and row[: len(COLUMNS) - 1] != COLUMNS[:-1]
    ]
    refuse_contradictions(path, pins)
    return pins


def pins_digest(path: Path) -> str:
    """Changes with what is decided: not with the order of lines, or notes."""
    return digest(
        *(
            part
            for pin in sorted({(pin.decision, *pin.ids) for pin in read_pins(path)})
            for part in pin
        )
    )


def _pin(where: str, row: Sequence[str]) -> Pin:
    decision, a, b, note = (*row, "", "", "", "")[: len(COLUMNS)]
    if decision not in get_args(Decision) or not (a and b):
        raise SettingsError(
            f"{where}: '{','.join(row)}' is no pin; write same,NAME,NAME or different,NAME,NAME"
        )
    pin = Pin("same" if decision == "same" else "different", clean_name(a), clean_name(b), note)
    if pin.ids[0] == pin.ids[1]:
        raise SettingsError(
            f"{where}: '{a}' and '{b}' are one name but for case and punctuation; remove the line"
        )
    return pin


def refuse_contradictions(path: Path, pins: Sequence[Pin]) -> None:
    """Raises SettingsError for two names that are pinned different, and the same, be it by way of
    others."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(pin.ids for pin in pins if pin.decision == "same")
    for pin in pins:
        one, two = pin.ids
        if (
            pin.decision == "different"
            and one in graph
            and two in graph
            and nx.has_path(graph, one, two)
        ):
            raise SettingsError(
                f"{path}: '{pin.a}' and '{pin.b}' are pinned different, and the same, directly or"
                " by others; remove one of the lines"
            )
