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
    ids_after = _map_ids(entities["id"], into)
    single_rows, groups = _split_by_key(entities, ids_after)
    if not groups:
        return single_rows
    merged_rows = [_merge_entities(id, members, places) for id, members in groups]
    merged = MERGED_ENTITIES.frame(merged_rows)
    return pd.concat([single_rows, merged], ignore_index=True)


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
    ids_after = _map_ids(mentions["entity_id"], into)
    moved = mentions.assign(entity_id=ids_after)
    by_key = moved.groupby(list(MENTIONS.key), sort=True)
    frequencies = by_key["frequency"].sum().reset_index()
    return frequencies[MENTIONS.columns]


def _map_ids(ids: pd.Series, into: Mapping[str, str]) -> pd.Series:
    """Return the id that each entity has after the merge."""
    return ids.map({id: into.get(id, id) for id in ids})


def _split_by_key(
    frame: pd.DataFrame, keys: pd.Series
) -> tuple[pd.DataFrame, list[tuple[str, pd.DataFrame]]]:
    """Return the rows whose key is unique, and the other rows grouped by key in sorted order."""
    is_shared = keys.duplicated(keep=False)
    shared_rows = frame[is_shared]
    shared_keys = keys[is_shared]
    groups: list[tuple[str, pd.DataFrame]] = []
    for key, members in shared_rows.groupby(shared_keys, sort=True):
        groups.append((str(key), members))
    return frame[~is_shared], groups


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
        for entry in types:
            counts[entry["type"]] += int(entry["count"])
    by_code_point = sorted(counts)
    # The sort is stable: types of equal counts stay in the order of their code points.
    most_frequent_first = sorted(by_code_point, key=counts.__getitem__, reverse=True)
    return [{"type": type, "count": counts[type]} for type in most_frequent_first]


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
    with_places = members.assign(first=first_places)
    in_reading_order = with_places.sort_values("first", kind="stable")
    return in_reading_order.drop(columns="first")


def _unite_text_units(members: pd.DataFrame, places: Mapping[str, int]) -> list[str]:
    """Return the text unit ids of all members in reading order; unknown units come last, by id."""
    last = len(places)
    unit_ids = _unique_items(members["text_unit_ids"])

    def place_then_id(unit_id: str) -> tuple[int, str]:
        return places.get(unit_id, last), unit_id

    return sorted(unit_ids, key=place_then_id)


def _unique_items(lists: Iterable[Sequence[Item]]) -> list[Item]:
    """Return the items of all lists, each once, in the order of their first occurrence."""
    unique: dict[Item, None] = {}
    for items in lists:
        unique.update(dict.fromkeys(items))
    return list(unique)
