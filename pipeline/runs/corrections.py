"""The corrections of a project: list them with what they changed, add one, take one back."""

import getpass
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.corrections.conflicts import is_unrestricted
from pipeline.corrections.decisions import (
    AddStatement,
    Decision,
    DeleteProperty,
    Keep,
    PairDecision,
    Rename,
    Same,
    Scoped,
    SetProperty,
    StatementDecision,
)
from pipeline.corrections.file import (
    FILE,
    Line,
    check_lines,
    kind_of,
    make_decision,
    read_lines,
    write_decisions,
)
from pipeline.corrections.own_documents import is_own_document
from pipeline.corrections.values import plain_phrase
from pipeline.engine.plan import STAMP
from pipeline.engine.workflow import Workflow
from pipeline.errors import UsageError
from pipeline.runs.correction_matches import (
    corrections_file,
    count_matches,
    find_step,
    read_matches,
)
from pipeline.runs.correction_notes import note_effect, note_types
from pipeline.runs.correction_steps import (
    ALIASES,
    CORRECT,
    MERGE,
    RECORDS,
    RESOLVE,
    params_to_read,
)
from pipeline.runs.ontology_steps import CHECK
from pipeline.runs.property_corrections import check_property
from pipeline.runs.services import Services
from pipeline.runs.type_spelling import note_spelling, spell_as_ontology
from pipeline.snapshots.store import Snapshot
from pipeline.text.ids import clean_name, entity_id, match_key
from pipeline.verbs.add_aliases import add_aliases
from pipeline.verbs.correct_extractions import correct_extractions
from pipeline.verbs.read_corrections import list_rows

UNDONE_FIELDS = (
    "id", "kind", "source", "target", "type", "to", "description", "property", "value"
)  # fmt: skip
"""The fields of a correction that was taken back which are shown."""

TURNED_NOTE = (
    "the line has source and target in the order of the text; the ontology has turned the"
    " relationship"
)


@dataclass(frozen=True)
class Effect:
    """A correction and what it changed in the workflow's last run.

    ``records`` and ``text_units`` are None if the last run did not know the correction, or the
    workflow does not read this kind. ``pending``: whether it was decided after the last run, so
    that no table follows it yet.
    """

    decision: Decision
    records: int | None = None
    text_units: int | None = None
    pending: bool = False

    def to_json(self) -> dict[str, Any]:
        fields = self.decision.model_dump(exclude_defaults=True)
        return {
            "id": self.decision.id,
            "kind": kind_of(self.decision),
            **fields,
            "records": self.records,
            "text_units": self.text_units,
            "pending": self.pending,
        }


@dataclass(frozen=True)
class Added:
    """A decision that was added, or would be.

    ``effect`` is what it changes in the extractions of the last run. ``notes`` say why it may not
    do what was meant.
    """

    file: Path
    effect: Effect
    notes: tuple[str, ...] = ()


def list_effects(project: Services, name: str | None = None) -> list[Effect]:
    """Return all corrections in the order of the file, with what they changed in the last run."""
    workflow = project.workflow(name)
    matches = read_matches(project, workflow)
    effects = []
    for line in read_lines(corrections_file(project, workflow)):
        decision = line.decision
        if isinstance(decision, Keep):
            effects.append(Effect(decision))
        elif isinstance(decision, PairDecision):
            effects.append(Effect(decision, pending=_is_pin_pending(project, workflow, decision)))
        elif is_own_document(decision) and matches and decision.id not in matches.counts:
            # Applying corrections at once reads no new document.
            effects.append(Effect(decision, pending=True))
        elif matches is None or decision.id not in matches.known:
            is_followed = find_step(workflow, CORRECT) is not None
            effects.append(Effect(decision, pending=is_followed))
        else:
            records, text_units = matches.counts.get(decision.id, (0, 0))
            effects.append(Effect(decision, records, text_units))
    return effects


def list_undone(project: Services, name: str | None = None) -> list[dict[str, str]]:
    """Return the corrections that were taken back, but which the tables of the last run follow."""
    workflow = project.workflow(name)
    matches = read_matches(project, workflow)
    if matches is None:
        return []
    lines = read_lines(corrections_file(project, workflow))
    present = {line.decision.id for line in lines}
    gone = matches.rows[~matches.rows["id"].isin(present)]
    # A table of an earlier version lacks the last two columns.
    shown = [column for column in UNDONE_FIELDS if column in gone.columns]
    # Type checkers do not know that the cells are texts.
    rows: Any = gone[shown]
    return [{key: cell for key, cell in row.items() if cell} for row in rows.to_dict("records")]


