"""The merged graph with some of its entities made one: the rules of merge_graphs over rows instead
of records."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd

from pipeline.contract.schemas import MENTIONS, MERGED_ENTITIES, MERGED_RELATIONSHIPS
from pipeline.text.ids import relationship_id

Item = TypeVar("Item", bound=Hashable)
UNKNOWN = "UNKNOWN"


def folded_entities(
    entities: pd.DataFrame, into: Mapping[str, str], places: Mapping[str, int]
) -> pd.DataFrame:
    """``into``: entity id -> the id of the one it becomes, where that is another; ``places``: of
    text units in reading order. An entity keeps the id, and the name, of the one that it becomes;
    counts of types add up, text units and descriptions are united."""
    entities = entities.sort_values("id")
    apart, together = _parted(entities, _moved(entities["id"], into))
    rows = [_entity(id, members, places) for id, members in together]
    return pd.concat([apart, MERGED_ENTITIES.frame(rows)], ignore_index=True) if rows else apart


def folded_relationships(
    links: pd.DataFrame,
    into: Mapping[str, str],
    names: Mapping[str, str],
    places: Mapping[str, int],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(relationships between the ends as they become, those whose ends become one). Weights add up;
    text units, descriptions and keywords are united, those of the heaviest first. ``names`` of all
    entities that are left."""
    links = links.sort_values("id")
    ends = {
        f"{end}_entity_id": _moved(links[f"{end}_entity_id"], into) for end in ("source", "target")
    }
    moved = links.assign(
        **ends,
        source=ends["source_entity_id"].map(names),
        target=ends["target_entity_id"].map(names),
    )
    loops = moved["source_entity_id"] == moved["target_entity_id"]
    stays = moved[~loops]
    pairs = zip(stays["source_entity_id"], stays["target_entity_id"], strict=True)
    stays = stays.assign(id=[relationship_id(*pair) for pair in pairs])
    apart, together = _parted(stays, stays["id"])
    rows = [_relationship(members, places) for _, members in together]
    whole = (
        pd.concat([apart, MERGED_RELATIONSHIPS.frame(rows)], ignore_index=True) if rows else apart
    )
    return whole, links[loops]


def folded_mentions(mentions: pd.DataFrame, into: Mapping[str, str]) -> pd.DataFrame:
    moved = mentions.assign(entity_id=_moved(mentions["entity_id"], into))
    return (
        moved.groupby(list(MENTIONS.key), sort=True)["frequency"]
        .sum()
        .reset_index()[MENTIONS.columns]
    )


def _moved(ids: pd.Series, into: Mapping[str, str]) -> pd.Series:
    return ids.map({id: into.get(id, id) for id in ids})


def _parted(
    frame: pd.DataFrame, keys: pd.Series
) -> tuple[pd.DataFrame, list[tuple[str, pd.DataFrame]]]:
    """(the rows that have their key for themselves, the others by key)."""
    shared = keys.duplicated(keep=False)
    together = frame[shared].groupby(keys[shared], sort=True)
    return frame[~shared], [(str(key), members) for key, members in together]


def _entity(id: str, members: pd.DataFrame, places: Mapping[str, int]) -> dict[str, Any]:
    members = _in_reading_order(members, places)
    units = _united_units(members, places)
    types = _types(members)
    named = dict(zip(members["id"], members["name"], strict=True))
    return {
        "id": id,
        "name": named[id],
        "type": types[0]["type"] if types else UNKNOWN,
        "types": types,
        "descriptions": _distinct(members["descriptions"]),
        "text_unit_ids": units,
        "frequency": len(units),
    }


def _types(members: pd.DataFrame) -> list[dict[str, Any]]:
    """The types with their weights, heaviest first, ties by code point."""
    counts: Counter[str] = Counter()
    for types in members["types"]:
        counts.update({entry["type"]: int(entry["count"]) for entry in types})
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [{"type": type, "count": count} for type, count in ranked]


def _relationship(members: pd.DataFrame, places: Mapping[str, int]) -> dict[str, Any]:
    members = _in_reading_order(members, places)
    first = members.iloc[0]
    heaviest = members.sort_values("weight", ascending=False, kind="stable")
    kept = ("id", "source", "target", "source_entity_id", "target_entity_id")
    return {
        **{name: first[name] for name in kept},
        "descriptions": _distinct(members["descriptions"]),
        "keywords": _distinct(heaviest["keywords"]),
        "weight": float(members["weight"].sum()),
        "text_unit_ids": _united_units(members, places),
    }


def _in_reading_order(members: pd.DataFrame, places: Mapping[str, int]) -> pd.DataFrame:
    """By the first of their text units."""
    last = len(places)
    first = [
        min((places.get(unit, last) for unit in units), default=last)
        for units in members["text_unit_ids"]
    ]
    return members.assign(first=first).sort_values("first", kind="stable").drop(columns="first")


def _united_units(members: pd.DataFrame, places: Mapping[str, int]) -> list[str]:
    return sorted(
        _distinct(members["text_unit_ids"]), key=lambda unit: (places.get(unit, len(places)), unit)
    )


def _distinct(lists: Iterable[Sequence[Item]]) -> list[Item]:
    return list(dict.fromkeys(item for items in lists for item in items))
