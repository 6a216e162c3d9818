"""conform_extractions: give the records of each text unit types of the ontology."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.laws import ByParams
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import CO_OCCURS, EXTRACTIONS, REJECTS, STRINGS
from pipeline.ontology.schema import KEEP, OTHER, OTHER_TYPE, REJECT, Policy, Property
from pipeline.ontology.type_names import TypeNames
from pipeline.verbs.conforming_attributes import conform_attributes
from pipeline.verbs.merging.codes import first_words, one_array

# pyarrow.compute creates its functions when it is imported, so type checkers do not see them.
pc: Any = pyarrow.compute

NO_TYPE = frozenset({"", "name", "title", "unknown", "none", "entity"})
"""Types, in lower case, that say of an entity only that it is one."""
REASON = "not_in_ontology"
PROPERTY_PARAMS = ("entity_properties", "relationship_properties", "other_properties")
"""The params that say which properties records may have."""


class ConformParams(Params):
    """The types that are allowed, each with its synonyms, and what happens to other ones.

    Without ``entity_types`` every type of entities is allowed, and likewise for relationships.
    ``other_entities`` and ``other_relationships``: with "reject" a record of another type is
    rejected, with "other" it gets the type OTHER, with "keep" it stays as it is.
    ``entity_properties`` and ``relationship_properties`` are the properties of each type. What is
    none of them, or not of its kind, stays as a text where ``other_properties`` is "keep", and is
    else rejected, without its entity or relationship. In a project with ontology.yaml, that file
    gives the values.
    """

    entity_types: Mapping[str, tuple[str, ...]] = {}
    relationship_types: Mapping[str, tuple[str, ...]] = {}
    other_entities: Policy = REJECT
    other_relationships: Policy = REJECT
    entity_properties: Mapping[str, tuple[Property, ...]] = {}
    relationship_properties: Mapping[str, tuple[Property, ...]] = {}
    other_properties: Policy = REJECT


def find_retyped(
    extractions: pd.DataFrame, before: ConformParams, now: ConformParams
) -> "pd.Series[bool]":
    """Return for each record whether it may be conformed otherwise with other params."""
    touched: Any = np.zeros(len(extractions), dtype=bool)
    if _differ_in(("entity_types", "other_entities"), before, now):
        types = extractions["type"].unique()
        types_before = _map_types(types, before)
        types_now = _map_types(types, now)
        changed_types = [type for type in types if types_before[type] != types_now[type]]
        is_entity = _is_of_kind(extractions, "entity")
        has_changed_type = extractions["type"].isin(changed_types).to_numpy(dtype=bool)
        touched |= is_entity & has_changed_type
    if _differ_in(("relationship_types", "other_relationships"), before, now):
        touched |= _are_reworded(extractions, before, now)
    if _differ_in(PROPERTY_PARAMS, before, now):
        touched[:] = True
    return pd.Series(touched, extractions.index, dtype=bool)


def _differ_in(fields: Sequence[str], before: ConformParams, now: ConformParams) -> bool:
    return any(getattr(before, field) != getattr(now, field) for field in fields)


def _is_of_kind(extractions: pd.DataFrame, kind: str) -> np.ndarray:
    return (extractions["kind"] == kind).to_numpy(dtype=bool)


@verb(
    inputs={"extractions": EXTRACTIONS},
    outputs={"conformed_extractions": EXTRACTIONS, "rejects": REJECTS},
    keyed={"extractions": ("text_unit_id",)},
    row_of={"conformed_extractions": "text_unit_id", "rejects": "row_id"},
    by_params=ByParams(("kind", "type", "keywords"), find_retyped),
    libraries=("dateparser",),
    settings="conform_extractions",
)
def conform_extractions(
    extractions: pd.DataFrame, params: ConformParams = ConformParams()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the records with types of the ontology in place of their own, and rejects.

    A type is found by its name or a synonym, in any case, and as a plural. The type of a
    relationship is the first of its keywords that names one; it comes first then, and keywords
    that name no type are left out, unless ``other_relationships`` is "keep". Keywords from
    CO_OCCURS on are not stated: they stay, and a relationship that has them stays with them, even
    if there is a reject for what it states. A record that gives an entity no type stays, without a
    type: another record may give it one. ``attributes`` become properties of the ontology, with
    numbers in its units and dates in ISO 8601.
    """
    typed, rejects = _conform_entities(extractions, params)
    conformed, rejects = _conform_relationships(typed, rejects, params)
    conformed, more_rejects = conform_attributes(
        conformed,
        params.entity_properties,
        params.relationship_properties,
        params.other_properties == KEEP,
    )
    return conformed, REJECTS.frame([*rejects, *more_rejects])


