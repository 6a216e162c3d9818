"""merge_graphs: the graphs of all text units become one."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import pandas as pd

from pipeline.registry import Params, verb
from pipeline.schemas import (
    EXTRACTIONS,
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
    TEXT_UNITS,
)
from pipeline.text import entity_id, relationship_id

UNKNOWN = "UNKNOWN"


class MergeParams(Params):
    """``orphans``: what becomes of a relationship with an end that no record describes: a stub entity of type UNKNOWN
    is made for the end, or the relationship is dropped."""

    orphans: Literal["stub", "drop"] = "stub"


@verb(
    inputs={"extractions": EXTRACTIONS, "text_units": TEXT_UNITS},
    outputs={
        "merged_entities": MERGED_ENTITIES,
        "merged_relationships": MERGED_RELATIONSHIPS,
        "mentions": MENTIONS,
        "rejects": REJECTS,
    },
)
def merge_graphs(
    extractions: pd.DataFrame, text_units: pd.DataFrame, params: MergeParams = MergeParams()
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Entities by match key, directed relationships by their two ends, in an order the content fixes.

    An entity's name is its commonest surface form (ties: the smallest by code point), its type the one
    with the greatest weight of records, other types kept with their counts; ``frequency`` is the number
    of text units that mention it. Weights add up; keywords are the union in order of frequency. A relationship
    of an entity with itself is a reject.
    """
    records = _in_reading_order(extractions, text_units)
    ids = {name: entity_id(name) for name in _names(records)}
    entities = records[records["kind"] == "entity"].assign(entity_id=lambda rows: rows["name"].map(ids))
    links = records[records["kind"] == "relationship"].assign(
        source_entity_id=lambda rows: rows["source"].map(ids),
        target_entity_id=lambda rows: rows["target"].map(ids),
    )
    orphans = _orphans(links, entities) if params.orphans == "drop" else pd.Series(False, index=links.index)
    dropped, links = links[orphans], links[~orphans]
    loops = links["source_entity_id"] == links["target_entity_id"]
    occurrences = _occurrences(entities, links)
    names = _commonest(occurrences)
    return (
        _merge_entities(entities, occurrences, names),
        _merge_relationships(links[~loops], names),
        _mentions(occurrences),
        REJECTS.frame([*_rejects(links[loops], "self_loop"), *_rejects(dropped, "orphan")]),
    )


def _orphans(links: pd.DataFrame, entities: pd.DataFrame) -> pd.Series:
    described = set(entities["entity_id"])
    return ~(links["source_entity_id"].isin(described) & links["target_entity_id"].isin(described))


def _in_reading_order(extractions: pd.DataFrame, text_units: pd.DataFrame) -> pd.DataFrame:
    units = text_units.sort_values(["document_id", "order"])["id"]
    place = pd.Series(range(len(units)), index=units, dtype="int64")
    placed = extractions.assign(place=extractions["text_unit_id"].map(place))
    return placed.sort_values(["place", "order"], kind="stable").reset_index(drop=True)


def _names(records: pd.DataFrame) -> pd.Series:
    entities = records.loc[records["kind"] == "entity", "name"]
    links = records[records["kind"] == "relationship"]
    return pd.concat([entities, links["source"], links["target"]]).drop_duplicates()


