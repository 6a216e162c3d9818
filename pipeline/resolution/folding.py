"""Merge entities of the graph that name resolution found to be one.

The tables are merged by the rules of the verb `merge_graphs`, applied to table rows instead of
extracted records.
"""

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
    """Return the entities after the merge, with the columns of `MERGED_ENTITIES`.

    ``into`` maps the id of each entity that is merged away to the id of the entity that it
    becomes. ``places`` maps each text unit id to its position in reading order. A merged entity
    keeps the id and the name of the entity that the others become. The counts of its types are
    added; its text units and descriptions are united.
    """
    entities = entities.sort_values("id")
    single_rows, groups = _split_by_key(entities, _map_ids(entities["id"], into))
    if not groups:
        return single_rows
    merged_rows = [_merge_entities(id, members, places) for id, members in groups]
    return pd.concat([single_rows, MERGED_ENTITIES.frame(merged_rows)], ignore_index=True)


def folded_relationships(
    links: pd.DataFrame,
    into: Mapping[str, str],
    names: Mapping[str, str],
    places: Mapping[str, int],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the relationships between merged entities, and the input rows that became loops.

    ``names`` maps the id of every entity that remains to its name; ``into`` and ``places`` are
    those of `folded_entities`. The weights of relationships with the same two ends are added.
    Their text units, descriptions and keywords are united, the keywords of the heaviest first.
    A relationship whose two ends become one entity is a loop: it is only in the second table.
    """
    links = links.sort_values("id")
    source_ids = _map_ids(links["source_entity_id"], into)
    target_ids = _map_ids(links["target_entity_id"], into)
    moved = links.assign(
        source_entity_id=source_ids,
        target_entity_id=target_ids,
        source=source_ids.map(names),
        target=target_ids.map(names),
    )
    is_loop = source_ids == target_ids
    remaining = moved[~is_loop]
    ends = zip(remaining["source_entity_id"], remaining["target_entity_id"], strict=True)
    new_ids = [relationship_id(source, target) for source, target in ends]
    remaining = remaining.assign(id=new_ids)
    merged, groups = _split_by_key(remaining, remaining["id"])
    if groups:
        merged_rows = [_merge_relationships(members, places) for _, members in groups]
        merged = pd.concat([merged, MERGED_RELATIONSHIPS.frame(merged_rows)], ignore_index=True)
    return merged, links[is_loop]


def folded_mentions(mentions: pd.DataFrame, into: Mapping[str, str]) -> pd.DataFrame:
    """Return the mentions of the merged entities; frequencies of equal keys are added.

    ``into`` is that of `folded_entities`.
    """
    moved = mentions.assign(entity_id=_map_ids(mentions["entity_id"], into))
    frequencies = moved.groupby(list(MENTIONS.key), sort=True)["frequency"].sum()
    return frequencies.reset_index()[MENTIONS.columns]


def _map_ids(ids: pd.Series, into: Mapping[str, str]) -> pd.Series:
    """Return the id that each entity has after the merge."""
    return ids.map({id: into.get(id, id) for id in ids})


def _split_by_key(
    frame: pd.DataFrame, keys: pd.Series
) -> tuple[pd.DataFrame, list[tuple[str, pd.DataFrame]]]:
    """Return the rows whose key is unique, and the other rows grouped by key in sorted order."""
    is_shared = keys.duplicated(keep=False)
    groups = frame[is_shared].groupby(keys[is_shared], sort=True)
    return frame[~is_shared], [(str(key), members) for key, members in groups]


def _merge_entities(id: str, members: pd.DataFrame, places: Mapping[str, int]) -> dict[str, Any]:
    """Return one row of `MERGED_ENTITIES` for the members; ``id`` is the id of one of them."""
    members = _sort_in_reading_order(members, places)
    units = _unite_text_units(members, places)
    types = _add_types(members)
    name_by_id = dict(zip(members["id"], members["name"], strict=True))
    return {
        "id": id,
        "name": name_by_id[id],
        "type": types[0]["type"] if types else UNKNOWN,
        "types": types,
        "descriptions": _unique_items(members["descriptions"]),
        "text_unit_ids": units,
        "frequency": len(units),
    }


def _add_types(members: pd.DataFrame) -> list[dict[str, Any]]:
    """Add the counts of each type; the most frequent type comes first, ties by code point."""
    counts: Counter[str] = Counter()
    for types in members["types"]:
        counts.update({entry["type"]: int(entry["count"]) for entry in types})
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [{"type": type, "count": count} for type, count in ranked]


def _merge_relationships(members: pd.DataFrame, places: Mapping[str, int]) -> dict[str, Any]:
    """Return one row of `MERGED_RELATIONSHIPS` for members that have the same two ends."""
    members = _sort_in_reading_order(members, places)
    first = members.iloc[0]
    heaviest_first = members.sort_values("weight", ascending=False, kind="stable")
    # The members agree in these columns: the id is made of the two ends.
    shared_columns = ("id", "source", "target", "source_entity_id", "target_entity_id")
    row: dict[str, Any] = {column: first[column] for column in shared_columns}
    row["descriptions"] = _unique_items(members["descriptions"])
    row["keywords"] = _unique_items(heaviest_first["keywords"])
    row["weight"] = float(members["weight"].sum())
    row["text_unit_ids"] = _unite_text_units(members, places)
    return row


def _sort_in_reading_order(members: pd.DataFrame, places: Mapping[str, int]) -> pd.DataFrame:
    """Sort the rows by the position of their first text unit; rows without a known one are last."""
    last = len(places)
    first_places: list[int] = []
    for units in members["text_unit_ids"]:
        unit_places = [places.get(unit, last) for unit in units]
        first_places.append(min(unit_places, default=last))
    sorted_members = members.assign(first=first_places).sort_values("first", kind="stable")
    return sorted_members.drop(columns="first")


def _unite_text_units(members: pd.DataFrame, places: Mapping[str, int]) -> list[str]:
    """Return the text unit ids of all members in reading order; unknown units come last, by id."""
    last = len(places)
    units = _unique_items(members["text_unit_ids"])
    return sorted(units, key=lambda unit: (places.get(unit, last), unit))


def _unique_items(lists: Iterable[Sequence[Item]]) -> list[Item]:
    """Return the items of all lists, each once, in the order of their first occurrence."""
    unique: dict[Item, None] = {}
    for items in lists:
        unique.update(dict.fromkeys(items))
    return list(unique)