def _conform_entities(
    extractions: pd.DataFrame, params: ConformParams
) -> tuple[pd.DataFrame, list[dict[str, str]]]:
    """Return the records with the types of entities replaced, and rows of REJECTS."""
    if not params.entity_types:
        return extractions, []
    is_entity = _is_of_kind(extractions, "entity")
    old_types = extractions["type"]
    new_type_of = _map_types(old_types[is_entity].unique(), params)
    rejected_types = {old for old, new in new_type_of.items() if new is None}
    has_rejected_type = old_types.isin(rejected_types).to_numpy(dtype=bool)
    is_rejected = is_entity & has_rejected_type
    rejects = list(_entity_rejects(extractions[is_rejected]))
    # A record that is no entity keeps its type.
    new_types = old_types.where(~is_entity, old_types.map(new_type_of))
    typed = extractions.assign(type=new_types)
    return typed[~is_rejected], rejects


def _map_types(types: Iterable[str], params: ConformParams) -> dict[str, str | None]:
    """Map each type of an entity to the one that it gets, or None if its record is rejected."""
    if not params.entity_types:
        return {type: type for type in types}
    names = TypeNames.of(params.entity_types.items())
    return {type: _new_type(type, names, params) for type in types}


def _new_type(type: str, names: TypeNames, params: ConformParams) -> str | None:
    """Return the type that an entity of this type gets, or None if its record is rejected."""
    found = names.find(type)
    if found is not None:
        return found
    if type.strip().lower() in NO_TYPE:
        return "" if params.other_entities != KEEP else type
    outside = {REJECT: None, OTHER: OTHER_TYPE, KEEP: type}
    return outside[params.other_entities]


def _entity_rejects(records: pd.DataFrame) -> Iterator[dict[str, str]]:
    cells = records[["text_unit_id", "name", "type", "description"]]
    for unit, name, type, description in cells.itertuples(index=False, name=None):
        message = f"{name!r} is of type {type!r}: {description}"
        yield make_reject(unit, REASON, message)


def _conform_relationships(
    extractions: pd.DataFrame, rejects: list[dict[str, str]], params: ConformParams
) -> tuple[pd.DataFrame, list[dict[str, str]]]:
    """Return the records with the keywords of relationships replaced, and rows of REJECTS."""
    if not params.relationship_types:
        return extractions, rejects
    keywords = _Keywords(params)
    old_lists = one_array(extractions["keywords"], STRINGS)
    rows = _find_changeable(extractions, old_lists)
    new_lists: list[list[str]] = []
    is_kept = np.ones(len(extractions), dtype=bool)
    is_rejected = np.zeros(len(extractions), dtype=bool)
    for row, old_list in zip(rows, _take_lists(old_lists, rows), strict=True):
        new_list, is_rejected[row] = keywords.conform(old_list)
        # A record whose statement is rejected stays if it has more than that.
        is_kept[row] = bool(new_list) or not is_rejected[row]
        new_lists.append(new_list)
    # The new lists are put behind the old ones, and taken from there: no old list is copied.
    places = np.arange(len(old_lists))
    places[rows] = len(old_lists) + np.arange(len(rows))
    all_lists = pa.concat_arrays([old_lists, pa.array(new_lists, STRINGS)])
    cells = all_lists.take(pa.array(places))
    column = pd.Series(cells, extractions.index, dtype=pd.ArrowDtype(STRINGS))
    rejects = [*rejects, *_relationship_rejects(extractions[is_rejected])]
    conformed = extractions.assign(keywords=column)
    return conformed[is_kept], rejects