def _occurrences(entities: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Every naming of an entity: (entity_id, name, text_unit_id, place, weight)."""
    described = entities[["entity_id", "name", "text_unit_id", "place", "weight"]]
    ends = [
        links[[f"{end}_entity_id", end, "text_unit_id", "place"]]
        .rename(columns={f"{end}_entity_id": "entity_id", end: "name"})
        .assign(weight=0.0)
        for end in ("source", "target")
    ]
    return pd.concat([described, *ends], ignore_index=True)


def _commonest(occurrences: pd.DataFrame) -> pd.Series:
    """entity id -> display name."""
    counts = occurrences.groupby(["entity_id", "name"], sort=True).size().rename("count").reset_index()
    best = counts.sort_values(["entity_id", "count", "name"], ascending=[True, False, True], kind="stable")
    return best.drop_duplicates("entity_id").set_index("entity_id")["name"]


def _merge_entities(entities: pd.DataFrame, occurrences: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    units = _distinct_lists(occurrences.sort_values("place", kind="stable"), "entity_id", "text_unit_id")
    descriptions = _distinct_lists(entities[entities["description"] != ""], "entity_id", "description")
    types = _type_counts(entities)
    merged = pd.DataFrame({"id": names.index, "name": names.to_numpy()})
    counts = [types.get(id, []) for id in merged["id"]]
    merged = merged.assign(
        type=[ranked[0]["type"] if ranked else UNKNOWN for ranked in counts],
        types=pd.Series(counts, dtype=object),
        descriptions=pd.Series([descriptions.get(id, []) for id in merged["id"]], dtype=object),
        text_unit_ids=pd.Series([units[id] for id in merged["id"]], dtype=object),
        frequency=[len(units[id]) for id in merged["id"]],
    )
    return merged[MERGED_ENTITIES.columns]


def _type_counts(entities: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """entity id -> its types with their weights, heaviest first, ties by code point."""
    typed = entities[entities["type"] != ""]
    weights = typed.groupby(["entity_id", "type"])["weight"].sum().round().astype("int64").rename("count")
    ranked = weights.reset_index().sort_values(
        ["entity_id", "count", "type"], ascending=[True, False, True], kind="stable"
    )
    counts: dict[str, list[dict[str, Any]]] = {}
    for id, type, count in ranked.itertuples(index=False):
        counts.setdefault(id, []).append({"type": type, "count": count})
    return counts


def _merge_relationships(links: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    by_ends = links.groupby(["source_entity_id", "target_entity_id"], sort=True)
    links = links.assign(pair=by_ends.ngroup())
    merged = by_ends["weight"].sum().reset_index()
    lists = {
        "descriptions": _distinct_lists(links[links["description"] != ""], "pair", "description"),
        "text_unit_ids": _distinct_lists(links, "pair", "text_unit_id"),
        "keywords": _keywords(links),
    }
    for column, values in lists.items():
        merged[column] = pd.Series([values.get(pair, []) for pair in range(len(merged))], dtype=object)
    ends = zip(merged["source_entity_id"], merged["target_entity_id"], strict=True)
    merged["id"] = [relationship_id(source, target) for source, target in ends]
    merged["source"] = merged["source_entity_id"].map(names)
    merged["target"] = merged["target_entity_id"].map(names)
    return merged[MERGED_RELATIONSHIPS.columns]


def _keywords(links: pd.DataFrame) -> dict[int, list[str]]:
    """Pair -> keywords, the most frequent first, then in order of appearance."""
    ordered = links[["pair", "keywords"]].sort_values("pair", kind="stable")
    rows = zip(ordered["pair"].tolist(), ordered["keywords"], strict=True)
    keywords = {}
    for pair, of_pair in groupby(rows, key=itemgetter(0)):
        counts = Counter(word for _, words in of_pair for word in words if word is not None)
        keywords[pair] = [word for word, _ in counts.most_common()]
    return keywords


def _distinct_lists(rows: pd.DataFrame, by: str, column: str) -> dict[Any, list[str]]:
    """Key -> the column's distinct values in row order."""
    distinct = rows[[by, column]].drop_duplicates()
    lists: dict[Any, list[str]] = {}
    for key, value in zip(distinct[by].tolist(), distinct[column].tolist(), strict=True):
        lists.setdefault(key, []).append(value)
    return lists


def _mentions(occurrences: pd.DataFrame) -> pd.DataFrame:
    weights = occurrences.groupby(["entity_id", "text_unit_id"])["weight"].sum()
    mentions = weights.clip(lower=1).round().astype("int64").rename("frequency").reset_index()
    return mentions[MENTIONS.columns]


def _rejects(links: pd.DataFrame, reason: str) -> Iterator[dict[str, str]]:
    said = {"self_loop": "related to itself", "orphan": "related, and an end is described nowhere"}[reason]
    columns = ["text_unit_id", "source", "target", "description"]
    for unit, source, target, description in links[columns].itertuples(index=False):
        ends = repr(source) if reason == "self_loop" else f"{source!r} and {target!r}"
        message = f"{ends} {said}: {description}"[:300]
        yield {"step": "", "row_id": unit, "kind": "record", "reason": reason, "message": message}
