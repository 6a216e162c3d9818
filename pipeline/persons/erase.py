"""Erases what a project holds about a person.

Documents that name the person are purged. Of documents that are kept, the person leaves the graph
by corrections. Lines of corrections, questions of evaluations and texts of the audit log go, and
then the history, with all kept replies that nothing needs.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.corrections.decisions import DeleteEntity
from pipeline.corrections.file import FILE as CORRECTIONS
from pipeline.corrections.file import read_lines
from pipeline.engine.run_report import Progress
from pipeline.errors import UsageError, counted
from pipeline.persons.find import AboutPerson, Spellings, find_person
from pipeline.persons.intention import ErasureIntent, ErasureIntents
from pipeline.purge.document import purge, survey_document
from pipeline.purge.erased_names import remove_corrections, remove_questions
from pipeline.purge.history import purge_history
from pipeline.purge.intention import PurgeIntents
from pipeline.purge.purged import PurgedDocuments
from pipeline.runs.apply_corrections import follows_corrections, options_to_apply
from pipeline.runs.audit import FOLDER as AUDIT
from pipeline.runs.audit import AuditLog
from pipeline.runs.corrections import add
from pipeline.runs.services import Services
from pipeline.runs.stages import index_stage, load_stage, run_stages


@dataclass(frozen=True)
class Erased:
    """The result of an erasure.

    ``purged`` has the documents that are gone, ``kept`` those that were left. ``deleted`` has names
    of entities that corrections delete. ``unreached`` names places that may still hold a document.
    ``left`` is what is still found.
    """

    purged: tuple[str, ...]
    kept: tuple[str, ...]
    deleted: tuple[str, ...]
    corrections: int
    questions: int
    audit_lines: int
    unreached: dict[str, str]
    left: AboutPerson

    @property
    def exit_code(self) -> int:
        return 1 if self.unreached else 0

    def lines(self) -> list[str]:
        lines = [f"purged: {source}" for source in self.purged]
        lines += [f"kept, and still names the person: {source}" for source in self.kept]
        lines += [f"deleted from the graph by a correction: {name}" for name in self.deleted]
        counts = [
            counted(self.corrections, "correction"),
            counted(self.questions, "question of an evaluation", "questions of evaluations"),
            counted(self.audit_lines, "text of the audit log", "texts of the audit log"),
        ]
        return [*lines, f"removed: {', '.join(counts)}", "still found:", *self.left.lines()]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def erase_person(project: Services, name: str, keep: Collection[str] = ()) -> Erased:
    """Delete what the project holds about a person, and return what was done.

    ``keep`` has sources of documents that stay. If it is killed, the same call goes on. No model is
    asked. Raises UsageError for a document in ``keep`` that does not name the person, and the
    errors of ``purge``, before anything is removed.
    """
    unreached: dict[str, str] = {}
    # A document whose purge was broken off is in no table any more. One whose purge has still to
    # work here comes first: until then no other may begin.
    begun = PurgeIntents(project.root).all().values()
    for intent in sorted(begun, key=lambda one: one.done_here):
        unreached |= purge(project, intent.document).unreached
    intents = ErasureIntents(project.root)
    intent = intents.of(name)
    found = find_person(project, name)
    unknown = sorted(set(keep) - set(found.sources))
    if intent and set(intent.keep) != set(keep):
        raise UsageError(
            f"subject: an erasure of {intent.name} was broken off, and the same command goes on"
            f" with it; documents to keep were: {', '.join(intent.keep) or 'none'}"
        )
    if unknown and not intent:
        raise UsageError(
            f"subject: {unknown[0]} is none of the documents that name the person; have:"
            f" {', '.join(found.sources) or 'none'}"
        )
    purged = [source for source in found.sources if source not in keep]
    has_corrections = bool(keep) or (project.root / CORRECTIONS).exists()
    _refuse_what_would_fail(project, purged, has_corrections)
    intent = _begin(intent, found, name, keep, purged)
    # Older backups have these names: a restore erases them again by this note.
    PurgedDocuments.of(project.root).note_names(found.names, deleted=bool(intent.deleted))
    # What joins the names of the person goes from here on, so a second call needs the note.
    intents.save(intent)
    spellings = Spellings(found.names)
    questions = remove_questions(project.root, spellings)
    audit_lines = AuditLog(project.root / AUDIT).hash_texts(spellings.are_in)
    corrections = len(remove_corrections(project, spellings))
    _delete_entities(project, intent)
    # A purge is made of the last tables, so these must follow the corrections by now.
    if has_corrections:
        _apply_corrections(project)
    for source in purged:
        unreached |= purge(project, source).unreached
    purge_history(project, dry_run=False)
    if not unreached:
        intents.end(intent)
    return Erased(
        intent.purged, tuple(keep), intent.deleted, corrections, questions, audit_lines, unreached,
        find_person(project, name, found.names),
    )  # fmt: skip


def _begin(
    before: ErasureIntent | None,
    found: AboutPerson,
    name: str,
    keep: Collection[str],
    purged: Sequence[str],
) -> ErasureIntent:
    """Return what has to be erased: what was found now, and what a killed call had noted before."""
    deleted: set[str] = set()
    workflow = ""
    if before:
        deleted, workflow = set(before.deleted), before.workflow
    if keep and found.entities:
        # A name that a run or a correction has joined would be an entity of its own without it.
        deleted |= set(found.names)
        workflow = found.entities[0]["workflow"]
    noted = before.purged if before else ()
    return ErasureIntent(
        before.name if before else name,
        found.names,
        tuple(keep),
        tuple(sorted({*noted, *purged})),
        tuple(sorted(deleted)),
        workflow,
    )


def _delete_entities(project: Services, intent: ErasureIntent) -> None:
    """Add a correction that deletes the entity of each name, unless there is one."""
    there = [line.decision for line in read_lines(project.root / CORRECTIONS)]
    ids = {one.id for one in there}
    for name in intent.deleted:
        decision = DeleteEntity(entity=name, why="erased on request")
        if decision.id not in ids:
            add(
                project,
                decision.model_dump(exclude_defaults=True) | {"kind": decision.kind},
                intent.workflow,
            )


def _refuse_what_would_fail(
    project: Services, purged: Sequence[str], has_corrections: bool
) -> None:
    """Raise the error that a purge or the corrections would end with, while nothing is removed."""
    for source in purged:
        # Corrections may add steps; a run makes their tables before the purges.
        survey_document(project, source, runs_first=has_corrections)
    for name in project.snapshots.workflows():
        documents = project.snapshots.manifest(name).tables.get("documents")
        if purged and documents is not None:
            sources = project.snapshots.tables.read(documents, ["source"])["source"]
            if sources.isin(purged).all():
                raise UsageError(
                    f"subject: every document of workflow '{name}' names the person, and one has to"
                    " stay; add another document and run, or keep one with --keep"
                )
        if has_corrections and follows_corrections(project.workflow(name)):
            options_to_apply(project, project.workflow(name))


def _apply_corrections(project: Services) -> None:
    """Make the tables of all workflows, and what the workspace shows, follow the corrections."""
    for name in project.snapshots.workflows():
        if not follows_corrections(project.workflow(name)):
            continue
        options = options_to_apply(project, project.workflow(name))
        is_shown = name == project.live_workflow()
        stages = [index_stage, load_stage] if is_shown else [index_stage]
        with project.runs.alone():
            run_stages(project, name, Progress(), options, *stages)
