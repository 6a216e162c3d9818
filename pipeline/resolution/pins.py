"""Read pins, the decisions of people about pairs of names.

``graphmill resolutions`` writes them into corrections.jsonl. This module also reads the CSV file of
earlier versions, which stays valid:

    decision,a,b,note
    same,IBM,International Business Machines,
    different,Georgia (state),Georgia (country),seen in the atlas
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from pipeline.errors import SettingsError
from pipeline.text.ids import clean_name, digest, entity_id

Decision = Literal["same", "different"]
COLUMNS = ["decision", "a", "b", "note"]
IdPair = tuple[str, str]


@dataclass(frozen=True)
class Pin:
    """The decision of a person that two names mean the same or different things."""

    decision: Decision
    a: str
    b: str
    note: str = ""

    @property
    def ids(self) -> IdPair:
        """The entity ids of the two names, the smaller first."""
        return id_pair(self.a, self.b)


def id_pair(a: str, b: str) -> IdPair:
    """Return the entity ids of two names, the smaller first."""
    one, two = sorted((entity_id(a), entity_id(b)))
    return one, two


def read_pins(path: Path) -> list[Pin]:
    """Return the pins in the order of the file, or an empty list if there is no file.

    Raises SettingsError if a line cannot be read or pins contradict each other.
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
    pins: list[Pin] = []
    for line, row in rows:
        # The header may lack the column of notes.
        is_header = row[: len(COLUMNS) - 1] == COLUMNS[:-1]
        if any(row) and not is_header:
            pins.append(_read_pin(f"{path}:{line}", row))
    refuse_contradictions(path, pins)
    return pins


def pins_digest(pins: Sequence[Pin]) -> str:
    """Return a hash of the decisions; their order and notes do not change it."""
    decisions = {(pin.decision, *pin.ids) for pin in pins}
    return digest(*chain.from_iterable(sorted(decisions)))


def _read_pin(where: str, row: Sequence[str]) -> Pin:
    """Return the pin of a row of the file; ``where`` names its line in messages.

    Raises SettingsError if the row is no pin or both names have one entity id.
    """
    padded_row = (*row, "", "", "", "")
    decision, a, b, note = padded_row[: len(COLUMNS)]
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
    """Check that no two names are pinned as different and as the same.

    Names are also the same if a chain of pins connects them. Raises SettingsError with ``path`` in
    its message.
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(pin.ids for pin in pins if pin.decision == "same")
    for pin in pins:
        one, two = pin.ids
        if pin.decision == "same" or one not in graph or two not in graph:
            continue
        if nx.has_path(graph, one, two):
            raise SettingsError(
                f"{path}: '{pin.a}' and '{pin.b}' are pinned different, and the same, directly or"
                " by others; remove one of the lines"
            )
