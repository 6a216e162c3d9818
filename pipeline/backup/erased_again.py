"""Erases again, in a restored project, the persons who were erased after the backup."""

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from pipeline.corrections.decisions import Decision, DeleteEntity
from pipeline.corrections.file import FILE as CORRECTIONS
from pipeline.corrections.file import read_lines, write_decisions
from pipeline.engine.run_report import Progress
from pipeline.errors import DataError, GraphmillError, counted
from pipeline.purge.erased_names import ErasedNames, remove_corrections, remove_questions
from pipeline.purge.history import purge_history
from pipeline.purge.purged import PurgedDocuments
from pipeline.runs.apply_corrections import follows_corrections, options_to_apply
from pipeline.runs.audit import FOLDER as AUDIT
from pipeline.runs.audit import AuditLog
from pipeline.runs.corrections import lock_corrections
from pipeline.runs.services import Services
from pipeline.runs.stages import index_stage, run_stages
from pipeline.text.ids import match_key

NAMED = ("entities", "extractions")
"""The tables with names of entities: as the graph has them, and as the documents have them."""


def erase_again(project: Services) -> list[str]:
    """Remove what names an erased person, and return notes on it; no store is changed.

    Questions, corrections and texts of the audit log go. Where documents were kept, the entities
    are deleted again by corrections, and the tables follow. Raises DataError if they cannot.
    """
    names = PurgedDocuments.of(project.root).erased_names()
    if not names.names:
        return []
    questions = remove_questions(project.root, names)
    audit_lines = AuditLog(project.root / AUDIT).hash_texts(names.are_in)
    removed = remove_corrections(project, names)
    deleted = _delete_again(project, names, removed)
    if removed or deleted:
        try:
            _apply_corrections(project)
            purge_history(project, dry_run=False)
        except GraphmillError as error:
            raise DataError(
                "restore: a person was erased after this backup, and cannot be erased from its"
                f" tables, so nothing is restored; use a later backup: {error}"
            ) from error
    counts = [
        counted(len(removed), "correction"),
        counted(questions, "question of an evaluation", "questions of evaluations"),
        counted(audit_lines, "text of the audit log", "texts of the audit log"),
    ]
    if not (removed or deleted or questions or audit_lines):
        return []
    again = f"; deleted from the graph: {counted(deleted, 'name')}" if deleted else ""
    return [f"restore: of persons who were erased, removed again: {', '.join(counts)}{again}"]


def _delete_again(project: Services, names: ErasedNames, removed: Iterable[Decision]) -> int:
    """Add a correction that deletes each entity whose deletion the backup lacks; return how many.

    The list of erased persons has hashes alone. The names are those that the backup has.
    """
    file = project.root / CORRECTIONS
    with lock_corrections(project):
        decisions = [line.decision for line in read_lines(file)]
        there = {match_key(one.entity) for one in decisions if _deletes_everywhere(one)}
        added: list[Decision] = []
        for name in sorted({*_names_in_tables(project), *_texts_of(removed)}):
            if names.is_deleted(name) and match_key(name) not in there:
                there.add(match_key(name))
                added.append(DeleteEntity(entity=name, why="erased on request"))
        if added:
            write_decisions(file, [*decisions, *added])
    return len(added)


def _deletes_everywhere(decision: Decision) -> TypeGuard[DeleteEntity]:
    is_deletion = isinstance(decision, DeleteEntity)
    return is_deletion and not (decision.document or decision.quote or decision.type)


def _names_in_tables(project: Services) -> Iterator[str]:
    for workflow in project.snapshots.workflows():
        manifest = project.snapshots.manifest(workflow)
        for table in NAMED:
            if table in manifest.tables:
                snapshot = manifest.tables[table]
                for batch in project.snapshots.tables.read_batches(snapshot, ["name"]):
                    yield from filter(None, batch.column("name").to_pylist())


def _texts_of(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield the texts in fields of decisions: one may be a name that a correction joined."""
    for decision in decisions:
        for value in decision.model_dump().values():
            if isinstance(value, str):
                yield value


def _apply_corrections(project: Services) -> None:
    for name in project.snapshots.workflows():
        workflow = project.workflow(name)
        if follows_corrections(workflow):
            options = options_to_apply(project, workflow)
            with project.runs.alone():
                run_stages(project, name, Progress(), options, index_stage)
