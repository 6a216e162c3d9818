"""Records of text units with the ids of the entities that they name, and rejects of faulty ones."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import REJECTS, RELATIONSHIP_RECORDS, STRING
from pipeline.resolution.namesakes import full_name, is_nobody
from pipeline.text.ids import entity_id, match_key
from pipeline.verbs.merging.codes import encode, pair_codes, pc, split_pairs
from pipeline.verbs.merging.tables import ENTITY_RECORDS

NAME_COLUMNS = ("name", "source", "target")
"""The columns of records that contain names: of an entity, and of both ends of a relationship."""


def name_records(
    extractions: pd.DataFrame, text_units: pd.DataFrame, namesakes: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return ENTITY_RECORDS and RELATIONSHIP_RECORDS, from EXTRACTIONS.

    Names get the suffixes that NAMESAKES has for their text unit. Left out are incomplete records,
    and relationships between a short name and the full name that it stands for. Records of a text
    unit that ``text_units`` lacks get an empty ``document_id``. The fault of a relationship is
    ``self_loop`` if both its ends have the same entity id, else empty.
    """
    records = _place_in_documents(select_complete(extractions), text_units)
    if len(namesakes):
        records = _use_full_names(records, namesakes)
    is_entity = (records["kind"] == "entity").to_numpy(dtype=bool)
    entity_columns = [name for name in ENTITY_RECORDS.columns if name in records]
    link_columns = [name for name in RELATIONSHIP_RECORDS.columns if name in records]
    entities = records[entity_columns][is_entity]
    links = records[link_columns][~is_entity]

    # The id is made once for each distinct name. Several names may give one id.
    names = encode(entities["name"], links["source"], links["target"])
    id_of_name = [entity_id(name) for name in names.texts.to_pylist()]
    ids = encode(pd.Series(id_of_name, dtype="str"))
    id_codes = ids.codes[names.codes]
    first_target = len(entities) + len(links)
    entity, source, target = np.split(id_codes, [len(entities), first_target])
    sources = ids.decode(source)
    targets = ids.decode(target)
    relationship_ids = _make_relationship_ids(sources, targets)
    links = links.assign(
        id=relationship_ids.to_pandas().array,
        source_entity_id=sources.to_pandas().array,
        target_entity_id=targets.to_pandas().array,
        fault=np.where(source == target, "self_loop", ""),
    )
    entities = entities.assign(entity_id=ids.decode(entity).to_pandas().array)
    attributes = links["attributes"].fillna("") if "attributes" in links else ""
    links = links.assign(attributes=attributes)
    return entities[ENTITY_RECORDS.columns], links[RELATIONSHIP_RECORDS.columns]


def _place_in_documents(records: pd.DataFrame, text_units: pd.DataFrame) -> pd.DataFrame:
    """Return the records with ``document_id`` and ``unit_order``, the position in the document."""
    distinct_units = text_units.drop_duplicates("id", keep="last")
    place_of_unit = distinct_units.set_index("id")[["document_id", "order"]]
    # A row for each record, missing where `text_units` lacks its text unit.
    places = place_of_unit.reindex(records["text_unit_id"])
    documents = places["document_id"].fillna("")
    orders = places["order"].fillna(0).to_numpy(dtype=np.int64)
    return records.assign(document_id=documents.array, unit_order=orders)


def find_orphans(named_relationships: pd.DataFrame, entity_records: pd.DataFrame) -> pd.DataFrame:
    """Return the records with the fault ``orphan`` where no record of an entity describes an end.

    ``named_relationships`` are RELATIONSHIP_RECORDS; ``entity_records`` has DESCRIBED_IDS.
    """
    described = set(entity_records["entity_id"].unique())
    has_source = named_relationships["source_entity_id"].isin(described)
    has_target = named_relationships["target_entity_id"].isin(described)
    faults = named_relationships["fault"].where(has_source & has_target, "orphan")
    return named_relationships.assign(fault=faults)


def reject_records(extractions: pd.DataFrame, relationship_records: pd.DataFrame) -> pd.DataFrame:
    """Return REJECTS for relationships with a fault and for incomplete records, in this order.

    ``extractions`` are LISTED_RECORDS; ``relationship_records`` are FAULTY_RECORDS.
    """
    links = relationship_records.assign(kind="relationship", name="")
    loops = links[links["fault"] == "self_loop"]
    orphans = links[links["fault"] == "orphan"]
    incomplete = extractions[_is_incomplete(extractions)]
    rows = [
        *_reject_rows(loops, "self_loop"),
        *_reject_rows(orphans, "orphan"),
        *_reject_rows(incomplete, "incomplete"),
    ]
    return REJECTS.frame(rows)


def _make_relationship_ids(sources: pa.Array, targets: pa.Array) -> pa.Array:
    """Return the id of the relationship of each pair of entity ids, as ``relationship_id`` does."""
    source_digests = pc.utf8_slice_codeunits(sources, len("ent-"))
    target_digests = pc.utf8_slice_codeunits(targets, len("ent-"))
    separator = pa.scalar("-", STRING)
    return pc.binary_join_element_wise(
        pa.scalar("rel", STRING), source_digests, target_digests, separator
    )


def select_complete(extractions: pd.DataFrame) -> pd.DataFrame:
    """Return the records that have a kind, a text unit and the names that their kind needs."""
    incomplete = _is_incomplete(extractions)
    # Usually all are complete; then nothing is copied.
    return extractions[~incomplete] if incomplete.any() else extractions