def _is_pin_pending(project: Services, workflow: Workflow, pin: PairDecision) -> bool:
    """Check that the last run did not know a decision on two names.

    The step that follows such decisions has a digest of all of them, and a row for each pair that
    it met.
    """
    step = find_step(workflow, RESOLVE)
    if step is None or step.verb.stamp is None:
        return False
    manifest = project.snapshots.manifest(workflow.name)
    record = manifest.steps.get(step.id)
    if record is None:
        return True
    stamp_then = record.components.get("inputs", {}).get(STAMP)
    if stamp_then == step.verb.stamp(step.params):
        # All decisions are those that the last run knew.
        return False
    table = manifest.tables.get(step.outputs["resolutions"])
    if table is None:
        return True
    rows = project.snapshots.tables.read(table, ["left_id", "right_id", "decision", "by"])
    wanted = "merge" if isinstance(pin, Same) else "keep"
    is_wanted = rows["decision"] == wanted
    is_by_person = rows["by"] == "person"
    pairs = rows.loc[is_wanted & is_by_person, ["left_id", "right_id"]]
    # Either name of a pair may come first, here and in the table.
    known = {frozenset(pair) for pair in pairs.itertuples(index=False, name=None)}
    return frozenset((entity_id(pin.a), entity_id(pin.b))) not in known


def add(
    project: Services, fields: dict[str, Any], name: str | None = None, dry_run: bool = False
) -> Added:
    """Add a decision to the file, and say what it changes in the extractions of the last run.

    ``fields`` are those of a line: ``kind`` and the fields of that kind. ``by`` and ``at`` are set
    if they are missing. Earlier renamings to a name that is renamed now lead to its new name. A
    type gets the spelling of the ontology. With ``dry_run`` nothing is written. The next run
    follows the decision.

    Raises SettingsError for fields that are no decision, and for a decision that contradicts
    another one. Raises UsageError if the decision is in the file already, and for a property or a
    value that the ontology does not have.
    """
    given = make_decision({**sign(), **fields}, "corrections")
    decision = spell_as_ontology(project, given)
    workflow = project.workflow(name)
    file = corrections_file(project, workflow)
    with lock_corrections(project):
        lines = read_lines(file)
        before = [line.decision for line in lines]
        if isinstance(decision, SetProperty | DeleteProperty):
            decision = check_property(project, workflow, decision, before)
        effect: Effect | None = None
        is_turned = False
        if _may_be_turned(workflow, decision):
            effect, is_turned = _try_both_ways(project, workflow, before, decision)
            decision = effect.decision
        if any(line.decision.id == decision.id for line in lines):
            raise UsageError(f"{file}: correction {decision.id} is there already; nothing to add")
        decisions, decision = _lead_on(before, decision)
        every = [*decisions, decision]
        numbered = [Line(number, each) for number, each in enumerate(every, start=1)]
        check_lines(file, numbered, added=decision)
        if not dry_run:
            write_decisions(file, every)
    effect = effect or _try_decision(project, workflow, every)
    notes = (
        *note_effect(workflow, effect.decision, effect.records),
        *note_types(workflow, decision),
        *note_spelling(project, workflow, given, decision, before),
    )
    if is_turned:
        notes += (TURNED_NOTE,)
    return Added(file, effect, notes)


def _may_be_turned(workflow: Workflow, decision: Decision) -> bool:
    """Check that a decision is about a statement of texts, which an ontology may have turned."""
    is_of_text = isinstance(decision, StatementDecision) and not isinstance(decision, AddStatement)
    return is_of_text and find_step(workflow, CHECK) is not None


def _try_both_ways(
    project: Services, workflow: Workflow, decisions: Sequence[Decision], added: Decision
) -> tuple[Effect, bool]:
    """Return what a decision about a statement changes, and whether its ends were exchanged.

    An ontology turns a relationship that fits only the other way. A person who sees the graph names
    the ends as they are shown there, but corrections come before the ontology's patterns. So the
    ends are exchanged if texts state it that way alone.
    """
    assert isinstance(added, StatementDecision)
    as_given = _try_decision(project, workflow, [*decisions, added])
    if as_given.records:
        return as_given, False
    turned = added.model_copy(update={"source": added.target, "target": added.source})
    as_turned = _try_decision(project, workflow, [*decisions, turned])
    if as_turned.records:
        return as_turned, True
    return as_given, False


def _lead_on(decisions: Sequence[Decision], added: Decision) -> tuple[list[Decision], Decision]:
    """Return the decisions and the added one; renamings to a name that is renamed now lead to its
    new name.

    Names of a line are those before any correction, but a person sees the names after it.
    """
    if not (isinstance(added, Rename) and is_unrestricted(added)):
        return list(decisions), added
    led_on: list[Decision] = []
    replaced: list[tuple[str, ...]] = []
    for decision in decisions:
        if not isinstance(decision, Rename) or match_key(decision.to) != match_key(added.entity):
            led_on.append(decision)
        elif clean_name(decision.entity) != clean_name(added.to):
            was = (*decision.was, decision.to)
            led_on.append(decision.model_copy(update={"to": added.to, "was": was}))
        elif is_unrestricted(decision):
            # The name gets back what it was, so nothing is left of the earlier renaming.
            replaced.append((decision.entity, *decision.was))
    return led_on, added.model_copy(update={"replaces": tuple(replaced)})


