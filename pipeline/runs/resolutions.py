"""A person's word on which names are one: pins written for the next run, and what the last run
decided."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    """What became of the file. ``unknown``: names that no entity of the last run has."""

    file: Path
    done: Literal["pinned same", "pinned different", "pin removed"]
    unknown: tuple[str, ...] = ()


def resolutions(project: Services, workflow: str | None = None) -> pd.DataFrame:
    """The decisions of the workflow's last run (RESOLUTIONS). Raises UsageError where none has been
    made."""
    return project.snapshots.tables.read(_decisions(project, workflow))


def _decisions(project: Services, workflow: str | None) -> Snapshot:
    step = _step(project, workflow)
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
    """The next run takes the two names for one, or for two, whatever rules and model say; a former
    pin of the pair is replaced. Raises UsageError for two spellings of one name, SettingsError for
    a pin that contradicts others."""
    made = Pin(decision, clean_name(a), clean_name(b))
    if made.ids[0] == made.ids[1]:
        raise UsageError(
            f"resolutions: '{a}' and '{b}' are one name but for case and punctuation; nothing"
            " to pin"
        )
    with _alone(project, workflow) as file:
        _write(file, [*_without(read_pins(file), made.ids), made])
    return PinReport(
        file,
        "pinned same" if decision == "same" else "pinned different",
        _unknown(project, workflow, a, b),
    )


def undo(project: Services, a: str, b: str, workflow: str | None = None) -> PinReport:
    """Take back the pin of two names or, where there is none, part what the last run merged: pin
    them different. Raises UsageError where there is neither."""
    ids = id_pair(a, b)
    with _alone(project, workflow) as file:
        pins = read_pins(file)
        if any(one.ids == ids for one in pins):
            _write(file, _without(pins, ids))
            return PinReport(file, "pin removed")
    if not _merged(resolutions(project, workflow), ids):
        raise UsageError(
            f"resolutions: '{a}' and '{b}' are neither pinned nor merged; see 'graphmill"
            " resolutions list'"
        )
    return pin(project, "different", a, b, workflow)


@dataclass(frozen=True)
class Names:
    """``merged``: what the entity is also called; ``apart``: what it was compared with and is not.
    Each with the rule, and who decided by it."""

    merged: tuple[dict[str, str], ...]
    apart: tuple[dict[str, str], ...]


def names_of(project: Services, id: str, workflow: str | None = None) -> Names:
    """Of an entity of the workflow's last run; no decision about another one is read. Raises
    UsageError where none has been made."""
    decisions, one = _decisions(project, workflow), {id}
    while True:
        touching = _touching(project.snapshots, decisions, one)
        merged = touching["decision"] == "merge"
        reached = one.union(touching[merged]["left_id"], touching[merged]["right_id"])
        if reached == one:
            return Names(_told(touching[merged], {id}), _told(touching[~merged], one))
        one = reached


def _touching(snapshots: SnapshotStore, decisions: Snapshot, ids: set[str]) -> pd.DataFrame:
    return as_frame(snapshots.tables.select(decisions, ENDS, pa.array(sorted(ids), STRING)))


def _told(rows: pd.DataFrame, but: set[str]) -> tuple[dict[str, str], ...]:
    """The names in them, each once, without those of the entities ``but``."""
    found = {
        end_id: {"name": name, "rule": row.rule, "by": row.by}
        for row in rows.itertuples(index=False)
        for end_id, name in ((str(row.left_id), str(row.left)), (str(row.right_id), str(row.right)))
        if end_id not in but
    }
    return tuple(sorted(found.values(), key=lambda told: told["name"]))


def _step(project: Services, workflow: str | None) -> Step:
    flow = project.workflow(workflow)
    step = next((step for step in flow.steps if step.verb.name == RESOLVE), None)
    if step is None:
        raise UsageError(
            f"workflow '{flow.name}': no step {RESOLVE}; add it (docs/resolution.md), or name"
            " another one"
        )
    return step


@contextmanager
def _alone(project: Services, workflow: str | None) -> Iterator[Path]:
    """The file of pins, which nobody else changes meanwhile: two editors may decide at once."""
    from filelock import FileLock

    file, lock = _file(project, workflow), project.root / "data" / "pins.lock"
    lock.parent.mkdir(exist_ok=True)
    with FileLock(lock):
        yield file


def _file(project: Services, workflow: str | None) -> Path:
    params = _step(project, workflow).params
    if not isinstance(params, ResolveParams):
        raise TypeError(f"{RESOLVE}: its params are {type(params).__name__}")
    return params.file


def _unknown(project: Services, workflow: str | None, *names: str) -> tuple[str, ...]:
    table = _step(project, workflow).inputs["merged_entities"]
    snapshot = project.snapshots.manifest(project.workflow(workflow).name).tables.get(table)
    if snapshot is None:
        return ()
    known = set(project.snapshots.tables.read(snapshot, ["id"])["id"])
    return tuple(name for name in names if entity_id(name) not in known)


def _merged(decisions: pd.DataFrame, ids: IdPair) -> bool:
    merges = decisions[decisions["decision"] == "merge"]
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(zip(merges["left_id"], merges["right_id"], strict=True))
    return all(id in graph for id in ids) and nx.has_path(graph, *ids)


def _without(pins: Sequence[Pin], ids: IdPair) -> list[Pin]:
    return [one for one in pins if one.ids != ids]


def _write(file: Path, pins: Sequence[Pin]) -> None:
    """The whole file anew, at once; nothing is written for pins that contradict each other."""
    refuse_contradictions(file, pins)
    text = io.StringIO()
    rows = [COLUMNS, *([one.decision, one.a, one.b, one.note] for one in pins)]
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(file, text.getvalue())
