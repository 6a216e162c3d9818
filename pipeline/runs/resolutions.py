"""The pins by which people decide which names are one entity, and the decisions of the last run."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame
from pipeline.contract.schemas import STRING
from pipeline.engine.workflow import Step
from pipeline.errors import UsageError
from pipeline.files import write_text
from pipeline.resolution.pins import (
    COLUMNS,
    Decision,
    IdPair,
    Pin,
    id_pair,
    read_pins,
    refuse_contradictions,
)
from pipeline.runs.services import Services
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.text.ids import clean_name, entity_id
from pipeline.verbs.resolve_entities import ResolveParams

RESOLVE = "resolve_entities"
ENDS = ("left_id", "right_id")


@dataclass(frozen=True)
class PinReport:
    """The result of a change to the file of pins.

    ``unknown`` has the names that no entity of the last run has.
    """

    file: Path
    done: Literal["pinned same", "pinned different", "pin removed"]
    unknown: tuple[str, ...] = ()


def resolutions(project: Services, workflow: str | None = None) -> pd.DataFrame:
    """Return the decisions of the workflow's last run, as a table RESOLUTIONS.

    Raises UsageError if it has none.
    """
    return project.snapshots.tables.read(_decisions(project, workflow))


def _decisions(project: Services, workflow: str | None) -> Snapshot:
    step = _resolve_step(project, workflow)
    name = project.workflow(workflow).name
    snapshot = project.snapshots.manifest(name).tables.get(step.outputs["resolutions"])
    if snapshot is None:
        raise UsageError(
            f"workflow '{name}': nothing is resolved yet; run 'graphmill index {name}' first"
        )
    return snapshot


def pin(
    project: Services, decision: Decision, a: str, b: str, workflow: str | None = None
) -> PinReport:
    """Record that two names are one entity, or two, in place of a former pin of the pair.

    The next run follows the pin, whatever rules and model say. Raises UsageError for two spellings
    of one name, SettingsError for a pin that contradicts others.
    """
    made = Pin(decision, clean_name(a), clean_name(b))
    if made.ids[0] == made.ids[1]:
        raise UsageError(
            f"resolutions: '{a}' and '{b}' are one name but for case and punctuation; nothing"
            " to pin"
        )
    with _locked_pins(project, workflow) as file:
        _write_pins(file, [*_other_pins(read_pins(file), made.ids), made])
    return PinReport(
        file,
        "pinned same" if decision == "same" else "pinned different",
        _unknown_names(project, workflow, a, b),
    )


def undo(project: Services, a: str, b: str, workflow: str | None = None) -> PinReport:
    """Remove the pin of two names; if there is none, pin names that the last run merged as
    different.

    Raises UsageError if they are neither pinned nor merged.
    """
    ids = id_pair(a, b)
    with _locked_pins(project, workflow) as file:
        pins = read_pins(file)
        if any(one.ids == ids for one in pins):
            _write_pins(file, _other_pins(pins, ids))
            return PinReport(file, "pin removed")
    if not _are_merged(resolutions(project, workflow), ids):
        raise UsageError(
            f"resolutions: '{a}' and '{b}' are neither pinned nor merged; see 'graphmill"
            " resolutions list'"
        )
    return pin(project, "different", a, b, workflow)


@dataclass(frozen=True)
class Names:
    """The other names of an entity, and the names from which it was told apart.

    ``merged`` has names of the same entity, ``apart`` names that were compared and rejected. Each
    has the rule, and who decided by it.
    """

    merged: tuple[dict[str, str], ...]
    apart: tuple[dict[str, str], ...]


def names_of(project: Services, id: str, workflow: str | None = None) -> Names:
    """Return the names of an entity of the workflow's last run; only its own decisions are read.

    Raises UsageError if the workflow has no decisions.
    """
    decisions, one = _decisions(project, workflow), {id}
    # Follow merges from name to name until no further name is reached.
    while True:
        touching = _decisions_about(project.snapshots, decisions, one)
        is_merge = touching["decision"] == "merge"
        merges = touching[is_merge]
        reached = one.union(merges["left_id"], merges["right_id"])
        if reached == one:
            return Names(_other_names(merges, {id}), _other_names(touching[~is_merge], one))
        one = reached


def _decisions_about(snapshots: SnapshotStore, decisions: Snapshot, ids: set[str]) -> pd.DataFrame:
    return as_frame(snapshots.tables.select(decisions, ENDS, pa.array(sorted(ids), STRING)))


def _other_names(rows: pd.DataFrame, but: set[str]) -> tuple[dict[str, str], ...]:
    """Return each name in the rows once, sorted, without those of the entities ``but``."""
    found: dict[str, dict[str, str]] = {}
    # Type checkers do not know the columns of a row.
    every_row: Any = rows.itertuples(index=False)
    for row in every_row:
        ends = ((str(row.left_id), str(row.left)), (str(row.right_id), str(row.right)))
        for end_id, name in ends:
            if end_id not in but:
                found[end_id] = {"name": name, "rule": row.rule, "by": row.by}
    return tuple(sorted(found.values(), key=lambda each: each["name"]))


def _resolve_step(project: Services, workflow: str | None) -> Step:
    flow = project.workflow(workflow)
    for step in flow.steps:
        if step.verb.name == RESOLVE:
            return step
    raise UsageError(
        f"workflow '{flow.name}': no step {RESOLVE}; add it (docs/resolution.md), or name"
        " another one"
    )


@contextmanager
def _locked_pins(project: Services, workflow: str | None) -> Iterator[Path]:
    """Lock the file of pins while the block runs, because two editors may decide at once; yield its
    path."""
    from filelock import FileLock

    file, lock = _pin_file(project, workflow), project.root / "data" / "pins.lock"
    lock.parent.mkdir(exist_ok=True)
    with FileLock(lock):
        yield file


def _pin_file(project: Services, workflow: str | None) -> Path:
    params = _resolve_step(project, workflow).params
    if not isinstance(params, ResolveParams):
        raise TypeError(f"{RESOLVE}: its params are {type(params).__name__}")
    return params.file


def _unknown_names(project: Services, workflow: str | None, *names: str) -> tuple[str, ...]:
    table = _resolve_step(project, workflow).inputs["merged_entities"]
    snapshot = project.snapshots.manifest(project.workflow(workflow).name).tables.get(table)
    if snapshot is None:
        return ()
    known = set(project.snapshots.tables.read(snapshot, ["id"])["id"])
    return tuple(name for name in names if entity_id(name) not in known)


def _are_merged(decisions: pd.DataFrame, ids: IdPair) -> bool:
    merges = decisions[decisions["decision"] == "merge"]
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(zip(merges["left_id"], merges["right_id"], strict=True))
    return all(id in graph for id in ids) and nx.has_path(graph, *ids)


def _other_pins(pins: Sequence[Pin], ids: IdPair) -> list[Pin]:
    return [one for one in pins if one.ids != ids]


def _write_pins(file: Path, pins: Sequence[Pin]) -> None:
    """Write the whole file of pins atomically. Raises SettingsError if pins contradict each
    other."""
    refuse_contradictions(file, pins)
    text = io.StringIO()
    rows = [COLUMNS, *([one.decision, one.a, one.b, one.note] for one in pins)]
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(file, text.getvalue())
