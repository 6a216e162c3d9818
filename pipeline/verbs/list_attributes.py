"""list_attributes: list the properties that text units give of each entity.

Each distinct value has a row for each text unit that gives it, so texts that contradict each other
stay side by side with their sources. Properties of relationships are in the statements.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pipeline.contract.laws import Law, Part, Uses
from pipeline.contract.registry import UNTRACKED, Params, Tracker, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import (
    ATTRIBUTES,
    EXTRACTIONS,
    REJECTS,
    STRING,
    UNIT_TEXTS,
    table,
)
from pipeline.corrections.values import DecidedValue, read_decided
from pipeline.ontology.property_values import (
    MISSING_PROPERTY,
    UNKNOWN_PROPERTY,
    number_text,
    parse_attributes,
)
from pipeline.ontology.schema import ANY_TYPE, KEEP, REJECT, Policy, Property
from pipeline.text.ids import attribute_id, match_key
from pipeline.verbs.check_patterns import ENTITY_TYPES
from pipeline.verbs.conforming_attributes import types_of_names
from pipeline.verbs.decided_attributes import PLAIN, decide_attributes
from pipeline.verbs.list_statements import DECISIONS, MOVED
from pipeline.verbs.merge_graphs import (
    BEARERS_PART,
    BY_TEXT_UNIT,
    NAMESAKES_OF_DOCUMENT,
    NAMESAKES_PART,
    RECORDS,
)
from pipeline.verbs.merging.merged_entities import find_merged_into
from pipeline.verbs.merging.namesakes import find_bearers, tell_namesakes
from pipeline.verbs.merging.records import name_records

GIVEN_ATTRIBUTES = table(
    "entity_id", "name", "value", "text_unit_id", "given_type", "correction",
    entity_id=STRING, name=STRING, value=STRING, text_unit_id=STRING, document_id=STRING,
    given_type=STRING, correction=STRING,
)  # fmt: skip
"""Values of properties as records give them; ``given_type`` is the type that the text unit gives
the entity. With a ``correction`` the value is what a person wrote, and ``document_id`` is empty if
the person named no document."""


class AttributeParams(Params):
    """The properties of each type of entities, and what happens to others.

    With ``other_properties`` "keep" a property that the type of an entity does not have stays as a
    text. In a project with ontology.yaml, that file gives the values.
    """

    properties: Mapping[str, tuple[Property, ...]] = {}
    other_properties: Policy = REJECT


def give_attributes(
    extractions: pd.DataFrame, text_units: pd.DataFrame, namesakes: pd.DataFrame
) -> pd.DataFrame:
    """Return GIVEN_ATTRIBUTES of the entities that merge_graphs makes of these records.

    All records of the text units that give some are read: which of several people of one name is
    meant depends on the others.
    """
    is_given = (extractions["kind"] == "entity") & (extractions["attributes"].fillna("") != "")
    units = extractions["text_unit_id"][is_given].unique()
    of_units = extractions[extractions["text_unit_id"].isin(units)]
    entities, _ = name_records(of_units, text_units, namesakes)
    entities = entities[is_given.reindex(entities.index)]
    types = types_of_names(of_units)
    placed = entities[["entity_id", "text_unit_id", "document_id", "type"]]
    said = of_units[["name", "attributes"]].reindex(entities.index)
    columns = [*placed.items(), *said.items()]
    cells = zip(*(column for _, column in columns), strict=True)
    rows: set[tuple[str, ...]] = set()
    for id, unit, document, type, written, cell in cells:
        given_type = type or types.get((unit, match_key(written)), "")
        for name, value in _list_values(cell):
            if isinstance(value, DecidedValue):
                cited = document if value.is_cited else ""
                rows.add((id, name, value.value, unit, cited, given_type, value.correction))
            else:
                rows.add((id, name, value, unit, document, given_type, ""))
    return GIVEN_ATTRIBUTES.frame(sorted(rows))


def _list_values(cell: str) -> Iterator[tuple[str, str | DecidedValue]]:
    """Yield the name and the text of each value in the JSON of properties, or what a person set."""
    for name, content in (parse_attributes(cell) or {}).items():
        decided = read_decided(content)
        if decided is not None:
            yield name, decided
            continue
        values = content if isinstance(content, list) else [content]
        for value in values:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            text = number_text(value) if is_number else str(value)
            yield name, text


def check_attributes(
    given_attributes: pd.DataFrame, entities: pd.DataFrame, params: AttributeParams
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return ATTRIBUTES of the entities (ENTITY_TYPES), and rejects.

    A text unit may give an entity another type than it has after all of them. Its values stay where
    both types declare the property alike. A value that a person has set stands in place of those of
    texts. Values of entities that are not there are left out.
    """
    types = dict(zip(entities["id"], entities["type"], strict=True))
    declared: dict[str, dict[str, Property]] = {}
    for type, each in params.properties.items():
        declared[type] = {one.name: one for one in each}
    of_any_type = declared.get(ANY_TYPE, {})
    keeps_others = params.other_properties == KEEP
    is_there = given_attributes["entity_id"].isin(list(types))
    given = given_attributes[GIVEN_ATTRIBUTES.columns][is_there]
    is_decided = given["correction"] != ""
    decided_cells: Any = given[is_decided].itertuples(index=False, name=None)
    decided = decide_attributes(decided_cells, types, declared, keeps_others)
    rows = [*decided.rows]
    rejects = [*decided.rejects]
    had = {*decided.replaced}
    cells: Any = given[~is_decided].itertuples(index=False, name=None)
    for id, name, value, unit, document, given_type, _ in cells:
        if (id, name) in decided.replaced:
            continue
        of_entity = declared.get(types[id], of_any_type)
        of_record = declared.get(given_type, of_any_type)
        found = of_entity.get(name)
        if found != of_record.get(name):
            found = None
        if found is None and not keeps_others:
            fact = f"of type {types[id]!r} has no property {name!r} as {given_type!r} has it"
            message = f"an entity {fact}: {value!r}"
            reject = make_reject(id, UNKNOWN_PROPERTY, message)
            rejects.append(reject)
            continue
        property = found or PLAIN
        key = attribute_id(id, name, value, unit)
        rows.append((key, id, name, property.type, value, property.unit, unit, document, ""))
        had.add((id, name))
    distinct = list(dict.fromkeys(rows))
    if not keeps_others:
        rejects += _miss_required(entities, declared, had)
    return ATTRIBUTES.frame(distinct), REJECTS.frame(rejects)