def _find_changeable(extractions: pd.DataFrame, keywords: pa.Array) -> np.ndarray:
    """Return the rows of relationships whose keywords may get other ones."""
    is_relationship = _is_of_kind(extractions, "relationship")
    return np.flatnonzero(is_relationship & _may_change(keywords))


def _take_lists(lists: pa.Array, rows: np.ndarray) -> list[list[str]]:
    return lists.take(pa.array(rows)).to_pylist()


def _are_reworded(
    extractions: pd.DataFrame, before: ConformParams, now: ConformParams
) -> np.ndarray:
    """Return for each record whether it is a relationship whose keywords get other ones now."""
    lists = one_array(extractions["keywords"], STRINGS)
    rows = _find_changeable(extractions, lists)
    keywords_before = _Keywords(before)
    keywords_now = _Keywords(now)
    # There are few different lists of keywords, so each of them is looked at once.
    is_list_reworded: dict[tuple[str, ...], bool] = {}
    is_reworded = np.zeros(len(extractions), dtype=bool)
    for row, words in zip(rows, _take_lists(lists, rows), strict=True):
        key = tuple(words)
        if key not in is_list_reworded:
            conformed_before = keywords_before.conform(words)
            conformed_now = keywords_now.conform(words)
            is_list_reworded[key] = conformed_before != conformed_now
        is_reworded[row] = is_list_reworded[key]
    return is_reworded


def _may_change(keywords: pa.Array) -> np.ndarray:
    """Return whether each list of keywords states something, or has an empty keyword.

    Without a model most lists begin with CO_OCCURS: those stay as they are.
    """
    may_change = first_words(keywords) != CO_OCCURS
    lengths = pc.fill_null(pc.list_value_length(keywords), 0).to_numpy()
    row_of_word = np.repeat(np.arange(len(keywords)), lengths)
    # A missing keyword counts as an empty one.
    is_empty = pc.fill_null(pc.equal(keywords.flatten(), ""), True)
    rows_with_empty = row_of_word[is_empty.to_numpy(zero_copy_only=False)]
    may_change[rows_with_empty] = True
    return may_change


class _Keywords:
    """The keywords that relationships get by some params."""

    def __init__(self, params: ConformParams):
        self._params = params
        self._names = TypeNames.of(params.relationship_types.items())
        self._types: dict[str, str | None] = {}

    def conform(self, given: Sequence[str]) -> tuple[list[str], bool]:
        """Return the keywords of a relationship, and whether what it states is rejected."""
        if not self._params.relationship_types:
            return list(given), False
        stated, unstated = _split_at_mark([word for word in given if word])
        types: list[str] = []
        others: list[str] = []
        for word in stated:
            type = self._find_type(word)
            if type is None:
                others.append(word)
            else:
                types.append(type)
        if self._params.other_relationships == KEEP:
            return [*dict.fromkeys([*types, *others]), *unstated], False
        if types:
            return [types[0], *unstated], False
        if unstated and not stated:
            return unstated, False
        if self._params.other_relationships == OTHER:
            return [OTHER_TYPE, *unstated], False
        return unstated, True

    def _find_type(self, word: str) -> str | None:
        """Return the type that the keyword names; each keyword is looked up once."""
        if word not in self._types:
            self._types[word] = self._names.find(word)
        return self._types[word]


def _split_at_mark(keywords: list[str]) -> tuple[list[str], list[str]]:
    """Return the keywords that are stated, and the others, from CO_OCCURS on."""
    if CO_OCCURS not in keywords:
        return keywords, []
    mark = keywords.index(CO_OCCURS)
    return keywords[:mark], keywords[mark:]


def _relationship_rejects(records: pd.DataFrame) -> Iterator[dict[str, str]]:
    cells = records[["text_unit_id", "source", "target", "keywords", "description"]]
    for unit, source, target, keywords, description in cells.itertuples(index=False, name=None):
        words = ", ".join(map(repr, keywords)) or "no keyword"
        message = f"{source!r} and {target!r} related by {words}: {description}"
        yield make_reject(unit, REASON, message)
