"""merge_graphs: the graphs of all text units become one."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.contract.registry import UNTRACKED, Params, Tracker, verb
from pipeline.contract.schemas import (
    CO_OCCURS,
    EXTRACTIONS,
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
    TEXT_UNITS,
)
from pipeline.resolution.namesakes import told_apart
from pipeline.text.ids import entity_id, relationship_id

UNKNOWN = "UNKNOWN"
VAGUE_TYPES = ("name", "title")
"""What extract_graph_fast calls an entity that a text names without a word of what it is."""


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
    libraries=("rapidfuzz", "regex"),
)
def merge_graphs(
    extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    params: MergeParams = MergeParams(),
    tracker: Tracker = UNTRACKED,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Entities by match key, directed relationships by their two ends, in an order the content fixes.

    People of one name are as many entities as the texts say (``resolution.namesakes``).

    An entity's name is its commonest surface form (ties: the smallest by code point), its type the one
    with the greatest weight of records, other types kept with their counts; ``frequency`` is the number
    of text units that mention it. Weights add up; keywords are the union in order of frequency. A relationship
    of an entity with itself is a reject, and so is a record without its kind, text unit or names; what else is
    missing counts as empty.
    """
    extractions = EXTRACTIONS.filled(extractions, "merge_graphs: table 'extractions'").reset_index(drop=True)
    tracker.expect(len(extractions))
    incomplete = extractions[_incomplete(extractions)]
    extractions = told_apart(extractions.drop(incomplete.index), text_units)
    dropped = extractions[_orphans(extractions)] if params.orphans == "drop" else extractions[:0]
    extractions = extractions.drop(dropped.index)
    tracker.finished(len(incomplete) + len(dropped))
    ids = _entity_ids(extractions)
    known = sorted(set(ids.values()))
    records = _in_reading_order(extractions, text_units)
    numbers = {id: number for number, id in enumerate(known)}
    entity_of = {name: numbers[id] for name, id in ids.items()}
    entities = records[records["kind"] == "entity"]
    entities = entities.assign(entity=_mapped(entities["name"], entity_of))
    links = records[records["kind"] == "relationship"]
    links = links.assign(
        source_entity=_mapped(links["source"], entity_of), target_entity=_mapped(links["target"], entity_of)
    )
    loops = links["source_entity"] == links["target_entity"]
    occurrences = _occurrences(entities, links)
    names = _commonest(occurrences)
    merged_entities = _merge_entities(entities, occurrences, names, known)
    tracker.finished(len(entities))
    merged_relationships = _merge_relationships(links[~loops], names, known)
    tracker.finished(len(links))
    return (
        merged_entities,
        merged_relationships,
        _mentions(occurrences, known),
        REJECTS.frame(
            [
                *_rejects(links[loops], "self_loop"),
                *_rejects(dropped, "orphan"),
                *_rejects(incomplete, "incomplete"),
            ]
        ),
    )


def _incomplete(extractions: pd.DataFrame) -> pd.Series:
    """Records that do not say what they are, where they were found, or what of."""
    blank = {name: extractions[name].str.strip() == "" for name in ("text_unit_id", "name", "source", "target")}
    entities, links = (extractions["kind"] == kind for kind in ("entity", "relationship"))
    nameless = (entities & blank["name"]) | (links & (blank["source"] | blank["target"]))
    return blank["text_unit_id"] | nameless | ~(entities | links)


def _orphans(extractions: pd.DataFrame) -> pd.Series:
    """Relationships with an end that no record of an entity names."""
    ids = _entity_ids(extractions)
    links = extractions["kind"] == "relationship"
    described = {ids[name] for name in extractions.loc[~links, "name"].unique()}
    known = {name for name, id in ids.items() if id in described}
    return links & ~(extractions["source"].isin(known) & extractions["target"].isin(known))