def _miss_required(
    entities: pd.DataFrame,
    declared: Mapping[str, Mapping[str, Property]],
    had: set[tuple[str, str]],
) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each entity and each property that it must have and lacks."""
    required: dict[str, list[str]] = {}
    for type, each in declared.items():
        names = [name for name, one in each.items() if one.required]
        if names:
            required[type] = names
    demanding = entities[entities["type"].isin(list(required))]
    for id, type in zip(demanding["id"], demanding["type"], strict=True):
        for name in required[type]:
            if (id, name) not in had:
                fact = f"no text gives the property {name!r}, which {type} requires"
                yield make_reject(id, MISSING_PROPERTY, fact)


def find_moved_entities(entities: pd.DataFrame, resolutions: pd.DataFrame) -> pd.DataFrame:
    """Return MOVED: the entities that resolve_entities merged, and what they became."""
    left = set(entities["id"])
    merged_into = find_merged_into(resolutions, left)
    rows = [(id, new_id) for id, new_id in merged_into.items() if id not in left]
    return MOVED.frame(sorted(rows))


def move_attributes(unmoved_attributes: pd.DataFrame, moved: pd.DataFrame) -> pd.DataFrame:
    """Return GIVEN_ATTRIBUTES with the entities that theirs became."""
    new_ids = dict(zip(moved["id"], moved["resolved_id"], strict=True))
    ids = unmoved_attributes["entity_id"]
    resolved = ids.map(new_ids).where(ids.isin(list(new_ids)), ids)
    return unmoved_attributes.assign(entity_id=resolved).drop_duplicates()


def _give_part(output: str) -> Part:
    return Part(
        give_attributes,
        inputs=RECORDS,
        outputs={output: GIVEN_ATTRIBUTES},
        law=Law(
            BY_TEXT_UNIT,
            row_of={output: "text_unit_id"},
            lookup=NAMESAKES_OF_DOCUMENT,
        ),
    )


CHECK_PART = Part(
    check_attributes,
    inputs={"given_attributes": GIVEN_ATTRIBUTES, "entities": ENTITY_TYPES},
    outputs={"attributes": ATTRIBUTES, "rejects": REJECTS},
    law=Law(
        {"given_attributes": ("entity_id",), "entities": ("id",)},
        row_of={"attributes": "entity_id", "rejects": "row_id"},
    ),
)


def _list_parts(params: AttributeParams) -> tuple[Part, ...]:
    """Return the sub-steps of list_attributes, in the order in which they run."""
    return BEARERS_PART, NAMESAKES_PART, _give_part("given_attributes"), CHECK_PART


def _list_resolving_parts(params: AttributeParams) -> tuple[Part, ...]:
    """Return the sub-steps of list_resolved_attributes, in the order in which they run."""
    moved = Part(
        find_moved_entities,
        inputs={"entities": ENTITY_TYPES, "resolutions": DECISIONS},
        outputs={"moved": MOVED},
        law=None,
    )
    move = Part(
        move_attributes,
        inputs={"unmoved_attributes": GIVEN_ATTRIBUTES, "moved": MOVED},
        outputs={"given_attributes": GIVEN_ATTRIBUTES},
        law=Law(
            {"unmoved_attributes": ("text_unit_id",)},
            row_of={"given_attributes": "text_unit_id"},
            lookup={"moved": Uses("unmoved_attributes", ("entity_id",))},
        ),
    )
    give = _give_part("unmoved_attributes")
    return BEARERS_PART, NAMESAKES_PART, give, moved, move, CHECK_PART


INPUTS = {"extractions": EXTRACTIONS, "text_units": UNIT_TEXTS, "entities": ENTITY_TYPES}


@verb(
    inputs=INPUTS,
    outputs={"attributes": ATTRIBUTES, "rejects": REJECTS},
    parts=_list_parts,
    libraries=("rapidfuzz", "regex"),
)
def list_attributes(
    extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    entities: pd.DataFrame,
    params: AttributeParams = AttributeParams(),
    tracker: Tracker = UNTRACKED,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the properties of entities (ATTRIBUTES), and rejects.

    ``extractions`` are those that merge_graphs merged, after conform_extractions. Each distinct
    value has a row for each text unit that gives it. A property that the type of the merged entity
    does not have is a reject, and so is one that it must have and no text gives. After
    resolve_entities use ``list_resolved_attributes``.
    """
    given = _give(extractions, text_units, tracker)
    return check_attributes(given, entities, params)


@verb(
    inputs={**INPUTS, "resolutions": DECISIONS},
    outputs={"attributes": ATTRIBUTES, "rejects": REJECTS},
    parts=_list_resolving_parts,
    libraries=("rapidfuzz", "regex"),
)
def list_resolved_attributes(
    extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    entities: pd.DataFrame,
    resolutions: pd.DataFrame,
    params: AttributeParams = AttributeParams(),
    tracker: Tracker = UNTRACKED,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what list_attributes returns, for a graph whose names were resolved.

    ``resolutions`` is a table of resolve_entities.
    """
    given = _give(extractions, text_units, tracker)
    moved = find_moved_entities(entities, resolutions)
    return check_attributes(move_attributes(given, moved), entities, params)


def _give(extractions: pd.DataFrame, text_units: pd.DataFrame, tracker: Tracker) -> pd.DataFrame:
    filled = EXTRACTIONS.filled(
        EXTRACTIONS.seen(extractions), "list_attributes: table 'extractions'"
    )
    namesakes = tell_namesakes(*find_bearers(filled, text_units, tracker))
    return give_attributes(filled, text_units, namesakes)
