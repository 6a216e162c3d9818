"""List entities of the last run that may be mistakes, for people who decide on each of them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from pipeline.corrections.decisions import (
    Decision,
    DeleteEntity,
    Keep,
    PairDecision,
    Rename,
    SetType,
)
from pipeline.corrections.file import read_lines
from pipeline.engine.workflow import Workflow
from pipeline.errors import UsageError
from pipeline.ontology.read import read_ontology
from pipeline.resolution.name import read_name
from pipeline.resolution.resolve import Resolution
from pipeline.runs.correction_matches import corrections_file, find_step
from pipeline.runs.correction_steps import RESOLVE
from pipeline.runs.services import Services
from pipeline.text.ids import match_key

Kind = Literal["junk", "duplicate", "type", "orphan"]
KINDS: tuple[Kind, ...] = ("junk", "duplicate", "type", "orphan")
"""The kinds of suspects in the order of the list; an entity is listed once, under its first one."""
USUAL = 200
"""Suspects in a list, if nothing else is asked for."""
MOST_COMPARED = 50_000
"""The largest number of entities whose names are compared: 20,000 take three seconds."""
SIMILARITY = 0.88
CANDIDATES = 5
RARE = 2
"""The most entities of a type that is rare."""
LEAST_OF_USUAL = 10
"""Entities for each type from which on a rare type is one of few; below that all types are rare."""
LONGEST_NAME = 100
MOST_WORDS = 12
LEAST_OF_SENTENCE = 6
"""Words from which on a name that ends like a sentence is one."""
_LETTER = re.compile(r"[^\W\d_]")
_END = re.compile(r"[.!?。！？]$")
PRONOUNS = frozenset(
    "i you he she it we they me him her us them my your his its our their this that these those"
    " who whom whose which what someone somebody anyone anybody everyone everybody nobody one"
    " others each here there something anything everything nothing"
    " ich du er sie es wir ihr mich dich ihn uns euch ihnen dieser diese dieses jener jene wer"
    " man jemand niemand etwas alles nichts hier dort"
    " je tu il elle nous vous ils elles on lui leur ce cela ceci qui que celui celle quelqu'un"
    " yo tú él ella nosotros ellos ellas usted ustedes este esta esto ese esa eso quien".split()
)


@dataclass(frozen=True)
class Suspect:
    """An entity that may be a mistake.

    ``why`` says by what it was found. ``other`` is the name of the entity that it may be the same
    as, "" if none is known. ``frequency`` counts the text units that name it.
    """

    kind: Kind
    id: str
    name: str
    type: str
    why: str
    frequency: int
    other: str = ""


@dataclass(frozen=True)
class Suspects:
    """A list of suspects, which may be cut off; ``counts`` has all of them, by kind.

    ``notes`` say what was not looked for. ``types`` are those that a suspect may be given: the
    types of ontology.yaml, or those that the entities have if there is no such file.
    """

    listed: Sequence[Suspect]
    counts: dict[str, int]
    notes: Sequence[str] = ()
    types: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "suspects": [asdict(one) for one in self.listed],
            "counts": self.counts,
            "notes": list(self.notes),
            "types": list(self.types),
        }


def list_suspects(project: Services, name: str | None = None, limit: int = USUAL) -> Suspects:
    """Return the suspects of the workflow's last run, without those that are decided already.

    Raises UsageError if the workflow has no entities.
    """
    workflow = project.workflow(name)
    tables = project.snapshots.manifest(workflow.name).tables
    if "entities" not in tables:
        raise UsageError(
            f"workflow '{workflow.name}': no entities to look through; 'graphmill index"
            f" {workflow.name}' first"
        )
    wanted = ["id", "name", "type", "frequency", "degree", "text_unit_ids"]
    entities = project.snapshots.tables.read(tables["entities"], wanted)
    entities = entities.sort_values(["name", "id"]).reset_index(drop=True)
    corrections = read_lines(corrections_file(project, workflow))
    decided = Decided.of(line.decision for line in corrections)
    notes: list[str] = []
    others = _find_duplicates(project, workflow, entities, decided, notes)
    explain_type = _make_type_test(project, entities)
    found: dict[Kind, list[Suspect]] = {kind: [] for kind in KINDS}
    # Type checkers do not know the columns of a row.
    rows: Any = entities.itertuples(index=False)
    for row in rows:
        suspect = _examine(row, others.get(row.id), explain_type, decided)
        if suspect:
            found[suspect.kind].append(suspect)
    listed: list[Suspect] = []
    counts: dict[str, int] = {}
    for kind in KINDS:
        listed += found[kind]
        counts[kind] = len(found[kind])
    return Suspects(listed[:limit], counts, notes, _list_types(project, entities))


@dataclass(frozen=True)
class Decided:
    """The names that people have decided about, by match key.

    ``gone`` get another name or are deleted, ``typed`` have a type of their own, ``kept`` stay off
    the list, and ``pairs`` are two names that somebody has compared.
    """

    gone: frozenset[str]
    typed: frozenset[str]
    kept: frozenset[str]
    pairs: frozenset[frozenset[str]]

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> "Decided":
        gone, typed, kept = set[str](), set[str](), set[str]()
        pairs = set[frozenset[str]]()
        for decision in decisions:
            match decision:
                case Rename() | DeleteEntity():
                    gone.add(match_key(decision.entity))
                case SetType():
                    typed.add(match_key(decision.entity))
                case Keep(other=""):
                    kept.add(match_key(decision.entity))
                case Keep():
                    pairs.add(_pair_of(decision.entity, decision.other))
                case PairDecision():
                    pairs.add(_pair_of(decision.a, decision.b))
                case _:
                    pass
        return cls(frozenset(gone), frozenset(typed), frozenset(kept), frozenset(pairs))


def _pair_of(one: str, other: str) -> frozenset[str]:
    """Return the match keys of two names, whichever comes first."""
    return frozenset((match_key(one), match_key(other)))


def _examine(
    row: Any, other: tuple[str, str] | None, explain_type: Callable[[str], str], decided: Decided
) -> Suspect | None:
    """Return the entity as a suspect of the first kind that it is of, or None."""
    key = match_key(row.name)
    if key in decided.gone:
        return None

    def suspect(kind: Kind, why: str, same: str = "") -> Suspect:
        return Suspect(kind, row.id, row.name, row.type, why, int(row.frequency), same)

    name_of_other, why_same = other or ("", "")
    is_kept = key in decided.kept
    why_junk = "" if is_kept else explain_junk(row.name)
    if why_junk:
        return suspect("junk", why_junk, name_of_other)
    if other:
        return suspect("duplicate", why_same, name_of_other)
    if is_kept:
        return None
    why_type = "" if key in decided.typed else explain_type(row.type)
    if why_type:
        return suspect("type", why_type)
    if row.degree == 0:
        return suspect("orphan", "no relationship leads to it")
    return None


def explain_junk(name: str) -> str:
    """Return why a name is hardly one, or ""."""
    words = name.split()
    if not _LETTER.search(name):
        has_digit = any(character.isdigit() for character in name)
        return "a number" if has_digit else "punctuation alone"
    # A script without case, such as Chinese, has words of one character.
    if len(name) == 1 and name.upper() != name.lower():
        return "a single letter"
    if name.casefold() in PRONOUNS:
        return "a pronoun"
    ends_like_sentence = len(words) >= LEAST_OF_SENTENCE and _END.search(name)
    is_too_long = len(words) > MOST_WORDS or len(name) > LONGEST_NAME
    if ends_like_sentence or is_too_long:
        return "a sentence"
    return ""


def _list_types(project: Services, entities: pd.DataFrame) -> list[str]:
    """Return the types that an entity may be given, in the order of the alphabet."""
    ontology = read_ontology(project.root)
    if ontology is not None and ontology.entity_types:
        return sorted(type.name for type in ontology.entity_types)
    return sorted(set(entities["type"]) - {""})


def _make_type_test(project: Services, entities: pd.DataFrame) -> Callable[[str], str]:
    """Return a function that says why a type of entities is unusual, or ""."""
    ontology = read_ontology(project.root)
    if ontology is not None and ontology.entity_types:
        allowed = {type.name.casefold() for type in ontology.entity_types}
        outside = "a type outside ontology.yaml"
        return lambda given: "" if given.casefold() in allowed else outside
    counts = Counter(entities["type"])
    has_usual = len(entities) >= LEAST_OF_USUAL * max(len(counts), 1)

    def explain(type: str) -> str:
        if not type:
            return "no type"
        is_rare = has_usual and counts[type] <= RARE
        return "a type that hardly any other entity has" if is_rare else ""

    return explain


def _find_duplicates(
    project: Services,
    workflow: Workflow,
    entities: pd.DataFrame,
    decided: Decided,
    notes: list[str],
) -> dict[str, tuple[str, str]]:
    """Map the ids of entities that may be others to the other's name, and why.

    The less frequent of two names is the suspect. Pairs that the last run compared are used;
    without a step that compares names, they are compared here.
    """
    known = entities.set_index("id")
    pairs = list(_read_compared(project, workflow))
    if not pairs and len(entities) > MOST_COMPARED:
        notes.append(
            f"names are not compared: {len(entities):,} entities are more than {MOST_COMPARED:,};"
            f" the step {RESOLVE} compares them in a run"
        )
    elif not pairs:
        pairs = list(_compare_names(entities))
    best: dict[str, tuple[float, str, str]] = {}
    names = known["name"].to_dict()
    frequencies = known["frequency"].to_dict()

    def rank(id: str) -> tuple[int, int, str]:
        # The more frequent name stays; of equally frequent ones, the longer, which says more.
        return frequencies[id], len(names[id]), names[id]

    for one, two, score, why in pairs:
        if one not in names or two not in names:
            continue
        if _pair_of(names[one], names[two]) in decided.pairs:
            continue
        if match_key(names[two]) in decided.gone or match_key(names[one]) in decided.gone:
            continue
        less, more = sorted((one, two), key=rank)
        found = (score, names[more], why)
        best[less] = max(best.get(less, found), found)
    return {id: (name, why) for id, (_, name, why) in best.items()}


def _read_compared(project: Services, workflow: Workflow) -> Iterator[tuple[str, str, float, str]]:
    """Yield the pairs of entities that the last run compared and kept apart, though alike."""
    step = find_step(workflow, RESOLVE)
    if step is None:
        return
    tables = project.snapshots.manifest(workflow.name).tables
    table = tables.get(step.outputs["resolutions"])
    if table is None:
        return
    rows = project.snapshots.tables.read(table)
    is_kept_apart = rows["decision"] == "keep"
    is_by_person = rows["by"] == "person"
    open_pairs = rows[is_kept_apart & ~is_by_person]
    every_row: Any = open_pairs.itertuples(index=False)
    for row in every_row:
        why = f"a name like it ({row.rule}; kept apart by {row.by})"
        yield row.left_id, row.right_id, float(row.score), why


def _compare_names(entities: pd.DataFrame) -> Iterator[tuple[str, str, float, str]]:
    """Yield the pairs of entities whose names are alike, as resolve_entities finds them."""
    cells = zip(entities["name"], entities["type"], strict=True)
    names = [read_name(name, type) for name, type in cells]
    units = [frozenset(ids) for ids in entities["text_unit_ids"]]
    ids = entities["id"].tolist()
    compared = Resolution(names, SIMILARITY, CANDIDATES, text_units=units).found
    for (one, two), comparison in compared.items():
        if comparison.outcome in ("same", "perhaps"):
            why = f"a name like it ({comparison.rule})"
            yield ids[one], ids[two], comparison.score, why
