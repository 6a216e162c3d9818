"""check_patterns: keep the entities and relationships of a merged graph that the ontology allows.

Entities have their types only after the merge, so patterns are checked then, record by record, and
relationships are merged anew from the records that are left.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from pipeline.contract.laws import ByParams, Law, Part, Uses
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import (
    CO_OCCURS,
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
    RELATIONSHIP_RECORDS,
    STRING,
    STRINGS,
    table,
)
from pipeline.ontology.faults import ancestors_of
from pipeline.ontology.property_values import UNKNOWN_PROPERTY
from pipeline.ontology.schema import ANY_TYPE, KEEP, OTHER, OTHER_TYPE, REJECT, Pattern, Policy
from pipeline.text.ids import relationship_id
from pipeline.verbs.merging.codes import first_words, one_array
from pipeline.verbs.merging.entities import UNKNOWN
from pipeline.verbs.merging.relationships import merge_relationships
from pipeline.verbs.merging.tables import ENTITY_NAMES

NOT_IN_ONTOLOGY, NOT_IN_PATTERNS = "not_in_ontology", "not_in_patterns"
"""Reasons of rejects, and faults of records."""
ENDS = ("source_entity_id", "target_entity_id")
ENTITY_TYPES = table("id", id=STRING, type=STRING)
"""The columns of MERGED_ENTITIES that patterns are about."""
ENTITY_IDS = table("id", id=STRING)
SWAPPED = {
    "source": "target",
    "target": "source",
    "source_entity_id": "target_entity_id",
    "target_entity_id": "source_entity_id",
}
"""The columns of a record that is turned -> where their values come from."""


class PatternParams(Params):
    """The patterns that relationships must fit, and what happens to those that fit none.

    ``relationship_types`` are the names of the ontology's types; ``parents`` maps an entity type to
    the one whose patterns hold for it too. ``symmetric`` are relationship types that mean the same
    in both directions. ``other_entities`` is about entities without a
    type, ``other_patterns`` about relationships that fit no pattern: with "reject" they are
    rejected, with "other" they get the type OTHER, with "keep" they stay. In a project with
    ontology.yaml, that file gives the values.
    """

    parents: Mapping[str, str] = {}
    relationship_types: tuple[str, ...] = ()
    symmetric: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    other_entities: Policy = KEEP
    other_patterns: Policy = REJECT


class Verdict(NamedTuple):
    """The directions in which two types of ends fit a relationship type.

    ``fits`` is about the direction of the record, ``fits_turned`` about the other one. Both are
    true only where both directions mean the same.
    """

    fits: bool
    fits_turned: bool


class Patterns:
    """The patterns of an ontology, with those that hold by the parents of types."""

    def __init__(self, params: PatternParams):
        self._patterns = frozenset(params.patterns)
        self._known = frozenset(params.relationship_types)
        self._symmetric = frozenset(params.symmetric)
        self._parents = params.parents
        self._keeps_others = params.other_patterns == KEEP
        self._verdicts: dict[Pattern, Verdict] = {}

    def judge(self, source: str, type: str, target: str) -> Verdict:
        """Return how a relationship of this type fits between ends of these types.

        Where no pattern constrains it, both directions fit if it is symmetric, else its own.
        """
        triple = (source, type, target)
        if triple not in self._verdicts:
            self._verdicts[triple] = self._find_verdict(*triple)
        return self._verdicts[triple]

    def _find_verdict(self, source: str, type: str, target: str) -> Verdict:
        is_symmetric = type in self._symmetric
        if not self._patterns or type not in self._known:
            return Verdict(True, is_symmetric)
        fits = self._has(source, type, target)
        fits_turned = self._has(target, type, source)
        if is_symmetric:
            # One that stays outside the patterns has one direction too, or it would be two rows.
            either = fits or fits_turned or self._keeps_others
            return Verdict(either, either)
        # Where a pattern fits both ways, as (PERSON, PARENT_OF, PERSON) does, the text decides.
        return Verdict(fits, fits_turned and not fits)

    def _has(self, source: str, type: str, target: str) -> bool:
        """Return whether a pattern fits; one of a type fits the types below it, too."""
        sources = [*ancestors_of(source, self._parents), ANY_TYPE]
        targets = [*ancestors_of(target, self._parents), ANY_TYPE]
        triples = ((one, type, other) for one, other in product(sources, targets))
        return any(triple in self._patterns for triple in triples)


def check_entities(
    unchecked_entities: pd.DataFrame, params: PatternParams
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the entities (MERGED_ENTITIES) that have a type, and rejects for the others."""
    is_untyped = (unchecked_entities["type"] == UNKNOWN).to_numpy(dtype=bool)
    if params.other_entities == KEEP or not is_untyped.any():
        return unchecked_entities, REJECTS.frame()
    if params.other_entities == OTHER:
        types = unchecked_entities["type"].where(~is_untyped, OTHER_TYPE)
        return unchecked_entities.assign(type=types), REJECTS.frame()
    outside = unchecked_entities[is_untyped]
    rows = [
        make_reject(id, NOT_IN_ONTOLOGY, f"{name!r} has no type of the ontology")
        for id, name in outside[["id", "name"]].itertuples(index=False, name=None)
    ]
    return unchecked_entities[~is_untyped], REJECTS.frame(rows)