def find_names_of_people(records: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct names that may be people's, as ``text_unit_id``, ``name`` and ``key``.

    ``key`` is the match key of the name. A name is left out of a text unit if one of the records
    there gives it a type that no person has, such as a place.
    """
    is_filled = [(records[column] != "").to_numpy(dtype=bool) for column in NAME_COLUMNS]
    filled_columns = [
        records[column][filled] for column, filled in zip(NAME_COLUMNS, is_filled, strict=True)
    ]
    names = encode(*filled_columns)
    units = encode(records["text_unit_id"])
    size = len(names.texts)
    unit_codes = np.concatenate([units.codes[filled] for filled in is_filled])
    pairs = pair_codes(unit_codes, names.codes, size)

    # The pairs of the column "name" come first; only these records have a type.
    has_name = is_filled[0]
    pairs_with_type = pairs[: has_name.sum()]
    is_no_person = is_nobody(records["type"]).to_numpy(dtype=bool)
    excluded = pairs_with_type[is_no_person[has_name]]
    # Each pair once, sorted.
    remaining = np.setdiff1d(pairs, excluded)
    unit, name = split_pairs(remaining, size)
    # The key is made once for each distinct name. Several names may give one key.
    key_of_name = [match_key(text) for text in names.texts.to_pylist()]
    keys = encode(pd.Series(key_of_name, dtype="str"))
    key = keys.codes[name]
    columns = {
        "text_unit_id": units.decode(unit).to_pandas(),
        "name": names.decode(name).to_pandas(),
        "key": keys.decode(key).to_pandas(),
    }
    named = pd.DataFrame(columns)
    return named[named["key"] != ""]


def _is_incomplete(extractions: pd.DataFrame) -> "pd.Series[bool]":
    """Return which records lack a kind, a text unit, or a name that their kind needs."""
    no_unit = extractions["text_unit_id"].str.strip() == ""
    no_name = extractions["name"].str.strip() == ""
    no_source = extractions["source"].str.strip() == ""
    no_target = extractions["target"].str.strip() == ""
    is_entity = extractions["kind"] == "entity"
    is_link = extractions["kind"] == "relationship"
    nameless_entity = is_entity & no_name
    endless_link = is_link & (no_source | no_target)
    return no_unit | nameless_entity | endless_link | ~(is_entity | is_link)


def _use_full_names(records: pd.DataFrame, namesakes: pd.DataFrame) -> pd.DataFrame:
    """Return the records with full names in place of the short ones that NAMESAKES has.

    A relationship between a short name and the full name that it stands for is left out: it would
    now relate a name to itself.
    """
    full_names = _find_full_names(records, namesakes)
    units_with_full_names = {unit for unit, _ in full_names}
    # Most text units have none, so only the records of the others are copied.
    concerned = records[records["text_unit_id"].isin(units_with_full_names)]
    units = concerned["text_unit_id"].tolist()
    new_columns: dict[str, pd.Series] = {}
    for column in NAME_COLUMNS:
        names = concerned[column].tolist()
        new_names: list[str] = []
        for unit, name in zip(units, names, strict=True):
            new_names.append(full_names.get((unit, name), name))
        new_columns[column] = pd.Series(new_names, concerned.index, dtype="str")
    renamed = concerned.assign(**new_columns)
    becomes_loop = _is_loop(renamed) & ~_is_loop(concerned)
    unchanged = records.drop(concerned.index)
    return pd.concat([unchanged, renamed[~becomes_loop]]).sort_index()


def _find_full_names(
    records: pd.DataFrame, namesakes: pd.DataFrame
) -> Mapping[tuple[str, str], str]:
    """Map a text unit and a name in it to the full name, where NAMESAKES tells which one is meant.

    A row for the text unit itself goes before one for its whole document.
    """
    columns = ["key", "document_id", "text_unit_id", "suffix", "known"]
    meanings: dict[tuple[str, str, str], tuple[str, Sequence[str]]] = {}
    for row in namesakes[columns].itertuples(index=False, name=None):
        key, document, unit, suffix, known = row
        meanings[key, document, unit] = (suffix, known)
    unit_rows = records.drop_duplicates("text_unit_id").set_index("text_unit_id")
    document_of_unit = unit_rows["document_id"]
    names = find_names_of_people(records)
    ambiguous = names[names["key"].isin(namesakes["key"])]
    full_names: dict[tuple[str, str], str] = {}
    for unit, name, key in ambiguous.itertuples(index=False, name=None):
        document = document_of_unit[unit]
        # A row without a text unit is for the whole document.
        meaning = meanings.get((key, document, unit)) or meanings.get((key, document, ""))
        if meaning:
            suffix, known = meaning
            full_names[unit, name] = full_name(name, suffix, known)
    return full_names


def _is_loop(records: pd.DataFrame) -> "pd.Series[bool]":
    """Return which records relate a name to itself, by match keys."""
    source = records["source"].map(match_key)
    target = records["target"].map(match_key)
    return (source == target) & (records["kind"] == "relationship")


def _reject_rows(records: pd.DataFrame, reason: str) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each of the records; the message quotes the record."""
    columns = ["text_unit_id", "kind", "name", "source", "target", "description"]
    for unit, kind, name, source, target, description in records[columns].itertuples(index=False):
        if reason == "self_loop":
            fact = f"{source!r} related to itself"
        elif reason == "orphan":
            fact = f"{source!r} and {target!r} related, and an end is described nowhere"
        else:
            fact = (
                f"record of kind {kind!r}, name {name!r}, source {source!r}, target {target!r}"
                " lacks one"
            )
        yield make_reject(unit, reason, f"{fact}: {description}")