def _entity_ids(extractions: pd.DataFrame) -> dict[str, str]:
    """Every name of an entity or of a relationship's end -> entity id."""
    links = extractions["kind"] == "relationship"
    used = {"name": extractions["kind"] == "entity", "source": links, "target": links}
    return {name: entity_id(name) for end, rows in used.items() for name in extractions.loc[rows, end].unique()}


def _in_reading_order(extractions: pd.DataFrame, text_units: pd.DataFrame) -> pd.DataFrame:
    """The records with their texts, which are long and recur, as categories, and ``place``, that of the text unit."""
    units = text_units.sort_values(["document_id", "order"])["id"]
    place = pd.Series(range(len(units)), index=units, dtype="int64")
    ends = ("name", "source", "target")
    names = pd.CategoricalDtype(sorted({name for end in ends for name in extractions[end].dropna().unique()}))
    types = dict.fromkeys(ends, names) | dict.fromkeys(("kind", "type", "text_unit_id", "description"), "category")
    placed = extractions.astype(types).assign(place=extractions["text_unit_id"].map(place))
    return placed.sort_values(["place", "order"], kind="stable").reset_index(drop=True)


def _mapped(names: pd.Series, numbers: Mapping[str, int]) -> np.ndarray:
    """The number of each name; names are categories."""
    of_category = np.array([numbers.get(name, -1) for name in names.cat.categories], dtype=np.int64)
    return of_category[names.cat.codes]