def _lead_back(decisions: Sequence[Decision], undone: Decision) -> list[Decision]:
    """Return the decisions; renamings that the undone one led on lead to the name of before."""
    if not (isinstance(undone, Rename) and is_unrestricted(undone)):
        return list(decisions)
    key = match_key(undone.entity)
    led_back: list[Decision] = []
    for decision in decisions:
        if not isinstance(decision, Rename):
            led_back.append(decision)
            continue
        former_keys = [match_key(name) for name in decision.was]
        if key not in former_keys:
            led_back.append(decision)
            continue
        # It leads to that former name, and has only the names from before that one.
        place = former_keys.index(key)
        update = {"to": decision.was[place], "was": decision.was[:place]}
        led_back.append(decision.model_copy(update=update))
    signature = undone.model_dump(include={"by", "at", "why"})
    for name, *was in undone.replaces:
        led_back.append(Rename(entity=name, to=undone.entity, was=tuple(was), **signature))
    return led_back


def undo_line(project: Services, id: str, name: str | None = None) -> Decision:
    """Remove a decision from the file and return it; the next run no longer follows it.

    Earlier renamings that the decision led on lead back to where they led before. ``id`` may be the
    beginning of an id. Raises UsageError if no decision, or several, have it.
    """
    file = corrections_file(project, project.workflow(name))
    with lock_corrections(project):
        decisions = [line.decision for line in read_lines(file)]
        # Every id begins with an empty text, as that of a variable of a shell that is not set.
        found = [each for each in decisions if id and each.id.startswith(id)]
        if len(found) != 1:
            fact = "no correction has" if not found else f"{len(found)} corrections have"
            raise UsageError(
                f"{file}: {fact} the id '{id}'; see 'graphmill corrections list' for the ids"
            )
        others = [each for each in decisions if each.id != found[0].id]
        write_decisions(file, _lead_back(others, found[0]))
    return found[0]


def remove_documents(project: Services, texts: Mapping[str, str]) -> list[str]:
    """Remove the decisions that name one of these documents or quote it, and return their ids.

    ``texts`` maps the ids of the documents to their texts. It is for a purge: a quoted phrase is
    text of a document, and so is a statement that was added to one.
    """
    file = project.root / FILE
    with lock_corrections(project):
        decisions = [line.decision for line in read_lines(file)]
        removed: list[str] = []
        kept: list[Decision] = []
        for decision in decisions:
            if _is_about(decision, texts):
                removed.append(decision.id)
            else:
                kept.append(decision)
        if removed:
            write_decisions(file, kept)
    return removed


def _try_decision(project: Services, workflow: Workflow, decisions: Sequence[Decision]) -> Effect:
    """Return what the last of the decisions changes in the extractions of the last run."""
    decision = decisions[-1]
    if isinstance(decision, Keep):
        return Effect(decision)
    # Before the first correction the workflow has no step that corrects.
    reading = find_step(workflow, CORRECT) or find_step(workflow, MERGE)
    if reading is None or isinstance(decision, PairDecision):
        return Effect(decision, pending=True)
    tables = project.snapshots.manifest(workflow.name).tables
    extractions = _find_records(workflow, tables, reading.inputs[RECORDS])
    units = tables.get(reading.inputs["text_units"])
    if extractions is None or units is None:
        return Effect(decision)
    read = project.snapshots.tables.read
    corrections = list_rows(decisions, params_to_read(workflow, project.root))
    documents = tables.get("documents")
    table_documents = tables.get("table_documents")
    has_aliases = find_step(workflow, ALIASES) is not None
    if has_aliases and documents and table_documents:
        corrections, _ = add_aliases(read(documents), read(table_documents), corrections)
    _, matches, _ = correct_extractions(read(extractions), read(units), corrections)
    records, text_units = count_matches(matches).get(decision.id, (0, 0))
    return Effect(decision, records, text_units, pending=True)


def _find_records(
    workflow: Workflow, tables: Mapping[str, Snapshot], table: str
) -> Snapshot | None:
    """Return the records of a table as the last run had them; None if it had none.

    A step that is new since then, as after a first ontology, has written nothing yet. Then the
    records are those that the step reads.
    """
    while table not in tables:
        writers = [step for step in workflow.steps if table in step.outputs.values()]
        if not writers or RECORDS not in writers[0].inputs:
            return None
        table = writers[0].inputs[RECORDS]
    return tables[table]


def _is_about(decision: Decision, texts: Mapping[str, str]) -> bool:
    """Check that a decision names one of these documents or quotes it."""
    if not isinstance(decision, Scoped):
        return False
    if decision.document_id in texts:
        return True
    quote = plain_phrase(decision.quote)
    if not quote:
        # An empty phrase would be in every text.
        return False
    return any(quote in plain_phrase(text) for text in texts.values())


@contextmanager
def lock_corrections(project: Services) -> Iterator[None]:
    """Lock the file of corrections while the block runs, because two editors may decide at once."""
    from filelock import FileLock

    lock = project.root / "data" / "corrections.lock"
    lock.parent.mkdir(exist_ok=True)
    with FileLock(lock):
        yield


def sign(name: str = "") -> dict[str, str]:
    """Return who decides now, and when, as fields of a decision.

    Without a name it is that of the account, or "" where the machine knows none.
    """
    if not name:
        with suppress(KeyError, OSError):
            name = getpass.getuser()
    return {"by": name, "at": datetime.now(UTC).isoformat(timespec="seconds")}