def check_mentions(unchecked_mentions: pd.DataFrame, merged_entities: pd.DataFrame) -> pd.DataFrame:
    """Return the mentions of entities that are left."""
    return unchecked_mentions[unchecked_mentions["entity_id"].isin(merged_entities["id"])]


def check_records(
    unchecked_records: pd.DataFrame, merged_entities: pd.DataFrame, params: PatternParams
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return RELATIONSHIP_RECORDS with ends turned and faults marked, and rejects.

    ``merged_entities`` has ENTITY_TYPES. A record whose ends fit only the other way round is
    turned; so is one of a symmetric type if its target has the smaller id. The fault of a record
    with an end that the ontology left out is NOT_IN_ONTOLOGY, that of one that fits no pattern
    NOT_IN_PATTERNS; one that has CO_OCCURS too stays, without what it states. A record that states
    nothing fits everywhere.
    """
    records = RELATIONSHIP_RECORDS.seen(unchecked_records)
    types = dict(zip(merged_entities["id"], merged_entities["type"], strict=True))
    patterns = Patterns(params)
    turned = np.zeros(len(records), dtype=bool)
    outside = np.zeros(len(records), dtype=bool)
    is_sound = (records["fault"] == "").to_numpy(dtype=bool)
    has_ends = _have_ends(records, merged_entities["id"]).all(axis=1)
    faults = records["fault"].to_numpy(dtype=object, copy=True)
    faults[is_sound & ~has_ends] = NOT_IN_ONTOLOGY
    stated = stated_types(records["keywords"])
    judged = np.flatnonzero(is_sound & has_ends & (stated != ""))
    # Cells of Arrow are slow to read one by one, so the columns become arrays first.
    ends = [records[name].to_numpy(dtype=object)[judged] for name in ENDS]
    for row, type, source, target in zip(judged, stated[judged], *ends, strict=True):
        verdict = patterns.judge(types[source], type, types[target])
        outside[row] = not verdict.fits and not verdict.fits_turned
        goes_down = verdict.fits and target < source
        turned[row] = verdict.fits_turned and (goes_down or not verdict.fits)
    rejects = list(_end_rejects(records[faults == NOT_IN_ONTOLOGY]))
    keywords = records["keywords"]
    # Properties are those of the type that a record loses here.
    attributes = records["attributes"]
    if params.other_patterns != KEEP and outside.any():
        attributes = attributes.mask(outside, "")
    if params.other_patterns == OTHER and outside.any():
        rejects += _attribute_rejects(records[outside])
        keywords = _with_other_type(keywords, outside)
    elif params.other_patterns == REJECT and outside.any():
        rejects += _pattern_rejects(records[outside], types)
        keywords = _with_unstated_alone(keywords, outside)
        for row in np.flatnonzero(outside):
            if not keywords.iloc[row]:
                faults[row] = NOT_IN_PATTERNS
    changed = records.assign(fault=faults, keywords=keywords, attributes=attributes)
    checked = _turn(changed, turned)
    return checked, REJECTS.frame(rejects)


def stated_types(keywords: pd.Series) -> np.ndarray:
    """Return the type that each relationship states, "" where it states none."""
    words = first_words(one_array(keywords, STRINGS))
    words[words == CO_OCCURS] = ""
    return words


def _have_ends(records: pd.DataFrame, ids: pd.Series) -> np.ndarray:
    """Return for both ends of each record whether they are among these entities."""
    if not len(ids):
        return np.zeros((len(records), len(ENDS)), dtype=bool)
    has_ends = [records[name].isin(ids).to_numpy(dtype=bool) for name in ENDS]
    return np.column_stack(has_ends)


def find_touched_records(
    unchecked_records: pd.DataFrame, before: pd.DataFrame, now: pd.DataFrame
) -> pd.Series:
    """Return for each record whether it may be judged otherwise, by two versions of ENTITY_TYPES.

    The types of its ends decide only on a record that states something. On others it decides
    whether both ends are there.
    """
    types_before = before.set_index("id")["type"]
    types_now = now.set_index("id")["type"]
    in_both = types_before.index.intersection(types_now.index)
    has_other_type = (types_before[in_both] != types_now[in_both]).to_numpy(dtype=bool)
    with_other_type = in_both[has_other_type].to_series()
    appeared_or_gone = types_before.index.symmetric_difference(types_now.index).to_series()
    touched: np.ndarray = np.any(_have_ends(unchecked_records, appeared_or_gone), axis=1)
    states_something = stated_types(unchecked_records["keywords"]) != ""
    stating_rows = np.flatnonzero(states_something)
    ends = unchecked_records[list(ENDS)].take(stating_rows)
    touched[stating_rows] |= np.any(_have_ends(ends, with_other_type), axis=1)
    return pd.Series(touched, unchecked_records.index, dtype=bool)


def state_something(
    unchecked_records: pd.DataFrame, before: PatternParams, now: PatternParams
) -> "pd.Series[bool]":
    """Return for each record whether params may decide on it: those that state nothing fit all."""
    touched = stated_types(unchecked_records["keywords"]) != ""
    return pd.Series(touched, unchecked_records.index, dtype=bool)


def _turn(records: pd.DataFrame, turned: np.ndarray) -> pd.DataFrame:
    """Return the records with source and target exchanged where ``turned`` is true."""
    if not turned.any():
        return records
    columns = {
        name: records[name].where(~turned, records[other]) for name, other in SWAPPED.items()
    }
    swapped = records.assign(**columns)
    ids = records["id"].to_numpy(dtype=object, copy=True)
    ends = swapped.loc[turned, list(ENDS)].itertuples(index=False, name=None)
    ids[turned] = [relationship_id(source, target) for source, target in ends]
    return swapped.assign(id=ids)


def _with_other_type(keywords: pd.Series, outside: np.ndarray) -> pd.Series:
    """Return the keywords with OTHER in place of the type where ``outside`` is true."""
    lists: list[Sequence[str]] = []
    for words, is_outside in zip(keywords, outside, strict=True):
        # The type is the first keyword.
        lists.append([OTHER_TYPE, *words[1:]] if is_outside else words)
    return pd.Series(lists, keywords.index, dtype=object)


def _with_unstated_alone(keywords: pd.Series, outside: np.ndarray) -> pd.Series:
    """Return the keywords, from CO_OCCURS on only where ``outside`` is true."""
    lists = []
    for words, is_outside in zip(keywords, outside, strict=True):
        given = list(words)
        start = len(given)
        if not is_outside:
            start = 0
        elif CO_OCCURS in given:
            start = given.index(CO_OCCURS)
        lists.append(given[start:])
    return pd.Series(lists, keywords.index, dtype=object)


def _end_rejects(records: pd.DataFrame) -> Iterator[dict[str, str]]:
    cells = records[["text_unit_id", "source", "target", "description"]]
    for unit, source, target, description in cells.itertuples(index=False, name=None):
        fact = f"{source!r} and {target!r} related, and an end has no type of the ontology"
        yield make_reject(unit, NOT_IN_ONTOLOGY, f"{fact}: {description}")


def _pattern_rejects(records: pd.DataFrame, types: Mapping[str, str]) -> Iterator[dict[str, str]]:
    columns = ["text_unit_id", "source", "target", *ENDS, "keywords", "description"]
    for row in records[columns].itertuples(index=False, name=None):
        unit, source, target, source_id, target_id, keywords, description = row
        pattern = f"({types[source_id]}, {keywords[0]}, {types[target_id]})"
        fact = f"{source!r} and {target!r} related as {pattern}, which is no pattern"
        yield make_reject(unit, NOT_IN_PATTERNS, f"{fact}: {description}")


def _attribute_rejects(records: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each record with properties of a type that it loses."""
    with_some = records[records["attributes"].fillna("") != ""]
    cells = with_some[["text_unit_id", "source", "target", "attributes"]]
    for unit, source, target, attributes in cells.itertuples(index=False, name=None):
        fact = f"{source!r} and {target!r} fit no pattern, so their properties have no type"
        yield make_reject(unit, UNKNOWN_PROPERTY, f"{fact}: {attributes}")


def join_rejects(entity_rejects: pd.DataFrame, record_rejects: pd.DataFrame) -> pd.DataFrame:
    """Return the rejects of entities and of records as one table."""
    return pd.concat([entity_rejects, record_rejects], ignore_index=True)


def _list_check_parts(params: PatternParams) -> tuple[Part, ...]:
    """Return the sub-steps of check_patterns, in the order in which they run."""
    by_text_unit = {"unchecked_records": ("text_unit_id",)}
    entities = Part(
        check_entities,
        {"unchecked_entities": MERGED_ENTITIES},
        {"merged_entities": MERGED_ENTITIES, "entity_rejects": REJECTS},
        Law(
            {"unchecked_entities": ("id",)},
            row_of={"merged_entities": "id", "entity_rejects": "row_id"},
        ),
    )
    mentions = Part(
        check_mentions,
        {"unchecked_mentions": MENTIONS, "merged_entities": ENTITY_IDS},
        {"mentions": MENTIONS},
        Law(
            {"unchecked_mentions": ("entity_id",), "merged_entities": ("id",)},
            row_of={"mentions": "entity_id"},
        ),
    )
    records = Part(
        check_records,
        {"unchecked_records": RELATIONSHIP_RECORDS, "merged_entities": ENTITY_TYPES},
        {"relationship_records": RELATIONSHIP_RECORDS, "record_rejects": REJECTS},
        Law(
            by_text_unit,
            row_of={"relationship_records": "text_unit_id", "record_rejects": "row_id"},
            lookup={"merged_entities": find_touched_records},
            by_params=ByParams(("keywords",), state_something),
        ),
    )
    relationships = Part(
        merge_relationships,
        {"relationship_records": RELATIONSHIP_RECORDS, "merged_entities": ENTITY_NAMES},
        {"merged_relationships": MERGED_RELATIONSHIPS},
        Law(
            {"relationship_records": ("id",)},
            row_of={"merged_relationships": "id"},
            lookup={"merged_entities": Uses("relationship_records", ENDS)},
        ),
    )
    rejects = Part(
        join_rejects,
        {"entity_rejects": REJECTS, "record_rejects": REJECTS},
        {"rejects": REJECTS},
        None,
    )
    return entities, mentions, records, relationships, rejects


@verb(
    inputs={
        "unchecked_entities": MERGED_ENTITIES,
        "unchecked_records": RELATIONSHIP_RECORDS,
        "unchecked_mentions": MENTIONS,
    },
    outputs={
        "merged_entities": MERGED_ENTITIES,
        "merged_relationships": MERGED_RELATIONSHIPS,
        "mentions": MENTIONS,
        "relationship_records": RELATIONSHIP_RECORDS,
        "rejects": REJECTS,
    },
    parts=_list_check_parts,
    settings="check_patterns",
)
def check_patterns(
    unchecked_entities: pd.DataFrame,
    unchecked_records: pd.DataFrame,
    unchecked_mentions: pd.DataFrame,
    params: PatternParams = PatternParams(),
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the graph of merge_graphs as far as the ontology allows it, and rejects.

    An entity without a type of the ontology is left out with its mentions and relationships. A
    relationship whose ends fit a pattern only the other way round is turned. ``check_entities`` and
    ``check_records`` describe what happens to the others.
    """
    merged_entities, entity_rejects = check_entities(unchecked_entities, params)
    mentions = check_mentions(unchecked_mentions, merged_entities)
    checked, record_rejects = check_records(unchecked_records, merged_entities, params)
    merged_relationships = merge_relationships(checked, merged_entities)
    rejects = join_rejects(entity_rejects, record_rejects)
    return merged_entities, merged_relationships, mentions, checked, rejects