def _occurrences(entities: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Every naming of an entity: (entity, name, text_unit_id, place, weight)."""
    described = entities[["entity", "name", "text_unit_id", "place", "weight"]]
    ends = [
        links[[f"{end}_entity", end, "text_unit_id", "place"]]
        .rename(columns={f"{end}_entity": "entity", end: "name"})
        .assign(weight=0.0)
        for end in ("source", "target")
    ]
    return pd.concat([described, *ends], ignore_index=True)


def _commonest(occurrences: pd.DataFrame) -> list[str]:
    """The display name of each entity."""
    counts = occurrences.groupby(["entity", "name"], sort=True, observed=True).size().rename("count").reset_index()
    best = counts.sort_values(["entity", "count", "name"], ascending=[True, False, True], kind="stable")
    return best.drop_duplicates("entity")["name"].tolist()


def _merge_entities(
    entities: pd.DataFrame, occurrences: pd.DataFrame, names: list[str], known: list[str]
) -> pd.DataFrame:
    units = _distinct_lists(occurrences.sort_values("place", kind="stable"), "entity", "text_unit_id")
    descriptions = _distinct_lists(entities[entities["description"] != ""], "entity", "description")
    types = _type_counts(entities)
    counts = [types.get(entity, []) for entity in range(len(known))]
    return pd.DataFrame(
        {
            "id": known,
            "name": names,
            "type": [ranked[0]["type"] if ranked else UNKNOWN for ranked in counts],
            "types": pd.Series(counts, dtype=object),
            "descriptions": pd.Series([descriptions.get(entity, []) for entity in range(len(known))], dtype=object),
            "text_unit_ids": pd.Series([units[entity] for entity in range(len(known))], dtype=object),
            "frequency": [len(units[entity]) for entity in range(len(known))],
        },
        columns=MERGED_ENTITIES.columns,
    )


def _type_counts(entities: pd.DataFrame) -> dict[int, list[dict[str, Any]]]:
    """Entity -> its types with their weights, heaviest first, ties by code point; those that tell nothing last."""
    typed = entities[entities["type"] != ""]
    by_type = typed.groupby(["entity", "type"], sort=True, observed=True)["weight"]
    weights = by_type.sum().round().astype("int64").rename("count")
    ranked = weights.reset_index().assign(vague=lambda rows: rows["type"].isin(VAGUE_TYPES).astype(bool))
    ranked = ranked.sort_values(
        ["entity", "vague", "count", "type"], ascending=[True, True, False, True], kind="stable"
    ).drop(columns="vague")
    counts: dict[int, list[dict[str, Any]]] = {}
    for entity, type, count in ranked.itertuples(index=False):
        counts.setdefault(entity, []).append({"type": type, "count": count})
    return counts


def _merge_relationships(links: pd.DataFrame, names: list[str], known: list[str]) -> pd.DataFrame:
    by_ends = links.groupby(["source_entity", "target_entity"], sort=True)
    links = links.assign(pair=by_ends.ngroup())
    merged = by_ends["weight"].sum().reset_index()
    pairs = range(len(merged))
    sources = [known[entity] for entity in merged["source_entity"]]
    targets = [known[entity] for entity in merged["target_entity"]]
    descriptions = _distinct_lists(links[links["description"] != ""], "pair", "description")
    units = _distinct_lists(links, "pair", "text_unit_id")
    keywords = _keywords(links)
    return pd.DataFrame(
        {
            "id": [relationship_id(*ends) for ends in zip(sources, targets, strict=True)],
            "source": [names[entity] for entity in merged["source_entity"]],
            "target": [names[entity] for entity in merged["target_entity"]],
            "source_entity_id": sources,
            "target_entity_id": targets,
            "descriptions": pd.Series([descriptions.get(pair, []) for pair in pairs], dtype=object),
            "keywords": pd.Series([keywords[pair] for pair in pairs], dtype=object),
            "weight": merged["weight"],
            "text_unit_ids": pd.Series([units[pair] for pair in pairs], dtype=object),
        },
        columns=MERGED_RELATIONSHIPS.columns,
    )


def _keywords(links: pd.DataFrame) -> dict[int, list[str]]:
    """Pair -> keywords, the most frequent first, then in order of appearance; those that are stated before CO_OCCURS,
    the others behind it."""
    ordered = links[["pair", "keywords"]].sort_values("pair", kind="stable")
    rows = zip(ordered["pair"].tolist(), ordered["keywords"], strict=True)
    keywords = {}
    for pair, of_pair in groupby(rows, key=itemgetter(0)):
        lists = [[word for word in words if word is not None] for _, words in of_pair]
        stated = Counter(word for words in lists for word in takewhile(CO_OCCURS.__ne__, words))
        counts = Counter(word for words in lists for word in words)
        ranked = [word for word, _ in counts.most_common()]
        keywords[pair] = sorted(ranked, key=lambda word: 0 if word in stated else 1 + (word != CO_OCCURS))
    return keywords


def _distinct_lists(rows: pd.DataFrame, by: str, column: str) -> dict[int, list[str]]:
    """Number -> the column's distinct values in row order."""
    distinct = rows[[by, column]].drop_duplicates()
    texts = distinct[column].cat.categories.tolist()
    lists: dict[int, list[str]] = {}
    for key, code in zip(distinct[by].tolist(), distinct[column].cat.codes.tolist(), strict=True):
        lists.setdefault(key, []).append(texts[code])
    return lists


def _mentions(occurrences: pd.DataFrame, known: list[str]) -> pd.DataFrame:
    weights = occurrences.groupby(["entity", "text_unit_id"], sort=True, observed=True)["weight"].sum()
    mentions = weights.clip(lower=1).round().astype("int64").rename("frequency").reset_index()
    mentions["entity_id"] = [known[entity] for entity in mentions["entity"].tolist()]
    mentions["text_unit_id"] = mentions["text_unit_id"].astype(str)
    return mentions[MENTIONS.columns]


def _rejects(records: pd.DataFrame, reason: str) -> Iterator[dict[str, str]]:
    columns = ["text_unit_id", "kind", "name", "source", "target", "description"]
    for unit, kind, name, source, target, description in records[columns].itertuples(index=False):
        said = {
            "self_loop": f"{source!r} related to itself",
            "orphan": f"{source!r} and {target!r} related, and an end is described nowhere",
            "incomplete": f"record of kind {kind!r}, name {name!r}, source {source!r}, target {target!r} lacks one",
        }[reason]
        message = f"{said}: {description}"[:300]
        yield {"step": "", "row_id": unit, "kind": "record", "reason": reason, "message": message}
