"""Finds what a project holds about a person, by the spellings of a name."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.corrections.decisions import Decision, Rename, Same
from pipeline.corrections.file import FILE as CORRECTIONS
from pipeline.corrections.file import kind_of, read_lines
from pipeline.errors import UsageError, counted
from pipeline.files import lines_of
from pipeline.persons.intention import ErasureIntents
from pipeline.purge.erased_names import QUESTIONS
from pipeline.runs.audit import FOLDER as AUDIT
from pipeline.runs.audit import AuditLog
from pipeline.runs.resolutions import names_of
from pipeline.runs.services import Services
from pipeline.snapshots.store import Manifest
from pipeline.text.ids import entity_id, is_syllabic, match_key
from pipeline.text.named import NameSearch, words_of

LEAST_LETTERS = 3
LEAST_SYLLABIC = 2
"""The least characters of a name in Han or kana: many names have two."""
UNKNOWN = (
    "texts that mean the person by another spelling, a nickname, a pronoun or an office, and"
    " pictures",
    "who else has this name: read each document before it is erased",
    "documents that no run has read yet, and those of other projects that share a database",
    "backups and exports, logs of commands, and what a model's endpoint keeps",
    "texts of the audit log that are kept as hashes, and users of the server of this name",
)
"""The things that a search for a name cannot find."""


@dataclass(frozen=True)
class NamedDocument:
    """A document of a workflow that names the person.

    ``text_units`` counts those that do. ``in_metadata`` is true if its metadata have the name.
    """

    workflow: str
    source: str
    title: str
    text_units: int
    in_metadata: bool

    def line(self) -> str:
        place = f"document {self.source} ({self.workflow})"
        also = ", metadata" if self.in_metadata else ""
        return f"{place}: {counted(self.text_units, 'text unit')}{also}"


@dataclass(frozen=True)
class AboutPerson:
    """The places where a project has something about a person.

    - ``names`` are the spellings that were searched for: the given one, and those of entities.
    - ``entities``, ``relationships``, ``statements`` and ``attributes`` are rows of tables, with
      their workflow.
    - ``corrections`` and ``questions`` are lines of files of the project.
    - ``audit_lines`` counts lines with the name in a question or an edit.
    - ``replies`` counts kept replies of models that have the name.
    """

    names: tuple[str, ...]
    documents: tuple[NamedDocument, ...]
    entities: tuple[Mapping[str, Any], ...]
    relationships: tuple[Mapping[str, Any], ...]
    statements: tuple[Mapping[str, Any], ...]
    attributes: tuple[Mapping[str, Any], ...]
    corrections: tuple[Mapping[str, Any], ...]
    questions: tuple[Mapping[str, Any], ...]
    audit_lines: int
    replies: int
    cannot_know: tuple[str, ...] = UNKNOWN

    @property
    def sources(self) -> list[str]:
        return sorted({document.source for document in self.documents})

    @property
    def is_empty(self) -> bool:
        content = {**asdict(self), "names": (), "cannot_know": ()}
        return not any(content.values())

    def lines(self) -> list[str]:
        lines = [f"searched for: {', '.join(self.names)}"]
        lines += [document.line() for document in self.documents]
        lines += [f"entity {one['name']} ({one['workflow']})" for one in self.entities]
        counts = [
            counted(len(self.relationships), "relationship"),
            counted(len(self.statements), "statement"),
            counted(len(self.attributes), "value of a property", "values of properties"),
            counted(len(self.corrections), "correction"),
            counted(len(self.questions), "question of an evaluation", "questions of evaluations"),
            counted(self.audit_lines, "line of the audit log", "lines of the audit log"),
            counted(self.replies, "kept reply", "kept replies"),
        ]
        return [*lines, ", ".join(counts)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Spellings(NameSearch):
    """The spellings of a person's name, compared as names of entities are."""

    names: tuple[str, ...]

    def are_in(self, text: str) -> bool:
        # A space around both finds whole words alone.
        words = f" {words_of(text)} "
        for name in self.names:
            named = words_of(name)
            if not any(map(is_syllabic, name)):
                named = f" {named} "
            if named in words:
                return True
        return False


