"""The pins by which people decide which names are one entity, and the decisions of the last run."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame
from pipeline.contract.schemas import STRING
from pipeline.corrections.decisions import Decision as Correction
from pipeline.corrections.decisions import PairDecision
from pipeline.corrections.file import make_decision, read_lines, write_decisions
from pipeline.engine.workflow import Step
from pipeline.errors import UsageError
from pipeline.files import write_text
from pipeline.resolution.pins import (
    COLUMNS,
    Decision,
    IdPair,
    id_pair,
    read_pins,
)
from pipeline.runs.correction_steps import RESOLVE
from pipeline.runs.corrections import lock_corrections, sign
from pipeline.runs.services import Services
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.text.ids import clean_name, entity_id
from pipeline.verbs.resolve_entities import ResolveParams

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
    project: Services,
    decision: Decision,
    a: str,
    b: str,
    workflow: str | None = None,
    by: str = "",
) -> PinReport:
    """Record that two names are one entity, or two, in place of a former decision on the pair.

    The decision is a line of corrections.jsonl. The next run follows it, whatever rules and model
    say. ``by`` is who decides; without it, the account does. Raises UsageError for two spellings of
    one name, SettingsError for a decision that contradicts others.
    """
    if entity_id(a) == entity_id(b):
        raise UsageError(
            f"resolutions: '{a}' and '{b}' are one name but for case and punctuation; nothing"
            " to pin"
        )
    params = _resolve_params(project, workflow)
    with lock_corrections(project):
        ids = id_pair(a, b)
        in_csv = [pin for pin in read_pins(params.file) if pin.ids != ids]
        fields = {"kind": decision, "a": clean_name(a), "b": clean_name(b)}
        made = make_decision({**sign(by), **fields}, "resolutions")
        decisions = [*_other_decisions(params, ids), made]
        if in_csv:
            # Pins of both files must agree, and nothing may be written before that is known.
            params.combine_pins(in_csv, decisions)
        write_decisions(params.corrections_file, decisions)
        _drop_csv_pin(params.file, ids)
    return PinReport(
        params.corrections_file,
        "pinned same" if decision == "same" else "pinned different",
        _unknown_names(project, workflow, a, b),
    )


def undo(project: Services, a: str, b: str, workflow: str | None = None, by: str = "") -> PinReport:
    """Remove the pin of two names; if there is none, pin names that the last run merged as
    different.

    Raises UsageError if they are neither pinned nor merged.
    """
    ids = id_pair(a, b)
    params = _resolve_params(project, workflow)
    with lock_corrections(project):
        lines = read_lines(params.corrections_file)
        decisions = _other_decisions(params, ids)
        if len(decisions) < len(lines):
            write_decisions(params.corrections_file, decisions)
            return PinReport(params.corrections_file, "pin removed")
        if _drop_csv_pin(params.file, ids):
            return PinReport(params.file, "pin removed")
    if not _are_merged(resolutions(project, workflow), ids):
        raise UsageError(
            f"resolutions: '{a}' and '{b}' are neither pinned nor merged; see 'graphmill"
            " resolutions list'"
        )
    return pin(project, "different", a, b, workflow, by)


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
    decisions = _decisions(project, workflow)
    same_entity = {id}
    # Follow merges from name to name until no further name is reached.
    while True:
        touching = _decisions_about(project.snapshots, decisions, same_entity)
        is_merge = touching["decision"] == "merge"
        merges = touching[is_merge]
        reached = same_entity.union(merges["left_id"], merges["right_id"])
        if reached == same_entity:
            break
        same_entity = reached
    merged = _other_names(merges, {id})
    apart = _other_names(touching[~is_merge], same_entity)
    return Names(merged, apart)


def _decisions_about(snapshots: SnapshotStore, decisions: Snapshot, ids: set[str]) -> pd.DataFrame:
    """Return the decisions on a pair of which one name has one of the ids."""
    wanted = pa.array(sorted(ids), STRING)
    return as_frame(snapshots.tables.select(decisions, ENDS, wanted))


def _other_names(rows: pd.DataFrame, but: set[str]) -> tuple[dict[str, str], ...]:
    """Return each name in the rows once, sorted, without those of the entities ``but``."""
    found: dict[str, dict[str, str]] = {}
    # Type checkers do not know the columns of a row.
    every_row: Any = rows.itertuples(index=False)
    for row in every_row:
        name_of_end = {str(row.left_id): str(row.left), str(row.right_id): str(row.right)}
        for end_id, name in name_of_end.items():
            if end_id not in but:
                found[end_id] = {"name": name, "rule": row.rule, "by": row.by}
    by_name = sorted(found.values(), key=lambda names: names["name"])
    return tuple(by_name)


def _resolve_step(project: Services, workflow: str | None) -> Step:
    flow = project.workflow(workflow)
    for step in flow.steps:
        if step.verb.name == RESOLVE:
            return step
    raise UsageError(
        f"workflow '{flow.name}': no step {RESOLVE}; add it (docs/resolution.md), or name"
        " another one"
    )


def _resolve_params(project: Services, workflow: str | None) -> ResolveParams:
    params = _resolve_step(project, workflow).params
    if not isinstance(params, ResolveParams):
        raise TypeError(f"{RESOLVE}: its params are {type(params).__name__}")
    return params


def _unknown_names(project: Services, workflow: str | None, *names: str) -> tuple[str, ...]:
    """Return the names that no entity of the last run has; none before the first run."""
    table = _resolve_step(project, workflow).inputs["merged_entities"]
    workflow_name = project.workflow(workflow).name
    snapshot = project.snapshots.manifest(workflow_name).tables.get(table)
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


def _other_decisions(params: ResolveParams, ids: IdPair) -> list[Correction]:
    """Return the corrections without those on this pair of names."""
    others: list[Correction] = []
    for line in read_lines(params.corrections_file):
        decision = line.decision
        is_on_pair = isinstance(decision, PairDecision) and id_pair(decision.a, decision.b) == ids
        if not is_on_pair:
            others.append(decision)
    return others


def _drop_csv_pin(file: Path, ids: IdPair) -> bool:
    """Remove the pin of a pair from the CSV file of earlier versions; say whether it had one."""
    pins = read_pins(file)
    kept = [pin for pin in pins if pin.ids != ids]
    if len(kept) == len(pins):
        return False
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for pin in kept:
        writer.writerow([pin.decision, pin.a, pin.b, pin.note])
    write_text(file, text.getvalue())
    return True
