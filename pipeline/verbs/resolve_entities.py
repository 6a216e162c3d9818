"""resolve_entities: entities that are one thing under several names become one."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    PLACES,
    REJECTS,
    RESOLUTIONS,
)
from pipeline.errors import SettingsError
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.models.parse.graph import Problem
from pipeline.resolution.folding import folded_entities, folded_mentions, folded_relationships
from pipeline.resolution.judge import TEXTS, Entry, Judgement, Question, batches, judged
from pipeline.resolution.name import read_name
from pipeline.resolution.pairs import near_pairs
from pipeline.resolution.pins import pins_digest, read_pins
from pipeline.resolution.resolve import Resolution, chosen, read_pins_of


class ResolveParams(Params):
    """``similarity``: of two names, from which on they are a doubtful pair; ``near``: the cosine of
    their vectors, where an embedding model is named. ``candidates``: doubtful pairs of one entity
    at most. ``batch``: pairs that the model judges at a time. ``pins``: a person's decisions, a CSV
    file below ``root`` (the project) unless it is absolute."""

    similarity: float = Field(default=0.88, ge=0.5, le=1)
    near: float = Field(default=0.9, ge=0.5, le=1)
    candidates: int = Field(default=5, ge=0)
    batch: int = Field(default=10, ge=1, le=100)
    rounds: ClassVar[int] = 2  # doubtful pairs, then those that the verdicts leave open
    pins: str = "resolutions.csv"
    root: str = Field(default=".", exclude=True)  # a project may move

    @property
    def file(self) -> Path:
        return Path(self.root) / self.pins


def stamp(params: ResolveParams) -> str:
    """Changes when a pin does."""
    return pins_digest(params.file)


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
    libraries=("numpy", "rapidfuzz", "regex"),
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
    """The merged graph with entities of several names as one, and every decision about a pair of
    names.

    Rules join what differs in writing only, and never what counts differently; ``chat`` judges the
    doubtful pairs, which ``embedding`` adds to; without it they are kept apart. Names become one
    only where each passes with each. The name that all take is the most frequent, ties by code
    point. A relationship whose ends become one is a reject, as is a pair that the model does not
    judge.

    Raises SettingsError for pins that cannot be read, and for a model without its prompt.
    """
    if (chat is None) != (judge is None):
        raise SettingsError(
            "resolve_entities: the judge needs models: {chat: ...} and prompts: {judge: ...}; give"
            " both"
        )
    entities = merged_entities.sort_values("id").reset_index(drop=True)
    names = [
        read_name(name, type) for name, type in zip(entities["name"], entities["type"], strict=True)
    ]
    positions = {id: position for position, id in enumerate(entities["id"])}
    near = near_pairs(_vectors(entities, embedding), params.near) if embedding else {}
    pins = read_pins_of({pin.ids: pin.decision for pin in read_pins(params.file)}, positions)
    units = [frozenset(of_entity) for of_entity in entities["text_unit_ids"]]
    resolution = Resolution(names, params.similarity, params.candidates, pins, near, units)
    unknown = _judge(resolution, entities, params, judge, chat) if judge and chat else []
    clusters = resolution.clusters()
    into = _into(clusters.of_several, entities, resolution)
    places = {id: place for place, id in enumerate(text_units.sort_values(list(PLACES.key))["id"])}
    resolved = folded_entities(entities, into, places)
    left = dict(zip(resolved["id"], resolved["name"], strict=True))
    links, loops = folded_relationships(merged_relationships, into, left, places)
    ids = entities["id"].tolist()
    decisions = [
        (ids[a], ids[b], names[a].name, names[b].name, one.score, one.rule, one.decision, one.by)
        for one in resolution.decided(clusters)
        for a, b in [one.pair]
    ]
    return (
        resolved,
        links,
        folded_mentions(mentions, into),
        RESOLUTIONS.frame(decisions),
        REJECTS.frame([*_loops(loops), *_unjudged(unknown)]),
    )


def _vectors(entities: pd.DataFrame, embedding: EmbeddingModel) -> np.ndarray:
    return embedding.embed(entities["name"].tolist())


def _judge(
    resolution: Resolution,
    entities: pd.DataFrame,
    params: ResolveParams,
    prompt: Prompt,
    chat: ChatModel,
) -> list[Judgement]:
    """Ask about the doubtful pairs, then about those that the verdicts leave open; returns what
    brought no verdict."""
    unknown: dict[str, Judgement] = {}
    for pairs in (lambda: resolution.doubtful, resolution.unclosed):
        asked = {
            question.id: (pair, question)
            for pair in pairs()
            for question in [_question(pair, entities)]
        }
        questions = batches((question for _, question in asked.values()), params.batch)
        for told in chain.from_iterable(
            chat.converse(judged(batch, prompt) for batch in questions)
        ):
            if isinstance(told.verdict, Problem):
                unknown[told.question.id] = told
            else:
                unknown.pop(told.question.id, None)
                resolution.verdicts[asked[told.question.id][0]] = told.verdict
    return list(unknown.values())


def _question(pair: tuple[int, int], entities: pd.DataFrame) -> Question:
    one, two = (_entry(entities.iloc[position]) for position in pair)
    return Question("+".join(entities["id"].iloc[position] for position in pair), one, two)


def _entry(entity: "pd.Series[Any]") -> Entry:
    return Entry(entity["name"], entity["type"], tuple(entity["descriptions"][:TEXTS]))


def _into(
    clusters: Sequence[tuple[int, ...]], entities: pd.DataFrame, resolution: Resolution
) -> dict[str, str]:
    """Entity id -> the id of the one it becomes."""
    ids, frequencies = entities["id"].tolist(), entities["frequency"].tolist()
    into = {}
    for members in clusters:
        head = chosen(members, frequencies, resolution.names)
        into |= {ids[member]: ids[head] for member in members if member != head}
    return into


def _loops(loops: pd.DataFrame) -> Iterator[dict[str, str]]:
    for id, source, target in loops[["id", "source", "target"]].itertuples(index=False):
        message = f"{source!r} and {target!r} are one entity now"[:300]
        yield {
            "step": "",
            "row_id": id,
            "kind": "record",
            "reason": "self_loop",
            "message": message,
        }


def _unjudged(unknown: Iterable[Judgement]) -> Iterator[dict[str, str]]:
    for told in unknown:
        if isinstance(told.verdict, Problem):
            names = f"{told.question.one.name!r} and {told.question.two.name!r}"
            message = f"{names} are kept apart: {told.verdict.message}"[:300]
            yield {
                "step": "",
                "row_id": told.row,
                "kind": "row",
                "reason": told.verdict.reason,
                "message": message,
            }