def find_person(project: Services, name: str, also: Sequence[str] = ()) -> AboutPerson:
    """Return what the project holds about a person of this name; nothing is changed.

    ``also`` has further spellings that are known. Those of a killed erasure are known too. Raises
    UsageError for a name of fewer than three letters, or two characters of Han or kana.
    """
    least = LEAST_SYLLABIC if any(map(is_syllabic, name)) else LEAST_LETTERS
    if sum(map(str.isalnum, name)) < least:
        raise UsageError(f"subject: '{name}' is too short to search for; give the whole name")
    manifests = [project.snapshots.manifest(one) for one in project.snapshots.workflows()]
    decisions = [line.decision for line in read_lines(project.root / CORRECTIONS)]
    begun = ErasureIntents(project.root).of(name)
    known = (name, *also, *(begun.names if begun else ()))
    names = _names_of_person(project, known, manifests, decisions)
    spellings = Spellings(tuple(names))
    found: dict[str, list[Any]] = {
        table: [] for table in ("entities", "relationships", "statements", "attributes")
    }
    documents: list[NamedDocument] = []
    for manifest in manifests:
        documents += _documents(project, manifest, spellings)
        for table, rows in _rows_about(project, manifest, spellings).items():
            found[table] += rows
    corrections = [
        {"id": one.id, "kind": kind_of(one), **one.model_dump(mode="json")}
        for one in decisions
        if spellings.are_in_values(one.model_dump(mode="json"))
    ]
    questions = lines_naming(project.root / QUESTIONS, spellings)
    audit = AuditLog(project.root / AUDIT).lines()
    return AboutPerson(
        spellings.names, tuple(sorted(documents, key=lambda one: (one.source, one.workflow))),
        tuple(found["entities"]),
        tuple(found["relationships"]), tuple(found["statements"]), tuple(found["attributes"]),
        tuple(corrections), tuple(questions),
        sum(spellings.are_in(str(line.get("text", ""))) for line in audit),
        sum(map(spellings.are_in_line, project.cache.texts())),
    )  # fmt: skip


def lines_naming(file: Path, spellings: Spellings) -> list[dict[str, Any]]:
    """Return the lines of a file of JSON lines that have one of the names."""
    if not file.is_file():
        return []
    found: list[dict[str, Any]] = []
    for line in lines_of(file):
        if spellings.are_in_line(line):
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


def _names_of_person(
    project: Services,
    names: Sequence[str],
    manifests: Sequence[Manifest],
    decisions: Sequence[Decision],
) -> list[str]:
    """Return the names and all that a run or a correction has joined with them, each once."""
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if match_key(name) in found:
            continue
        found[match_key(name)] = name
        waiting += _joined_by_corrections(name, decisions)
        for manifest in manifests:
            if "resolutions" in manifest.tables:
                joined = names_of(project, entity_id(name), manifest.workflow).merged
                waiting += [other["name"] for other in joined]
    return list(found.values())


def _joined_by_corrections(name: str, decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield the names that a correction has joined with this one.

    A renaming for some documents or text units joins nothing: others may have that name too.
    """
    for decision in decisions:
        if isinstance(decision, Rename):
            is_for_some = decision.document or decision.quote or decision.type
            ends = () if is_for_some else (decision.entity, decision.to)
        elif isinstance(decision, Same):
            ends = (decision.a, decision.b)
        else:
            ends = ()
        if match_key(name) in map(match_key, ends):
            yield from ends


def _documents(
    project: Services, manifest: Manifest, spellings: Spellings
) -> Iterator[NamedDocument]:
    """Yield the documents whose text, title, path or metadata has a name."""
    tables = project.snapshots.tables
    if "documents" not in manifest.tables:
        return
    units: dict[str, int] = {}
    if "text_units" in manifest.tables:
        columns = ["document_id", "text"]
        # The texts of the whole corpus may not fit into memory.
        for batch in tables.read_batches(manifest.tables["text_units"], columns):
            for row in batch.to_pylist():
                if spellings.are_in(row["text"]):
                    units[row["document_id"]] = units.get(row["document_id"], 0) + 1
    columns = ["id", "source", "title", "metadata", "text"]
    for batch in tables.read_batches(manifest.tables["documents"], columns):
        for row in batch.to_pylist():
            # Metadata are JSON, in which a name may be written with escapes.
            in_metadata = spellings.are_in_line(row["metadata"] or "")
            in_title_or_path = spellings.are_in(f"{row['title']} {row['source']}")
            # A name may lie across the cut of two text units, so these only count.
            in_text = row["id"] in units or spellings.are_in(row["text"] or "")
            if in_text or in_title_or_path or in_metadata:
                number = units.get(row["id"], 0)
                yield NamedDocument(
                    manifest.workflow, row["source"], row["title"], number, in_metadata
                )


def _rows_about(
    project: Services, manifest: Manifest, spellings: Spellings
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables of the graph that are about entities of these names."""
    keys = {match_key(name) for name in spellings.names}
    rows = _rows(project, manifest, "entities")
    entities = [row for row in rows if match_key(row["name"]) in keys]
    rows = _rows(project, manifest, "relationships")
    relationships = [
        row for row in rows if keys & {match_key(row["source"]), match_key(row["target"])}
    ]
    of_entities = {row["id"] for row in entities}
    of_relationships = {row["id"] for row in relationships}
    statements = _rows(project, manifest, "statements")
    attributes = _rows(project, manifest, "attributes")
    return {
        "entities": entities,
        "relationships": relationships,
        "statements": [row for row in statements if row["relationship_id"] in of_relationships],
        "attributes": [row for row in attributes if row["entity_id"] in of_entities],
    }


def _rows(project: Services, manifest: Manifest, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, with values that JSON has; none if there is no such table."""
    snapshot = manifest.tables.get(table)
    if snapshot is None:
        return
    for batch in project.snapshots.tables.read_batches(snapshot):
        for row in batch.to_pylist():
            yield {"workflow": manifest.workflow, **row}
